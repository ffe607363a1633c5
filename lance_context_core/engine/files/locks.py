"""Locks between the processes of one machine: on directories, which need no file of their own.

The system takes a lock from a process that ends, however it ends. Object stores have none.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has other locks.
    fcntl = None  # type: ignore[assignment]

_LOOK_SECONDS = 0.001
"""How soon it is seen that the lock is free; those who have it do so for milliseconds."""


@asynccontextmanager
async def locked(place: Path, *, shared: bool = False) -> AsyncIterator[None]:
    """Be the only one who has the lock of that directory, or one of those who share it.

    Nobody waits, and nothing is held, where there is no such directory, or no such locks.
    """
    lock = await _lock(place, shared=shared)
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)


async def _lock(place: Path, *, shared: bool) -> int | None:
    """A file descriptor that has the lock until it is closed, or None."""
    if fcntl is None or not place.is_absolute():
        return None
    try:
        lock = os.open(place, os.O_RDONLY)
    except OSError:
        return None
    try:
        while not _has(lock, fcntl.LOCK_SH if shared else fcntl.LOCK_EX):  # noqa: ASYNC110 - others have it
            await asyncio.sleep(_LOOK_SECONDS)
    except OSError:  # Not in every file system.
        os.close(lock)
        return None
    except BaseException:
        os.close(lock)
        raise
    return lock


def _has(lock: int, kind: int) -> bool:
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
