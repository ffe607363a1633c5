"""The log's file: an SQLite database in WAL mode, next to the tables.

In a process that holds the store, only SQLite may open the file: with POSIX locks, opening and
closing a file releases the lock that SQLite holds on it.
"""

import shutil
import sqlite3
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from lance_context_core.errors import StorageError, StoreFormatError
from lance_context_core.storage.lance.durability import sync_each
from lance_context_core.storage.wal import identity as identities
from lance_context_core.storage.wal.log import DAMAGED, BusyError

# The layout of the log's file, and the migration of earlier layouts.

FORMAT = 3
"""Incremented when an earlier release could not continue with what this one has written."""

APPLICATION = 0x4C434A31
"""The application id in the file's header: "LCJ1"."""

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


def make_layout(connection: sqlite3.Connection) -> None:
    """Create the layout in an empty file; in a transaction."""
    _do(connection, _TABLES + _SINCE_2)
    _complete(connection)
    connection.execute(f"PRAGMA application_id={APPLICATION}")
    connection.execute(f"PRAGMA user_version={FORMAT}")


def format_of(connection: sqlite3.Connection) -> int:
    """The layout number of the file."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def renew_layout(connection: sqlite3.Connection) -> None:
    """Migrate a file of an earlier layout, with its content; in a transaction.

    A file of the current layout stays as it is.
    """
    if format_of(connection) >= FORMAT:
        return
    _do(connection, _SINCE_2)
    if _lacks(connection, "tables", "folding"):
        connection.execute("ALTER TABLE tables ADD COLUMN folding INTEGER NOT NULL DEFAULT 0")
    if _lacks(connection, "rows", "told"):
        connection.execute("ALTER TABLE rows ADD COLUMN told INTEGER NOT NULL DEFAULT 0")
        # The version that was reported to their writers: that of the next flush.
        connection.execute(
            "UPDATE rows SET told = 1 + (SELECT abs(version) FROM tables WHERE id = rows.tbl)"
        )
    if _lacks(connection, "rows", "at"):
        connection.execute("ALTER TABLE rows ADD COLUMN at INTEGER NOT NULL DEFAULT 0")
        # The moment is unknown; no earlier moment may show them for sure.
        connection.execute("UPDATE rows SET at = ?", (time.time_ns() // 1000,))
    _complete(connection)
    connection.execute(f"PRAGMA user_version={FORMAT}")


def _complete(connection: sqlite3.Connection) -> None:
    """Add the columns of layout 3."""
    _do(connection, _SINCE_3)
    if connection.execute("SELECT 1 FROM store").fetchone() is None:
        connection.execute("INSERT INTO store VALUES (?)", (uuid.uuid4().hex,))
    if _lacks(connection, "rows", "crc"):
        # The checksum of a row, as `entries.checksum`; rows of an earlier build have none.
        connection.execute("ALTER TABLE rows ADD COLUMN crc INTEGER")


def _lacks(connection: sqlite3.Connection, table: str, column: str) -> bool:
    asked = "SELECT count(*) FROM pragma_table_info(?) WHERE name = ?"
    return not connection.execute(asked, (table, column)).fetchone()[0]


def _do(connection: sqlite3.Connection, statements: str) -> None:
    for statement in statements.split(";\n"):
        connection.execute(statement)


NAME = "journal.sqlite"
"""The name of the file, in the directory of the store."""


class Way(NamedTuple):
    """A connection to the file."""

    connection: sqlite3.Connection
    is_still: bool
    """Whether it shows only the content at its creation: SQLite reads a file that no process has
    open in no other way if nothing may be written next to it."""


def connect(path: Path, *, is_synced: bool, is_read_only: bool = False) -> Way | None:
    """A connection to the existing log at `path`; None while its creation is under way.

    With `is_read_only`, writes nothing and creates no file next to it. Raises as `translated`.
    """
    if path.is_dir():
        raise StorageError(f"{str(path)!r} is a directory, {_NOT_OURS}")
    with translated(path):
        way = _read_only(path) if is_read_only else _connected(path)
        connection = way.connection
        try:
            # Before any change to a file that belongs to another program.
            if not _is_made(connection, path):
                connection.close()
                return None
            if not is_read_only:
                _log_writes(connection)
            _renew(connection, path)
            identities.require(path, connection, is_synced=is_synced, may_note=not is_read_only)
            connection.execute(f"PRAGMA synchronous={'FULL' if is_synced else 'NORMAL'}")
            connection.execute("PRAGMA wal_autocheckpoint=0")
            # After a checkpoint the next commit cuts SQLite's log down to its own pages.
            connection.execute("PRAGMA journal_size_limit=0")
            # `wipe` does that: otherwise each flush would write the freed pages once more.
            connection.execute("PRAGMA secure_delete=OFF")
        except BaseException:
            connection.close()
            raise
    return way


def is_absent(path: Path) -> bool:
    """Whether the log at `path` is missing or empty, as far as may be read."""
    try:
        return not path.stat().st_size
    except OSError:
        return True


def create(path: Path, *, is_synced: bool) -> None:
    """Create the log at `path` if it is missing; no other process may use it."""
    if not is_absent(path):
        return
    # A concurrent reader, or one after a crash, finds all of it or nothing.
    new = path.with_name(f"{path.name}.new")
    # The leftovers of a removed file would be taken for the log of this one.
    ends = ("-shm", "-wal", "-journal")
    rests = [f"{name}{end}" for name in (new.name, path.name) for end in ends]
    for rest in map(path.with_name, [*rests, new.name]):
        with translated_os(rest):
            rest.unlink(missing_ok=True)
    with translated(path):
        connection = sqlite3.connect(new, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(f"PRAGMA synchronous={'FULL' if is_synced else 'NORMAL'}")
            connection.execute("BEGIN IMMEDIATE")
            make_layout(connection)
            connection.execute("COMMIT")
        finally:
            connection.close()
    with translated_os(path):
        new.replace(path)
        if is_synced:
            # SQLite syncs what it writes, but not the directory entry of the file.
            sync_each([path.parent])


def is_lost(path: Path, error: StorageError) -> bool:
    """Whether an error means that the store's log is missing or unreadable."""
    return is_absent(path) or any(one in str(error) for one in (DAMAGED, identities.NOT_OURS))


def set_aside(path: Path) -> None:
    """Accept any log or none as the store's own; renames a file at `path`."""
    with translated_os(path):
        if not is_absent(path):
            number = 1
            while (kept := path.with_name(f"{path.name}.lost-{number}")).exists():
                number += 1
            path.rename(kept)
            if log_of(path).exists():
                log_of(path).rename(log_of(kept))
        identities.forget(path)


def checkpoint(path: Path, *, is_synced: bool) -> None:
    """Checkpoint SQLite's log into the database, to limit its size; blocks no writer."""
    with suppress(StorageError, BusyError, sqlite3.Error):
        if (way := connect(path, is_synced=is_synced)) is not None:
            try:
                way.connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            finally:
                way.connection.close()


_MUCH_FREE_BYTES = 1024 * 1024
"""The free bytes from which rewriting the rest is worthwhile."""


def shrink(path: Path) -> None:
    """Return free pages if they are most of the file. Raises BusyError while others write."""
    with translated(path):
        connection = sqlite3.connect(path, isolation_level=None, timeout=0)
        try:
            asked = "SELECT * FROM pragma_freelist_count, pragma_page_count, pragma_page_size"
            n_free, n, size = connection.execute(asked).fetchone()
            if n_free * size >= _MUCH_FREE_BYTES and 2 * n_free > n:
                connection.execute("PRAGMA temp_store=MEMORY")
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            connection.close()


def log_bytes(path: Path) -> int:
    """The size of SQLite's log in bytes; 0 if it is missing."""
    try:
        return log_of(path).stat().st_size
    except OSError:
        return 0


def wipe(path: Path, forget: Callable[[sqlite3.Connection], None]) -> None:
    """Wipe deleted rows from the file and its log. Raises BusyError while others read.

    `forget` first removes data that can be rebuilt at any time.
    """
    with translated(path):
        connection = sqlite3.connect(path, isolation_level=None, timeout=0)
        try:
            connection.execute("PRAGMA secure_delete=ON")
            # The rest is rewritten through a database that must not be a file elsewhere.
            connection.execute("PRAGMA temp_store=MEMORY")
            # It names versions that belong to erased rows.
            connection.execute("DELETE FROM removals")
            forget(connection)
            connection.execute("VACUUM")
            if connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                raise BusyError
        finally:
            connection.close()


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Translate errors of SQLite into store errors with the file and the remedy."""
    try:
        yield
    except sqlite3.Error as error:
        raise meaning(path, error) from error


def meaning(path: Path, error: sqlite3.Error) -> Exception:
    """The store error for one of SQLite's; BusyError if another process uses the file."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in _BUSY:
        return BusyError()
    return StorageError(
        f"the write-ahead log {str(path)!r} {_MEANINGS.get(code, _UNKNOWN)} ({error})"
    )


@contextmanager
def translated_os(path: Path) -> Iterator[None]:
    """Translate the system's errors about `path` into store errors."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"cannot use {str(path)!r}: {error.strerror}: check the permissions"
        ) from error


_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_UNKNOWN = "cannot be used: see what SQLite says of it"
_NOT_OURS = (
    "which is not the write-ahead log of a store: move it away, or give the store another directory"
)
_MEANINGS = {
    sqlite3.SQLITE_FULL: "cannot be written, the disk is full: free some space",
    sqlite3.SQLITE_READONLY: "cannot be written: check the permissions of the file and its folder",
    sqlite3.SQLITE_PERM: "cannot be accessed: check the permissions",
    sqlite3.SQLITE_AUTH: "cannot be accessed: check the permissions",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: check the permissions of the file and its folder",
    sqlite3.SQLITE_IOERR: "cannot be read or written: check the disk, and what this process may write",
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_NOTADB: f"{DAMAGED}; move it away if it never was one",
}


def _connected(path: Path) -> Way:
    """A writable connection if allowed; else a reading one, even in a read-only directory."""
    name = quote(str(path))
    try:
        return Way(_tried(f"file:{name}?mode=rw"), is_still=False)
    except sqlite3.OperationalError as refused:
        if getattr(refused, "sqlite_errorcode", 0) & 0xFF in _BUSY:
            raise
        log = log_of(path)
        if log.exists():
            try:
                return Way(_tried(f"file:{name}?mode=ro"), is_still=False)
            except sqlite3.OperationalError:
                if log.stat().st_size:
                    raise
        # No process has it open or has written since, so the file is its whole state.
        return Way(_tried(f"file:{name}?mode=ro&immutable=1"), is_still=True)


def _read_only(path: Path) -> Way:
    """A read-only connection to a file that others may write; creates no other file.

    Changes no file but the index of SQLite's log, which is memory shared by its users: opening that
    read-only would stop all writes of this process.
    """
    name, log = quote(str(path)), log_of(path)
    if not log.exists() or not log.stat().st_size:
        return Way(_tried(f"file:{name}?mode=ro&immutable=1"), is_still=True)
    if path.with_name(f"{path.name}-shm").exists():
        return Way(_tried(f"file:{name}?mode=ro"), is_still=False)
    # SQLite would create that index. No process has the file open, so read its current state.
    with translated_os(path), tempfile.TemporaryDirectory(prefix="lance-context-") as folder:
        before = stamp(path), stamp(log)
        for file in (path, log):
            shutil.copyfile(file, Path(folder, file.name))
        if (stamp(path), stamp(log)) != before:
            raise BusyError  # another process has opened it
        return Way(_tried(f"file:{quote(folder)}/{quote(path.name)}?mode=rw"), is_still=True)


def stamp(file: Path) -> object:
    """A value that changes when a file is written to or replaced; None if missing."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _log_writes(connection: sqlite3.Connection) -> None:
    """Switch the file to WAL mode, unless it is read-only."""
    try:
        connection.execute("PRAGMA journal_mode=WAL")
    except sqlite3.OperationalError as refused:
        if getattr(refused, "sqlite_errorcode", 0) & 0xFF in _BUSY:
            raise


def log_of(path: Path) -> Path:
    """SQLite's own log of the database at `path`."""
    return path.with_name(f"{path.name}-wal")


def _tried(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        uri, uri=True, isolation_level=None, timeout=0, check_same_thread=False
    )
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def _is_made(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether a log of this release exists; raises for any other non-empty file."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    written = format_of(connection)
    if application != APPLICATION:
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] or application:
            raise StorageError(f"{str(path)!r} is a database, {_NOT_OURS}")
        return False
    if written > FORMAT:
        raise StoreFormatError(
            f"the write-ahead log {str(path)!r} has format {written}, this release reads up to "
            f"{FORMAT}: upgrade lance-context-core"
        )
    return True


def _renew(connection: sqlite3.Connection, path: Path) -> None:
    """Migrate the file from an earlier release's layout."""
    if (written := format_of(connection)) == FORMAT:
        return
    try:
        with translated(path):
            connection.execute("BEGIN IMMEDIATE")
            try:
                renew_layout(connection)
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
    except StorageError as error:
        raise StorageError(
            f"the write-ahead log {str(path)!r} has format {written}, and cannot be brought to format "
            f"{FORMAT} here: open the store once where it may be written. {error}"
        ) from error
