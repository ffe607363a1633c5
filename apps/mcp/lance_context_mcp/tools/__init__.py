"""The tools, by what one has in mind."""

from lance_context_mcp.memory import Memory
from lance_context_mcp.tool import Effect, Tool
from lance_context_mcp.tools import branching, graphing, knowing, remembering, talking

ROOMS: dict[str, tuple[Tool, ...]] = {
    "memory": remembering.TOOLS,
    "conversations": talking.TOOLS,
    "knowledge": knowing.TOOLS,
    "branches": branching.TOOLS,
    "graph": graphing.TOOLS,
}
"""All tools, by the names under which a server is told to offer them, or not."""


def offered(memory: Memory, rooms: tuple[str, ...]) -> dict[str, Tool]:
    """The tools of these rooms that the memory allows, by name."""
    return {
        tool.name: tool
        for room in rooms
        if room != "branches" or memory.has_branches
        for tool in ROOMS[room]
        if not memory.is_read_only or tool.effect is Effect.READS
        if not tool.needs_model or memory.knowledge is not None
    }
