"""What a side measures: seconds, stalls of its loop, its memory, and what lies on the disk."""

import asyncio
import gc
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


class _Collecting:
    """How long Python looked through all objects of the process for garbage: no thread runs meanwhile."""

    _WHOLE = 2
    """The generation of garbage that is looked for among all of them."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._seconds = 0.0
        self._begun: float | None = None
        gc.callbacks.append(self._note)

    @property
    def seconds(self) -> float:
        """All of it until now."""
        seconds, begun = self._seconds, self._begun
        return seconds if begun is None else seconds + time.perf_counter() - begun

    def _note(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] != self._WHOLE:
            return
        if phase == "start":
            self._begun = time.perf_counter()
        elif self._begun is not None:
            took = time.perf_counter() - self._begun
            self._begun = None
            self._seconds, self.longest = self._seconds + took, max(self.longest, took)


collecting = _Collecting()


@asynccontextmanager
async def watched() -> AsyncIterator[list[float]]:
    """By how many seconds each tick was late, of a clock on this loop, `collecting` left out."""
    lateness = [0.0]

    async def tick() -> None:
        while True:
            start = time.perf_counter() - collecting.seconds
            await asyncio.sleep(_TICK_SECONDS)
            lateness.append(time.perf_counter() - collecting.seconds - start - _TICK_SECONDS)

    ticking = asyncio.create_task(tick())
    try:
        yield lateness
    finally:
        ticking.cancel()


@dataclass
class Stalls:
    """How long a loop stood still at most, in seconds, `collecting` left out."""

    longest: float = 0.0
    longest_at_work: float = 0.0
    """As its thread worked meanwhile, by the clock of its CPU: what others took of it is left out."""


@asynccontextmanager
async def stalls_here() -> AsyncIterator[Stalls]:
    """The stalls of this loop, as they are found."""
    found = Stalls()

    async def tick() -> None:
        while True:
            start, worked, before = time.perf_counter(), time.thread_time(), collecting.seconds
            await asyncio.sleep(_TICK_SECONDS)
            collected = collecting.seconds - before
            late = time.perf_counter() - start - _TICK_SECONDS - collected
            found.longest = max(found.longest, late)
            # Whichever thread it was that collected.
            at_work = min(time.thread_time() - worked, late + _TICK_SECONDS)
            found.longest_at_work = max(found.longest_at_work, at_work)

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
