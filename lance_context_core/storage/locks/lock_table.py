"""Tickets as rows of the journal's database.

The tables are made when the first lock is asked for. A release that does not know them reads the
journal as before: they are no part of its format, and bear their own number in their names.
"""

import sqlite3
import time
from collections.abc import Callable
from typing import TypeVar

from lance_context_core.storage import leases
from lance_context_core.storage.locks.fencing import Fence
from lance_context_core.storage.locks.requests import COLUMNS, LockRequest, LockTable, request_of

T = TypeVar("T")

_TABLES = """
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
_SELECT = f"SELECT {', '.join(COLUMNS)} FROM locks_1"
_PUT = f"INSERT OR REPLACE INTO locks_1 VALUES ({', '.join('?' * len(COLUMNS))})"


def require(connection: sqlite3.Connection, fence: Fence) -> None:
    """Raise StaleLockError unless that lock is held, as the transaction of `connection` sees it."""
    found = _rows(connection, f"{_SELECT} WHERE seq = ?", (fence.seq,))
    fence.require(found[0] if found else None)


def change(
    connection: sqlite3.Connection, decide: Callable[[LockTable], T], resource: str | None
) -> T:
    """As `LockBackend.change`, in the transaction of `connection`."""
    if (found := _found(connection, resource)) is None:
        for statement in _TABLES.split(";\n"):
            connection.execute(statement)
        # What was given out by a journal that was removed is never met again.
        first = time.time_ns() // 1000
        connection.execute("INSERT INTO lock_numbers_1 VALUES (?)", (first,))

    def number() -> int:
        # What a power cut has taken back is not given out again either.
        last = connection.execute("SELECT last FROM lock_numbers_1").fetchone()[0]
        new = leases.next_token(last)
        connection.execute("UPDATE lock_numbers_1 SET last = ?", (new,))
        return int(new)

    book = LockTable.of(found or (), number)
    outcome = decide(book)
    for seq in book.changed:
        if (ticket := book.tickets.get(seq)) is None:
            connection.execute("DELETE FROM locks_1 WHERE seq = ?", (seq,))
        else:
            connection.execute(_PUT, [getattr(ticket, name) for name in COLUMNS])
    return outcome


def tickets(connection: sqlite3.Connection, resource: str | None) -> list[LockRequest]:
    """As `LockBackend.tickets`, as `connection` sees them."""
    return _found(connection, resource) or []


def _found(connection: sqlite3.Connection, resource: str | None) -> list[LockRequest] | None:
    """As `tickets`; None where there are no tables of them yet."""
    if resource is None:
        return _rows(connection, f"{_SELECT} ORDER BY seq", ())
    return _rows(connection, f"{_SELECT} WHERE resource = ? ORDER BY seq", (resource,))


def _rows(
    connection: sqlite3.Connection, statement: str, values: tuple[object, ...]
) -> list[LockRequest] | None:
    try:
        return [request_of(row) for row in connection.execute(statement, values)]
    except sqlite3.OperationalError:
        if _are_there(connection):
            raise
        return None


def _are_there(connection: sqlite3.Connection) -> bool:
    asked = "SELECT count(*) FROM sqlite_master WHERE name IN ('locks_1', 'lock_numbers_1')"
    return bool(connection.execute(asked).fetchone()[0] == 2)
