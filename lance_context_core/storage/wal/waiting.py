"""Waits for other writers of a log, on an event loop and in a thread."""

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

from lance_context_core._util import cooperative as steps
from lance_context_core._util.extras import Loaded
from lance_context_core._util.workers import Workers
from lance_context_core.errors import StorageError
from lance_context_core.storage.wal.log import BusyError

P = ParamSpec("P")
T = TypeVar("T")

_SHORT_PAUSES_SECONDS = (0.00005, 0.0001, 0.0002)
"""How long a write first waits for another one in its own thread: a small write is over by then,
and a turn of the loop costs as much."""

_PAUSE_SECONDS = 0.0005
_LONGEST_PAUSE_SECONDS = 0.002
_LONGEST_PAUSE_OF_A_THREAD_SECONDS = 0.006
"""Longer than on a loop, where other tasks go on: many frequent polls slow down the writer."""

_PATIENCE_SECONDS = 60
"""How long a write waits for another one."""


class Waiting:
    """Retries work that needs exclusive access until the other writer is done."""

    def __init__(self, path: Path | str, *, is_quick: bool = True) -> None:
        """Waits for the log at `path`, on the event loop itself only if it `is_quick`."""
        self._path = path
        self._is_quick = is_quick

    async def insist(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` once no other writer is active, without blocking the loop."""
        # Nothing else here yields: a caller without a pause, or a hundred, would block the loop.
        await steps.may_take(1)
        until, pause = time.monotonic() + _PATIENCE_SECONDS, 0.0
        while True:
            try:
                if not self._is_quick:
                    return await _in_a_thread(partial(work, *args, **kwargs))
                return (
                    self.at_first(lambda: work(*args, **kwargs))
                    if not pause
                    else work(*args, **kwargs)
                )
            except BusyError as error:
                if time.monotonic() > until:
                    raise self.locked(_PATIENCE_SECONDS) from error
                pause = self.longer(pause)
                await asyncio.sleep(pause)

    @property
    def patience_seconds(self) -> float:
        """How long a write waits for another one."""
        return _PATIENCE_SECONDS

    def at_first(self, work: Callable[[], T]) -> T:
        """Try `work` a few times, for less than a turn of the loop takes."""
        for pause in _SHORT_PAUSES_SECONDS:
            try:
                return work()
            except BusyError:
                time.sleep(pause)
        return work()

    def longer(self, pause_seconds: float) -> float:
        """The delay after another failed try on a loop; pass 0 for the first."""
        return min(pause_seconds * 1.5 or _PAUSE_SECONDS, _LONGEST_PAUSE_OF_A_THREAD_SECONDS)

    def until_free(self, work: Callable[[], T]) -> T:
        """As `insist`, in a thread of its own."""
        try:
            return retry_busy(work, _PATIENCE_SECONDS)
        except BusyError as error:
            raise self.locked(_PATIENCE_SECONDS) from error

    def locked(self, seconds: float) -> StorageError:
        """The error after waiting that many seconds."""
        return StorageError(
            f"the write-ahead log {str(self._path)!r} was locked by another process for {seconds} "
            "seconds: nothing was written. A process that is stopped keeps its lock: end it, or let "
            "it go on"
        )


async def _in_a_thread(work: Callable[[], T]) -> T:
    """The result of `work`, by a thread that only calls of logs wait for.

    A holder of the log's lock needs such threads too, so that nothing waits long in one. A cancelled
    caller waits until its call has ended: then the session is free again.
    """
    run = partial(copy_context().run, work)
    calling = asyncio.get_running_loop().run_in_executor(_workers.get(), run)
    try:
        return await asyncio.shield(calling)
    except asyncio.CancelledError:
        while not calling.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([calling])
        raise


_MOST_WORKERS = 32
_workers = Loaded(lambda: Workers(_MOST_WORKERS, "lance-context-log"))
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_workers.forget)


def retry_busy(work: Callable[[], T], seconds: float) -> T:
    """Run `work` in its own thread; raises BusyError if others are active for so long."""
    until, pause = time.monotonic() + seconds, _PAUSE_SECONDS
    while True:
        try:
            return work()
        except BusyError:
            if time.monotonic() > until:
                raise
            time.sleep(pause)
            pause = min(pause * 1.5, 0.006)
