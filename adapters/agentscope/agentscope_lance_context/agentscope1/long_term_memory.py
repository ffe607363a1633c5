"""Long-term memories of the store as what an agent of agentscope 1.x records and retrieves."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from agentscope_lance_context._blocks import to_parts
from agentscope_lance_context._checks import check_choice, check_seconds
from agentscope_lance_context._handles import UserHandle
from agentscope_lance_context._owning import StoreOwner
from agentscope_lance_context._remembering import MODES, Memories, Search, as_lines
from agentscope_lance_context.agentscope1._framework import (
    LongTermMemoryBase,
    Msg,
    TextBlock,
    ToolResponse,
)
from agentscope_lance_context.agentscope1._messages import SUMMARY, messages_of, to_canonical
from lance_context_core.adapting import StoreLike, says_something

DEFAULT_SESSION = "default"
_RECALLED = "long_term_memory"
"""The name of the messages in which an agent puts into its memory what it has retrieved."""
_INSERTED = ("<retrieved_knowledge>", "<system-hint>", "<system-info>")
"""How other messages begin that an agent puts there by itself."""
_SAID = ("text", "image", "audio", "video")


class LanceContextLongTermMemory(StoreOwner, LongTermMemoryBase):
    """What a user and the agents told each other, by session, found in all sessions of the user.

    Both of AgentScope's ways: `record` and `retrieve`, which an agent calls before and after each
    reply (static control), and `record_to_memory` and `retrieve_from_memory`, which are its tools.
    """

    def __init__(
        self,
        store: StoreLike,
        *,
        user_id: str | None = None,
        session_id: str | None = None,
        search: Search = "words",
        ttl_seconds: float | None = None,
        embedder: Any = None,
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        - `session_id`: that in which is recorded; that of the name `default` if it is absent.
        - `search`: `"words"`: what says the words of the question best, in the order in which it was
          said; or what is most relevant, by meaning (`"vector"`) or by both (`"hybrid"`).
        - `ttl_seconds`: how long a message is remembered; absent means for ever.
        - `embedder`: for a URI, what makes the vectors; see `AsyncContextStore.open`.
        """
        super().__init__()
        self._handle = UserHandle(store, embedder=embedder)
        self._session_id = session_id or DEFAULT_SESSION
        self._memories = Memories(
            handle=self._handle,
            user_id=user_id or "",
            search=check_choice(search, "search", *MODES),
            ttl=check_seconds(ttl_seconds, "ttl_seconds"),
        )

    async def record(self, msgs: Msg | Sequence[Msg | None] | None, **_: Any) -> None:
        """Remember messages, all or none of them, each once in the session; None is no message.

        What says nothing to anybody is left out: calls of tools and their results, and what an
        agent has put into its memory by itself, such as what it retrieved here.
        """
        given = messages_of(msgs, "msgs")
        # In a thread, since an image takes its time.
        said = await asyncio.to_thread(lambda: [to_canonical(one) for one in given if is_said(one)])
        await self._memories.record(said, session_id=self._session_id)

    async def retrieve(
        self, msg: Msg | Sequence[Msg | None] | None, limit: int = 5, **_: Any
    ) -> str:
        """What is remembered about messages, a line for each memory, `limit` at most for a message.

        Empty if nothing is, for no message, and for a limit below 1.
        """
        asked = [one.get_text_content() or "" for one in messages_of(msg, "msg")]
        return await self._lines(asked, limit)

    async def record_to_memory(self, thinking: str, content: list[str], **_: Any) -> ToolResponse:
        """Remember facts about the user that matter beyond this conversation.

        Args:
            thinking (`str`):
                Why they are worth remembering; this itself is not remembered.
            content (`list[str]`):
                The facts, each a whole sentence that is understood by itself: who, what, when,
                where.
        """
        del thinking
        n_facts = await self._memories.note(listed(content))
        return response(f"Remembered {n_facts} facts." if n_facts else "Nothing to remember.")

    async def retrieve_from_memory(
        self, keywords: list[str], limit: int = 5, **_: Any
    ) -> ToolResponse:
        """Find what is remembered of the user, from this conversation and earlier ones.

        Args:
            keywords (`list[str]`):
                What to look for, short and specific: a name, a date, a place, a topic. Each of them
                is looked for by itself.
            limit (`int`, optional):
                How many memories are found at most for each of the keywords.
        """
        return response(await self._lines(listed(keywords), limit) or "No memories found.")

    async def _lines(self, queries: Iterable[str], limit: int) -> str:
        return "\n".join(as_lines(await self._memories.recall(queries, limit=limit)))


def is_said(msg: Msg) -> bool:
    """Whether somebody said something in the message."""
    blocks = [block for block in msg.get_content_blocks() if block.get("type") in _SAID]
    text = "".join(block.get("text") or "" for block in blocks)
    is_inserted = msg.name == _RECALLED or msg.metadata == SUMMARY or text.startswith(_INSERTED)
    return not is_inserted and says_something(to_parts(blocks))


def listed(given: str | list[str]) -> list[str]:
    """What a model gave, which may be one text where a list was asked for."""
    several = [given] if isinstance(given, str) else given
    if not isinstance(several, list) or not all(isinstance(one, str) for one in several):
        raise TypeError(f"{given!r:.80} was given: give a list of texts")
    return several


def response(text: str) -> ToolResponse:
    """What a tool answers."""
    return ToolResponse([TextBlock(type="text", text=text)])
