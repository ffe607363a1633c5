"""Waits for a change of a table: woken by this process, polled for other processes."""

import asyncio
import threading
import time
from collections.abc import Hashable
from contextlib import suppress
from weakref import WeakValueDictionary

from lance_context_core._util.crowd import FairLock
from lance_context_core.storage.table_reads import TableReads

_PAUSE_SECONDS = 0.002
"""Before the second look for the writes of other processes; each further pause is longer."""

_LONGEST_PAUSE_SECONDS = 0.25
_LONGEST_PAUSE_OF_A_FILE_SECONDS = 0.01
"""Where a look takes microseconds, and is no request to a server or an object store."""


class ChangeWaits:
    """The callers that wait for a change of one table; safe to share between threads and loops."""

    def __init__(self, table: TableReads) -> None:
        """Starts without callers."""
        self.waiting: set[asyncio.Future[None]] = set()
        """One for each caller, on the loop of that caller."""
        self._table = table
        self._lock = threading.Lock()
        self._turns: WeakValueDictionary[Hashable, FairLock] = WeakValueDictionary()

    def turn(self, of: Hashable) -> FairLock:
        """The lock of the callers on this loop that wait for the same: one looks for all."""
        with self._lock:
            return self._turns.setdefault((asyncio.get_running_loop(), of), FairLock())

    def tell(self) -> None:
        """Wake all callers: the table was written. In any thread."""
        with self._lock:
            waiting = [*self.waiting]
        for told in waiting:
            with suppress(RuntimeError):  # the loop has ended, with all waiters on it
                told.get_loop().call_soon_threadsafe(_wake, told)

    async def wait(self, token: int, *, seconds: float) -> None:
        """Return once the table's token differs from `token`, at the latest after so many seconds.

        A write through the same table object wakes it at once; a write of another process within
        ten milliseconds, or a quarter of a second if a look is a request to a server.
        """
        loop, until, pause = asyncio.get_running_loop(), time.monotonic() + seconds, _PAUSE_SECONDS
        longest = _LONGEST_PAUSE_OF_A_FILE_SECONDS if self._is_cheap() else _LONGEST_PAUSE_SECONDS
        while (left := until - time.monotonic()) > 0:
            told = loop.create_future()
            with self._lock:
                self.waiting.add(told)
            try:
                # Looked up once it waits: a write after this look wakes it.
                if await self._table.token() != token:
                    return
                await _either(told, min(pause, left))
                pause = min(1.5 * pause, longest)
            finally:
                with self._lock:
                    self.waiting.discard(told)

    def _is_cheap(self) -> bool:
        """Whether a look takes microseconds."""
        journal = self._table.access.connection.journal
        return journal is not None and journal.log.is_quick and journal.log.session is not None


async def _either(told: "asyncio.Future[None]", seconds: float) -> None:
    """Wait until the future is set, or so many seconds: as `asyncio.wait`, in less time."""
    timer = told.get_loop().call_later(seconds, _wake, told)
    try:
        await told
    finally:
        timer.cancel()


def _wake(told: "asyncio.Future[None]") -> None:
    if not told.done():
        told.set_result(None)
