"""The store that a class of this package was handed, or opened by itself."""

from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

from lance_context_core import AsyncContextStore, ContextStore, InvalidRequestError

Store: TypeAlias = ContextStore | AsyncContextStore | str | Path
"""An open store, or a scope of one; or where there is one, to be opened and closed here."""


def uri_of(store: Store) -> str:
    """The URI that was given, from which another process can open the same store again.

    Raises InvalidRequestError for an open store, which may have a scope and an embedder that no URI
    says, and for `memory://`, which is another store in each process.
    """
    if not isinstance(store, str | Path) or str(store).startswith("memory://"):
        raise InvalidRequestError(
            f"store={store!r:.80}: only what was given the URI of a directory or object store can "
            "be serialised, or sent to another process"
        )
    return str(store)


class Handle:
    """Both faces of one store."""

    def __init__(self, store: Store, *, embedder: Any = None) -> None:
        """The `embedder` is that of a store which is opened here; an open one has its own."""
        self._given = store
        self._embedder = embedder
        self._is_owner = isinstance(store, str | Path)
        self.aio: AsyncContextStore
        self.sync: ContextStore
        if isinstance(store, ContextStore):
            self.sync, self.aio = store, store.aio
        else:
            if isinstance(store, str | Path):
                # Neither blocks nor awaits, so that it may stand in a constructor.
                store = AsyncContextStore.opened(store, embedder=embedder)
            self.sync, self.aio = ContextStore(store), store

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Handle, embedder=self._embedder), (uri_of(self._given),)

    def now(self) -> datetime:
        """What the store says the time is."""
        return self.aio.clock.now()

    def close(self) -> None:
        """Close the store if it was opened here."""
        if self._is_owner:
            self.sync.close()

    async def aclose(self) -> None:
        """As `close`."""
        if self._is_owner:
            await self.aio.close()


class HandleOwner:
    """What the classes share that take a store or open one. Closing twice is no error."""

    _handle: Handle

    def close(self) -> None:
        """Close the store if it was given by its URI; one that was handed over stays open."""
        self._handle.close()

    async def aclose(self) -> None:
        """As `close`."""
        await self._handle.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()
