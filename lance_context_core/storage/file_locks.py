"""Locks on the files and directories of a store, between the processes of one machine.

The system releases a lock when its process ends, however it ends. Object stores have no locks. Unix
locks a file or directory itself, by `flock`; other systems, such as Windows, a separate file, by
SQLite.
"""

import asyncio
import math
import os
import re
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

try:
    import fcntl
except ImportError:  # Windows has other locks
    fcntl = None  # type: ignore[assignment]

_LOOK_SECONDS = 0.001
"""The interval at which a free lock is noticed; holders keep it for milliseconds."""

_LONGEST_LOOK_SECONDS = 0.02
"""The longest such interval, for long holders: many frequent polls slow down the holder."""


@asynccontextmanager
async def locked(
    *places: Path,
    shared: bool = False,
    behind: Path | None = None,
    patience_seconds: float = math.inf,
    refusal: Callable[[], Exception] = TimeoutError,
) -> AsyncIterator[None]:
    """Hold the locks of those directories, acquired in order; exclusive or shared.

    With `behind`, waits for a moment in which no process holds that one exclusively. Neither waits
    nor locks if such directories do not exist, or the file system has no locks. Raises a `refusal`,
    before anything is done, if another process holds one for longer than `patience_seconds`.
    """
    if not places[0].is_absolute():
        yield
        return
    gates = [] if behind is None else [behind]
    locks = _Locks([*gates, *places], len(gates), shared)
    opening = asyncio.ensure_future(asyncio.to_thread(locks.take))
    try:
        are_all = await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(lambda _: locks.held.close())
        raise
    with locks.held:
        until, pause = time.monotonic() + patience_seconds, _LOOK_SECONDS
        while not are_all:
            if time.monotonic() > until:
                raise refusal()
            await asyncio.sleep(pause)
            pause = min(pause * 1.1, _LONGEST_LOOK_SECONDS)
            are_all = locks.take()
        yield


@dataclass(slots=True)
class _Locks:
    """Locks that are acquired in order."""

    places: list[Path]
    n_gates: int
    """The number of locks at the start that are released at once."""
    is_shared: bool
    held: ExitStack = field(default_factory=ExitStack)
    """Releases the acquired locks."""
    opened: "list[_Lock]" = field(default_factory=list)
    n_taken: int = 0

    def take(self) -> bool:
        """Acquire the free ones, in order; returns whether that is all.

        The first call opens them, and should run in a thread; acquires none unless all exist.
        """
        try:
            for place in self.places[len(self.opened) :]:
                self.opened.append(_LOCK(place))
                self.held.callback(self.opened[-1].close)
        except (OSError, sqlite3.Error):
            self.held.close()
            return True
        for lock in self.opened[self.n_taken :]:
            if not lock.take(is_shared=self.is_shared):
                return False
            if self.n_taken < self.n_gates:
                lock.release()
            else:
                self.held.callback(lock.release)
            self.n_taken += 1
        return True


class _Lock(Protocol):
    """One holder's lock of one path."""

    def __init__(self, place: Path) -> None:
        """Raises OSError or an SQLite error if the path cannot be locked, or is missing."""

    def take(self, *, is_shared: bool) -> bool:
        """Acquire it if free, without waiting; False if another holder has it.

        Returns True, and acquires nothing, on a file system without locks.
        """

    def release(self) -> None:
        """Release it."""

    def close(self) -> None:
        """Close it."""


class _Flock:
    """The lock of a file or directory itself; satisfies `_Lock` on Unix."""

    def __init__(self, place: Path) -> None:
        self._file = os.open(place, os.O_RDONLY)

    def take(self, *, is_shared: bool) -> bool:
        try:
            fcntl.flock(self._file, (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            pass  # not every file system has locks
        return True

    def release(self) -> None:
        # A child that was forked meanwhile also has the file, and would keep its lock.
        with suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._file)


class _SQLiteLock:
    """The lock of a separate database, which is never written; satisfies `_Lock`.

    SQLite has exclusive and shared locks on every system, which `msvcrt` has not.
    """

    FOLDER = "_locks"
    """In the directory of the store: the directories of tables belong to the engine."""

    def __init__(self, place: Path) -> None:
        place.stat()
        table = next((one for one in (place, place.parent) if one.suffix == ".lance"), None)
        root = table.parent if table is not None else place if place.is_dir() else place.parent
        (root / self.FOLDER).mkdir(exist_ok=True)
        name = "-".join(place.relative_to(root).parts) or "store"
        self._connection = sqlite3.connect(
            root / self.FOLDER / name, timeout=0, isolation_level=None, check_same_thread=False
        )

    def take(self, *, is_shared: bool) -> bool:
        try:
            self._connection.execute("BEGIN" if is_shared else "BEGIN EXCLUSIVE")
            if is_shared:
                # Only a read acquires the shared lock.
                self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError as error:
            self.release()
            return error.sqlite_errorcode not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
        return True

    def release(self) -> None:
        with suppress(sqlite3.Error):
            self._connection.rollback()

    def close(self) -> None:
        self._connection.close()


_LOCK: type[_Lock] = _SQLiteLock if fcntl is None else _Flock
"""This system's lock; tests choose the other one."""


# The file system of a directory: whether other machines share it.

_TABLE = Path("/proc/self/mountinfo")
"""Linux lists the mounts in this file; other systems have none."""

_SHARED = re.compile(
    r"nfs\d?|cifs|smb\d?|smbfs|afs|ceph|lustre|glusterfs|beegfs|gpfs|ocfs2|gfs2"
    r"|fuse\.(sshfs|glusterfs|s3fs|gcsfuse|goofys|rclone|ceph|blobfuse2?|juicefs|mount-s3)"
)
"""The file systems that several machines may mount at once, without shared memory."""


def is_shared(place: Path) -> bool:
    """Whether other machines may share the directory `place`, which need not exist yet."""
    there = os.path.realpath(place)
    points = {point: kind for point, kind in _mounts() if _is_within(there, point)}
    # The last mount on a point hides the earlier ones.
    return bool(points) and _SHARED.fullmatch(points[max(points, key=len)]) is not None


def _mounts() -> list[tuple[str, str]]:
    """The mount points and their file systems, in the order of mounting."""
    try:
        # A path may contain all other characters that end a line for Python.
        lines = _TABLE.read_text(errors="surrogateescape").split("\n")
    except OSError:
        return []
    found = []
    for line in lines:
        about, _, rest = line.partition(" - ")
        if rest:
            point = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), about.split(" ")[4])
            found.append((point, rest.split(" ")[0]))
    return found


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
