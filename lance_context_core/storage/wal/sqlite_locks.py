"""Requests for locks as rows of the log's database.

The tables are made with the first request. A release that does not know them reads the log as before:
they are no part of its format, and bear their own number in their names.
"""

import sqlite3
import time
from collections.abc import Sequence

from lance_context_core.storage import leases
from lance_context_core.storage.locks.requests import COLUMNS, LockRequest, request_of

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


def requests(connection: sqlite3.Connection, resource: str | None) -> list[LockRequest]:
    """As `LogSession.lock_requests`."""
    if resource is None:
        return _rows(connection, f"{_SELECT} ORDER BY seq", ())
    return _rows(connection, f"{_SELECT} WHERE resource = ? ORDER BY seq", (resource,))


def request(connection: sqlite3.Connection, seq: int) -> LockRequest | None:
    """As `LogSession.lock_request`."""
    return next(iter(_rows(connection, f"{_SELECT} WHERE seq = ?", (seq,))), None)


def put(connection: sqlite3.Connection, put: Sequence[LockRequest], removed: Sequence[int]) -> None:
    """As `LogSession.put_lock_requests`, once a number was given out."""
    for seq in removed:
        connection.execute("DELETE FROM locks_1 WHERE seq = ?", (seq,))
    for one in put:
        connection.execute(_PUT, [getattr(one, name) for name in COLUMNS])


def next_number(connection: sqlite3.Connection) -> int:
    """As `LogSession.next_lock_number`."""
    if not _are_there(connection):
        for statement in _TABLES.split(";\n"):
            connection.execute(statement)
        # What was given out by a log that was removed is never met again.
        first = time.time_ns() // 1000
        connection.execute("INSERT INTO lock_numbers_1 VALUES (?)", (first,))
    # What a power cut has taken back is not given out again either.
    last = connection.execute("SELECT last FROM lock_numbers_1").fetchone()[0]
    new = leases.next_token(last)
    connection.execute("UPDATE lock_numbers_1 SET last = ?", (new,))
    return int(new)


def _rows(
    connection: sqlite3.Connection, statement: str, values: tuple[object, ...]
) -> list[LockRequest]:
    try:
        return [request_of(row) for row in connection.execute(statement, values)]
    except sqlite3.OperationalError:
        if _are_there(connection):
            raise
        return []


def _are_there(connection: sqlite3.Connection) -> bool:
    asked = "SELECT count(*) FROM sqlite_master WHERE name IN ('locks_1', 'lock_numbers_1')"
    return bool(connection.execute(asked).fetchone()[0] == 2)
