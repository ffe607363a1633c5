"""One table: the reads of the stores, and their single write method."""

import asyncio
from collections.abc import AsyncIterable, Sequence
from typing import Any

from lance_context_core.storage import bulk, preconditions
from lance_context_core.storage.change_waits import ChangeWaits
from lance_context_core.storage.commit_writes import CommitWrites
from lance_context_core.storage.flush import Flushing
from lance_context_core.storage.lance.arrow import Row
from lance_context_core.storage.lance.open_table import Beside
from lance_context_core.storage.lance.table_handle import TableHandle
from lance_context_core.storage.lance.writes import Written
from lance_context_core.storage.side_table import SideTable
from lance_context_core.storage.spooled_batch import SpooledBatch
from lance_context_core.storage.sql.predicates import Clause
from lance_context_core.storage.table_reads import TableReads
from lance_context_core.storage.wal.entries import View
from lance_context_core.storage.wal.policy import JournalPolicy
from lance_context_core.storage.wal_writes import WalWrites
from lance_context_core.storage.write_batch import BatchResult, WriteBatch


class Table(TableReads):
    """A table by name; reads as empty until the first write creates it."""

    def __init__(self, access: TableHandle) -> None:
        """The table on the ref of `access`."""
        super().__init__(access)
        if not access.spec.serves_the_store:
            access.commits.committed = self._committed
        self.written = Written()
        self.changes = ChangeWaits(self)
        self._commits = CommitWrites(self, self._incoming, self.written)
        if (shared := self._commits.shared) is not None:
            access.finishing, access.closing = shared.leave, shared.stop
        if access.ledger is not None:
            folding = Flushing(
                access,
                access.ledger,
                self._incoming,
                written=self.written,
                remembered=self.remembered,
            )
            self._journaled = WalWrites(
                access,
                access.ledger,
                vectors=self.vectors,
                folding=folding,
                remembered=self.remembered,
            )
            access.commits.fold = folding.fold
            access.finishing, access.closing = folding.finish, folding.stop
            if access.connection.is_read_only:
                self._aside = aside = SideTable(access, folding.lay)
                access.aside, access.closing = aside.newest, aside.close

    def on(self, ref: str, *, records: "Table") -> "Table":
        """This table of main on another ref; `records`, on main, tell whether that exists."""
        beside = Beside(ref, self.access, records.access)
        return Table(TableHandle(self.access.connection, self.name, self.spec, beside=beside))

    async def write(self, batch: WriteBatch) -> BatchResult:
        """Write a batch: one transaction of the log, or one commit.

        Concurrent calls share one. Cancellation undoes nothing that others wrote in the same.
        Raises the errors of its `decide`, or NotKnownError without a log to decide in; and
        `put_if.Taken` and `put_if.Unexpected`, which refuse items.
        """
        done = None if self._journaled is None else await self._journaled.write(batch)
        if done is None:
            done = await self._commits.write(batch)
        self._told()
        return done

    async def declare(self) -> None:
        """As `DeclaredFields.ensure`: before a write."""
        await self.fields.ensure()

    def write_now(self, batch: WriteBatch) -> BatchResult | None:
        """As `write`, in any thread; returns None, with nothing written, instead of waiting."""
        done = None if self._journaled is None else self._journaled.write_now(batch)
        self._told()
        return done

    async def spool(self, steps: AsyncIterable[Sequence[Row]]) -> SpooledBatch:
        """Rows for one write that arrive in steps, one step in memory at a time."""
        await self.access.ready()
        spooled = SpooledBatch()
        async for rows in steps:
            data = await self._commits.arrow(await self.access.opened(), rows)
            await asyncio.to_thread(spooled.add, data)
        return spooled

    async def load(self, rows: bulk.Spooled, *, kept: bulk.Kept | None) -> int:
        """As `bulk.load`; flushes the log first."""
        await self.access.writer()
        n_rows = await bulk.load(self, rows.batches, kept=kept)
        if self.changes.waiting:
            self.changes.tell()
        return n_rows

    async def take_back_later(self, where: Clause) -> int:
        """Delete duplicates that a killed writer left behind; returns their number.

        These are spooled rows, appended only under new keys: without a log, concurrent writers of
        one key both add it, until a second commit deletes the later row. `where` selects the rows
        with such keys.
        """
        if await self.access.reader() is None:
            return 0

        async def write(handle: Any) -> int:
            await handle.checkout_latest()
            return await preconditions.take_back_later(handle, where)

        return await self.access.write("delete from", write)

    def relieve(self, view: View, policy: JournalPolicy) -> None:
        """As `WalWrites.relieve`, after a transaction has written the entries of the `view`."""
        if (on_write := self.access.connection.on_write) is not None:
            on_write(self)
        if self._journaled is not None:
            self._journaled.relieve(view, policy)

    def _told(self) -> None:
        if self.changes.waiting:
            self.changes.tell()
        if (on_write := self.access.connection.on_write) is not None:
            on_write(self)

    def _committed(self) -> None:
        if (on_commit := self.access.connection.on_commit) is not None:
            on_commit(self)
