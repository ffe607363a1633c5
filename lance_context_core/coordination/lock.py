"""One lock that is held."""

from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractContextManager
from dataclasses import field
from typing import Any, Self

from lance_context_core._loop import Later
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import StaleLockError
from lance_context_core.storage.locks import fencing
from lance_context_core.storage.locks.fencing import Fence
from lance_context_core.storage.locks.renewal import Keeper, renewed
from lance_context_core.storage.locks.requests import Book, Ticket


@frozen_by_name
class AsyncLock:
    """A lock that is held until it is released; `async with` releases it at the end.

    If it was lost by then, since its lease passed while the process was stopped, or since somebody
    took it, the end of the block raises StaleLockError: what was done in it may have met others.
    """

    resource: str
    """What is locked."""
    mode: str
    """Which others it excludes."""
    owner: str
    """Who holds it."""
    token: int
    """The fencing token, larger than that of every lock granted before it: what refuses smaller ones refuses late writes."""
    _seq: int = field(repr=False)
    _keeper: Keeper = field(repr=False)
    _now: Callable[[], float] = field(repr=False)
    _place: object = field(repr=False)

    async def release(self) -> bool:
        """Let others have it; returns whether it was held until now."""
        self._keeper.let_go(self._seq)
        return await self._keeper.shelf.change(self._removing, resource=self.resource)

    async def renew(self) -> None:
        """Have its lease begin anew now; that is done by itself too. Raises StaleLockError if it is lost."""

        def decide(book: Book) -> bool:
            ticket = book.tickets.get(self._seq)
            if ticket is None or not self._is_held(ticket):
                return False
            book.put(renewed(ticket, self._now()))
            return True

        if not await self._keeper.shelf.change(decide, resource=self.resource):
            raise self._lost()

    async def is_held(self) -> bool:
        """Whether it is held still."""
        return self._is_held(await self._ticket())

    def fencing(self) -> AbstractContextManager[None]:
        """A block in which no write to the store is made any more once the lock is lost.

        Such a write raises StaleLockError. In a directory the look at the lock and the write are
        one transaction. Elsewhere the lock is looked at before the write begins: one that began
        while it was held may end after it is lost.
        """
        ask = None if self._keeper.shelf.is_transactional else self._ticket
        fence = Fence(self._place, self._seq, self.token, self.resource, self._now, ask)
        return fencing.fenced(fence)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        if not await self.release() and kind is None:
            raise self._lost()

    # Helpers

    def _release_at_once(self) -> bool | Later:
        """As `release`, in any thread and without a wait; LATER where one would have to wait."""
        self._keeper.let_go(self._seq)
        return self._keeper.shelf.change_now(self._removing, resource=self.resource)

    def _removing(self, book: Book) -> bool:
        is_held = self._is_held(book.tickets.get(self._seq))
        book.remove(self._seq)
        return is_held

    async def _ticket(self) -> Ticket | None:
        found = await self._keeper.shelf.tickets(resource=self.resource)
        return next((one for one in found if one.seq == self._seq), None)

    def _is_held(self, ticket: Ticket | None) -> bool:
        return (
            ticket is not None and ticket.token == self.token and not ticket.has_lapsed(self._now())
        )

    def _lost(self) -> StaleLockError:
        return StaleLockError(
            f"the lock on {self.resource!r} with token {self.token} was lost before it was released: "
            "its lease passed while this process was stopped, or it was taken by force_release(). "
            "What was done meanwhile may have met others: look, and acquire it again"
        )


class Acquiring:
    """A lock that is asked for when this is awaited, or entered with `async with`."""

    def __init__(self, acquire: Callable[[], Coroutine[Any, Any, "AsyncLock"]]) -> None:
        """Made by `AsyncLocks.acquire`."""
        self._acquire = acquire
        self._lock: AsyncLock | None = None

    def __await__(self) -> Generator[Any, None, "AsyncLock"]:
        return self._acquire().__await__()

    async def __aenter__(self) -> "AsyncLock":
        self._lock = await self
        return self._lock

    async def __aexit__(self, *raised: object) -> None:
        assert self._lock is not None
        await self._lock.__aexit__(*raised)
