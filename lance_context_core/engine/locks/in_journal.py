"""Tickets in the database of the journal, so that a write and its look at a lock are one transaction."""

from collections.abc import Callable
from typing import TypeVar

from lance_context_core._loop import LATER, Later
from lance_context_core.engine.journal.journal import Journal
from lance_context_core.engine.locks import rows
from lance_context_core.engine.locks.tickets import Book, Ticket

T = TypeVar("T")

_LOOK_AT_LOG_EVERY = 512
"""Transactions between two looks at the size of SQLite's log."""


class InJournal:
    """The tickets of a store in a directory that no other machine has; satisfies `Shelf`."""

    is_transactional = True
    pauses_seconds = (0.001, 0.02)

    def __init__(self, journal: Journal) -> None:
        """Those of the store whose journal it is, which is made with the first."""
        self._journal = journal
        self._n_changes = 0

    async def change(self, decide: Callable[[Book], T], *, resource: str | None) -> T:
        """As `Shelf.change`."""
        await self._journal.make()
        self._n_changes += 1
        if self._n_changes % _LOOK_AT_LOG_EVERY == 0:
            await self._journal.keep_log_small()
        # Nothing is waited for from the commit on.
        return await self._journal.transact(lambda way: rows.change(way, decide, resource))

    def change_now(self, decide: Callable[[Book], T], *, resource: str | None) -> T | Later:
        """As `Shelf.change_now`."""
        if (self._n_changes + 1) % _LOOK_AT_LOG_EVERY == 0:
            return LATER
        done = self._journal.transact_now(lambda way: rows.change(way, decide, resource))
        if done is not LATER:
            self._n_changes += 1
        return done

    async def tickets(self, *, resource: str | None = None) -> list[Ticket]:
        """As `Shelf.tickets`."""
        if not await self._journal.exists():
            return []
        return await self._journal.ask(lambda way: rows.tickets(way, resource))
