"""Locks between the processes of one machine: on directories, which need no file of their own.

The system takes a lock from a process that ends, however it ends. Object stores have none.
"""

import asyncio
import math
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
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
    gates = [] if behind is None else [behind]
    if fcntl is None or not places[0].is_absolute():
        yield
        return
    files: list[int] = []
    try:
        # This is a word with the system, as asking for a lock is, and takes no thread.
        with suppress(OSError):
            files.extend(os.open(place, os.O_RDONLY) for place in [*gates, *places])
        are_all = len(files) == len(gates) + len(places)
        if are_all and not await _lock(files, len(gates), shared=shared, seconds=patience_seconds):
            raise refusal()
        yield
    finally:
        for file in files:
            with suppress(OSError):  # Not every file system has locks.
                # A child that was forked meanwhile has the file too, and would keep its lock.
                fcntl.flock(file, fcntl.LOCK_UN)
            os.close(file)


async def _lock(files: list[int], n_gates: int, *, shared: bool, seconds: float) -> bool:
    """Lock them one after the other, the gates for a moment alone; False where that takes longer."""
    kind, pause, n_locked = fcntl.LOCK_SH if shared else fcntl.LOCK_EX, _LOOK_SECONDS, 0
    until = time.monotonic() + seconds
    while n_locked < len(files):
        try:
            fcntl.flock(files[n_locked], kind | fcntl.LOCK_NB)
            if n_locked < n_gates:
                fcntl.flock(files[n_locked], fcntl.LOCK_UN)
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            await asyncio.sleep(pause)
            pause = min(pause * 1.1, _LONGEST_LOOK_SECONDS)
            continue
        except OSError:  # Not every file system has them.
            pass
        n_locked, pause = n_locked + 1, _LOOK_SECONDS
    return True
