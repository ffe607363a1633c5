"""The store that a service was handed, or opened itself; and what all services do alike."""

from typing import Any

from lance_context_core import (
    AsyncContextStore,
    ContextStore,
    ContextStoreError,
    InvalidRequestError,
)
from lance_context_core.adapting import Handle, StoreLike
from lance_context_core.results import TableUpkeep
from lance_context_core.settings import IndexPolicy

_NOBODY = "~"
"""Whose things those are that come without a user."""


class UserHandle(Handle):
    """A store of which each user has a part."""

    def __init__(self, store: StoreLike, *, embedder: Any = None) -> None:
        """The `embedder` is that of a store which is opened here; an open one has its own."""
        if embedder is not None and isinstance(store, ContextStore | AsyncContextStore):
            raise InvalidRequestError(
                "an open store has its embedder already: leave embedder out, or give its URI"
            )
        super().__init__(store, embedder=embedder)

    def of(self, user_id: str | None) -> AsyncContextStore:
        """What of the store belongs to a user; without one, what belongs to no one.

        No two users, by whatever names, are one. Raises InvalidRequestError for a value that is not a name.
        """
        name = user_id or ""
        if isinstance(name, str) and not name.strip(_NOBODY):
            # The absent user goes by a name too: anyone who is called so is called longer.
            name += _NOBODY
        return self.aio.scope(user_id=name)


class StoreService:
    """The life of a service: it needs no beginning, and its end deletes nothing."""

    _handle: UserHandle

    async def start(self) -> None:
        """Ask for the store, so that one which is out of reach raises StorageError here.

        May be called again, or not at all: whatever needs the store opens it.
        """
        await self._handle.aio.version()

    async def stop(self) -> None:
        """Close the store if it was given by its URI; the next call opens it again."""
        closed, self._handle = self._handle, self._handle.reopened()
        await closed.aclose()

    async def maintain(
        self, *, policy: IndexPolicy | None = None, only_due: bool = False
    ) -> list[TableUpkeep]:
        """Look after the whole store now, as `ContextStore.maintain` does; it also does so in the background.

        Raises InvalidRequestError over a scope or an earlier version.
        """
        return await self._handle.aio.maintain(policy=policy, only_due=only_due)

    async def health(self) -> bool:
        """Whether the store answers."""
        try:
            await self._handle.aio.version()
        except ContextStoreError:
            return False
        return True
