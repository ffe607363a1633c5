"""Long-term memories of the store as AgentScope's memory service."""

from collections.abc import Mapping
from typing import Any, Literal

from agentscope_lance_context._checks import check_choice, check_count, check_seconds, page_of
from agentscope_lance_context._handles import StoreService, UserHandle
from agentscope_lance_context._messages import (
    as_memory,
    distinct,
    first_text,
    normalized,
    question,
    read,
    to_canonical,
)
from agentscope_lance_context._recent import saying
from agentscope_lance_context._runtime import MemoryService, Message
from lance_context_core import AsyncMemory
from lance_context_core.adapting import StoreLike
from lance_context_core.arguments import SearchMode

_DEFAULT_SESSION = "default"
_MANY = 100
"""Default number of hits by relevance."""
_AT_ONCE = 1_000
"""Number of memories in one deletion."""


class LanceContextMemoryService(StoreService, MemoryService):
    """Messages by user and session, found in all sessions of a user.

    The messages of one call are one commit, and read back equal to what was added.
    """

    def __init__(
        self,
        store: StoreLike,
        *,
        embedder: Any = None,
        search: Literal["words", "hybrid", "vector"] = "words",
        ttl_seconds: float | None = None,
        max_messages_per_session: int | None = None,
        deduplicate: bool = False,
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `stop` closes again.

        - `embedder`: for a store at a URI; see `AsyncContextStore.open`.
        - `search`: `"words"`, as in AgentScope's own service: the last messages with one of the
          words; or the most relevant, by meaning (`"vector"`), or by both (`"hybrid"`).
        - `ttl_seconds`: lifetime of a message; absent means for ever.
        - `max_messages_per_session`: number of the last messages of a session that stay; adding
          more deletes earlier ones.
        - `deduplicate`: skip a message that the session contains already.
        """
        self._handle = UserHandle(store, embedder=embedder)
        self._mode = _MODES[check_choice(search, "search", *_MODES)]
        self._ttl = check_seconds(ttl_seconds, "ttl_seconds")
        self._last = check_count(max_messages_per_session, "max_messages_per_session")
        self._deduplicates = deduplicate

    async def add_memory(self, user_id: str, messages: Any, session_id: str | None = None) -> None:
        """Stores messages atomically; an empty list and None are allowed.

        Without a session, or with an empty one, it is the session `default`.
        """
        given = normalized(messages, "messages")
        named = distinct(given) if self._deduplicates else [(None, one) for one in given]
        memories = [as_memory(to_canonical(one, id=id)) for id, one in named]
        if memories:
            memory = self._handle.of(user_id).memory
            session_id = session_id or _DEFAULT_SESSION
            expires_at = None if self._ttl is None else self._handle.now() + self._ttl
            await memory.add(
                memories, session_id=session_id, expires_at=expires_at, keep_existing=True
            )
            if self._last is not None:
                await _forget_before_last(memory, session_id, self._last)

    async def search_memory(
        self, user_id: str, messages: Any, filters: Mapping[str, Any] | None = None
    ) -> list[Message]:
        """The user's memories, of all sessions, for the last of `messages`.

        By words: the messages whose first text contains a word of the last message's first text, as
        a word or a part of one; the last `filters["top_k"]` of them or all, session by session in
        the order of their beginning, then in the order of adding. By relevance: as many, 100 by
        default, the best first. Empty without messages.
        """
        query = question(messages)
        if not query.strip():
            return []
        top_k = (filters or {}).get("top_k")
        if not isinstance(top_k, int):
            top_k = None
        wanted = top_k if top_k is not None and top_k > 0 else None
        store = self._handle.of(user_id)
        if self._mode is None:
            found = []
            async for message in saying(store, set(query.lower().split()), wanted=wanted):
                found.append(message)
                if top_k is not None and len(found) == top_k:
                    break
            found.reverse()
            return found if top_k is None else found[-top_k:]
        hits = await store.memory.search(query, mode=self._mode, limit=wanted or _MANY)
        return await read([hit.record.to_message() for hit in hits])

    async def list_memory(
        self, user_id: str, filters: Mapping[str, Any] | None = None
    ) -> list[Message]:
        """A page of a user's memories by session, then in the order of adding.

        `filters` has the `page_num`, from 1 on, and the `page_size`, 10 by default. A page before
        the first, past the last, or of no size is empty.
        """
        page, size = page_of(filters)
        if page < 1 or size < 1:
            return []
        listed = await self._handle.of(user_id).memory.list(page=page, page_size=size)
        return await read([record.to_message() for record in listed.items])

    async def delete_memory(self, user_id: str, session_id: str | None = None) -> None:
        """Deletes the memories of a session, or without one of a user; none is allowed."""
        await self._handle.of(user_id).memory.delete(session_id=session_id or None)

    async def delete_user_memory(self, user_id: str) -> None:
        """Deletes all memories of a user."""
        await self.delete_memory(user_id)

    async def clear_all_memory(self) -> None:
        """Deletes all memories of all users, of any framework."""
        await self._handle.aio.memory.clear()

    async def get_query_text(self, message: Message | None) -> str:
        """The text for searches: the first text of a message; empty if it has none."""
        return first_text(message) if message else ""


_MODES: dict[str, SearchMode | None] = {"words": None, "hybrid": "hybrid", "vector": "vector"}


async def _forget_before_last(memory: AsyncMemory, session_id: str, n: int) -> None:
    """Deletes a session's memories before the last `n`."""
    while old := await memory.latest(session_id=session_id, limit=_AT_ONCE, offset=n):
        await memory.delete(session_id=session_id, ids=[one.id for one in old])
