"""How long an event loop stands still."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_TICK_SECONDS = 0.001


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
