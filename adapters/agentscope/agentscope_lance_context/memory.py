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
"""How many are found by relevance where no one says how many to find."""
_AT_ONCE = 1_000
"""How many are forgotten at once."""


class LanceContextMemoryService(StoreService, MemoryService):
    """Messages that are remembered by user and session, and found in all sessions of a user.

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

        - `embedder`: for a URI, what makes the vectors; see `AsyncContextStore.open`.
        - `search`: `"words"`, as AgentScope's own service: the last messages that say one of the
          words; or what is most relevant, by meaning (`"vector"`), or by both (`"hybrid"`).
        - `ttl_seconds`: how long a message is remembered; absent means for ever.
        - `max_messages_per_session`: how many of the last messages of a session are remembered; what
          was before them is forgotten when more are added.
        - `deduplicate`: remember a message that a session has already only once.
        """
        self._handle = UserHandle(store, embedder=embedder)
        self._mode = _MODES[check_choice(search, "search", *_MODES)]
        self._ttl = check_seconds(ttl_seconds, "ttl_seconds")
        self._last = check_count(max_messages_per_session, "max_messages_per_session")
        self._deduplicates = deduplicate

    async def add_memory(self, user_id: str, messages: Any, session_id: str | None = None) -> None:
        """Remember messages, all or none of them; no messages, and None, are no error.

        Without a session, or with an empty one, it is that of the name `default`.
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
        """What a user's memories, of all sessions, say about the last of `messages`.

        By words: the messages in whose first text a word of the last message's first text stands,
        as a word or a part of one; the last `filters["top_k"]` of them or all, session by session as
        these began, then in the order in which they were added. By relevance: so many, or 100, the
        best first. Nothing for no messages.
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
        """A page of a user's memories by session, then in the order in which they were added.

        `filters` has the `page_num`, from 1 on, and the `page_size`, which is 10 by default. A page
        before the first, past the last, or of no size is empty.
        """
        page, size = page_of(filters)
        if page < 1 or size < 1:
            return []
        listed = await self._handle.of(user_id).memory.list(page=page, page_size=size)
        return await read([record.to_message() for record in listed.items])

    async def delete_memory(self, user_id: str, session_id: str | None = None) -> None:
        """Forget what is remembered of a session, or without one of a user; nothing is no error."""
        await self._handle.of(user_id).memory.delete(session_id=session_id or None)

    async def delete_user_memory(self, user_id: str) -> None:
        """Forget all that is remembered of a user."""
        await self.delete_memory(user_id)

    async def clear_all_memory(self) -> None:
        """Forget all that is remembered of all users, by whatever framework it was added."""
        await self._handle.aio.memory.clear()

    async def get_query_text(self, message: Message | None) -> str:
        """What is searched for, and in: the first text of a message; empty if it has none."""
        return first_text(message) if message else ""


_MODES: dict[str, SearchMode | None] = {"words": None, "hybrid": "hybrid", "vector": "vector"}


async def _forget_before_last(memory: AsyncMemory, session_id: str, n: int) -> None:
    """Forget what a session has beside its last `n` memories."""
    while old := await memory.latest(session_id=session_id, limit=_AT_ONCE, offset=n):
        await memory.delete(session_id=session_id, ids=[one.id for one in old])
