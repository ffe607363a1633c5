"""Durability: syncs the files of a commit, so that it survives a power cut.

The engine writes files and renames them, and syncs none. Written data outlives its process, but not
a power cut within the next seconds.
"""

import asyncio
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from lance_context_core.errors import InvalidRequestError, StorageError
from lance_context_core.storage.file_locks import locked
from lance_context_core.storage.lance import manifests

if sys.platform == "darwin":
    import fcntl

Durability = Literal["process", "fsync"]
"""An acknowledged record survives the end of the process, or a power cut too."""

_SLACK_SECONDS = 2
"""File times are coarser than the clock."""


def syncer_of(uri: str, durability: Durability) -> "Syncer | None":
    """The syncer for the store at `uri`; None if it has nothing to do.

    An object store acknowledges only durable writes: there, both are the same. Raises
    InvalidRequestError for an unknown durability, or one that the store does not support.
    """
    if durability not in get_args(Durability):
        raise InvalidRequestError(f"durability={durability!r}: choose 'process' or 'fsync'")
    if durability == "process":
        return None
    if uri.startswith("memory://"):
        raise InvalidRequestError(
            "durability='fsync': memory:// ends with the process, nothing there can be synced; "
            "use a directory"
        )
    if os.name == "nt":
        raise InvalidRequestError(
            "durability='fsync': this system cannot sync directories; use 'process'"
        )
    return Syncer(Path(uri)) if Path(uri).is_absolute() else None


class Syncer:
    """Syncs the commits of one store in a directory; safe to share between threads.

    Nothing is awaited on the event loop itself: a sync takes milliseconds, or minutes.
    """

    def __init__(self, root: Path) -> None:
        """Syncs files in `root`, an absolute path, which need not exist."""
        self._root = root
        self._trees: dict[Path, _Tree] = {}
        self._folders = _Folders(root)
        self._lock = threading.Lock()
        self._failure: OSError | None = None

    def require_sound(self) -> None:
        """Raise StorageError if a sync has failed: new writes could be lost unnoticed.

        Call it before a write. The system reports a failed sync once, and considers the data synced
        from then on, so that no later sync can be trusted.
        """
        if self._failure is not None:
            raise StorageError(
                f"nothing was written: an earlier sync of {str(self._root)!r} failed "
                f"({self._failure}), and later writes of this store may be lost in a power "
                "cut: check the disk, and open the store again"
            ) from self._failure

    async def sync(self, handle: Any) -> None:
        """Return when the handle's version, with all files it refers to, is on disk.

        That includes other processes' commits, and every version since the last sync. Raises
        StorageError if a file cannot be synced: the commit is done, and may or may not survive a
        power cut.
        """
        version = int(await handle.version())
        table = self._root / f"{handle.name}.lance"
        branch = handle.current_branch()
        tree = self._tree(table if branch is None else table / "tree" / branch)
        await self._in_a_thread(lambda: tree.sync(version))

    async def sync_refs(self, table: str) -> None:
        """Return when the table's tags and branches are on disk, and removed ones gone.

        A new branch is a version as well, to be synced through its own handle. Raises as `sync`.
        """
        directory = self._root / f"{table}.lance"
        refs, tree = directory / "_refs", directory / "tree"
        await self._in_a_thread(
            lambda: self._sync_all(
                _files_below(refs), [*_folders_below(refs), tree, *_folders_in(tree)]
            )
        )

    async def sync_removals(self, table: str) -> None:
        """Return when the table's removed files are durably gone.

        Raises as `sync`. Their replacements must be synced before the removal.
        """
        directory = self._root / f"{table}.lance"
        await self._in_a_thread(lambda: self._sync_all([], _folders_below(directory)))

    async def sync_names(self) -> None:
        """Return when the set of tables is on disk. Raises as `sync`."""
        await self._in_a_thread(lambda: self._sync_all([], [self._root]))

    # Helpers

    def _tree(self, directory: Path) -> "_Tree":
        with self._lock:
            if directory not in self._trees:
                self._trees[directory] = _Tree(directory, self._folders)
            return self._trees[directory]

    def _sync_all(self, files: Iterable[Path], folders: Iterable[Path]) -> None:
        files = list(files)
        sync_each(files)
        self._folders.sync({*folders, *(file.parent for file in files)})

    async def _in_a_thread(self, work: Callable[[], None]) -> None:
        if self._failure is None:
            try:
                return await asyncio.to_thread(work)
            except OSError as error:
                self._failure = error
        failure = self._failure
        raise StorageError(
            f"cannot sync {str(failure.filename or self._root)!r}: {failure.strerror or failure}: "
            "the data was written, and may or may not survive a power cut: check the disk, "
            "and open the store again"
        ) from failure


class _Folders:
    """The directories of a store, whose entries are synced apart from the files in them."""

    def __init__(self, root: Path) -> None:
        """Note which directories above `root` exist before any is created."""
        self._top = next(folder for folder in root.parents if folder.exists())
        self._known: set[Path] = set()
        """Those whose own entry, in the parent directory, is synced."""

    def sync(self, folders: Iterable[Path]) -> None:
        """Sync `folders`, and the ancestors that have one of them as a new entry."""
        wanted = set(folders)
        new: set[Path] = set()
        ways = list(wanted)
        while ways:
            folder = ways.pop()
            if folder != self._top and folder not in self._known | new:
                new.add(folder)
                wanted.add(folder.parent)
                ways.append(folder.parent)
        # From the inside out: a directory appears on disk with all its content.
        sync_each(sorted(wanted, key=lambda folder: -len(folder.parts)))
        self._known |= new

    def forget(self) -> None:
        """Treat all as new: one was removed, and created again."""
        self._known = set()


class _Tree:
    """The versions in one directory: those of a table, or of a branch of it."""

    def __init__(self, directory: Path, folders: _Folders) -> None:
        self._directory = directory
        self._folders = folders
        self._lock = threading.Lock()
        self._opened_at = time.time() - _SLACK_SECONDS
        self._last = 0
        """The newest synced version; 0 if none is."""
        self._identity: tuple[int, int] | None = None
        """Distinguishes its manifest from that of another table that took the name."""
        self._parts: frozenset[bytes] = frozenset()
        """Its content."""

    def sync(self, version: int) -> None:
        """Sync up to `version`; not to be called on an event loop."""
        with self._lock:
            # Of two overlapping calls, the second must not return before the files of the first,
            # which its version refers to, are synced.
            if self._identity != _identity(manifests.path(self._directory, self._last)):
                self._last, self._identity, self._parts = 0, None, frozenset()
                self._folders.forget()
            if version <= self._last:
                return
            identity = _identity(manifests.path(self._directory, version))
            files, parts = self._unsynced(version)
            sync_each(files)
            self._folders.sync({file.parent for file in files})
            # Without its manifest, which others have removed, the next sync starts over.
            self._last = version if identity else 0
            self._identity, self._parts = identity, parts

    def _unsynced(self, version: int) -> tuple[list[Path], frozenset[bytes]]:
        """The new files of versions up to this one, and the parts of the newest."""
        files: dict[Path, None] = {}
        parts = self._parts
        for manifest in self._new_manifests(version):
            try:
                contents = manifests.contents(manifest, self._directory, known=parts)
            except FileNotFoundError:
                if manifest == manifests.path(self._directory, version):
                    return self._unsynced(version)
                continue  # an old version, which others may remove at any time
            except manifests.UnknownManifestError:
                return list(_files_below(self._directory)), frozenset()
            parts = contents.parts
            files.update(dict.fromkeys(contents.files))
            files.update((file, None) for index in contents.folders for file in _files_below(index))
            files[manifest] = None
        files[self._directory / "_versions" / "latest_version_hint.json"] = None
        return list(files), parts

    def _new_manifests(self, version: int) -> list[Path]:
        """The unsynced manifests of the versions up to this one, oldest first."""
        newest = manifests.path(self._directory, version)
        if self._last and newest.exists():
            return [manifests.path(self._directory, n) for n in range(self._last + 1, version + 1)]
        listed = sorted((self._directory / "_versions").glob("*.manifest"), reverse=True)
        # Of versions from before the store was opened, only files that the version refers to count.
        # If others removed it meanwhile, its rows are in the versions that they made.
        least = newest if newest in listed else max(listed, default=None, key=manifests.version)
        return [one for one in listed if one == least or _changed_at(one) >= self._opened_at]


def _identity(file: Path) -> tuple[int, int] | None:
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns


def _changed_at(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except FileNotFoundError:
        return -float("inf")


def _folders_below(directory: Path) -> Iterator[Path]:
    """A directory and all directories in it, recursively; none if it is gone."""
    yield from (Path(folder) for folder, _, _ in os.walk(directory))


def _folders_in(directory: Path) -> list[Path]:
    """The directories in a directory; none if it is gone."""
    _, names, _ = next(os.walk(directory), ("", [], []))
    return [directory / name for name in names]


def _files_below(directory: Path) -> Iterator[Path]:
    """All files in a directory, recursively; none if it is gone."""
    for folder, _, names in os.walk(directory):
        yield from (Path(folder, name) for name in names)


def sync_each(paths: Iterable[Path]) -> None:
    """Sync each file or directory to disk; skips missing ones."""
    for path in paths:
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            _flush(descriptor)
        except OSError as error:
            error.filename = str(path)
            raise
        finally:
            os.close(descriptor)


def _flush(descriptor: int) -> None:
    if sys.platform == "darwin":
        # There, fsync leaves the data in the disk's own memory.
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)


# Mutual exclusion of running commits and of the removal of versions.
#
# The engine detects conflicts of a commit by reading the versions since the one that it was begun
# on. If these are removed before it reads them, it sees no conflict: rows that were moved meanwhile
# exist twice afterwards, and rows that it deletes stay. No commit is still based on versions that
# are old enough; an erasure removes them at once.
#
# Object stores have no locks: an erasure with concurrent writers waits before it removes anything.

T = TypeVar("T")

_GRACE_SECONDS = 2
"""How long no commit is running, if that cannot be known."""


class InFlight:
    """Keeps commits to one table and the removal of its versions apart, on all branches."""

    def __init__(self, uri: str, name: str) -> None:
        """For the table `name` of the database at `uri`."""
        table = Path(uri) / f"{name}.lance"
        # Two locks, since a lock that is shared without a pause is never free.
        self._gate, self._room = table, table / "_versions"
        self._is_remote = "://" in uri and not uri.startswith("memory://")

    @asynccontextmanager
    async def committing(self) -> AsyncIterator[None]:
        """Commit in this context: no versions are removed meanwhile."""
        # A waiting removal goes first.
        async with locked(self._room, shared=True, behind=self._gate):
            yield

    def guarded(
        self, work: Callable[[Any], Awaitable[T]]
    ) -> Callable[[Any], Coroutine[Any, Any, T]]:
        """`work`, one commit to the table of its argument, run as `committing`."""

        async def guarded(handle: Any) -> T:
            async with self.committing():
                return await work(handle)

        return guarded

    @asynccontextmanager
    async def removing(self) -> AsyncIterator[None]:
        """Remove versions in this context: no commit is running, and new ones wait."""
        if self._is_remote:
            await asyncio.sleep(_GRACE_SECONDS)
        async with locked(self._gate, self._room):
            yield
