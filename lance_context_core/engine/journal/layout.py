"""How the journal's file is laid out, and how one of an earlier layout becomes one of this."""

import sqlite3
import time
import uuid

FORMAT = 3
"""What is counted up where a release before could not go on with what this one has written."""

APPLICATION = 0x4C434A31
"""What says in the file's header whose it is: "LCJ1"."""

_TABLES = """
CREATE TABLE tables (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    ref TEXT NOT NULL,        -- empty for main
    version INTEGER NOT NULL, -- all that was written is in it, but for the rows below; negative
                              -- while somebody commits to the table on top of it
    folded INTEGER NOT NULL,  -- the last of its rows that was folded
    folding INTEGER NOT NULL, -- the last of its rows that is being folded, or was when that failed
    token INTEGER NOT NULL,   -- another one after each change of what the table holds
    stamp INTEGER NOT NULL,   -- another one after each change of what the journal holds of it
    UNIQUE (name, ref)
);
CREATE TABLE rows (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    tbl INTEGER NOT NULL,
    how INTEGER NOT NULL,
    key TEXT NOT NULL,
    payload BLOB,
    told INTEGER NOT NULL,    -- the version in which its writer was told that it will be
    at INTEGER NOT NULL       -- when it was acknowledged, in microseconds since 1970
);
CREATE INDEX rows_of ON rows (tbl);
"""
_SINCE_2 = """
CREATE TABLE IF NOT EXISTS removals (
    tbl INTEGER NOT NULL,
    key TEXT NOT NULL,
    at INTEGER NOT NULL       -- when it was acknowledged that the row of the key is gone
);
CREATE INDEX IF NOT EXISTS removals_at ON removals (at);
CREATE TABLE IF NOT EXISTS names (
    tbl INTEGER NOT NULL,
    told INTEGER NOT NULL,    -- a version that writers were told of
    version INTEGER NOT NULL, -- that in which their rows came to be
    PRIMARY KEY (tbl, told)
) WITHOUT ROWID;
"""
_SINCE_3 = """
CREATE TABLE IF NOT EXISTS store (
    id TEXT NOT NULL          -- whose journal it is
);
"""


def make(connection: sqlite3.Connection) -> None:
    """Lay out an empty file; in a transaction."""
    _do(connection, _TABLES + _SINCE_2)
    _complete(connection)
    connection.execute(f"PRAGMA application_id={APPLICATION}")
    connection.execute(f"PRAGMA user_version={FORMAT}")


def format_of(connection: sqlite3.Connection) -> int:
    """Which layout the file has."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def renew(connection: sqlite3.Connection) -> None:
    """Bring a file of an earlier layout, with what it holds, to this one; in a transaction.

    One that has it already stays as it is.
    """
    if format_of(connection) >= FORMAT:
        return
    _do(connection, _SINCE_2)
    if _lacks(connection, "tables", "folding"):
        connection.execute("ALTER TABLE tables ADD COLUMN folding INTEGER NOT NULL DEFAULT 0")
    if _lacks(connection, "rows", "told"):
        connection.execute("ALTER TABLE rows ADD COLUMN told INTEGER NOT NULL DEFAULT 0")
        # What whoever wrote them was told: the version that the next fold would make.
        connection.execute(
            "UPDATE rows SET told = 1 + (SELECT abs(version) FROM tables WHERE id = rows.tbl)"
        )
    if _lacks(connection, "rows", "at"):
        connection.execute("ALTER TABLE rows ADD COLUMN at INTEGER NOT NULL DEFAULT 0")
        # Nobody knows when; no moment before this one is to show them for sure.
        connection.execute("UPDATE rows SET at = ?", (time.time_ns() // 1000,))
    _complete(connection)
    connection.execute(f"PRAGMA user_version={FORMAT}")


def _complete(connection: sqlite3.Connection) -> None:
    """Add what came with the layout 3."""
    _do(connection, _SINCE_3)
    if connection.execute("SELECT 1 FROM store").fetchone() is None:
        connection.execute("INSERT INTO store VALUES (?)", (uuid.uuid4().hex,))
    if _lacks(connection, "rows", "crc"):
        # The checksum of a row, as `entries.checksum`; of one that an earlier build wrote there is none.
        connection.execute("ALTER TABLE rows ADD COLUMN crc INTEGER")


def _lacks(connection: sqlite3.Connection, table: str, column: str) -> bool:
    asked = "SELECT count(*) FROM pragma_table_info(?) WHERE name = ?"
    return not connection.execute(asked, (table, column)).fetchone()[0]


def _do(connection: sqlite3.Connection, statements: str) -> None:
    for statement in statements.split(";\n"):
        connection.execute(statement)
