"""Which journal is the store's: an id that the journal holds, and a file beside it that repeats it.

So it is seen that the journal was removed, emptied, or replaced by that of another store: what it held
is missing then. A copy of the store has the same id.
"""

import os
import sqlite3
import zlib
from contextlib import suppress
from pathlib import Path

from lance_context_core.errors import StorageError
from lance_context_core.storage.lance.durability import sync_each

NAME = "journal.id"
"""What the file is called that says that the store has a journal, in the directory of the store."""

NOT_OURS = "is not the one that the store has had"
"""What is said of a journal that another store made, or that was made anew."""

_WAY_OUT = "put it back from a copy, or call accept_loss(), and the store goes on without what was not folded"


def forget(journal: Path) -> None:
    """Have the store take whatever journal is at that place, or none, for its own."""
    _file(journal).unlink(missing_ok=True)


def require_none(journal: Path) -> None:
    """Raise StorageError if the store has had a journal, which is absent or empty now."""
    # One that is just being made is in its place before the id is noted: so it is looked for last.
    if os.path.exists(_file(journal)) and not _has_bytes(journal):  # noqa: PTH110 - False, too, where one may not look
        raise StorageError(
            f"the journal {str(journal)!r} is missing or empty, and the store has had one: {_WAY_OUT}"
        )


def require(
    journal: Path, connection: sqlite3.Connection, *, is_synced: bool, may_note: bool
) -> None:
    """Raise StorageError if the journal is not the one that the store has had.

    If none is noted, it is noted where one `may_note` it.
    """
    held = _held(connection)
    if held is None:  # It was laid out by an earlier build, and cannot be written here.
        return
    noted = _noted(_file(journal))
    if noted is None:
        if may_note:
            _note(_file(journal), held, is_synced=is_synced)
    elif noted != held:
        raise StorageError(f"the journal {str(journal)!r} {NOT_OURS}: {_WAY_OUT}")


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
    """The id in the file; None if there is none, or it is damaged."""
    try:
        text = file.read_text()
    except (OSError, ValueError):
        return None
    id, _, _ = text.partition(" ")
    return id if text == _line(id) else None


def _note(file: Path, id: str, *, is_synced: bool) -> None:
    new = file.with_name(f"{file.name}.{os.getpid()}")
    with suppress(OSError):  # Who may only read notes nothing.
        new.write_text(_line(id))
        if is_synced:
            sync_each([new])
        new.replace(file)
        if is_synced:
            sync_each([file.parent])


def _line(id: str) -> str:
    return f"{id} {zlib.crc32(id.encode()):08x}\n"
