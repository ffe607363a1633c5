"""From blocking calls to the asynchronous store: one event loop of our own, in one thread.

The engine has such a loop too, but a blocking call made there would stall its other users.
"""

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from lance_context_core.errors import BlockingCallError

T = TypeVar("T")


class Bridge:
    """An event loop in a daemon thread, started at the first use and again after a fork."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start anew: in a forked child neither the thread nor the lock is what it was."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for `work`, which runs on the bridge's loop, and return its result.

        An interrupt such as Ctrl-C cancels the work. Raises BlockingCallError instead of waiting
        for itself when called on that loop.
        """
        future = self.spawn(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def spawn(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Start `work` on the bridge's loop."""
        loop = self._running_loop()
        if threading.current_thread() is self._thread:
            work.close()
            raise BlockingCallError(
                "a blocking call on the store's own event loop would wait for itself: "
                "use the asynchronous twin, store.aio, there"
            )
        return asyncio.run_coroutine_threadsafe(work, loop)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="lance-context", daemon=True
                )
                self._thread.start()
            return self._loop


bridge = Bridge()
"""The one bridge of the process; the loop serves any number of stores."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=bridge.forget)
