"""Tickets in a table of the store, where there is no journal: each change is a conditional commit.

The whole book is one row, which is written if it is still the one that was read.
"""

import asyncio
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from lance_context_core._loop import LATER, Later
from lance_context_core.engine.files import maintenance
from lance_context_core.engine.locks import fencing, tickets
from lance_context_core.engine.locks.tickets import Book, Ticket
from lance_context_core.engine.revisions import new_revision
from lance_context_core.engine.schema import KEY, TIMESTAMP, upkeep_table
from lance_context_core.engine.table import keyed
from lance_context_core.engine.table.table import Table
from lance_context_core.errors import ConflictError

if TYPE_CHECKING:
    from lance_context_core.engine.database import Database

T = TypeVar("T")

LOCKS_TABLE = "locks"

LOCKS = upkeep_table(
    [
        *(pa.field(name, TIMESTAMP) for name in ("created_at", "updated_at", "expires_at")),
        pa.field("book", pa.string()),
    ]
)

_ROW = "book"
_PRUNE_EVERY = 32
_PRUNE_AGE = timedelta(minutes=1)
"""As for the claims of maintenance."""
_PATIENCE_SECONDS = 60
_PAUSE_SECONDS = 0.02


class InTable:
    """The tickets of a store on an object store, or in memory; satisfies `Shelf`."""

    is_transactional = False
    pauses_seconds = (0.02, 0.5)

    def __init__(self, database: "Database") -> None:
        """Those of that store; nothing is made before the first."""
        self._database = database
        self._n_changes = 0

    async def change(
        self,
        decide: Callable[[Book], T],
        *,
        resource: str | None,  # noqa: ARG002 - the row has them all
    ) -> T:
        """As `Shelf.change`; the book has the tickets of all resources."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while True:
            revision, found, last = await self._read()
            numbers = _Numbers(last)
            book = Book.of(found, numbers.next)
            outcome = decide(book)
            if not book.changed:
                return outcome
            text = tickets.written(book.tickets.values(), numbers.last)
            if await self._write(text, revision):
                return outcome
            if time.monotonic() > until:
                raise ConflictError(
                    f"the locks of {self._database.uri!r} kept being changed by others for "
                    f"{_PATIENCE_SECONDS} seconds: try again"
                )
            # Who lost at the same time as another would lose against him again.
            await asyncio.sleep(_PAUSE_SECONDS * random.random())  # noqa: S311 - no secret

    def change_now(self, decide: Callable[[Book], T], *, resource: str | None) -> Later:
        """As `Shelf.change_now`: a commit is waited for."""
        del decide, resource
        return LATER

    async def tickets(self, *, resource: str | None = None) -> list[Ticket]:
        """As `Shelf.tickets`."""
        _, found, _ = await self._read()
        return [one for one in found if resource in (None, one.resource)]

    async def _read(self) -> tuple[int | None, list[Ticket], int]:
        rows = (await self._table.select(None, columns=[KEY, "revision", "book"])).to_pylist()
        if not rows:
            return None, [], time.time_ns() // 1000
        return rows[0]["revision"], *tickets.read(rows[0]["book"])

    async def _write(self, text: str, revision: int | None) -> bool:
        row = {
            KEY: _ROW,
            "revision": new_revision(),
            "created_at": datetime.now(UTC),
            "updated_at": datetime.now(UTC),
            "book": text,
            keyed.HOW: keyed.PUT,
            keyed.EXPECTED: revision,
        }
        try:
            with fencing.unfenced():
                await self._table.write_keyed([row])
        except keyed.Unexpected:
            return False
        self._n_changes += 1
        if self._n_changes % _PRUNE_EVERY == 0:
            await maintenance.forget_versions(self._table, older_than=_PRUNE_AGE)
        return True

    @property
    def _table(self) -> Table:
        return self._database.table(LOCKS_TABLE, LOCKS)


class _Numbers:
    def __init__(self, last: int) -> None:
        self.last = last

    def next(self) -> int:
        self.last += 1
        return self.last
