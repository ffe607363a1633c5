"""Locks between the processes of one machine: on directories, which need no file of their own.

The system takes a lock from a process that ends, however it ends. Object stores have none.
"""

import asyncio
import math
import os
import time
from collections.abc import AsyncIterator
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


@asynccontextmanager
async def locked(
    *places: Path,
    shared: bool = False,
    behind: Path | None = None,
    patience_seconds: float = math.inf,
) -> AsyncIterator[None]:
    """Have the locks of those directories, one after the other; alone, or beside others who share them.

    With `behind` a moment is waited for in which nobody has the lock of that one alone. Nobody waits,
    and nothing is held, where there are no such directories, or no such locks. Raises TimeoutError,
    before anything is done, where somebody else has it for longer than `patience_seconds`.
    """
    until = time.monotonic() + patience_seconds
    opened = [*places] if behind is None else [behind, *places]
    files = await _opened(opened) if fcntl is not None and opened[0].is_absolute() else []
    try:
        if files and behind is not None:
            await _lock(files[0], shared=shared, until=until)
            _close(files.pop(0))
        for file in files:
            await _lock(file, shared=shared, until=until)
        yield
    finally:
        for file in files:
            _close(file)


async def _opened(places: list[Path]) -> list[int]:
    """Their file descriptors; none unless all are there."""
    opening = asyncio.ensure_future(asyncio.to_thread(_open, places))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_close_opened)
        raise


def _close_opened(opening: asyncio.Future[list[int]]) -> None:
    if not opening.cancelled():
        for file in opening.result():
            _close(file)


def _open(places: list[Path]) -> list[int]:
    files: list[int] = []
    try:
        files.extend(os.open(place, os.O_RDONLY) for place in places)
    except OSError:
        for file in files:
            os.close(file)
        return []
    return files


def _close(file: int) -> None:
    with suppress(OSError):  # Not every file system has locks.
        # A child that was forked meanwhile has the file too, and would keep its lock.
        fcntl.flock(file, fcntl.LOCK_UN)
    os.close(file)


async def _lock(file: int, *, shared: bool, until: float) -> None:
    kind, pause = fcntl.LOCK_SH if shared else fcntl.LOCK_EX, _LOOK_SECONDS
    while True:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise TimeoutError from None
            await asyncio.sleep(pause)
            pause = min(pause * 1.1, _LONGEST_LOOK_SECONDS)
        except OSError:  # Not every file system has them.
            return
        else:
            return
