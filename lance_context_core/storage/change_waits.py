"""Waits for a change of a table: told at once in this process, looked for in others."""

import asyncio
import threading
import time
from collections.abc import Hashable
from contextlib import suppress
from weakref import WeakValueDictionary

from lance_context_core._util.crowd import FairLock
from lance_context_core.storage.table_reads import TableReads
from lance_context_core.storage.wal.log import ChangeNotifier, Part

_PAUSE_SECONDS = 0.002
"""Before the second look for the writes of other processes; each further pause is longer."""

_LONGEST_PAUSE_SECONDS = 0.25
_LONGEST_PAUSE_OF_A_FILE_SECONDS = 0.01
"""Where a look takes microseconds, and is no request to a server or an object store."""


class ChangeWaits:
    """The callers that wait for a change of one table; safe to share between threads and loops."""

    def __init__(self, table: TableReads) -> None:
        """Nobody waits yet."""
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

        A write through the same table object wakes it at once; one of another process in some
        milliseconds, or when the log is told of it.
        """
        loop, until, pause = asyncio.get_running_loop(), time.monotonic() + seconds, _PAUSE_SECONDS
        notifier = self._notifier()
        longest = _LONGEST_PAUSE_OF_A_FILE_SECONDS if self._is_cheap() else _LONGEST_PAUSE_SECONDS
        while (left := until - time.monotonic()) > 0:
            told = loop.create_future()
            with self._lock:
                self.waiting.add(told)
            try:
                # Looked up once it waits: a write after this look wakes it.
                if await self._table.token() != token:
                    return
                if notifier is not None:
                    await self._by(notifier, told, token, left)
                else:
                    await _either(told, min(pause, left))
                    pause = min(1.5 * pause, longest)
            finally:
                with self._lock:
                    self.waiting.discard(told)

    def _is_cheap(self) -> bool:
        """Whether a look takes microseconds."""
        journal = self._table.access.connection.journal
        return journal is not None and journal.log.is_quick and journal.log.session is not None

    def _notifier(self) -> ChangeNotifier | None:
        journal = self._table.access.connection.journal
        log = None if journal is None else journal.log
        return log if isinstance(log, ChangeNotifier) else None

    async def _by(
        self, notifier: ChangeNotifier, told: "asyncio.Future[None]", token: int, seconds: float
    ) -> None:
        """Wait for the log, or a writer of this process, whichever is first."""
        part = Part(self._table.name, self._table.ref or "")
        by_log = asyncio.ensure_future(notifier.wait_for_change(part, token, seconds))
        by_log.add_done_callback(lambda _: _wake(told))
        try:
            await told
            if by_log.done():
                by_log.result()
        finally:
            by_log.cancel()


async def _either(told: "asyncio.Future[None]", seconds: float) -> None:
    """Wait until it is told, or so many seconds: as `asyncio.wait`, in a fraction of the time."""
    timer = told.get_loop().call_later(seconds, _wake, told)
    try:
        await told
    finally:
        timer.cancel()


def _wake(told: "asyncio.Future[None]") -> None:
    if not told.done():
        told.set_result(None)
