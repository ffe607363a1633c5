"""A log session on SQLite: one connection, with all statements on entries and tables."""

import sqlite3
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lance_context_core.storage import leases
from lance_context_core.storage.locks.requests import COLUMNS, LockRequest, request_of
from lance_context_core.storage.wal import sqlite, sqlite_tasks
from lance_context_core.storage.wal.log import Part, Stored, TableState, Unplaced
from lance_context_core.storage.wal.sqlite_tasks import SqliteTasks

_STATE = "SELECT id, version, folded, folding, token, stamp FROM tables WHERE name = ? AND ref = ?"
_ENTRIES = (
    "SELECT seq, how, key, payload, told, at, crc FROM rows WHERE tbl = ? AND seq > ? "
    "ORDER BY seq LIMIT ?"
)
_ALL = "SELECT seq, how, key, payload, told, at, crc FROM rows ORDER BY seq"
_LAST_AT = "SELECT at FROM rows WHERE tbl = ? ORDER BY seq DESC LIMIT 1"
_INSERT = "INSERT INTO rows (tbl, how, key, payload, told, at, crc) VALUES (?, ?, ?, ?, ?, ?, ?)"
_CHANGE = "UPDATE tables SET token = token + 1, stamp = stamp + 1 WHERE id = ?"
_PARTS = "SELECT name, ref FROM tables ORDER BY name, ref"
_PARTS_WITH_ENTRIES = "SELECT DISTINCT name, ref FROM rows JOIN tables ON tables.id = rows.tbl"
_REFS = "SELECT ref FROM tables WHERE name = ?"
_ID = "(SELECT id FROM tables WHERE name = ? AND ref = ?)"
_FULLNESS = f"SELECT count(*), coalesce(sum(length(payload)), 0) FROM rows WHERE tbl = {_ID}"
_NOTE = (
    "INSERT INTO tables (name, ref, version, folded, folding, token, stamp) "
    "VALUES (?, ?, ?, 0, 0, ?, ?) "
    "ON CONFLICT (name, ref) DO UPDATE SET version = max(version, excluded.version), "
    "token = token + ?, stamp = stamp + 1"
)
_DOUBT = "UPDATE tables SET version = -abs(version), stamp = stamp + 1 WHERE name = ? AND ref = ?"
_BEGIN_FLUSH = (
    "UPDATE tables SET stamp = stamp + 1, folding = "
    "coalesce((SELECT max(seq) FROM rows WHERE tbl = tables.id AND seq <= ?), folding) "
    "WHERE name = ? AND ref = ?"
)
_FLUSHED = (
    "UPDATE tables SET version = ?, folded = max(folded, ?), stamp = stamp + 1 "
    "WHERE name = ? AND ref = ?"
)
_FORGET_ENTRIES = f"DELETE FROM rows WHERE seq <= ? AND tbl = {_ID}"
_LOSE = (
    f"{_CHANGE[:-1]}(SELECT tbl FROM rows WHERE seq = ?)",
    "DELETE FROM rows WHERE seq = ?",
)
_KEEP_NAMES = (
    "INSERT OR REPLACE INTO names SELECT DISTINCT tbl, told, ? FROM rows WHERE seq <= ? "
    f"AND tbl = {_ID} AND told <> ?"
)
_NAMES = (
    "SELECT told, names.version FROM names JOIN tables ON tables.id = names.tbl "
    "WHERE name = ? AND ref = ?"
)
_FORGET_NAMES = f"DELETE FROM names WHERE version = ? AND tbl = {_ID}"
_KEEP_REMOVALS = (
    "INSERT INTO removals SELECT tbl, key, at FROM rows WHERE seq <= ? AND payload IS NULL "
    f"AND tbl = {_ID}"
)
_FORGET_REMOVALS = "DELETE FROM removals WHERE at < ?"
_REMOVALS = (
    "SELECT key, at FROM removals JOIN tables ON tables.id = removals.tbl "
    "WHERE name = ? AND ref = ? AND at > ? AND at <= ?"
)
_DISCARD = (
    *(f"DELETE FROM {table} WHERE tbl = {_ID}" for table in ("rows", "names", "removals")),
    "DELETE FROM tables WHERE name = ? AND ref = ?",
)

# Requests for locks: their tables are created with the first request. A release that does not know
# them still reads the log: they are no part of its format, and their names contain their own
# number.
_LOCKS = """
CREATE TABLE IF NOT EXISTS locks_1 (
    seq INTEGER PRIMARY KEY,
    token INTEGER,            -- none while it is waited for
    resource TEXT NOT NULL,
    mode TEXT NOT NULL,
    owner TEXT NOT NULL,
    process TEXT NOT NULL,
    since REAL NOT NULL,
    until REAL NOT NULL,
    ticks REAL NOT NULL,
    lease REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS locks_1_of ON locks_1 (resource);
CREATE TABLE IF NOT EXISTS lock_numbers_1 (last INTEGER NOT NULL);
"""
_LOCK = f"SELECT {', '.join(COLUMNS)} FROM locks_1"
_PUT_LOCK = f"INSERT OR REPLACE INTO locks_1 VALUES ({', '.join('?' * len(COLUMNS))})"
_LOCKS_ARE_THERE = "SELECT 1 FROM sqlite_master WHERE name = 'lock_numbers_1'"

_MONTH = 31 * 24 * 3600 * 1_000_000
"""How long removals of rows are recorded, in microseconds: as long as versions are kept."""


class SqliteSession:
    """One connection to the file; satisfies `LogSession`."""

    __slots__ = ("_path", "connection")

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        """Owns that connection to the log at `path`."""
        self.connection = connection
        self._path = path

    # Transactions

    @property
    def in_transaction(self) -> bool:
        """As `LogSession.in_transaction`."""
        return self.connection.in_transaction

    def begin(self) -> None:
        """As `LogSession.begin`."""
        # Here and in `commit`, `state` and `change` without a helper: every write and read calls
        # them.
        try:
            self.connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise sqlite.meaning(self._path, error) from error

    def begin_reading(self) -> None:
        """As `LogSession.begin_reading`."""
        self._do("BEGIN")

    def commit(self) -> None:
        """As `LogSession.commit`."""
        try:
            self.connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise sqlite.meaning(self._path, error) from error

    def is_current(self) -> bool:
        """As `LogSession.is_current`: each transaction has the lock, or a snapshot."""
        return True

    def undo(self) -> None:
        """As `LogSession.undo`."""
        with suppress(sqlite3.Error):
            self.connection.execute("ROLLBACK")

    def save(self) -> None:
        """As `LogSession.save`."""
        self._do("SAVEPOINT one")

    def undo_to_save(self) -> None:
        """As `LogSession.undo_to_save`."""
        self._do("ROLLBACK TO one")

    def release(self) -> None:
        """As `LogSession.release`."""
        self._do("RELEASE one")

    # Noted tables

    def parts(self) -> list[Part]:
        """As `LogSession.parts`."""
        return [Part(*row) for row in self._all(_PARTS)]

    def parts_with_entries(self) -> list[Part]:
        """As `LogSession.parts_with_entries`."""
        return [Part(*row) for row in self._all(_PARTS_WITH_ENTRIES)]

    def refs(self, name: str) -> list[str]:
        """As `LogSession.refs`."""
        return [ref for (ref,) in self._all(_REFS, (name,))]

    def state(self, part: Part) -> TableState | None:
        """As `LogSession.state`."""
        try:
            found = self.connection.execute(_STATE, part).fetchone()
        except sqlite3.Error as error:
            raise sqlite.meaning(self._path, error) from error
        return None if found is None else TableState(*found)

    def note(self, part: Part, version: int, *, is_change: bool = True) -> None:
        """As `LogSession.note`."""
        # Counts from before the log was created, or of a removed one, are never reused.
        first = time.time_ns() // 1000
        self._do(_NOTE, (*part, version, first, first, int(is_change)))

    def doubt(self, part: Part) -> None:
        """As `LogSession.doubt`."""
        self._do(_DOUBT, part)

    def discard(self, part: Part) -> None:
        """As `LogSession.discard`."""
        for statement in _DISCARD:
            self._do(statement, part)

    # Entries

    def entries(self, table: int, after: int, most: int) -> list[Stored]:
        """As `LogSession.entries`."""
        return self._all(_ENTRIES, (table, after, most))

    def all_entries(self) -> list[Stored]:
        """As `LogSession.all_entries`."""
        return self._all(_ALL)

    def last_at(self, table: int) -> int:
        """As `LogSession.last_at`."""
        found = self._one(_LAST_AT, (table,))
        return 0 if found is None else int(found[0])

    def fullness(self, part: Part) -> tuple[int, int]:
        """As `LogSession.fullness`."""
        count, size = self._all(_FULLNESS, part)[0]
        return count, size

    def insert(self, table: int, new: Sequence[Unplaced]) -> list[int]:
        """As `LogSession.insert`."""
        try:
            execute = self.connection.execute
            return [execute(_INSERT, (table, *one)).lastrowid or 0 for one in new]
        except sqlite3.Error as error:
            raise sqlite.meaning(self._path, error) from error

    def change(self, table: int) -> None:
        """As `LogSession.change`."""
        try:
            self.connection.execute(_CHANGE, (table,))
        except sqlite3.Error as error:
            raise sqlite.meaning(self._path, error) from error

    def begin_flush(self, part: Part, until: int) -> None:
        """As `LogSession.begin_flush`."""
        self._do(_BEGIN_FLUSH, (until, *part))

    def forget(self, part: Part, last: int, version: int, *, tells_moments: bool) -> None:
        """As `LogSession.forget`."""
        try:
            execute = self.connection.execute
            execute(_KEEP_NAMES, (version, last, *part, version))
            if tells_moments:
                execute(_KEEP_REMOVALS, (last, *part))
            execute(_FORGET_REMOVALS, (time.time_ns() // 1000 - _MONTH,))
            execute(_FORGET_ENTRIES, (last, *part))
            execute(_FLUSHED, (version, last, *part))
        except sqlite3.Error as error:
            raise sqlite.meaning(self._path, error) from error

    def lose(self, places: Sequence[int]) -> None:
        """As `LogSession.lose`."""
        for place in places:
            for statement in _LOSE:
                self._do(statement, (place,))

    # Records of deleted entries

    def names(self, part: Part) -> dict[int, int]:
        """As `LogSession.names`."""
        return dict(self._all(_NAMES, part))

    def forget_names(self, part: Part, versions: Sequence[int]) -> None:
        """As `LogSession.forget_names`."""
        for version in versions:
            self._do(_FORGET_NAMES, (version, *part))

    def removals(self, part: Part, after: int, until: int) -> dict[str, int]:
        """As `LogSession.removals`."""
        return dict(self._all(_REMOVALS, (*part, after, until)))

    # Locks

    def lock_requests(self, resource: str | None) -> list[LockRequest]:
        """As `LogSession.lock_requests`."""
        if resource is None:
            return self._locks(f"{_LOCK} ORDER BY seq", ())
        return self._locks(f"{_LOCK} WHERE resource = ? ORDER BY seq", (resource,))

    def lock_request(self, seq: int) -> LockRequest | None:
        """As `LogSession.lock_request`."""
        return next(iter(self._locks(f"{_LOCK} WHERE seq = ?", (seq,))), None)

    def put_lock_requests(self, put: Sequence[LockRequest], removed: Sequence[int]) -> None:
        """As `LogSession.put_lock_requests`, after a number was given out."""
        for seq in removed:
            self._do("DELETE FROM locks_1 WHERE seq = ?", (seq,))
        for one in put:
            self._do(_PUT_LOCK, [getattr(one, name) for name in COLUMNS])

    def next_lock_number(self) -> int:
        """As `LogSession.next_lock_number`."""
        if not self._all(_LOCKS_ARE_THERE):
            for statement in _LOCKS.split(";\n"):
                self._do(statement)
            # Numbers of a log that was removed are never reused.
            self._do("INSERT INTO lock_numbers_1 VALUES (?)", (time.time_ns() // 1000,))
        # Nor are numbers that a power cut has rolled back.
        ((last,),) = self._all("SELECT last FROM lock_numbers_1")
        new = leases.next_token(last)
        self._do("UPDATE lock_numbers_1 SET last = ?", (new,))
        return new

    # Tasks

    def task_rows(self, table: int, token: int, board: str) -> SqliteTasks | None:
        """As `LogSession.task_rows`."""
        with sqlite.translated(self._path):
            return SqliteTasks.valid(self.connection, self._path, table, token, board)

    def follow_tasks(self, table: int, token: int) -> None:
        """As `LogSession.follow_tasks`."""
        with sqlite.translated(self._path):
            sqlite_tasks.follow(self.connection, table, token)

    def take_turn(self, table: int, now: float) -> bool:
        """As `LogSession.take_turn`."""
        with sqlite.translated(self._path):
            return sqlite_tasks.take_turn(self.connection, table, now)

    def end_turn(self, table: int) -> None:
        """As `LogSession.end_turn`."""
        with sqlite.translated(self._path):
            sqlite_tasks.end_turn(self.connection, table)

    def renew_tasks(self, table: int, token: int) -> None:
        """As `LogSession.renew_tasks`."""
        with sqlite.translated(self._path):
            sqlite_tasks.renew(self.connection, table, token)

    def close(self) -> None:
        """As `LogSession.close`."""
        self.connection.close()

    # Helpers

    def _locks(self, statement: str, values: Sequence[object]) -> list[LockRequest]:
        try:
            return [request_of(row) for row in self.connection.execute(statement, values)]
        except sqlite3.Error as error:
            if self._all(_LOCKS_ARE_THERE):
                raise sqlite.meaning(self._path, error) from error
            return []

    def _do(self, statement: str, values: Sequence[object] = ()) -> None:
        try:
            self.connection.execute(statement, values)
        except sqlite3.Error as error:
            raise sqlite.meaning(self._path, error) from error

    def _one(self, statement: str, values: Sequence[object] = ()) -> tuple[Any, ...] | None:
        try:
            found: tuple[Any, ...] | None = self.connection.execute(statement, values).fetchone()
        except sqlite3.Error as error:
            raise sqlite.meaning(self._path, error) from error
        return found

    def _all(self, statement: str, values: Sequence[object] = ()) -> list[Any]:
        try:
            return self.connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise sqlite.meaning(self._path, error) from error
