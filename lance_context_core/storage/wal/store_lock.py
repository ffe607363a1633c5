"""The lock of a store in a directory, between processes: shared, or alone; a file that the system locks."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from weakref import WeakValueDictionary

from lance_context_core._util.crowd import FairLock
from lance_context_core.storage.file_locks import locked
from lance_context_core.storage.wal import sqlite

LOCK = "journal.lock"
"""The file that is locked, in the directory of the store."""


_PATIENCE_SECONDS = 600
"""How long a commit to a table waits for somebody else's, which may bring a million rows."""


@asynccontextmanager
async def held(
    root: Path, *, shared: bool, refusal: Callable[[float], Exception]
) -> AsyncIterator[None]:
    """Have the lock of the store in that directory, which is made if it is absent.

    Alone, or beside others who share it. Of those in this process who want it alone one at a time asks
    the system for it, and the others queue behind. Raises a `refusal` of so many seconds where somebody
    else has it for longer.
    """
    lock, seconds = root / LOCK, _PATIENCE_SECONDS
    async with AsyncExitStack() as stack:
        if not shared:
            try:
                await stack.enter_async_context(_queue(root).held(seconds))
            except TimeoutError:
                raise refusal(seconds) from None
        if not lock.exists():
            await asyncio.to_thread(_make, lock)
        await stack.enter_async_context(
            locked(lock, shared=shared, patience_seconds=seconds, refusal=lambda: refusal(seconds))
        )
        yield


_queues: WeakValueDictionary[str, FairLock] = WeakValueDictionary()
"""Those of this process who wait for the lock of a store, by its directory."""
_queues_lock = threading.Lock()


def _queue(root: Path) -> FairLock:
    with _queues_lock:
        return _queues.setdefault(str(root), FairLock())


def _forget_queues() -> None:
    """In a child: who waited before the fork does not wait there."""
    global _queues_lock  # noqa: PLW0603 - another thread may have had it at the fork
    _queues_lock = threading.Lock()
    _queues.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_queues)


def exists(root: Path) -> bool:
    """Whether anybody has had the lock of the store in that directory."""
    return (root / LOCK).exists()


def make_root(root: Path) -> None:
    """Make the directory of a store."""
    with sqlite.translated_os(root):
        root.mkdir(parents=True, exist_ok=True)


def _make(lock: Path) -> None:
    make_root(lock.parent)
    with sqlite.translated_os(lock):
        # Who may only read can wait for it too.
        os.close(os.open(lock, os.O_RDONLY | os.O_CREAT, 0o666))
