"""From blocking calls to the asynchronous store: one event loop of our own, in one thread.

The engine has such a loop too, but a blocking call made there would stall its other users.
"""

import asyncio
import atexit
import inspect
import os
import sys
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from contextvars import Context
from enum import Enum
from typing import Any, TypeVar

from lance_context_core._util.workers import Workers, wait_for_all
from lance_context_core.errors import BlockingCallError, StoreClosedError

T = TypeVar("T")


class WouldBlock(Enum):
    """Says that something cannot be done in the caller's thread, and that nothing of it is done."""

    LATER = "later"


WOULD_BLOCK = WouldBlock.LATER

_PAUSE_SECONDS = 0.005

_PATIENCE_SECONDS = 5
"""How long an exit waits for work that does not end when it is cancelled."""

_MOST_WORKERS = 32
"""As many as asyncio has on a large machine: they wait for disks, not for processors."""


class StoreLoop:
    """An event loop in a daemon thread, started at the first use and again after a fork."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start anew: in a forked child neither the thread nor the lock is what it was."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._here = threading.local()
        self._is_over = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """As `block_on`."""
        try:
            future = self._begun(work)
        except BaseException:
            with suppress(ValueError):  # Interrupted when it had begun: it goes on.
                work.close()
            raise
        try:
            return future.result()
        except BaseException as error:
            if isinstance(error, CancelledError) and self._is_to_end():
                raise SystemExit from None
            if future.cancel():
                _await_end(work)
            raise

    def _begun(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        if self.is_here():
            raise BlockingCallError(
                "a blocking call on the store's own event loop would wait for itself: "
                "await the asynchronous object there, as that of a store, store.aio"
            )
        if self._is_to_end():
            raise SystemExit
        return self.spawn(work)

    def spawn(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Start `work` on the store's loop, from any thread, without waiting for it.

        Raises StoreClosedError while the interpreter is taken apart: nothing runs then any more.
        """
        if sys.is_finalizing():
            raise StoreClosedError(
                "the interpreter is at its end, and takes no work any more: use the store before, "
                "at the latest in a function that is registered with atexit"
            )
        return asyncio.run_coroutine_threadsafe(work, self._running_loop())

    def spawn_apart(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """As `spawn`, of what is no part of what the caller does, and sees nothing of its context.

        While the interpreter is taken apart it is not begun: the next process does it.
        """
        if sys.is_finalizing():
            work.close()
            never: Future[T] = Future()
            never.cancel()
            return never
        return Context().run(self.spawn, work)

    def is_here(self) -> bool:
        """Whether this thread is the loop's."""
        return hasattr(self._here, "loop")

    def stop(self) -> None:
        """Cancel what still runs and end the thread; the next call starts another one."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(timeout=_PATIENCE_SECONDS)

    def end(self) -> None:
        """As `stop`, at the exit of the interpreter: daemon threads that ask for more end, too."""
        self._is_over = True
        self.stop()

    def _is_to_end(self) -> bool:
        """Whether this thread ends with the interpreter, which is about to: it does so quietly."""
        return self._is_over and threading.current_thread().daemon

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        # What a stop cancels may begin something more: that ends with the loop that it is on.
        if self.is_here():
            here: asyncio.AbstractEventLoop = self._here.loop
            return here
        with self._lock:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                thread = threading.Thread(
                    target=self._serve, args=[loop], name="lance-context", daemon=True
                )
                try:
                    thread.start()
                except RuntimeError:
                    loop.close()
                    raise
                self._loop, self._thread = loop, thread
            return self._loop

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run `loop` until it is stopped, then cancel what is left in it and close it.

        As `asyncio.Runner`, which ends the executor in one more thread: at an exit not every Python
        starts one.
        """
        self._here.loop = loop
        workers = Workers(_MOST_WORKERS, "lance-context-worker")
        loop.set_default_executor(workers)
        try:
            loop.run_forever()
            while tasks := asyncio.all_tasks(loop):
                for task in tasks:
                    task.cancel()
                loop.run_until_complete(asyncio.wait(tasks))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            workers.shutdown(wait=False)
            loop.close()


def _await_end(work: Coroutine[Any, Any, object]) -> None:
    """Wait for what is cancelled: a commit that is begun is done before the store may be closed.

    Interrupted once more, it waits no longer.
    """
    while inspect.getcoroutinestate(work) != inspect.CORO_CLOSED:
        time.sleep(_PAUSE_SECONDS)


store_loop = StoreLoop()
"""The one loop of the process; it serves any number of stores."""


def block_on(work: Coroutine[Any, Any, T]) -> T:
    """What `work` returns, or raises: it runs on the store's event loop, and this thread waits.

    For any thread, also for one that runs an event loop, which stands still meanwhile. `work` sees
    the context variables of the caller. An interrupt such as Ctrl-C cancels it, and is raised once it
    has ended; a second one at once. On the store's loop itself it would wait for itself: there it is
    not begun, and BlockingCallError is raised. A daemon thread that calls at the exit of the interpreter
    ends there; after it, while the interpreter is taken apart, StoreClosedError is raised.
    """
    return store_loop.run(work)


def nothing_is_left() -> WouldBlock | None:
    """None while the interpreter is taken apart, when the loop has ended and all it did; else LATER."""
    return None if sys.is_finalizing() else WOULD_BLOCK


def begin(work: Coroutine[Any, Any, T]) -> "Future[T]":
    """Start `work` as `block_on` does, without waiting for it.

    The future is one of threads, for `asyncio.wrap_future`; cancelling it cancels the work.
    """
    return store_loop.spawn(work)


def end_at_exit() -> None:
    """Have the loop and its workers end at the exit, before all that was registered until now.

    Background work that is cut off by the end of the interpreter complains about it, and a thread
    that is in a library of another language when that is taken apart takes the process along.
    """
    atexit.unregister(_end)
    atexit.register(_end)


def _end() -> None:
    store_loop.end()
    wait_for_all()


end_at_exit()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=store_loop.forget)
