"""Locks of the parts of a store, against all processes that may have it open."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from lance_context_core.storage import file_locks
from lance_context_core.storage.lance.connection import Connection
from lance_context_core.storage.locks import fencing
from lance_context_core.storage.wal.log import StoreLocks


def is_of_server(connection: Connection) -> bool:
    """Whether the log is on a server that locks parts of the store for all machines."""
    return connection.journal is not None and isinstance(connection.journal.log, StoreLocks)


@asynccontextmanager
async def locked(
    connection: Connection,
    folder: str,
    *,
    patience_seconds: float,
    refusal: Callable[[], Exception],
) -> AsyncIterator[None]:
    """Hold the lock of that folder of the store, as "records.lance/data", exclusively.

    In a directory it excludes the other processes of this machine, if the folder exists. With a log
    on a server it excludes those of all machines, and writes in this context raise StorageError
    once it is lost, as the end of the context does. Elsewhere it excludes none. Raises a `refusal`
    if another holder keeps one of both locks for longer than `patience_seconds`.
    """
    async with AsyncExitStack() as held:
        if connection.root is not None:
            locking = file_locks.locked(
                connection.root / folder, patience_seconds=patience_seconds, refusal=refusal
            )
            await held.enter_async_context(locking)
        log = None if connection.journal is None else connection.journal.log
        if isinstance(log, StoreLocks):
            require = await held.enter_async_context(
                log.locked(folder, patience_seconds=patience_seconds, refusal=refusal)
            )
            held.enter_context(fencing.fenced(fencing.ServerFence(connection.place, require)))
        yield
