"""What is closed with whatever it has opened."""

from types import TracebackType
from typing import Self

from lance_context_core.adapting import Handle
from lance_context_core.results import TableUpkeep
from lance_context_core.settings import IndexPolicy


class StoreOwner:
    """A base of classes over a store: its upkeep, `close`, and `async with`.

    Closing twice is no error.
    """

    _handle: Handle

    async def maintain(
        self, *, policy: IndexPolicy | None = None, only_due: bool = False
    ) -> list[TableUpkeep]:
        """Look after the whole store now, as `ContextStore.maintain` does; it also does so in the background.

        Raises InvalidRequestError over a scope or an earlier version.
        """
        return await self._handle.aio.maintain(policy=policy, only_due=only_due)

    async def close(self) -> None:
        """Close the store if it was given by its URI; one that was handed over stays open."""
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
