"""The journal's file: an SQLite database in WAL mode, beside the tables.

Only SQLite opens it in a process that holds the store: with POSIX locks, a file that the same process
opens and closes lets go of SQLite's lock.
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

# How the journal's file is laid out, and how one of an earlier layout becomes one of this.

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


def make_layout(connection: sqlite3.Connection) -> None:
    """Lay out an empty file; in a transaction."""
    _do(connection, _TABLES + _SINCE_2)
    _complete(connection)
    connection.execute(f"PRAGMA application_id={APPLICATION}")
    connection.execute(f"PRAGMA user_version={FORMAT}")


def format_of(connection: sqlite3.Connection) -> int:
    """Which layout the file has."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def renew_layout(connection: sqlite3.Connection) -> None:
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


NAME = "journal.sqlite"
"""What the file is called, in the directory of the store."""


class Way(NamedTuple):
    """A connection to the file."""

    connection: sqlite3.Connection
    is_still: bool
    """Whether it shows for good what was there when it was made: where nothing may be written beside
    a file that nobody has open, SQLite reads it no other way."""


def connect(path: Path, *, is_synced: bool, is_read_only: bool = False) -> Way | None:
    """A way to the journal at `path`, which exists; None while it is still being made.

    By one that `is_read_only` nothing is written, nor made beside the file. Raises as `translated`.
    """
    if path.is_dir():
        raise StorageError(f"{str(path)!r} is a directory, {_NOT_OURS}")
    with translated(path):
        way = _read_only(path) if is_read_only else _connected(path)
        connection = way.connection
        try:
            # Before anything that would change a file of somebody else.
            if not _is_made(connection, path):
                connection.close()
                return None
            if not is_read_only:
                _log_writes(connection)
            _renew(connection, path)
            identities.require(path, connection, is_synced=is_synced, may_note=not is_read_only)
            connection.execute(f"PRAGMA synchronous={'FULL' if is_synced else 'NORMAL'}")
            connection.execute("PRAGMA wal_autocheckpoint=0")
            # That is for `wipe`: each fold would write the pages that it lets go of once more.
            connection.execute("PRAGMA secure_delete=OFF")
        except BaseException:
            connection.close()
            raise
    return way


def is_absent(path: Path) -> bool:
    """Whether there is no journal at `path`, as far as one may look, or an empty file."""
    try:
        return not path.stat().st_size
    except OSError:
        return True


def create(path: Path, *, is_synced: bool) -> None:
    """Make the journal at `path`, unless it is there; nobody else may be at it."""
    if not is_absent(path):
        return
    # Whoever looks meanwhile, or after a crash, finds all of it or nothing.
    new = path.with_name(f"{path.name}.new")
    # What one that was removed has left would be taken for the log of this one.
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
            # SQLite syncs what it writes; that the file is called so, nobody has told the disk.
            sync_each([path.parent])


def is_lost(path: Path, error: StorageError) -> bool:
    """Whether an error means that the store's journal is not there any more, or cannot be read as one."""
    return is_absent(path) or any(one in str(error) for one in (DAMAGED, identities.NOT_OURS))


def set_aside(path: Path) -> None:
    """Have the store take any journal or none for its own; a file at `path` is kept under another name."""
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
    """Move what is in the log into the database, so that the log does not grow; blocks no writer."""
    with suppress(StorageError, BusyError, sqlite3.Error):
        if (way := connect(path, is_synced=is_synced)) is not None:
            try:
                way.connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            finally:
                way.connection.close()


_MUCH_FREE_BYTES = 1024 * 1024
"""From so much on it is worth the while to write anew what stays."""


def shrink(path: Path) -> None:
    """Give back what was let go of, if it is much and most of the file. Raises BusyError while others write."""
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
    """The size of SQLite's log; 0 if there is none."""
    try:
        return log_of(path).stat().st_size
    except OSError:
        return 0


def wipe(path: Path, forget: Callable[[sqlite3.Connection], None]) -> None:
    """Leave nothing of what was deleted in the file or in its log. Raises BusyError while others read.

    `forget` removes first what can be made again at any time.
    """
    with translated(path):
        connection = sqlite3.connect(path, isolation_level=None, timeout=0)
        try:
            connection.execute("PRAGMA secure_delete=ON")
            # What is there is written anew by way of a database that is not to be a file elsewhere.
            connection.execute("PRAGMA temp_store=MEMORY")
            # It tells of versions that go with what is erased.
            connection.execute("DELETE FROM removals")
            forget(connection)
            connection.execute("VACUUM")
            if connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                raise BusyError
        finally:
            connection.close()


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raise what SQLite raises inside as an error of the store that names the file and the way out."""
    try:
        yield
    except sqlite3.Error as error:
        raise meaning(path, error) from error


def meaning(path: Path, error: sqlite3.Error) -> Exception:
    """The error of the store for one of SQLite's; BusyError where somebody else is at the file."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in _BUSY:
        return BusyError()
    return StorageError(f"the journal {str(path)!r} {_MEANINGS.get(code, _UNKNOWN)} ({error})")


@contextmanager
def translated_os(path: Path) -> Iterator[None]:
    """Raise what the system refuses to do with `path` as an error of the store."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"cannot use {str(path)!r}: {error.strerror}: check who may write there"
        ) from error


_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_UNKNOWN = "cannot be used: see what SQLite says of it"
_NOT_OURS = "which is no journal of a store: move it away, or give the store another directory"
_MEANINGS = {
    sqlite3.SQLITE_FULL: "cannot be written, the disk is full: free some space",
    sqlite3.SQLITE_READONLY: "cannot be written: check who may write there, and beside it",
    sqlite3.SQLITE_PERM: "may not be used: check who may read and write there",
    sqlite3.SQLITE_AUTH: "may not be used: check who may read and write there",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: check who may read and write there, and beside it",
    sqlite3.SQLITE_IOERR: "cannot be read or written: check the disk, and what this process may write",
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_NOTADB: f"{DAMAGED}; move it away if it never was one",
}


def _connected(path: Path) -> Way:
    """Writable where that may be; else for reading, also where its directory may not be written to."""
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
        # Nobody has it open, or has written since, so that it is as its file says.
        return Way(_tried(f"file:{name}?mode=ro&immutable=1"), is_still=True)


def _read_only(path: Path) -> Way:
    """For reading, of what others may write meanwhile; no file is made beside it.

    Nor is any changed but the index of the log, which is memory that those who use it share: to open
    that for reading alone would keep all of this process from writing.
    """
    name, log = quote(str(path)), log_of(path)
    if not log.exists() or not log.stat().st_size:
        return Way(_tried(f"file:{name}?mode=ro&immutable=1"), is_still=True)
    if path.with_name(f"{path.name}-shm").exists():
        return Way(_tried(f"file:{name}?mode=ro"), is_still=False)
    # SQLite would make that index. Nobody has the file open, and it is read as it is now.
    with translated_os(path), tempfile.TemporaryDirectory(prefix="lance-context-") as folder:
        before = stamp(path), stamp(log)
        for file in (path, log):
            shutil.copyfile(file, Path(folder, file.name))
        if (stamp(path), stamp(log)) != before:
            raise BusyError  # Somebody has begun to use it.
        return Way(_tried(f"file:{quote(folder)}/{quote(path.name)}?mode=rw"), is_still=True)


def stamp(file: Path) -> object:
    """Another one once a file was written to, or replaced; None if it is not there."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _log_writes(connection: sqlite3.Connection) -> None:
    """Have the file written by way of a log, unless it may not be written at all."""
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
    """Whether there is a journal that this release reads; raises for anything else but nothing."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    written = format_of(connection)
    if application != APPLICATION:
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] or application:
            raise StorageError(f"{str(path)!r} is a database, {_NOT_OURS}")
        return False
    if written > FORMAT:
        raise StoreFormatError(
            f"the journal {str(path)!r} has format {written}, this release reads up to "
            f"{FORMAT}: upgrade lance-context-core"
        )
    return True


def _renew(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the file to this release's layout, if an earlier one wrote it."""
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
            f"the journal {str(path)!r} has format {written}, and cannot be brought to format "
            f"{FORMAT} here: open the store once where it may be written. {error}"
        ) from error
