"""The lock of a store: whoever commits to a table has it, and alone once there is a journal."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from lance_context_core.engine.files.locks import locked
from lance_context_core.engine.journal import file

LOCK = "journal.lock"
"""The file that is locked, in the directory of the store."""


_PATIENCE_SECONDS = 600
"""How long a commit to a table waits for somebody else's, which may bring a million rows."""


@asynccontextmanager
async def held(
    root: Path, *, shared: bool, refusal: Callable[[float], Exception]
) -> AsyncIterator[None]:
    """Have the lock of the store in that directory, which is made if it is absent.

    Alone, or beside others who share it. Raises a `refusal` of so many seconds where somebody else has
    it for longer.
    """
    lock = root / LOCK
    if not lock.exists():
        await asyncio.to_thread(_make, lock)
    seconds = _PATIENCE_SECONDS
    async with locked(
        lock, shared=shared, patience_seconds=seconds, refusal=lambda: refusal(seconds)
    ):
        yield


def exists(root: Path) -> bool:
    """Whether anybody has had the lock of the store in that directory."""
    return (root / LOCK).exists()


def make_root(root: Path) -> None:
    """Make the directory of a store."""
    with file.translated_os(root):
        root.mkdir(parents=True, exist_ok=True)


def _make(lock: Path) -> None:
    make_root(lock.parent)
    with file.translated_os(lock):
        # Who may only read can wait for it too.
        os.close(os.open(lock, os.O_RDONLY | os.O_CREAT, 0o666))
