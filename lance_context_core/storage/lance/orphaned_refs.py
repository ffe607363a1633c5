"""Orphaned refs: creating refs next to files of a killed process, and removing those files.

A process killed while it creates or drops a ref leaves a directory that belongs to none.
"""

import asyncio
import os
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from lance_context_core.errors import AlreadyExistsError, StorageError
from lance_context_core.storage.lance import branches
from lance_context_core.storage.lance.branches import At
from lance_context_core.storage.lance.connection import Connection
from lance_context_core.storage.lance.errors import is_damage

_QUIET_SECONDS = 2
"""How long a directory must be unchanged to count as abandoned."""


async def may_be(connection: Connection, tables: Iterable[str]) -> bool:
    """Whether the disk shows a ref, or remains of one, for these tables."""
    root = Path(connection.uri)
    places = [root / f"{name}.lance" / folder for name in tables for folder in ("tree", "_refs")]
    return not root.is_absolute() or await asyncio.to_thread(
        lambda: any(place.exists() for place in places)
    )


def mark(uri: str, table: str, ref: str) -> tuple[int, int] | None:
    """The identity of a ref, different from later ones of its name; None if missing.

    Also None if it is no file of a directory.
    """
    try:
        found = os.stat(f"{uri}/{table}.lance/_refs/branches/{quote(ref, safe='')}.json")  # noqa: PTH116 - a path takes longer
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


async def fork(connection: Connection, handle: Any, table: str, ref: str, at: At) -> Any:
    """As `refs.fork`, even if remains of such a ref exist, of this version or another."""
    try:
        return await branches.fork(handle, table, ref, at)
    except (AlreadyExistsError, StorageError) as error:
        is_there = isinstance(error, AlreadyExistsError) or is_damage(error)
        if not (is_there and await _removed(connection, table, ref)):
            raise
    return await branches.fork(handle, table, ref, at)


async def clear(
    connection: Connection, table: str, suspects: Iterable[str], *, there: Collection[str]
) -> bool:
    """Remove the files of refs not in `there`; returns whether any may have existed.

    On an object store, whose directories the engine does not list, checks the `suspects` only.
    """
    found = [ref for ref in await _places(connection, table) or suspects if ref not in there]
    return any([await _removed(connection, table, ref) for ref in found])


async def _places(connection: Connection, table: str) -> list[str]:
    """The names of directories of refs; none on an object store."""
    tree = _tree(connection, table)
    if not tree.is_absolute():
        return []
    return await asyncio.to_thread(
        lambda: [f"{use}/{name}" for use in _folders(tree) for name in _folders(tree / use)]
    )


async def _removed(connection: Connection, table: str, ref: str) -> bool:
    """Remove the remains of a ref; returns whether any may have existed.

    Not if such a ref exists, or no directory of its name. Waits until no process can be creating
    it, which takes seconds at most.
    """
    handle = await connection.table(table)
    if ref in await branches.listed(handle, table, with_gone=True):
        return False
    place = _tree(connection, table) / ref
    if not place.is_absolute():
        await asyncio.sleep(_QUIET_SECONDS)
    elif await asyncio.to_thread(place.is_dir):
        await _settled(place)
    else:
        return False
    if ref in await branches.listed(handle, table, with_gone=True):
        return False
    await branches.clear(handle, table, ref)
    return True


def _folders(place: Path) -> list[str]:
    """The names of the directories in a directory; none if missing or removed meanwhile."""
    _, names, _ = next(os.walk(place), ("", [], []))
    return sorted(names)


def _tree(connection: Connection, table: str) -> Path:
    """Where the refs of a table are; an absolute path unless on an object store."""
    return Path(connection.uri) / f"{table}.lance" / "tree"


async def _settled(place: Path) -> None:
    """Return when a directory has not changed for a while, or no longer exists."""
    with suppress(FileNotFoundError):
        while (  # noqa: ASYNC110 - another process may be at it
            age := time.time() - await asyncio.to_thread(_newest, place)
        ) < _QUIET_SECONDS:
            await asyncio.sleep(_QUIET_SECONDS - age)


def _newest(place: Path) -> float:
    """When the content of a directory last changed."""
    return max(path.stat().st_mtime for path in (place, *place.rglob("*")))
