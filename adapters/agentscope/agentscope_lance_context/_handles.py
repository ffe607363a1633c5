"""The store that a service was handed, or opens by itself; and what all services do alike."""

import threading
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

from lance_context_core import (
    AsyncContextStore,
    ContextStore,
    ContextStoreError,
    InvalidRequestError,
)

Store: TypeAlias = ContextStore | AsyncContextStore | str | Path
"""An open store, or a scope of one; or where there is one, to be opened and closed here."""

_NOBODY = "~"
"""Whose things those are that come without a user."""


class Handle:
    """A store that is open whenever it is asked for, and that is closed if it was opened here."""

    def __init__(self, store: Store, *, embedder: Any = None) -> None:
        """The `embedder` is that of a store which is opened here; an open one has its own."""
        if not isinstance(store, ContextStore | AsyncContextStore | str | Path):
            raise InvalidRequestError(
                f"store is {store!r:.80}: give an open store, or the directory or URI of one"
            )
        if embedder is not None and not isinstance(store, str | Path):
            raise InvalidRequestError(
                "an open store has its embedder already: leave embedder out, or give its URI"
            )
        self._given = store
        self._embedder = embedder
        self._opened: AsyncContextStore | None = None
        self._lock = threading.Lock()

    @property
    def store(self) -> AsyncContextStore:
        """The store; one that is given by its URI is opened, after `close` anew."""
        if isinstance(self._given, ContextStore):
            return self._given.aio
        if isinstance(self._given, AsyncContextStore):
            return self._given
        with self._lock:
            if self._opened is None:
                self._opened = AsyncContextStore.opened(self._given, embedder=self._embedder)
            return self._opened

    def of(self, user_id: str | None) -> AsyncContextStore:
        """What of the store belongs to a user; without one, what belongs to nobody.

        No two users, by whatever names, are one. Raises InvalidRequestError for what is no name.
        """
        name = user_id or ""
        if isinstance(name, str) and not name.strip(_NOBODY):
            # The absent user goes by a name too: whoever is called so is called longer.
            name += _NOBODY
        return self.store.scope(user_id=name)

    def now(self) -> datetime:
        """What the store says the time is."""
        return self.store.clock.now()

    async def close(self) -> None:
        """Close the store if it was opened here."""
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()


class StoreService:
    """The life of a service: it needs no beginning, and its end deletes nothing."""

    _handle: Handle

    async def start(self) -> None:
        """Ask for the store, so that one which is out of reach raises StorageError here.

        May be called again, or not at all: whatever needs the store opens it.
        """
        await self._handle.store.version()

    async def stop(self) -> None:
        """Close the store if it was given by its URI; the next call opens it again."""
        await self._handle.close()

    async def health(self) -> bool:
        """Whether the store answers."""
        try:
            await self._handle.store.version()
        except ContextStoreError:
            return False
        return True
