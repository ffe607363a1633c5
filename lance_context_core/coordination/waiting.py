"""Waiting for a lock, in the order of asking."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from lance_context_core.coordination import queueing
from lance_context_core.coordination.conflicts import Conflicts
from lance_context_core.errors import ContextStoreError, DeadlockError, LockTimeoutError
from lance_context_core.storage.locks import processes
from lance_context_core.storage.locks.renewal import renewed
from lance_context_core.storage.locks.requests import Book, Shelf, Ticket

T = TypeVar("T", Ticket, Ticket | None)

_LEASE_SECONDS = 10.0
"""Who waits and does not look for so long, since he is stopped, loses his place."""

_LOOK_AT_ALL_EVERY_SECONDS = 1.0
"""A circle is found by whoever closes it; by others only if it comes about in another way."""


async def asked_of(shelf: Shelf, decide: Callable[[Book], T], *, resource: str | None) -> T:
    """What `decide` makes of the book, a ticket or None; who is cancelled has no ticket of it.

    A change may be made by the time that its caller is cancelled, who would never be told.
    """
    if shelf.is_transactional:
        return await shelf.change(decide, resource=resource)
    change = asyncio.ensure_future(shelf.change(decide, resource=resource))
    try:
        return await asyncio.shield(change)
    except asyncio.CancelledError:
        await asyncio.shield(_given_back(shelf, change))
        raise


async def _given_back(shelf: Shelf, change: asyncio.Future[T]) -> None:
    with suppress(ContextStoreError):
        if (ticket := await change) is not None:
            seq = ticket.seq
            await shelf.change(lambda book: book.remove(seq), resource=ticket.resource)


class Waiting:
    """One who waits in the queue of a resource."""

    def __init__(
        self, shelf: Shelf, wanted: Ticket, conflicts: Conflicts, now: Callable[[], float]
    ) -> None:
        """Nothing is done before the first `look`."""
        self._shelf = shelf
        self._ticket = replace(wanted, lease=_LEASE_SECONDS)
        self._lease = wanted.lease
        self._conflicts = conflicts
        self._now = now
        self._looked_at = 0.0
        self._pause, self._longest = shelf.pauses_seconds

    async def until_granted(self, wait: float | None) -> Ticket:
        """The lock. Raises LockTimeoutError after `wait` seconds, and DeadlockError."""
        began = time.monotonic()
        while (granted := await self._look()) is None:
            left = None if wait is None else wait - (time.monotonic() - began)
            if wait is not None and left is not None and left <= 0:
                raise await self._timeout(wait)
            await asyncio.sleep(self._pause if left is None else min(self._pause, left))
            self._pause = min(self._pause * 1.5, self._longest)
        return granted

    async def leave(self) -> None:
        """Stand in the queue no more."""
        seq = self._ticket.seq
        await self._shelf.change(lambda book: book.remove(seq), resource=self._ticket.resource)

    # Helpers

    async def _look(self) -> Ticket | None:
        """The lock, if it is one's turn."""
        if await self._must_wait():
            return None
        self._looked_at = time.monotonic()
        ticket = await asked_of(self._shelf, self._advance, resource=None)
        if ticket.token is None:
            self._ticket = ticket
            return None
        return ticket

    async def _timeout(self, wait: float) -> LockTimeoutError:
        """What tells who was in the way."""
        found = await self._shelf.tickets(resource=self._ticket.resource)
        others = queueing.blocking(self._ticket, found, self._conflicts)
        names = ", ".join(
            f"{one.owner!r} ({processes.shown(one.process)}, {one.mode}"
            f"{'' if one.token else ', waiting'})"
            for one in others[:3]
        )
        return LockTimeoutError(
            f"the lock on {self._ticket.resource!r} was not free for {wait:g} seconds: "
            f"{names or 'others'} had it. Wait longer, or see locks.list()"
        )

    async def _must_wait(self) -> bool:
        """Whether a look without a transaction shows that it is not one's turn, nor time for more."""
        if time.monotonic() - self._looked_at > _LOOK_AT_ALL_EVERY_SECONDS:
            return False
        found = await self._shelf.tickets(resource=self._ticket.resource)
        if self._ticket.seq not in {one.seq for one in found}:
            return False
        before = queueing.blocking(self._ticket, found, self._conflicts)
        now = self._now()
        return bool(before) and not any(one.is_stale(now) for one in before)

    def _advance(self, book: Book) -> Ticket:
        now = self._now()
        ticket = queueing.advance(book, self._ticket, now, self._conflicts)
        if ticket.token is not None:
            book.put(granted := renewed(replace(ticket, lease=self._lease), now))
            return granted
        queueing.sweep(book, now)
        if (found := queueing.cycle(ticket, book.tickets.values(), self._conflicts)) is not None:
            error = DeadlockError(
                f"to wait for the lock on {ticket.resource!r} would be to wait for oneself: "
                f"{queueing.told(found)}, held by {ticket.owner!r}. Release what is held, and "
                "acquire anew in one order"
            )
            error.cycle = tuple((one.owner, one.resource) for one in found)
            raise error
        return ticket
