"""Locks between the processes of one machine on the files and directories of a store.

The system takes a lock from a process that ends, however it ends. Object stores have none. Unix locks
a file or directory itself, by `flock`; other systems, such as Windows, a file of its own, by SQLite.
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
except ImportError:  # Windows has other locks.
    fcntl = None  # type: ignore[assignment]

_LOOK_SECONDS = 0.001
"""How soon it is seen that a lock is free; those who have it do so for milliseconds."""

_LONGEST_LOOK_SECONDS = 0.02
"""How soon at last, where somebody has it for long: many who look often keep him from his end."""


@asynccontextmanager
async def locked(
    *places: Path,
    shared: bool = False,
    behind: Path | None = None,
    patience_seconds: float = math.inf,
    refusal: Callable[[], Exception] = TimeoutError,
) -> AsyncIterator[None]:
    """Have the locks of those directories, one after the other; alone, or beside others who share them.

    With `behind` a moment is waited for in which nobody has the lock of that one alone. Nobody waits,
    and nothing is held, where there are no such directories, or the file system has no locks. Raises a `refusal`,
    before anything is done, where somebody else has it for longer than `patience_seconds`.
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
    """Locks that are being taken, one after the other."""

    places: list[Path]
    n_gates: int
    """So many are at the beginning, and are let go of at once."""
    is_shared: bool
    held: ExitStack = field(default_factory=ExitStack)
    """Lets go of those that are taken."""
    opened: "list[_Lock]" = field(default_factory=list)
    n_taken: int = 0

    def take(self) -> bool:
        """Take those that are free, in their order; whether that is all.

        They are opened the first time, which is to be in a thread; none is taken unless all are there.
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
    """The lock of one place, as one holder asks for it."""

    def __init__(self, place: Path) -> None:
        """Raises OSError or an error of SQLite if there is no such place, or it cannot be locked."""

    def take(self, *, is_shared: bool) -> bool:
        """Take it if it is free, without waiting; whether it is not another's.

        True, with nothing taken, on a file system that has no locks.
        """

    def release(self) -> None:
        """Let go of it."""

    def close(self) -> None:
        """Ask for it no more."""


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
            pass  # Not every file system has them.
        return True

    def release(self) -> None:
        # A child that was forked meanwhile has the file too, and would keep its lock.
        with suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._file)


class _SQLiteLock:
    """The lock of a database of its own, in which nothing is ever written; satisfies `_Lock`.

    SQLite locks on every system, for one or for several who share it, which `msvcrt` cannot.
    """

    FOLDER = "_locks"
    """In the directory of the store: the folders of tables belong to the engine."""

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
                # Only a read takes the lock that others may share.
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
"""What this system has; tests choose the other one."""


# Which file system a directory is on: whether other machines have it too.

_TABLE = Path("/proc/self/mountinfo")
"""Where Linux tells it; nothing is known of other systems."""

_SHARED = re.compile(
    r"nfs\d?|cifs|smb\d?|smbfs|afs|ceph|lustre|glusterfs|beegfs|gpfs|ocfs2|gfs2"
    r"|fuse\.(sshfs|glusterfs|s3fs|gcsfuse|goofys|rclone|ceph|blobfuse2?|juicefs|mount-s3)"
)
"""Those that several machines may have at once. There is no memory that these would share."""


def is_shared(place: Path) -> bool:
    """Whether other machines may have the directory `place` too, which need not be there yet."""
    there = os.path.realpath(place)
    points = {point: kind for point, kind in _mounts() if _is_within(there, point)}
    # What was mounted last on a point hides what is below it.
    return bool(points) and _SHARED.fullmatch(points[max(points, key=len)]) is not None


def _mounts() -> list[tuple[str, str]]:
    """Where something is mounted, and what sort of file system it is, in the order of mounting."""
    try:
        # A path may hold all else that ends a line for Python.
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
