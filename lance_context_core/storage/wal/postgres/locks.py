"""The locks of one open store on its server, by name: those of operations on the whole store."""

import asyncio
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any

import psycopg

from lance_context_core._util.crowd import FairLock
from lance_context_core.errors import StorageError
from lance_context_core.storage.wal.postgres.server import LOST_LOCK, Server, end_quietly

_QUEUE_SECONDS = 5
"""As for the lock of the store; no statement here waits."""

_PAUSE_SECONDS = 0.01
_LONGEST_PAUSE_SECONDS = 0.2
"""The intervals at which a waiter asks. A call that waits on the server would keep a thread, which
the holder may need."""


class NamedLocks:
    """Advisory locks of a session; all that an open store holds are of one connection."""

    def __init__(self, server: Server) -> None:
        """Connects with the first lock; without a lock it has no connection."""
        self._server = server
        self._mutex = threading.Lock()
        self._connection: Any = None
        self._n_held = 0
        self._queues: dict[str, FairLock] = {}
        """The tasks of this process that want the same: one of them asks the server."""

    @asynccontextmanager
    async def locked(
        self,
        name: str,
        owners: Sequence[str],
        *,
        patience_seconds: float,
        refusal: Callable[[], Exception],
    ) -> AsyncIterator[Callable[[], None]]:
        """As `StoreLocks.locked`; of a store that others may know by any of these `owners`."""
        keys = [key_of(f"{owner}/{name}") for owner in owners]
        until, pause = time.monotonic() + patience_seconds, _PAUSE_SECONDS
        async with AsyncExitStack() as held:
            try:
                queue = self._queues.setdefault(name, FairLock())
                await held.enter_async_context(queue.held(patience_seconds))
            except TimeoutError:
                raise refusal() from None
            while (connection := await self._taken(keys)) is None:
                if time.monotonic() > until:
                    raise refusal()
                await asyncio.sleep(pause)
                pause = min(1.5 * pause, _LONGEST_PAUSE_SECONDS)
            # Also when cancelled: the locks would stay until the last one is released.
            held.push_async_callback(_whole, self._release, connection, keys)
            require = partial(self._require, connection)
            yield require
            await asyncio.to_thread(require)

    # In threads

    async def _taken(self, keys: Sequence[int]) -> Any | None:
        """As `_take`; a cancelled caller holds nothing."""
        taking = asyncio.ensure_future(asyncio.to_thread(self._take, keys))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            with suppress(StorageError):
                if (connection := await taking) is not None:
                    await asyncio.to_thread(self._release, connection, keys)
            raise

    def _take(self, keys: Sequence[int]) -> Any | None:
        """The connection that has these locks now; None if another holder has one of them."""
        with self._mutex:
            if self._connection is None:
                self._connection = self._server.begin_lock(_QUEUE_SECONDS)
            connection, taken = self._connection, list[int]()
            try:
                with self._server.translated():
                    for key in keys:
                        asked = connection.execute("SELECT pg_try_advisory_lock(%b)", [key])
                        if not asked.fetchone()[0]:
                            break
                        taken.append(key)
                    else:
                        self._n_held += 1
                        return connection
                    self._unlock(connection, taken)
            except BaseException:
                self._drop()
                raise
            self._end_unused()
            return None

    def _release(self, connection: Any, keys: Sequence[int]) -> None:
        with self._mutex:
            if connection is not self._connection:
                return  # it was lost, and all of its locks with it
            try:
                self._unlock(connection, keys)
            except psycopg.Error:
                self._drop()
                return
            self._n_held -= 1
            self._end_unused()

    def _require(self, connection: Any) -> None:
        """Raise StorageError if that connection, and so its locks, were lost."""
        try:
            connection.execute("SELECT 1")
        except psycopg.Error as error:
            raise StorageError(LOST_LOCK.format(self._server.address.host)) from error

    def _unlock(self, connection: Any, keys: Sequence[int]) -> None:
        for key in keys:
            connection.execute("SELECT pg_advisory_unlock(%b)", [key])

    def _end_unused(self) -> None:
        if not self._n_held:
            self._server.end_lock(self._connection)
            self._connection = None

    def _drop(self) -> None:
        """End the connection: who holds a lock of it is refused from now on."""
        end_quietly(self._connection)
        self._connection, self._n_held = None, 0


def key_of(name: str) -> int:
    """The advisory lock of that name."""
    return uuid.uuid5(uuid.NAMESPACE_URL, name).int >> 66


async def _whole(work: Callable[..., None], *given: Any) -> None:
    """Run it in a thread, to its end."""
    await asyncio.shield(asyncio.to_thread(work, *given))
