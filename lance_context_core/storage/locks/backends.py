"""The storage of lock requests: in the log's database, or in a table."""

import asyncio
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from lance_context_core._loop import WOULD_BLOCK, WouldBlock
from lance_context_core.errors import ConflictError
from lance_context_core.storage import put_if
from lance_context_core.storage.lance import fragments
from lance_context_core.storage.lance.schema import KEY, TIMESTAMP, upkeep_table
from lance_context_core.storage.locks import fencing, requests
from lance_context_core.storage.locks.requests import LockRequest, LockTable
from lance_context_core.storage.names import new_revision
from lance_context_core.storage.table import Table
from lance_context_core.storage.wal.journal import Journal
from lance_context_core.storage.wal.log import LogSession
from lance_context_core.storage.write_batch import Mode, WriteBatch

T = TypeVar("T")

_LOOK_AT_LOG_EVERY = 512
"""The transactions between two checks of the size of SQLite's log."""


class InJournal:
    """Lock requests of a store in a directory of one machine; satisfies `LockBackend`."""

    is_transactional = True
    pauses_seconds = (0.001, 0.02)

    def __init__(self, journal: Journal) -> None:
        """The requests in that log, which is created with the first."""
        self._journal = journal
        self._n_changes = 0

    async def change(self, decide: Callable[[LockTable], T], *, resource: str | None) -> T:
        """As `LockBackend.change`."""
        await self._journal.make()
        self._n_changes += 1
        if self._n_changes % _LOOK_AT_LOG_EVERY == 0:
            await self._journal.keep_log_small()
        # No await follows the commit.
        return await self._journal.transact(lambda session: _changed(session, decide, resource))

    def change_now(
        self, decide: Callable[[LockTable], T], *, resource: str | None
    ) -> T | WouldBlock:
        """As `LockBackend.change_now`."""
        if (self._n_changes + 1) % _LOOK_AT_LOG_EVERY == 0:
            return WOULD_BLOCK
        done = self._journal.transact_now(lambda session: _changed(session, decide, resource))
        if done is not WOULD_BLOCK:
            self._n_changes += 1
        return done

    async def tickets(self, *, resource: str | None = None) -> list[LockRequest]:
        """As `LockBackend.tickets`."""
        if not await self._journal.exists():
            return []
        return await self._journal.ask(lambda session: session.lock_requests(resource))


def _changed(session: LogSession, decide: Callable[[LockTable], T], resource: str | None) -> T:
    book = LockTable.of(session.lock_requests(resource), session.next_lock_number)
    outcome = decide(book)
    there = [seq for seq in book.changed if seq in book.tickets]
    session.put_lock_requests(
        [book.tickets[seq] for seq in there], [*book.changed.difference(there)]
    )
    return outcome


# Requests in a table of the store, without a log: each change is a conditional commit.
#
# All requests are one row, which is written if it is unchanged since it was read.

if TYPE_CHECKING:
    from lance_context_core.storage.database import Database


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
"""As for the leases of maintenance."""
_PATIENCE_SECONDS = 60
_PAUSE_SECONDS = 0.02


class InTable:
    """Lock requests of a store on an object store, or in memory; satisfies `LockBackend`."""

    is_transactional = False
    pauses_seconds = (0.02, 0.5)

    def __init__(self, database: "Database") -> None:
        """The requests of that store; creates nothing before the first."""
        self._database = database
        self._n_changes = 0

    async def change(
        self,
        decide: Callable[[LockTable], T],
        *,
        resource: str | None,  # noqa: ARG002 - the row has them all
    ) -> T:
        """As `LockBackend.change`; always on the requests of all resources."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while True:
            revision, found, last = await self._read()
            numbers = count(last + 1)
            book = LockTable.of(found, numbers.__next__)
            outcome = decide(book)
            if not book.changed:
                return outcome
            text = requests.written(book.tickets.values(), next(numbers) - 1)
            if await self._write(text, revision):
                return outcome
            if time.monotonic() > until:
                raise ConflictError(
                    f"the locks of {self._database.uri!r} kept being changed by others for "
                    f"{_PATIENCE_SECONDS} seconds: try again"
                )
            # Two losers of the same race would race again.
            await asyncio.sleep(_PAUSE_SECONDS * random.random())  # noqa: S311 - no secret

    def change_now(self, decide: Callable[[LockTable], T], *, resource: str | None) -> WouldBlock:
        """As `LockBackend.change_now`: returns WOULD_BLOCK, because a commit takes time."""
        del decide, resource
        return WOULD_BLOCK

    async def tickets(self, *, resource: str | None = None) -> list[LockRequest]:
        """As `LockBackend.tickets`."""
        _, found, _ = await self._read()
        return [one for one in found if resource in (None, one.resource)]

    async def _read(self) -> tuple[int | None, list[LockRequest], int]:
        rows = (await self._table.select(None, columns=[KEY, "revision", "book"])).to_pylist()
        if not rows:
            return None, [], time.time_ns() // 1000
        return rows[0]["revision"], *requests.read(rows[0]["book"])

    async def _write(self, text: str, revision: int | None) -> bool:
        row = {
            KEY: _ROW,
            "revision": new_revision(),
            "created_at": datetime.now(UTC),
            "updated_at": datetime.now(UTC),
            "book": text,
            put_if.HOW: put_if.PUT,
            put_if.EXPECTED: revision,
        }
        try:
            with fencing.unfenced():
                await self._table.write(WriteBatch([row], Mode.ITEM))
        except put_if.Unexpected:
            return False
        self._n_changes += 1
        if self._n_changes % _PRUNE_EVERY == 0:
            await fragments.forget_versions(self._table, older_than=_PRUNE_AGE)
        return True

    @property
    def _table(self) -> Table:
        return self._database.table(LOCKS_TABLE, LOCKS)
