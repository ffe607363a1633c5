"""Relocation: updates the paths in branches and tags of a moved or copied store.

The engine writes the absolute path of a table into the manifests of the branches that are forked
from it, and accepts no path that is relative to the store. A file next to the tables records the
path for which all of them were written, so that one read tells whether the directory was moved or
copied.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath
from uuid import uuid4

from lance_context_core.errors import StorageError
from lance_context_core.storage.lance import manifests
from lance_context_core.storage.lance.durability import sync_each

NAME = "place"
"""The file, in the directory of the store, with the path for which its manifests are written."""

_PART = "place.part-"
"""The prefix of the name of a file that is being written; it is renamed once it is whole."""

_NAMING = ("_versions", "_transactions")
"""The directories of a branch whose files name paths."""

_EDITED: dict[str, Callable[[bytes, Callable[[str], str]], bytes]] = {
    ".manifest": manifests.elsewhere,
    ".txn": manifests.transaction_elsewhere,
}
"""How to move a file of a branch to another path, by the extension of its name."""


def known_as(path: str) -> str:
    """The canonical path of a store's directory, whichever of its paths is used.

    Symbolic links are resolved. A directory that is mounted twice keeps the recorded path, as long
    as that leads to it.
    """
    real = os.path.realpath(path)
    place = Path(real)
    # A system call, before anything is opened: this is called on event loops.
    recorded = recorded_at(place) if os.path.exists(place / NAME) else None  # noqa: PTH110 - False, too, where one may not look
    if recorded is None or recorded == real:
        return real
    # A caller with a read-only mount must not get the writable one.
    is_alike = _is_same(recorded, real) and os.access(recorded, os.W_OK) == os.access(real, os.W_OK)
    return recorded if is_alike else real


def recorded_at(root: Path) -> str | None:
    """The path for which the manifests in `root` were written; None if none is recorded."""
    try:
        return os.fsdecode((root / NAME).read_bytes())
    except OSError:
        return None


def is_settled(root: Path) -> bool:
    """Whether all manifests name files by a path that leads to `root`."""
    recorded = recorded_at(root)
    if recorded is None:
        return not any(root.glob("*.lance/tree"))
    return recorded == str(root) or _is_same(recorded, str(root))


def settle(root: Path) -> None:
    """Update all manifests to name files in `root`.

    For one process at a time; repeatable after a crash. Raises OSError if it may not write.
    """
    for rest in root.glob(f"{_PART}*"):
        rest.unlink(missing_ok=True)
    for folder in _folders(root):
        is_changed = False
        for file in sorted(folder.iterdir()):
            if data := _moved_to(root, file):
                _replace(file, data, root)
                is_changed = True
        if is_changed:
            sync_each([folder])
    # Last: after a crash before this, all steps are repeated.
    record(root)


def is_foreign(root: Path) -> bool:
    """Whether some manifest names another path; reads all of them."""
    return any(_moved_to(root, file) for folder in _folders(root) for file in folder.iterdir())


def record(root: Path, *, is_synced: bool = True) -> None:
    """Record that all manifests are for `root`. Raises OSError if it may not write."""
    if recorded_at(root) != str(root):
        _replace(root / NAME, os.fsencode(root), root, is_synced=is_synced)
        if is_synced:
            sync_each([root])


def at_place(name: str, data: bytes, uri: str) -> bytes:
    """The content `data` of the file `name`, for a copy of the store at `uri`.

    A file of a branch names the tables of the copy; any other is unchanged. Raises StorageError if
    the branch is forked from another table than its own, and TornError if the file is not whole.
    """
    if not may_name_places(name):
        return data
    table = name.partition(".lance/")[0]
    edited = _EDITED[PurePosixPath(name).suffix]
    return edited(data, partial(_moved, f"{table}.lance", uri))


def may_name_places(name: str) -> bool:
    """Whether the file `name` of a store may contain the path of the store."""
    return ".lance/tree/" in name and name.endswith(tuple(_EDITED))


def _folders(root: Path) -> Iterator[Path]:
    """The directories of branches with files that name paths."""
    for tree in sorted(root.glob("*.lance/tree")):
        for path, folders, _ in os.walk(tree):
            if "_versions" in folders:
                yield from (Path(path, one) for one in _NAMING if one in folders)
                folders[:] = [one for one in folders if one != "data" and not one.startswith("_")]


def _moved_to(root: Path, file: Path) -> bytes | None:
    """The new content for the store in `root`; None if current, or without paths."""
    name = file.relative_to(root).as_posix()
    if not may_name_places(name):
        return None
    try:
        data = file.read_bytes()
        new = at_place(name, data, str(root))
    except FileNotFoundError:
        return None  # its version was removed meanwhile
    except (StorageError, IndexError, KeyError, TypeError, ValueError):
        return None  # not whole, or of another kind: `verify` and `mend` check that
    return None if new == data else new


def _replace(file: Path, data: bytes, root: Path, *, is_synced: bool = True) -> None:
    """Replace the file by `data` atomically; also for a power cut if `is_synced`."""
    part = root / f"{_PART}{uuid4().hex}"
    with part.open("wb") as opened:
        opened.write(data)
        if is_synced:
            opened.flush()
            os.fsync(opened.fileno())
    with suppress(FileNotFoundError):
        shutil.copystat(file, part)  # the age of a version counts
    part.replace(file)


def _moved(folder: str, uri: str, path: str) -> str:
    """The path below `uri` of the table in `folder`, or its branch, formerly at `path`."""
    found = re.fullmatch(rf".*?/{re.escape(folder)}(/tree/.+)?", path)
    if found is None:
        raise StorageError(
            f"a branch is made of {path!r}, which is not a table {folder!r}: not copied"
        )
    return f"{uri}/{folder}{found[1] or ''}"


def _is_same(one: str, other: str) -> bool:
    try:
        return Path(one).samefile(other)
    except OSError:
        return False
