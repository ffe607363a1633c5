"""The store of a service, given or opened by it, and the services' common methods."""

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
"""The name of the absent user."""


class UserHandle(Handle):
    """A store with a scope for each user."""

    def __init__(self, store: StoreLike, *, embedder: Any = None) -> None:
        """`embedder` is for a store at a URI; an open one has its own."""
        if embedder is not None and isinstance(store, ContextStore | AsyncContextStore):
            raise InvalidRequestError(
                "an open store has its embedder already: leave embedder out, or give its URI"
            )
        super().__init__(store, embedder=embedder)

    def of(self, user_id: str | None) -> AsyncContextStore:
        """The scope of a user; without one, that of records without a user.

        Different names never share a scope. Raises InvalidRequestError for an invalid name.
        """
        name = user_id or ""
        if isinstance(name, str) and not name.strip(_NOBODY):
            # The absent user has a name too: a user with that name gets a longer one.
            name += _NOBODY
        return self.aio.scope(user_id=name)


class StoreService:
    """The lifecycle of a service: starting is optional, and stopping deletes nothing."""

    _handle: UserHandle

    async def start(self) -> None:
        """Opens the store; raises StorageError if it is unreachable.

        Optional and repeatable: each call that needs the store opens it.
        """
        await self._handle.aio.version()

    async def stop(self) -> None:
        """Closes the store if it was given by its URI; the next call opens it again."""
        closed, self._handle = self._handle, self._handle.reopened()
        await closed.aclose()

    async def maintain(
        self, *, policy: IndexPolicy | None = None, only_due: bool = False
    ) -> list[TableUpkeep]:
        """Runs maintenance of the whole store now, like `ContextStore.maintain`.

        The store also runs it in the background. Raises InvalidRequestError over a scope or an
        earlier version.
        """
        return await self._handle.aio.maintain(policy=policy, only_due=only_due)

    async def health(self) -> bool:
        """Whether the store responds."""
        try:
            await self._handle.aio.version()
        except ContextStoreError:
            return False
        return True
