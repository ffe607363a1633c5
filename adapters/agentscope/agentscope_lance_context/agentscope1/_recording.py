"""Shared by the long-term memories of agentscope 1.x: their four methods."""

import asyncio
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from agentscope_lance_context._blocks import to_parts
from agentscope_lance_context._owning import StoreOwner
from agentscope_lance_context.agentscope1._framework import (
    LongTermMemoryBase,
    Msg,
    TextBlock,
    ToolResponse,
)
from agentscope_lance_context.agentscope1._messages import SUMMARY, messages_of, to_canonical
from lance_context_core import Message
from lance_context_core.adapting import says_something

DEFAULT_SESSION = "default"
_RECALLED = "long_term_memory"
"""The name of the messages in which an agent stores its retrieved memories."""
_INSERTED = ("<retrieved_knowledge>", "<system-hint>", "<system-info>")
"""The beginning of other messages that an agent adds automatically."""
_SAID = ("text", "image", "audio", "video")


class Recording(StoreOwner, LongTermMemoryBase):
    """AgentScope's developer and agent methods, over hooks for messages, facts and queries."""

    async def record(self, msgs: Msg | Sequence[Msg | None] | None, **_: Any) -> None:
        """Stores messages atomically, each once in the session; None is not a message.

        Skips tool calls, tool results, and messages that an agent added to its memory
        automatically, such as retrieved ones.
        """
        given = messages_of(msgs, "msgs")
        # In a thread, since images are slow.
        said = await asyncio.to_thread(
            lambda: [to_canonical(one) for one in given if _is_said(one)]
        )
        if said:
            await self._keep(said)

    async def retrieve(
        self, msg: Msg | Sequence[Msg | None] | None, limit: int = 5, **_: Any
    ) -> str:
        """The memories for the messages, a line for each, at most `limit` for a message.

        Empty without matches or messages, and for a limit below 1.
        """
        asked = [one.get_text_content() or "" for one in messages_of(msg, "msg")]
        return await self._lines(asked, limit)

    async def record_to_memory(self, thinking: str, content: list[str], **_: Any) -> ToolResponse:
        """Remember facts about the user that matter beyond this conversation.

        Args:
            thinking (`str`):
                Why they are worth remembering; this itself is not remembered.
            content (`list[str]`):
                The facts, each a whole sentence that is understood on its own: who, what, when,
                where.
        """
        del thinking
        n_facts = await self._note(_listed(content))
        return _response(f"Remembered {n_facts} facts." if n_facts else "Nothing to remember.")

    async def retrieve_from_memory(
        self, keywords: list[str], limit: int = 5, **_: Any
    ) -> ToolResponse:
        """Find what is remembered of the user, from this conversation and earlier ones.

        Args:
            keywords (`list[str]`):
                What to look for, short and specific: a name, a date, a place, a topic. Each of them
                is looked for separately.
            limit (`int`, optional):
                How many memories are found at most for each of the keywords.
        """
        return _response(await self._lines(_listed(keywords), limit) or "No memories found.")

    @abstractmethod
    async def _keep(self, said: Sequence[Message]) -> None:
        """Stores at least one message."""

    @abstractmethod
    async def _note(self, facts: Sequence[str]) -> int:
        """Stores facts from an agent; returns the number of non-blank ones."""

    @abstractmethod
    async def _lines(self, queries: Iterable[str], limit: int) -> str:
        """The memories for each of these, a line for each memory."""


def _is_said(msg: Msg) -> bool:
    """Whether the message contains a participant's text."""
    blocks = [block for block in msg.get_content_blocks() if block.get("type") in _SAID]
    text = "".join(block.get("text") or "" for block in blocks)
    is_inserted = msg.name == _RECALLED or msg.metadata == SUMMARY or text.startswith(_INSERTED)
    return not is_inserted and says_something(to_parts(blocks))


def _listed(given: str | list[str]) -> list[str]:
    """A model's argument, which may be one text instead of a list."""
    several = [given] if isinstance(given, str) else given
    if not isinstance(several, list) or not all(isinstance(one, str) for one in several):
        raise TypeError(f"{given!r:.80} was given: give a list of texts")
    return several


def _response(text: str) -> ToolResponse:
    """The answer of a tool."""
    return ToolResponse([TextBlock(type="text", text=text)])
