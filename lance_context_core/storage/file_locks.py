"""Locks between the processes of one machine: on directories, which need no file of their own.

The system takes a lock from a process that ends, however it ends. Object stores have none.
"""

import asyncio
import math
import os
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has other locks.
    fcntl = None  # type: ignore[assignment]

_LOOK_SECONDS = 0.001
"""How soon it is seen that a lock is free; those who have it do so for milliseconds."""

_LONGEST_LOOK_SECONDS = 0.02
"""How soon at last, where somebody has it for long: many who look often keep him from his end."""

ARE_THERE = fcntl is not None
"""Whether this system has such locks."""


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
    and nothing is held, where there are no such directories, or no such locks. Raises a `refusal`,
    before anything is done, where somebody else has it for longer than `patience_seconds`.
    """
    if fcntl is None or not places[0].is_absolute():
        yield
        return
    gates = [] if behind is None else [behind]
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    locks = _Locks([*gates, *places], len(gates), kind)
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
    kind: int
    held: ExitStack = field(default_factory=ExitStack)
    """Lets go of those that are taken."""
    files: list[int] = field(default_factory=list)
    n_taken: int = 0

    def take(self) -> bool:
        """Take those that are free, in their order; whether that is all.

        They are opened the first time, which is to be in a thread; none is taken unless all are there.
        """
        try:
            for place in self.places[len(self.files) :]:
                self.files.append(os.open(place, os.O_RDONLY))
                self.held.callback(os.close, self.files[-1])
        except OSError:
            self.held.close()
            return True
        for file in self.files[self.n_taken :]:
            try:
                fcntl.flock(file, self.kind | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            except OSError:
                pass  # Not every file system has them.
            else:
                # A child that was forked meanwhile has the file too, and would keep its lock.
                self.held.callback(fcntl.flock, file, fcntl.LOCK_UN)
                if self.n_taken < self.n_gates:
                    fcntl.flock(file, fcntl.LOCK_UN)
            self.n_taken += 1
        return True


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
