"""The identity of a store's log: an id, repeated in a file next to it.

Detects that the log was removed, emptied, or replaced by another store's: then its entries are
missing. A copy of the store has the same id.
"""

import asyncio
import os
import sqlite3
import zlib
from contextlib import suppress
from pathlib import Path

from lance_context_core.errors import StorageError
from lance_context_core.storage.lance.durability import sync_each

NAME = "journal.id"
"""The name of the file, in the directory of the store, that shows that the store has a log."""

NOT_OURS = "is not the one of this store"
"""The error message for a log that belongs to another store, or that was created again."""

_ELSEWHERE = "postgres-"
"""The beginning of the id of a store whose log is in PostgreSQL."""

_WAY_OUT = "restore it from a copy, or call accept_loss() to continue without the rows that were not flushed"


def id_of(store: Path) -> str | None:
    """The id of the log of the store in that directory; None if it has none yet."""
    return _noted(store / NAME)


def forget(journal: Path) -> None:
    """Accept any log at that path, or none, as the store's own."""
    _file(journal).unlink(missing_ok=True)


def require_none(journal: Path) -> None:
    """Raise StorageError if the store has had a log that is now absent or empty."""
    # A log is created before its id is noted: so check for the log last.
    if os.path.exists(_file(journal)) and not _has_bytes(journal):  # noqa: PTH110 - False, too, where one may not look
        if (_noted(_file(journal)) or "").startswith(_ELSEWHERE):
            raise StorageError(
                f"the store in {str(journal.parent)!r} has its write-ahead log in PostgreSQL: open it with "
                'journal="postgresql://…", or call accept_loss(), and it continues without rows '
                "that were not flushed"
            )
        raise StorageError(
            f"the write-ahead log {str(journal)!r} is missing or empty, but the store had one: {_WAY_OUT}"
        )


def require(
    journal: Path, connection: sqlite3.Connection, *, is_synced: bool, may_note: bool
) -> None:
    """Raise StorageError if the log is not the store's own.

    If no id is noted, note it if `may_note`.
    """
    held = _held(connection)
    if held is None:  # written by an earlier build, and read-only here
        return
    noted = _noted(_file(journal))
    if noted is None:
        if may_note:
            _note(_file(journal), held, is_synced=is_synced)
    elif noted != held:
        raise StorageError(f"the write-ahead log {str(journal)!r} {NOT_OURS}: {_WAY_OUT}")


def _has_bytes(journal: Path) -> bool:
    try:
        return os.path.getsize(journal) > 0  # noqa: PTH202 - a `Path` asks in thrice the time
    except OSError:
        return False


def _file(journal: Path) -> Path:
    return journal.with_name(NAME)


def _held(connection: sqlite3.Connection) -> str | None:
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'store'").fetchone():
        return None
    found = connection.execute("SELECT id FROM store").fetchone()
    return None if found is None else str(found[0])


def _noted(file: Path) -> str | None:
    """The id in the file; None if it is absent or damaged."""
    try:
        return _id_in(file.read_text())
    except (OSError, ValueError):
        return None


def _note(file: Path, id: str, *, is_synced: bool) -> None:
    new = file.with_name(f"{file.name}.{os.getpid()}")
    with suppress(OSError):  # a reader without write access notes nothing
        new.write_text(_line(id))
        if is_synced:
            sync_each([new])
        new.replace(file)
        if is_synced:
            sync_each([file.parent])


def _line(id: str) -> str:
    return f"{id} {zlib.crc32(id.encode()):08x}\n"


def _id_in(text: str) -> str | None:
    id, _, _ = text.partition(" ")
    return id if text == _line(id) else None


def _elsewhere(noted: str) -> str | None:
    return noted.removeprefix(_ELSEWHERE) if noted.startswith(_ELSEWHERE) else None


def line_elsewhere(id: str) -> str:
    """The content of the file of a store with that id, whose log is in PostgreSQL."""
    return _line(_ELSEWHERE + id)


def id_elsewhere(text: str) -> str | None:
    """The id in such a content; None if it is damaged, or of another kind of log."""
    noted = _id_in(text)
    return None if noted is None else _elsewhere(noted)


class FileId:
    """The id of a store in a directory, for a log that is elsewhere; satisfies `StoreId`."""

    def __init__(self, root: Path, *, is_synced: bool = False) -> None:
        """The store in that directory, which need not exist."""
        self._journal = root / _SQLITE
        self._is_synced = is_synced

    async def read(self) -> str | None:
        """As `StoreId.read`."""
        if _has_bytes(self._journal):
            raise StorageError(
                f"the store in {str(self._journal.parent)!r} has a write-ahead log there, {_SQLITE}: open it "
                "without an address; or export it, and import that into a new store with one"
            )
        noted = _noted(_file(self._journal))
        return None if noted is None else _elsewhere(noted)

    async def write(self, id: str) -> bool:
        """As `StoreId.write`; creators of one directory exclude each other."""
        await asyncio.to_thread(self._write, id)
        return True

    def _write(self, id: str) -> None:
        try:
            self._journal.parent.mkdir(parents=True, exist_ok=True)
            _note(_file(self._journal), _ELSEWHERE + id, is_synced=self._is_synced)
        except OSError as error:
            raise StorageError(
                f"cannot write to {str(self._journal.parent)!r}: {error.strerror}: check who may"
            ) from error
        if _noted(_file(self._journal)) != _ELSEWHERE + id:
            raise StorageError(
                f"cannot write {NAME} in {str(self._journal.parent)!r}: check who may"
            )

    def forget(self) -> None:
        """As `StoreId.forget`."""
        forget(self._journal)

    def is_also_at(self, place: str, id: str) -> bool:
        """As `StoreId.is_also_at`."""
        there = Path(place)
        if not there.is_dir() or there.samefile(self._journal.parent):
            return False
        return _noted(there / NAME) == _ELSEWHERE + id


_SQLITE = "journal.sqlite"
