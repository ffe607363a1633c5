"""Branches: to try something out, look at what it changed, and keep it or drop it."""

from typing import Any

from lance_context_mcp import answers
from lance_context_mcp.memory import Memory
from lance_context_mcp.tool import Arguments, Effect, Schema, Tool, each, text

_NAME = text("1 to 200 letters, digits, '-', '_', and single dots between them.", minLength=1)
_POLICY: Schema = {
    "type": "string",
    "enum": ["newest", "ours", "theirs"],
    "default": "newest",
    "description": "The side that wins where both changed the same.",
}


async def _create(memory: Memory, arguments: Arguments) -> dict[str, Any]:
    await memory.store.create_branch(arguments["name"])
    return {"branch": arguments["name"]}


async def _list(memory: Memory, _: Arguments) -> dict[str, Any]:
    return {"branches": [one.name for one in await memory.store.branches()]}


async def _compare(memory: Memory, arguments: Arguments) -> dict[str, Any]:
    await memory.at(branch=arguments["name"])
    found = await memory.store.diff(await memory.store.version(), arguments["name"])
    return {
        "added": [answers.record(one) for one in found.added],
        "changed": [
            {"before": answers.record(one.before), "after": answers.record(one.after)}
            for one in found.changed
        ],
        "removed": [answers.record(one) for one in found.removed],
    }


async def _merge(memory: Memory, arguments: Arguments) -> dict[str, Any]:
    report = await memory.store.merge(
        arguments["name"],
        policy=arguments.get("policy", "newest"),
        dry_run=arguments.get("dry_run", False),
    )
    counts = report.tables.values()
    return {
        "added": sum(one.added for one in counts),
        "updated": sum(one.updated for one in counts),
        "deleted": sum(one.deleted for one in counts),
        "conflicts": len(report.conflicts),
    }


async def _delete(memory: Memory, arguments: Arguments) -> dict[str, Any]:
    return {"existed": await memory.store.delete_branch(arguments["name"])}


_COUNT: Schema = {"type": "integer", "minimum": 0}
_RECORDS = {"type": "array", "items": answers.RECORD}

TOOLS = (
    Tool(
        name="create_branch",
        title="Create a branch",
        description=(
            "Make a copy of the whole memory to try something out on, at no cost: name it as `branch` "
            "in other calls. Nothing that is written there is seen elsewhere until it is merged."
        ),
        effect=Effect.ADDS,
        arguments={"name": _NAME},
        required=("name",),
        answer={"branch": text("Its name.")},
        call=_create,
    ),
    Tool(
        name="list_branches",
        title="List branches",
        description="List the branches that there are.",
        effect=Effect.READS,
        arguments={},
        answer={"branches": each({"type": "string"}, "Their names.")},
        call=_list,
    ),
    Tool(
        name="compare_branch",
        title="Compare a branch",
        description="Compare a branch with the memory: what it has that differs.",
        effect=Effect.READS,
        arguments={"name": _NAME},
        required=("name",),
        answer={
            "added": _RECORDS,
            "changed": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"before": answers.RECORD, "after": answers.RECORD},
                    "required": ["before", "after"],
                },
            },
            "removed": _RECORDS,
        },
        call=_compare,
    ),
    Tool(
        name="merge_branch",
        title="Merge a branch",
        description="Bring what a branch changed into the memory. Try it with dry_run first.",
        effect=Effect.REMOVES,
        arguments={
            "name": _NAME,
            "policy": _POLICY,
            "dry_run": {"type": "boolean", "default": False, "description": "Change nothing."},
        },
        required=("name",),
        answer=dict.fromkeys(("added", "updated", "deleted", "conflicts"), _COUNT),
        call=_merge,
    ),
    Tool(
        name="delete_branch",
        title="Delete a branch",
        description="Drop a branch, with all that it alone has.",
        effect=Effect.REMOVES,
        arguments={"name": _NAME},
        required=("name",),
        answer={"existed": {"type": "boolean"}},
        call=_delete,
    ),
)
