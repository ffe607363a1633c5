"""Locks by name, for coroutines of whatever event loops and threads."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakValueDictionary

_PAUSE_SECONDS = 0.001


class _Lock:
    """A lock that can be referred to weakly."""

    def __init__(self) -> None:
        self.held = threading.Lock()


_locks: WeakValueDictionary[tuple[Any, ...], _Lock] = WeakValueDictionary()
_access = threading.Lock()


@asynccontextmanager
async def locked(*name: Any) -> AsyncIterator[None]:
    """Wait until nobody else in this process holds the lock of that name, and hold it."""
    with _access:
        lock = _locks.setdefault(name, _Lock())
    # An asyncio.Lock belongs to one event loop, and LlamaIndex makes a new one for each blocking call.
    while not lock.held.acquire(blocking=False):  # noqa: ASYNC110 - they share no loop
        await asyncio.sleep(_PAUSE_SECONDS)
    try:
        yield
    finally:
        lock.held.release()
