"""Closing of objects with the resources that they opened."""

from types import TracebackType
from typing import Self

from lance_context_core.adapting import Handle
from lance_context_core.results import TableUpkeep
from lance_context_core.settings import IndexPolicy


class StoreOwner:
    """A base class over a store: maintenance, `close`, and `async with`.

    Closing twice is allowed.
    """

    _handle: Handle

    async def maintain(
        self, *, policy: IndexPolicy | None = None, only_due: bool = False
    ) -> list[TableUpkeep]:
        """Runs maintenance of the whole store now, like `ContextStore.maintain`.

        The store also runs it in the background. Raises InvalidRequestError over a scope or an
        earlier version.
        """
        return await self._handle.aio.maintain(policy=policy, only_due=only_due)

    async def close(self) -> None:
        """Closes the store if it was given by its URI; a given open one stays open."""
        await self._handle.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
