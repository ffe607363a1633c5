"""The locks that this process holds, which are renewed for as long as it does."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace

from lance_context_core._loop import store_loop
from lance_context_core._util.logs import log
from lance_context_core.errors import StoreClosedError
from lance_context_core.storage import leases
from lance_context_core.storage.locks.requests import LockBackend, LockRequest, LockTable

# Renewing a lease in the background: an attempt that fails is repeated, until the lease is lost.

Renew = Callable[[], Awaitable[float | None]]
"""Renews what is due; returns the seconds until the next call, or None if nothing is held any more."""


async def keep_renewed(renew: Renew, what: str, *, retry_seconds: float) -> None:
    """Call `renew` until it returns None, also after it raised an error; `what` is for the log."""
    pause: float | None = 0.0
    while pause is not None:
        await asyncio.sleep(pause)
        try:
            pause = await renew()
        except Exception as error:  # noqa: BLE001 - what fails now may succeed before the lease ends
            log.warning("%s was not renewed, it is tried again: %s", what, type(error).__name__)
            pause = retry_seconds


_PART_OF_LEASE = 3
"""How many times a lock is renewed until it would lapse."""

_LONGEST_PAUSE_SECONDS = 0.2
"""A lock with a shorter lease may come while one with a long lease is slept for."""

Now = Callable[[], float]


class LeaseRenewer:
    """Renews what is held, all of it in one transaction; safe to share between threads and loops."""

    def __init__(self, shelf: LockBackend) -> None:
        """Nothing runs until something is held."""
        self.shelf = shelf
        self._held: dict[int, tuple[LockRequest, Now]] = {}
        self._lock = threading.Lock()
        self._is_running = False

    def keep(self, ticket: LockRequest, now: Now) -> None:
        """Renew this one from now on."""
        with self._lock:
            self._held[ticket.seq] = ticket, now
            if self._is_running:
                return
            self._is_running = True
        # On a loop of its own: whoever holds up the caller's does not lose his locks.
        renewing = keep_renewed(self._renew_due, "a lock", retry_seconds=_LONGEST_PAUSE_SECONDS)
        store_loop.spawn_apart(renewing)

    def let_go(self, seq: int) -> None:
        """Renew it no more."""
        with self._lock:
            self._held.pop(seq, None)

    async def renew(self) -> None:
        """Renew all that are held, and let go of what somebody took."""
        with self._lock:
            held = dict(self._held)
        kept = await self.shelf.change(lambda book: _renewed(book, held), resource=None)
        with self._lock:
            for seq in held:
                if seq not in kept:
                    self._held.pop(seq, None)
                elif seq in self._held:
                    self._held[seq] = kept[seq], held[seq][1]

    async def _renew_due(self) -> float | None:
        """Renew all if one of them needs it; returns the pause until the next call, as `_pause`."""
        if (pause := self._pause()) is not None and pause <= 0:
            try:
                await self.renew()
            except StoreClosedError:
                with self._lock:
                    self._held.clear()
            pause = self._pause()
        return pause if pause is None else min(max(pause, 0), _LONGEST_PAUSE_SECONDS)

    def _pause(self) -> float | None:
        """How long nothing need be renewed; None ends it, since nothing is held."""
        with self._lock:
            if not self._held:
                self._is_running = False
                return None
            now = leases.ticks()
            return min(
                one.ticks - one.lease * (1 - 1 / _PART_OF_LEASE) - now
                for one, _ in self._held.values()
            )


def _renewed(book: LockTable, held: dict[int, tuple[LockRequest, Now]]) -> dict[int, LockRequest]:
    """Renew those of `held` that are held still; returns them as they are then."""
    kept = {}
    for seq, (known, now) in held.items():
        ticket = book.tickets.get(seq)
        if ticket is not None and ticket.token == known.token and not ticket.has_lapsed(now()):
            book.put(renewed(ticket, now()))
            kept[seq] = book.tickets[seq]
    return kept


def renewed(ticket: LockRequest, now: float) -> LockRequest:
    """The same, which lapses after its lease from now."""
    return replace(ticket, until=now + ticket.lease, ticks=leases.ticks() + ticket.lease)
