"""Sessions, from synchronous code."""

import builtins
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lance_context_core._loop import block_on
from lance_context_core.records import Session
from lance_context_core.stores.sessions import AsyncSessions


@dataclass(frozen=True, slots=True)
class Sessions:
    """The sessions of the store; `AsyncSessions` is the asynchronous one."""

    _aio: AsyncSessions

    def create(
        self,
        session_id: str | None = None,
        *,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expires_at: datetime | None = None,
    ) -> Session:
        """Describe a session; one that exists is returned as it is. See `AsyncSessions.create`."""
        return block_on(
            self._aio.create(session_id, title=title, metadata=metadata, expires_at=expires_at)
        )

    def get(self, session_id: str) -> Session | None:
        """A session that was created or has messages; else None. See `AsyncSessions.get`."""
        return block_on(self._aio.get(session_id))

    def update(
        self,
        session_id: str,
        *,
        title: str | None = None,
        status: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        ended_at: datetime | None = None,
        expires_at: datetime | None = None,
    ) -> Session:
        """Change what is given, keep the rest. See `AsyncSessions.update`."""
        return block_on(
            self._aio.update(
                session_id,
                title=title,
                status=status,
                metadata=metadata,
                ended_at=ended_at,
                expires_at=expires_at,
            )
        )

    def list(self, *, limit: int | None = None, offset: int = 0) -> builtins.list[Session]:
        """Sessions, the most recently active first. See `AsyncSessions.list`."""
        return block_on(self._aio.list(limit=limit, offset=offset))

    def delete(self, session_id: str) -> bool:
        """Forget a session and its messages; returns whether any. See `AsyncSessions.delete`."""
        return block_on(self._aio.delete(session_id))

    def sweep(self) -> int:
        """Forget the descriptions that have expired; returns how many. See `AsyncSessions.sweep`."""
        return block_on(self._aio.sweep())
