"""The tools, in sets that a server is told to offer."""

from dataclasses import replace

from lance_context_core import InvalidRequestError
from lance_context_mcp.memory import Memory
from lance_context_mcp.tool import Effect, Tool
from lance_context_mcp.tools import branching, graphing, knowing, remembering, talking

SETS: dict[str, tuple[Tool, ...]] = {
    "memory": remembering.TOOLS,
    "conversations": talking.TOOLS,
    "knowledge": knowing.TOOLS,
    "branches": branching.TOOLS,
    "graph": graphing.TOOLS,
}
"""All tools, by the names of their sets."""
ALL = {tool.name: tool for tools in SETS.values() for tool in tools}
"""All tools by their names."""
_DEFAULT = (*(tool.name for tool in remembering.TOOLS), "history", "add_document")
NAMED: dict[str, tuple[str, ...]] = {
    "default": _DEFAULT,
    **{name: tuple(tool.name for tool in tools) for name, tools in SETS.items()},
    "all": tuple(ALL),
}
"""The names of tools by the name of a set."""


def offered(memory: Memory, names: tuple[str, ...]) -> dict[str, Tool]:
    """The tools that `names` means, of sets and of tools, and that the memory allows, by name.

    Raises InvalidRequestError for an unknown name.
    """
    if unknown := {*names} - {*NAMED} - {*ALL}:
        raise InvalidRequestError(
            f"tools={', '.join(sorted(unknown))}: there are the sets {', '.join(NAMED)}, and the "
            f"tools {', '.join(ALL)}"
        )
    wanted = {tool for name in names for tool in NAMED.get(name, (name,))}
    branching_names = {*NAMED["branches"]} if memory.has_branches else set()
    tools = [
        tool
        for name, tool in ALL.items()
        if name in wanted and (memory.has_branches or name not in NAMED["branches"])
        if not memory.is_read_only or tool.effect is Effect.READS
        if not tool.needs_model or memory.knowledge is not None
    ]
    if not wanted & branching_names:
        tools = [_without_branch(tool) for tool in tools]
    return {tool.name: tool for tool in tools}


def _without_branch(tool: Tool) -> Tool:
    if "branch" not in tool.arguments:
        return tool
    arguments = {name: schema for name, schema in tool.arguments.items() if name != "branch"}
    return replace(tool, arguments=arguments)
