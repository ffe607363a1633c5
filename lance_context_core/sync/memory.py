"""Long-term memories, from synchronous code."""

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Unpack

from lance_context_core._loop import block_on
from lance_context_core._options import takes
from lance_context_core.filters import FilterLike
from lance_context_core.messages import Message
from lance_context_core.records import ContextRecord, Page, SearchHit
from lance_context_core.search import query as searching
from lance_context_core.search.options import SearchArguments
from lance_context_core.stores.memory import AsyncMemory


@dataclass(frozen=True, slots=True)
class Memory:
    """The memories of users; `AsyncMemory` is the asynchronous one."""

    _aio: AsyncMemory

    def add(
        self,
        memories: Sequence[str | Message],
        *,
        user_id: str = "",
        session_id: str = "",
        metadata: Mapping[str, Any] | None = None,
        expires_at: datetime | None = None,
        keep_existing: bool = False,
    ) -> builtins.list[str]:
        """Remember texts or messages in one commit; returns their ids. See `AsyncMemory.add`."""
        return block_on(
            self._aio.add(
                memories,
                user_id=user_id,
                session_id=session_id,
                metadata=metadata,
                expires_at=expires_at,
                keep_existing=keep_existing,
            )
        )

    @takes(SearchArguments, searching.DEFAULTS)
    def search(
        self,
        query: str | Sequence[float] | None = None,
        *,
        user_id: str = "",
        session_id: str | None = None,
        **arguments: Unpack[SearchArguments],
    ) -> builtins.list[SearchHit[ContextRecord]]:
        """A user's memories that answer `query` best, best first. See `AsyncMemory.search`."""
        return block_on(
            self._aio.search(query, user_id=user_id, session_id=session_id, **arguments)
        )

    def list(
        self,
        *,
        user_id: str = "",
        session_id: str | None = None,
        page: int = 1,
        page_size: int = 10,
    ) -> Page[ContextRecord]:
        """A page of a user's memories, by session, oldest first. See `AsyncMemory.list`."""
        return block_on(
            self._aio.list(user_id=user_id, session_id=session_id, page=page, page_size=page_size)
        )

    def latest(
        self,
        *,
        user_id: str = "",
        session_id: str | None = None,
        filter: FilterLike | None = None,
        limit: int = 10,
        offset: int = 0,
        by_session: bool = False,
    ) -> builtins.list[ContextRecord]:
        """A user's memories, the newest first. See `AsyncMemory.latest`."""
        return block_on(
            self._aio.latest(
                user_id=user_id,
                session_id=session_id,
                filter=filter,
                limit=limit,
                offset=offset,
                by_session=by_session,
            )
        )

    def delete(
        self,
        *,
        user_id: str = "",
        session_id: str | None = None,
        ids: Sequence[str] | None = None,
    ) -> int:
        """Forget a user's memories, or some of them; returns how many. See `AsyncMemory.delete`."""
        return block_on(self._aio.delete(user_id=user_id, session_id=session_id, ids=ids))

    def clear(self) -> int:
        """Forget the memories of all users in the scope. See `AsyncMemory.clear`."""
        return block_on(self._aio.clear())
