"""The tables of a store inside a transaction."""

from collections.abc import AsyncIterable, Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Never, TypeVar

from lance_context_core.storage import put_if
from lance_context_core.storage.database import (
    RECORDS_TABLE,
    SESSIONS_TABLE,
    BranchDatabase,
    Database,
)
from lance_context_core.storage.flush import Flushing, is_overfull
from lance_context_core.storage.lance.arrow import Row
from lance_context_core.storage.lance.branches import Pin
from lance_context_core.storage.lance.connection import Connection
from lance_context_core.storage.lance.schema import RECORDS, SESSIONS, TableSpec
from lance_context_core.storage.names import shown_name
from lance_context_core.storage.row_cache import RowCache
from lance_context_core.storage.sql.predicates import Clause
from lance_context_core.storage.table import Table
from lance_context_core.storage.transaction import Decide, WriteTransaction
from lance_context_core.storage.wal.entries import New, News, View
from lance_context_core.storage.wal.journal import Journal
from lance_context_core.storage.wal.policy import JournalPolicy
from lance_context_core.storage.wal.table_log import TableLog
from lance_context_core.storage.wal.transactions import Amending
from lance_context_core.storage.wal_writes import WalWrites
from lance_context_core.storage.write_batch import BatchResult, Mode, WriteBatch

T = TypeVar("T")


class TransactionLog(TableLog):
    """The log's part for a table inside a transaction: collects its writes."""

    def __init__(self, journal: Journal, table: Table, transaction: WriteTransaction) -> None:
        super().__init__(journal, table.name, table.ref)
        self._transaction = transaction

    async def policy(self) -> JournalPolicy | None:
        """As `TableLog.policy`."""
        return self._transaction.policy

    async def view(self) -> View | None:
        """As `TableLog.view`."""
        self._transaction.require_open()
        view = await super().view()
        return None if view is None else self._transaction.over(self.part, view)

    async def news(self, _token: int, _last: int, *, version: int = 0) -> News | None:  # noqa: ARG002
        """As `TableLog.news`."""
        return None

    def news_now(self, _token: int, _last: int) -> News | None:
        """As `TableLog.news_now`."""
        return None

    def on_break(self, forget: Callable[[], None]) -> None:
        """Does nothing: this caches nothing."""

    async def write(
        self,
        decide: Decide,
        _then: Callable[[View | None], None] | None = None,
        *,
        keeps_states: bool = False,
    ) -> View | None:
        """As `TableLog.write`."""
        view = await self.view()
        if view is None or not view.version or (new := decide(view)) is None:
            return None
        self._transaction.collect(self, decide, view, new, keeps_states=keeps_states)
        return view

    def write_now(self, _decide: Decide) -> View | None:
        """As `TableLog.write_now`."""
        return None

    async def amend(self, decide: Callable[[Amending], tuple[Sequence[New], T]]) -> T:
        """As `TableLog.amend`."""
        is_part, outcome = await self._transaction.change(self, decide)
        # A call that writes no row is upkeep of the data stored with the entries.
        return outcome if is_part else await super().amend(decide)


class _Collecting(Flushing):
    """Flushes nothing before the transaction is written."""

    def watch(self, policy: JournalPolicy) -> None:
        """As `Flushing.watch`."""

    async def relieve(self, view: View, policy: JournalPolicy) -> None:
        """As `Flushing.relieve`."""

    async def relieve_counted(self, n_entries: int, n_bytes: int, policy: JournalPolicy) -> None:
        """As `Flushing.relieve_counted`."""


class TransactionTable(Table):
    """A table whose writes are part of a transaction, and whose reads show them."""

    def __init__(self, table: Table, transaction: WriteTransaction) -> None:
        """As `table`, whose handles, caches and settings it shares."""
        self.__dict__.update(vars(table))
        self._table = table
        self._transaction = transaction
        journal = table.access.connection.journal
        assert journal is not None
        self.access = copy(table.access)
        self.log = TransactionLog(journal, table, transaction)
        if table.access.ledger is not None:
            self.access.ledger = self.log
        self.remembered = RowCache(self.access)
        self._writer = WalWrites(
            self.access,
            self.log,
            vectors=self.vectors,
            folding=_Collecting(
                self.access,
                self.log,
                self._incoming,
                written=self.written,
                remembered=self.remembered,
            ),
            remembered=self.remembered,
        )
        self._journaled = self._writer

    # After the commit

    async def make_room(self) -> None:
        """Flush the table if the log holds too much of it."""
        view = await self._table.access.view()
        if view is not None and is_overfull(view, self._transaction.policy):
            await self._table.access.settle()

    def relieve(self, view: View, policy: JournalPolicy) -> None:
        """As `Table.relieve`."""
        self._table.relieve(view, policy)

    # Writing

    async def write(self, batch: WriteBatch) -> BatchResult:
        """As `Table.write`; observed rows are read again at each try of the commit."""
        if not self.spec.is_journaled:
            if batch.where is not None and not await self.count(batch.where):
                return BatchResult()
            self._transaction.refuse(f"a write to {self.label}, which has no log,")
        if batch.bulk is not None:
            self._refuse()
        batch = replace(batch, observed=None)
        if batch.decide is not None:
            done = await self._writer.write(batch)
        else:
            done = await self._transaction.take(
                lambda: self._writer.write(batch), partial(_told, batch), n_rows=batch.n_rows
            )
        if done is None:
            await self._refuse_large(batch)
            return BatchResult()
        # No caller can continue from rows that are not written yet.
        return done._replace(grows_since=done.token)

    async def declare(self) -> None:
        """Does nothing: the next write outside of a transaction declares the fields."""

    def write_now(self, _batch: WriteBatch) -> None:
        """As `Table.write_now`: nothing is written before the end of the block."""

    async def spool(self, _steps: AsyncIterable[Sequence[Row]]) -> Never:
        """Raise InvalidRequestError."""
        self._refuse()

    async def load(self, _rows: object, *, kept: object) -> Never:  # noqa: ARG002 - as above
        """Raise InvalidRequestError."""
        self._refuse()

    async def take_back_later(self, _where: Clause) -> Never:
        """Raise InvalidRequestError."""
        self._refuse()

    # Helpers

    def _refuse(self) -> Never:
        self._transaction.refuse(f"this kind of change of {self.label}")

    async def _refuse_large(self, batch: WriteBatch) -> None:
        """Refuse a batch that the log does not accept, unless it changes no rows."""
        if batch.where is None or batch.expect is not None:
            what = "items" if batch.mode is Mode.ITEM else "rows"
            self._transaction.refuse(
                f"a write of {batch.n_rows:,} {what} to {self.label} that has more than "
                f"{self._transaction.policy.bytes:,} bytes, replaces what has expired, or brings the "
                "first vectors of the table,"
            )
        if n := await self.count(batch.where):
            self._transaction.refuse(f"a change of {n:,} rows of {self.label} by a condition")


def _told(batch: WriteBatch, done: BatchResult) -> object:
    """The part of a result that a caller may depend on."""
    if batch.where is not None and batch.expect is None:
        return done.n_replaced, done.n_removed
    # A put returns nothing about existing rows.
    pairs = zip(batch.rows, done.existed, strict=False)
    existed = [one for row, one in pairs if row[put_if.HOW] in (put_if.ADD, put_if.REMOVE)]
    return done.is_done, done.lost, existed


class TransactionDatabase(BranchDatabase):
    """A database on its branch, with the tables of a transaction."""

    def __init__(self, database: Database | BranchDatabase, transaction: WriteTransaction) -> None:
        """The tables of `database`, inside `transaction`."""
        self.uri, self.branch = database.uri, database.branch
        self._database = database.root
        self._beneath = database
        self._transaction = transaction
        self._tables: dict[str, Table] = {}
        self.records = self.table(RECORDS_TABLE, RECORDS)
        self.sessions = self.table(SESSIONS_TABLE, SESSIONS)

    def table(self, name: str, spec: TableSpec) -> Table:
        """The table of that name, which need not exist yet."""
        if name not in self._tables:
            made = TransactionTable(self._beneath.table(name, spec), self._transaction)
            self._tables[name] = made
            self._transaction.join(name, made)
        return self._tables[name]

    async def table_names(self) -> list[str]:
        """The names of the existing tables."""
        return await self._beneath.table_names()

    @property
    def connection(self) -> Connection:
        """The database's connection. Raises InvalidRequestError outside of the block."""
        self._transaction.require_here()
        return self._beneath.connection

    async def drop(self, name: str) -> Never:
        """Raise InvalidRequestError."""
        self._transaction.refuse(f"the removal of {shown_name(name)} as a whole")

    def on(self, branch: str) -> Never:
        """Raise InvalidRequestError."""
        self._transaction.refuse(f"work on branch {branch!r}, such as an erasure,")

    def at(self, pin: Pin) -> Never:
        """Raise InvalidRequestError."""
        self._transaction.refuse(f"a look at {pin!r}")

    async def finish(self) -> None:
        """Does nothing: no background work exists."""

    def close_tables(self) -> None:
        """Does nothing: it owns no handles."""
