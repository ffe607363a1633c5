"""From blocking calls to the asynchronous store: one event loop of our own, in one thread.

The engine has such a loop too, but a blocking call made there would stall its other users.
"""

import asyncio
import atexit
import inspect
import os
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import Future
from contextvars import Context
from enum import Enum
from typing import Any, TypeVar

from lance_context_core.errors import BlockingCallError

T = TypeVar("T")


class Later(Enum):
    """Says that something cannot be done in the caller's thread, and that nothing of it is done."""

    LATER = "later"


LATER = Later.LATER

_PAUSE_SECONDS = 0.005

_PATIENCE_SECONDS = 5
"""How long an exit waits for work that does not end when it is cancelled."""


class StoreLoop:
    """An event loop in a daemon thread, started at the first use and again after a fork."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start anew: in a forked child neither the thread nor the lock is what it was."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """As `block_on`."""
        if self.is_here():
            work.close()
            raise BlockingCallError(
                "a blocking call on the store's own event loop would wait for itself: "
                "await the asynchronous object there, as that of a store, store.aio"
            )
        future = self.spawn(work)
        try:
            return future.result()
        except BaseException:
            if future.cancel():
                _await_end(work)
            raise

    def spawn(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Start `work` on the store's loop, from any thread, without waiting for it."""
        return asyncio.run_coroutine_threadsafe(work, self._running_loop())

    def spawn_apart(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """As `spawn`, of what is no part of what the caller does, and sees nothing of its context."""
        return Context().run(self.spawn, work)

    def is_here(self) -> bool:
        """Whether this thread is the loop's."""
        return threading.current_thread() is self._thread

    def stop(self) -> None:
        """Cancel what still runs and end the thread; the next call starts another one."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(timeout=_PATIENCE_SECONDS)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_serve, args=[self._loop], name="lance-context", daemon=True
                )
                self._thread.start()
            return self._loop


def _await_end(work: Coroutine[Any, Any, object]) -> None:
    """Wait for what is cancelled: a commit that is begun is done before the store may be closed.

    Interrupted once more, it waits no longer.
    """
    while inspect.getcoroutinestate(work) != inspect.CORO_CLOSED:
        time.sleep(_PAUSE_SECONDS)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run `loop` until it is stopped, then cancel what is left in it and close it."""
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop().run_forever()


store_loop = StoreLoop()
"""The one loop of the process; it serves any number of stores."""


def block_on(work: Coroutine[Any, Any, T]) -> T:
    """What `work` returns, or raises: it runs on the store's event loop, and this thread waits.

    For any thread, also for one that runs an event loop, which stands still meanwhile. `work` sees
    the context variables of the caller. An interrupt such as Ctrl-C cancels it, and is raised once it
    has ended; a second one at once. On the store's loop itself it would wait for itself: there it is
    not begun, and BlockingCallError is raised.
    """
    return store_loop.run(work)


def begin(work: Coroutine[Any, Any, T]) -> "Future[T]":
    """Start `work` as `block_on` does, without waiting for it.

    The future is one of threads, for `asyncio.wrap_future`; cancelling it cancels the work.
    """
    return store_loop.spawn(work)


# Background work that is cut off by the end of the interpreter complains about it.
atexit.register(store_loop.stop)

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=store_loop.forget)
