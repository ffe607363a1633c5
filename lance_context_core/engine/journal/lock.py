"""The lock of a store: whoever commits to a table has it, and alone once there is a journal."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from lance_context_core.engine.files.locks import locked
from lance_context_core.engine.journal import file

LOCK = "journal.lock"
"""The file that is locked, in the directory of the store."""


@asynccontextmanager
async def held(root: Path, *, shared: bool, patience_seconds: float) -> AsyncIterator[None]:
    """Have the lock of the store in that directory, which is made if it is absent.

    Alone, or beside others who share it. Raises TimeoutError where somebody else has it for longer
    than `patience_seconds`.
    """
    lock = root / LOCK
    if not lock.exists():
        await asyncio.to_thread(_make, lock)
    async with locked(lock, shared=shared, patience_seconds=patience_seconds):
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
