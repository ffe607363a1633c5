"""The memory tools of an agent of agentscope 2.x."""

from collections.abc import Sequence
from typing import Any, ClassVar

from agentscope_lance_context._remembering import Memories, as_lines
from agentscope_lance_context.agentscope2._framework import (
    PermissionBehavior,
    PermissionDecision,
    TextBlock,
    ToolBase,
    ToolChunk,
    ToolResultState,
)
from lance_context_core import ContextStoreError, InvalidRequestError

_TEXTS = {"type": "array", "items": {"type": "string"}}


class _MemoryTool(ToolBase):
    """A tool that an agent may use without confirmation."""

    def __init__(self, memories: Memories, *, of_all_agents: bool, limit: int) -> None:
        super().__init__()
        self._memories = memories
        self._of_all_agents = of_all_agents
        self._limit = limit

    async def check_permissions(self, *_: Any, **__: Any) -> PermissionDecision:
        """It is part of the agent."""
        return PermissionDecision(
            behavior=PermissionBehavior.ALLOW, message="memory tools are always allowed"
        )


class SearchMemoryTool(_MemoryTool):
    """Searches memories."""

    name = "search_memory"
    description = (
        "Find what is remembered of the user, from this conversation and earlier ones. "
        "Each keyword is looked for by itself."
    )
    input_schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "keywords": {
                **_TEXTS,
                "description": "Short and specific: a name, a date, a place, a topic.",
            },
            "limit": {
                "type": "integer",
                "description": "How many memories are found at most for each keyword.",
            },
        },
        "required": ["keywords"],
    }
    is_concurrency_safe = True
    is_read_only = True

    async def call(self, keywords: str | Sequence[str], limit: int | None = None) -> ToolChunk:
        """A line for each found memory; an error that the model can read."""
        try:
            found = await self._memories.recall(
                _listed(keywords, "keywords"),
                limit=self._limit if limit is None else limit,
                of_all_agents=self._of_all_agents,
            )
        except ContextStoreError as error:
            return _failed(error)
        lines = [f"- {line}" for line in as_lines(found)]
        return _told("\n".join(lines) or "No memories found.")


class AddMemoryTool(_MemoryTool):
    """Stores facts."""

    name = "add_memory"
    description = "Remember facts about the user that matter beyond this conversation."
    input_schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "thinking": {
                "type": "string",
                "description": "Why they are worth remembering; this itself is not remembered.",
            },
            "content": {
                **_TEXTS,
                "description": "The facts, each a whole sentence that is understood by itself.",
            },
        },
        "required": ["thinking", "content"],
    }
    is_concurrency_safe = True
    is_read_only = False

    async def call(self, content: str | Sequence[str], thinking: str = "") -> ToolChunk:
        """Number of stored facts; an error that the model can read."""
        del thinking
        try:
            n_facts = await self._memories.note(_listed(content, "content"))
        except ContextStoreError as error:
            return _failed(error)
        return _told(f"Remembered {n_facts} facts." if n_facts else "Nothing to remember.")


def _listed(given: str | Sequence[str], where: str) -> list[str]:
    """A model's argument, which may be one text instead of a list."""
    several = [given] if isinstance(given, str) else given
    if not isinstance(several, list) or not all(isinstance(one, str) for one in several):
        raise InvalidRequestError(f"{where}={given!r:.80}: give a list of texts")
    return several


def _told(text: str) -> ToolChunk:
    return ToolChunk(content=[TextBlock(text=text)], state=ToolResultState.SUCCESS)


def _failed(error: Exception) -> ToolChunk:
    return ToolChunk(content=[TextBlock(text=f"Error: {error}")], state=ToolResultState.ERROR)
