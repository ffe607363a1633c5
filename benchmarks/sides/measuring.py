"""What a side measures: seconds, stalls of its loop, its memory, and what lies on the disk."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CPU = "BENCHMARKS_CPU"
"""The variable of the environment that says whether the process's own work is measured, not the time."""

_TICK_SECONDS = 0.001

clock = time.process_time if os.environ.get(CPU) else time.perf_counter
"""Tells seconds."""


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """The seconds that `call` took, and what it returned."""
    start = clock()
    result = call()
    return clock() - start, result


async def timed_async(work: Awaitable[Any]) -> tuple[float, Any]:
    """The seconds until `work` was done, or those of work until then, and its result."""
    start = clock()
    result = await work
    return clock() - start, result


@asynccontextmanager
async def watched() -> AsyncIterator[list[float]]:
    """By how many seconds each tick was late, of a clock on this loop."""
    lateness = [0.0]

    async def tick() -> None:
        while True:
            start = time.perf_counter()
            await asyncio.sleep(_TICK_SECONDS)
            lateness.append(time.perf_counter() - start - _TICK_SECONDS)

    ticking = asyncio.create_task(tick())
    try:
        yield lateness
    finally:
        ticking.cancel()


@dataclass
class Stalls:
    """How long a loop stood still at most, in seconds."""

    longest: float = 0.0
    longest_at_work: float = 0.0
    """As its thread worked meanwhile, by the clock of its CPU: what others took of it is left out."""


@asynccontextmanager
async def stalls_here() -> AsyncIterator[Stalls]:
    """The stalls of this loop, as they are found."""
    found = Stalls()

    async def tick() -> None:
        while True:
            start, worked = time.perf_counter(), time.thread_time()
            await asyncio.sleep(_TICK_SECONDS)
            late = time.perf_counter() - start - _TICK_SECONDS
            found.longest = max(found.longest, late)
            found.longest_at_work = max(found.longest_at_work, time.thread_time() - worked)

    ticking = asyncio.create_task(tick())
    try:
        yield found
    finally:
        ticking.cancel()


def peak_bytes() -> int:
    """The most memory that this process has had. Raises OSError where the system does not tell."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise OSError("this system does not tell a process's peak of memory (VmHWM)")


def bytes_in(directory: str) -> int:
    """What all files below a directory hold."""
    return sum(path.stat().st_size for path in Path(directory).rglob("*") if path.is_file())
