"""Fifty requests in a user's words, the store that they are about, and how one is done by any client."""

import json
from pathlib import Path

import pytest
from lance_context_mcp.graph import Graph

from lance_context_core import AsyncContextStore, Message

TASKS = json.loads(Path(__file__).with_name("tasks.json").read_text(encoding="utf-8"))
each_task = pytest.mark.parametrize("task", TASKS, ids=[one["said"] for one in TASKS])


async def prepared(place):
    """Fills a store about Ada, and returns the ids of its contents by the names that the tasks use."""
    async with AsyncContextStore.open(place, maintenance=None) as store:
        memories = ["Ada drinks her coffee black.", "Ada's dentist is Dr. Olsen."]
        coffee, dentist = await store.memory.add(memories)
        said = [Message.user("I am allergic to nuts."), Message.assistant("I will avoid them.")]
        nuts, _ = await store.history.append_many("tutor", said, session_id="monday")
        await store.knowledge.add(Message.user("I live in Oslo."), session_id="sunday")
        (oslo,) = await store.knowledge.list()
        deposit = b"# Lease\n\nThe deposit is 900 euros."
        lease = await store.documents.add(deposit, name="lease.md")
        pages = "# Handbook\n\n" + "Nothing is said here.\n\n" * 1_000 + "This is the last page."
        handbook = await store.documents.add(pages.encode(), name="handbook.md")
        eva = {"name": "Eva", "entityType": "person", "observations": ["plays the cello"]}
        await Graph(store).create_entities([eva])
        now = await store.version()
        draft = await store.create_branch("draft")
        await draft.memory.add(["Ada drinks tea."])
        ids = {"coffee": coffee, "dentist": dentist, "nuts": nuts, "oslo": oslo.id}
        return ids | {"lease": lease.id, "handbook": handbook.id, "now": now}


async def do(call, task, names):
    """Calls the tool of the task by `call(tool, **arguments)`, and asserts that the job is done."""

    async def is_found(words):
        """Whether a recall finds these words."""
        wanted = {"query": words, "limit": 20, **task.get("recall", {})}
        return words in json.dumps(await call("recall", **wanted))

    if "gone" in task:
        assert await is_found(task["gone"])
    if "then" in task:
        assert not await is_found(task["then"])
    arguments = with_ids(task["arguments"], names)
    answer = json.dumps(await call(task["tool"], **arguments))
    assert task.get("answer", "") in answer
    if "gone" in task:
        assert not await is_found(task["gone"])
    if "then" in task:
        assert await is_found(task["then"])


def with_ids(value, names):
    """The arguments, each `$name` replaced by what it stands for."""
    if isinstance(value, str) and value.startswith("$"):
        return names[value[1:]]
    if isinstance(value, list):
        return [with_ids(one, names) for one in value]
    if isinstance(value, dict):
        return {name: with_ids(one, names) for name, one in value.items()}
    return value
