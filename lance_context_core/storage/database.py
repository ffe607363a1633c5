"""A LanceDB database: its tables by name, on a branch, or at a version."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from lance_context_core.errors import NotFoundError
from lance_context_core.storage.lance import branches, manifests, reads, versions
from lance_context_core.storage.lance.branches import Pin
from lance_context_core.storage.lance.connection import Connection, listed
from lance_context_core.storage.lance.errors import asked, translated
from lance_context_core.storage.lance.schema import (
    ACKNOWLEDGED,
    BLOBS,
    COLD,
    DOCUMENTS,
    GRAPH,
    KEY,
    KEY_VALUES,
    RECORDS,
    SESSIONS,
    VECTORS,
    TableSpec,
)
from lance_context_core.storage.lance.table_handle import TableHandle
from lance_context_core.storage.locks.backends import InJournal, InTable
from lance_context_core.storage.locks.requests import LockBackend, LockRenewer
from lance_context_core.storage.names import kv_of, shown_name
from lance_context_core.storage.sql.predicates import all_of, at_or_after, at_or_before
from lance_context_core.storage.table import Table
from lance_context_core.storage.wal.entries import Entry, How, View
from lance_context_core.storage.wal.journal import Journal
from lance_context_core.storage.wal.log import Part
from lance_context_core.storage.wal.object_id import TABLE as ID_TABLE
from lance_context_core.storage.wal.table_log import TableLog

# Rows that were acknowledged by a moment, but in no version of their table yet.
#
# The log stores small writes until a flush. So a moment lies between two versions, and the rows
# that were acknowledged by then are in the later one, among rows that came after it: each row has
# its own timestamp.

_MOST_VERSIONS = 8
"""The number of versions after a moment that are searched for rows acknowledged by then; all but a
few compactions flush the log."""

_EPOCH = datetime.fromtimestamp(0, UTC)


async def tail(
    journal: Journal, handle: Any, name: str, ref: str | None, version: int, moment: datetime
) -> View | None:
    """The changes to merge over that version, the newest one made by the moment.

    None if there are none. Removals are known for the last month.
    """
    files = await versions.moments_of_ref(handle, ref)
    if files is None:
        return None
    there = await branches.opened(handle, name, ref, version)
    since = await _last(there)
    moment = moment.astimezone(UTC)
    rows: dict[str, dict[str, Any]] = {}
    gone = await journal.removals(Part(name, ref or ""), _number(since), _number(moment))
    begun: dict[str, int] = {}
    """The moment at which each row got its position, which changes of the row keep."""
    later = [number for number in await files.numbers() if number > version]
    for number in later[:_MOST_VERSIONS]:
        one = await branches.opened(handle, name, ref, number)
        for row in await _rows(one, since, moment):
            at = _number(row[ACKNOWLEDGED])
            if at < gone.get(row[KEY], 0):
                continue  # removed by the moment; a later row of its key counts
            rows[row[KEY]] = row
            begun.setdefault(row[KEY], at)
        last = await _last(one)
        if last is not None and last > moment:
            # A flush keeps the order of acknowledgement.
            break
    return await _laid_over(there, version, rows, gone, begun)


async def _laid_over(
    there: Any,
    version: int,
    rows: dict[str, dict[str, Any]],
    gone: dict[str, int],
    begun: dict[str, int],
) -> View | None:
    """The rows that the version lacks, and the keys of surplus rows, as entries."""
    if not rows and not gone:
        return None
    before = {}
    for row in (await reads.scan(there, None, [KEY, "revision", ACKNOWLEDGED])).to_pylist():
        before[row[KEY]] = row
    found: list[tuple[int, How, str, dict[str, Any]]] = [
        (at, How.REMOVE, key, {}) for key, at in gone.items() if key in before
    ]
    for key, row in rows.items():
        old = before.get(key)
        if old is not None and _state(old) == _state(row):
            continue
        # A row that changed otherwise since its acknowledgement is another one by now.
        if old is None or old.get(ACKNOWLEDGED) != row[ACKNOWLEDGED]:
            how = How.APPEND if old is None or key in gone else How.PUT
            kept = {name: value for name, value in row.items() if value is not None}
            at = begun[key] if how is How.APPEND else _number(row[ACKNOWLEDGED])
            found.append((at, how, key, kept))
    found.sort(key=lambda one: one[0])
    entries = [
        Entry(place, how, key, row, 0, version, at)
        for place, (at, how, key, row) in enumerate(found, start=1)
    ]
    return View(version, 0, entries, 0) if entries else None


async def _rows(handle: Any, since: datetime | None, moment: datetime) -> list[dict[str, Any]]:
    """The rows that were acknowledged in that time, in order."""
    schema = await handle.schema()
    if ACKNOWLEDGED not in schema.names:
        return []
    # Some rows of the same moment may have been in the previous version.
    first = [] if since is None else [at_or_after(ACKNOWLEDGED, since)]
    where = all_of([*first, at_or_before(ACKNOWLEDGED, moment)])
    rows = await reads.scan(handle, where, schema.names)
    found: list[dict[str, Any]] = rows.drop_columns(["_rowid"]).to_pylist()
    return found


async def _last(handle: Any) -> datetime | None:
    """The last moment of a row's acknowledgement; None if the log had none."""
    if ACKNOWLEDGED not in (await handle.schema()).names:
        return None
    column = (await reads.scan(handle, f"{ACKNOWLEDGED} IS NOT NULL", [ACKNOWLEDGED]))[ACKNOWLEDGED]
    last = max((one for one in column.to_pylist()), default=None)
    return None if last is None else last.replace(tzinfo=UTC)


def _state(row: dict[str, Any]) -> tuple[Any, Any]:
    return row["revision"], row.get(ACKNOWLEDGED)


def _number(moment: datetime | None) -> int:
    return -1 if moment is None else (moment - _EPOCH) // timedelta(microseconds=1)


RECORDS_TABLE = "records"
"""The table of the store's branches and tags."""

COLD_TABLE = "cold"
"""The records of archived sessions."""

SESSIONS_TABLE = "sessions"

DOCUMENTS_TABLE = "documents"
"""Source documents and their chunks."""

BLOBS_TABLE = "blobs"
"""Bytes, by their hash."""

GRAPH_TABLE = "graph"
"""Entities, relations, and statements about them."""


class Database:
    """One database, embedded or on an object store; safe to share between threads and loops.

    Reads, writes and connects only with the first call that needs it.
    """

    def __init__(self, connection: Connection) -> None:
        """The tables that are reached through `connection`."""
        self.connection = connection
        self.uri = connection.uri
        self.branch = branches.MAIN
        self._tables: dict[str, Table] = {}
        self._branches: dict[str, BranchDatabase] = {}
        self._lock = threading.RLock()
        self._keeper: LockRenewer | None = None
        self.records = self.table(RECORDS_TABLE, RECORDS)
        self.records.access.commits.before = partial(self.settle_others, "")
        self.sessions = self.table(SESSIONS_TABLE, SESSIONS)

    @property
    def root(self) -> "Database":
        """This database, or the one that it is a view of."""
        return self

    def table(self, name: str, spec: TableSpec) -> Table:
        """The table of that name, which need not exist yet."""
        with self._lock:
            if name not in self._tables:
                self._tables[name] = Table(TableHandle(self.connection, name, spec))
            return self._tables[name]

    async def locks(self) -> LockRenewer:
        """The locks of the store; the same on all branches and versions."""
        if self._keeper is None:
            journal = self.connection.journal
            is_there = journal is not None and await journal.is_kept()
            made: LockBackend = InJournal(journal) if journal and is_there else InTable(self)
            with self._lock:
                self._keeper = self._keeper or LockRenewer(made)
        return self._keeper

    def locks_now(self) -> LockRenewer | None:
        """As `locks`, in any thread; None before the first call of `locks`."""
        return self._keeper

    def at_ref(self, name: str, spec: TableSpec, ref: str) -> Table:
        """A table on a ref other than main; a new object for each call."""
        return self.table(name, spec).on(ref, records=self.records)

    async def table_names(self) -> list[str]:
        """The names of the existing tables, in alphabetical order."""
        if (engine := await self.connection.existing()) is None:
            return []
        return sorted(name for name in await listed(engine, self.uri) if name != ID_TABLE)

    async def has(self, name: str) -> bool:
        """Whether a table of that name exists."""
        if not (place := Path(self.uri)).is_absolute():
            return name in await self.table_names()
        self.connection.require_usable()
        # One system call takes a hundredth of the time of a hop to a thread.
        return os.path.isdir(place / f"{name}.lance")  # noqa: ASYNC240, PTH112

    async def drop(self, name: str) -> None:
        """Delete a table with all its versions; a missing one is no error.

        A table that branches have is emptied instead.
        """
        engine = await self.connection.engine()
        if await self.has(name):
            handle = await self.connection.table(name)
            if any(map(branches.branch_of, await branches.listed(handle, name))):
                access = self.table(name, spec_of(name)).access
                async with access.commits.committing(handle):
                    await access.commits.insist(f"empty {shown_name(name)}", handle, _empty)
                return
        async with self._dropping(name):
            if (place := Path(self.uri)).is_absolute():
                # A process killed in the middle has not lost the rows of the remaining files.
                await asyncio.to_thread(manifests.forget_hint, place / f"{name}.lance")
            dropping = engine.drop_table(name, ignore_missing=True)
            await asked(f"drop {shown_name(name)}", dropping)
        if (syncer := self.connection.syncer) is not None:
            await syncer.sync_names()
        with self._lock:
            self._tables.pop(name, None)

    async def settle(self) -> None:
        """Flush all tables; the records last, because their time counts for the others."""
        if (journal := self.connection.journal) is None:
            return
        parts = await journal.parts()
        for part in sorted(parts, key=lambda part: part.name == RECORDS_TABLE):
            await self._settle(part)

    async def settle_others(self, ref: str) -> None:
        """As `settle`, of that ref's tables except the records, whose version shows them."""
        if (journal := self.connection.journal) is not None:
            for part in await journal.parts():
                if part.ref == ref and part.name != RECORDS_TABLE:
                    await self._settle(part)

    async def _settle(self, part: Part) -> None:
        spec = spec_of(part.name)
        if not part.ref:
            await self.table(part.name, spec).access.settle()
            return
        with suppress(NotFoundError):
            # A branch is hidden before it is deleted, and the log's entries of it go with it.
            await self.at_ref(part.name, spec, part.ref).access.settle()

    @asynccontextmanager
    async def _dropping(self, name: str) -> AsyncIterator[None]:
        """Drop the table in this context, with the log's entries of it."""
        if (journal := self.connection.journal) is None:
            yield
            return
        ledger = TableLog(journal, name, None)
        async with ledger.committing():
            await self.table(name, spec_of(name)).access.settle()
            # Its tags go with it, too.
            for ref in {"", *await journal.refs(name)}:
                await TableLog(journal, name, ref or None).discard()
            yield

    def on(self, branch: str) -> "Database | BranchDatabase":
        """This database on a branch; `main` is the database itself."""
        if branch == branches.MAIN:
            return self
        with self._lock:
            return self._branches.setdefault(branch, BranchDatabase(self, branch))

    def forget(self, branch: str) -> None:
        """Release a deleted branch; its name may be used again."""
        with self._lock:
            gone = self._branches.pop(branch, None)
        if gone is not None:
            gone.close_tables()

    def at(self, pin: Pin) -> "PinnedDatabase":
        """This database at an earlier moment, read-only."""
        return PinnedDatabase(self, pin)

    async def finish(self) -> None:
        """Wait for the background work of its tables."""
        for table in [*self._tables.values()]:
            await table.access.finish()

    async def close(self) -> None:
        """Close the connection after its background work; closing twice is no error."""
        await self.finish()
        for one in [*self._branches.values()]:
            await one.finish()
        try:
            if (journal := self.connection.journal) is not None:
                # The last one to close the log checkpoints SQLite's own log, and syncs that.
                await asyncio.to_thread(journal.close)
        finally:
            self.connection.close()
        for branch in list(self._branches):
            self.forget(branch)
        with self._lock:
            tables, self._tables = list(self._tables.values()), {}
        for table in tables:
            table.access.close()


class BranchDatabase:
    """A database on a branch: the same tables, each on the branch's ref."""

    def __init__(self, database: Database, branch: str) -> None:
        """Shows `database` on `branch`, which need not exist."""
        self.uri = database.uri
        self.branch = branch
        self._database = database
        self._tables: dict[str, Table] = {}
        self._lock = threading.Lock()
        self.records = self.table(RECORDS_TABLE, RECORDS)
        ref = str(branches.head(branch))
        self.records.access.commits.before = partial(database.settle_others, ref)
        self.sessions = self.table(SESSIONS_TABLE, SESSIONS)

    @property
    def root(self) -> Database:
        """The underlying database."""
        return self._database

    def table(self, name: str, spec: TableSpec) -> Table:
        """The table of that name, which the first write creates."""
        with self._lock:
            if name not in self._tables:
                ref = str(branches.head(self.branch))
                self._tables[name] = self._database.at_ref(name, spec, ref)
            return self._tables[name]

    async def table_names(self) -> list[str]:
        """The names of the tables on the branch."""
        names = await self._database.table_names()
        return [name for name in names if await self._has(name)]

    async def drop(self, name: str) -> None:
        """Empty a table; other branches may have it."""
        if await self._has(name):
            handle = await self._database.connection.table(name)
            opened = await branches.opened(handle, name, branches.head(self.branch))
            commits = self.table(name, spec_of(name)).access.commits
            async with commits.committing(opened):
                await commits.insist(f"empty {shown_name(name)}", opened, _empty)

    def on(self, branch: str) -> "Database | BranchDatabase":
        """The same database on another branch."""
        return self._database.on(branch)

    async def locks(self) -> LockRenewer:
        """As those of the underlying database."""
        return await self._database.locks()

    def locks_now(self) -> LockRenewer | None:
        """As that of the underlying database."""
        return self._database.locks_now()

    @property
    def connection(self) -> Connection:
        """That of the underlying database."""
        return self._database.connection

    def forget(self, branch: str) -> None:
        """Release a deleted branch."""
        self._database.forget(branch)

    def at(self, pin: Pin) -> "PinnedDatabase":
        """The underlying database at a moment."""
        return PinnedDatabase(self._database, pin, branch=self.branch)

    async def finish(self) -> None:
        """As that of the underlying database, for its own tables."""
        for table in [*self._tables.values()]:
            await table.access.finish()

    def close_tables(self) -> None:
        """Close the engine's handles."""
        with self._lock:
            tables, self._tables = list(self._tables.values()), {}
        for table in tables:
            table.access.close()

    async def settle(self) -> None:
        """As that of the underlying database."""
        await self._database.settle()

    async def close(self) -> None:
        """Does nothing: the connection belongs to the store."""

    async def _has(self, name: str) -> bool:
        handle = await self._database.connection.table(name)
        return branches.head(self.branch) in await branches.listed(handle, name)


class PinnedDatabase:
    """A database at an earlier moment: the same tables, each at its version of then."""

    def __init__(self, database: Database, pin: Pin, *, branch: str = branches.MAIN) -> None:
        """Shows `database` through `pin`, from a handle of that branch."""
        self.uri = database.uri
        self.branch = branch
        self._database = database
        self._pin = pin
        self._tables: dict[str, Table] = {}
        self.records = self.table(RECORDS_TABLE, RECORDS)
        self.sessions = self.table(SESSIONS_TABLE, SESSIONS)

    @property
    def root(self) -> Database:
        """The underlying database."""
        return self._database

    def table(self, name: str, spec: TableSpec) -> Table:
        """The table at that moment; reads as empty if it did not exist."""
        if name not in self._tables:
            access = TableHandle(self._database.connection, name, spec, pin=self._pin)
            self._tables[name] = Table(access)
        return self._tables[name]

    async def table_names(self) -> list[str]:
        """The names of the tables that existed then."""
        names = await self._database.table_names()
        return [name for name in names if await self._existed(name)]

    async def be_exact(self, ref: str | None, moment: datetime) -> None:
        """Also show the log's records of that moment."""
        access, journal = self.records.access, self._database.connection.journal
        handle = await access.peek()
        # The first version of a branch is its parent's.
        if journal is not None and handle is not None and handle.current_branch() == ref:
            root, version = (
                await self._database.connection.table(access.name),
                await handle.version(),
            )
            with translated(f"read {access.label}"):
                access.tail = await tail(journal, root, access.name, ref, version, moment)

    async def _existed(self, name: str) -> bool:
        table = await self._database.connection.table(name)
        return await self._pin.locate(name, table) is not None

    def at(self, pin: Pin) -> "PinnedDatabase":
        """The underlying database at another moment."""
        return PinnedDatabase(self._database, pin, branch=self.branch)

    async def close(self) -> None:
        """Does nothing: the connection belongs to the store."""


async def _empty(handle: Any) -> None:
    await handle.checkout_latest()
    await handle.delete("true")


def spec_of(table: str) -> TableSpec:
    """The specification of the store's table of that name."""
    if kv_of(table) is not None:
        return KEY_VALUES
    return _SPECS.get(table, VECTORS)


_SPECS = {
    RECORDS_TABLE: RECORDS,
    COLD_TABLE: COLD,
    SESSIONS_TABLE: SESSIONS,
    DOCUMENTS_TABLE: DOCUMENTS,
    BLOBS_TABLE: BLOBS,
    GRAPH_TABLE: GRAPH,
}
