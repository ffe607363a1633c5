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
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextvars import Context
from enum import Enum
from typing import Any, Generic, TypeVar

from lance_context_core._util.workers import Workers, wait_for_all
from lance_context_core.errors import BlockingCallError, StoreClosedError

T = TypeVar("T")


class WouldBlock(Enum):
    """Signals that a call cannot run in the caller's thread; it has not begun."""

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
        """Reset the state: in a forked child the thread and the lock are invalid."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._here = threading.local()
        self._is_over = False
        self._ended: list[asyncio.AbstractEventLoop] = []

    def run(self, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return or raise the result of the coroutine that `ask` returns; else as `block_on`."""
        if self.is_here():
            raise BlockingCallError(
                "a blocking call on the store's own event loop would wait for itself: "
                "await the asynchronous object there, as that of a store, store.aio"
            )
        if self._is_to_end():
            raise SystemExit
        call = _Call(ask)
        try:
            self._begin(call)
        except BaseException:
            if call.future.cancel() and call.has_begun:
                call.await_end()
            raise
        try:
            return call.future.result()
        except BaseException as error:
            if isinstance(error, CancelledError) and self._is_to_end():
                raise SystemExit from None
            if call.future.cancel():
                call.await_end()
            raise

    def spawn(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Start `work` on the store's loop, from any thread, without waiting for it.

        Raises StoreClosedError while the interpreter is taken apart: nothing runs then any more.
        """
        call = _Call(lambda: work)
        self._begin(call)
        return call.future

    def spawn_apart(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """As `spawn`, but independent of the caller and its context variables.

        During finalization of the interpreter it does not begin: the next process does the work.
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
        """Cancel running work and end the thread; the next call starts another one."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(timeout=_PATIENCE_SECONDS)

    def end(self) -> None:
        """As `stop`, at the exit of the interpreter: daemon threads that ask for more end, too.

        Its loop is not closed: the engine may still have an answer for it.
        """
        self._is_over = True
        self.stop()

    def close(self) -> None:
        """Close the loops that have ended at the exit."""
        while self._ended:
            self._ended.pop().close()

    def _is_to_end(self) -> bool:
        """Whether this thread ends with the interpreter, which is about to: it does so quietly."""
        return self._is_over and threading.current_thread().daemon

    def _begin(self, call: "_Call[T]") -> None:
        if sys.is_finalizing():
            raise StoreClosedError(
                "the interpreter is shutting down: use the store before, "
                "at the latest in a function that is registered with atexit"
            )
        loop = self._running_loop()
        loop.call_soon_threadsafe(call.begin, loop)

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
        """Run `loop` until it is stopped, then cancel remaining tasks and close it.

        Unlike `asyncio.Runner`, which ends the executor in one more thread: some Python versions
        start none at exit.
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
            if self._is_over:
                self._ended.append(loop)
            else:
                loop.close()


class _Call(Generic[T]):
    """Work for the loop, and the future for its end in the thread that asks for it.

    Its coroutine is made on the loop's thread. An interrupt arrives in the main thread, between any two
    steps there: it could take away a coroutine that is made and not yet awaited, which Python warns of.
    """

    def __init__(self, ask: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self.future: Future[T] = Future()
        self.has_begun = False
        self._ask = ask
        self._has_ended = False

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start it, on the loop; if it is cancelled by now, it does nothing."""
        self.has_begun = True
        try:
            work = self._ask()
        except Exception as error:  # noqa: BLE001 - the caller's, as of a call with wrong arguments
            self._end_with(error)
            return
        if self.future.cancelled():
            work.close()
            self._has_ended = True
            return
        task = loop.create_task(work)
        task.add_done_callback(self._end)

        def cancel(future: "Future[T]") -> None:
            if future.cancelled() and not task.done():
                loop.call_soon_threadsafe(task.cancel)

        self.future.add_done_callback(cancel)

    def await_end(self) -> None:
        """Wait for cancelled work: a commit in progress finishes before the store is closed.

        A second interrupt ends the wait.
        """
        while not self._has_ended:
            time.sleep(_PAUSE_SECONDS)

    def _end(self, task: "asyncio.Task[T]") -> None:
        if task.cancelled():
            self._has_ended = True
            self.future.cancel()
            self.future.set_running_or_notify_cancel()
        elif (error := task.exception()) is not None:
            self._end_with(error)
        else:
            self._has_ended = True
            if self.future.set_running_or_notify_cancel():
                self.future.set_result(task.result())

    def _end_with(self, error: BaseException) -> None:
        self._has_ended = True
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)


store_loop = StoreLoop()
"""The one loop of the process; it serves any number of stores."""


def block_on(work: Coroutine[Any, Any, T] | Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run `work` on the store's event loop, wait for it, and return its result or raise its error.

    `work` is a coroutine or a function that returns one, which is called on the loop, where no
    interrupt arrives.

    Works in any thread, also in one that runs an event loop, which is blocked meanwhile. `work` sees
    the context variables of the caller. An interrupt such as Ctrl-C cancels it, and is raised once it
    has ended; a second one is raised at once. On the store's own loop it would wait for itself, so
    BlockingCallError is raised before it begins. A daemon thread that calls at the exit of the
    interpreter ends there; during finalization StoreClosedError is raised.
    """
    if callable(work):
        return store_loop.run(work)
    try:
        return store_loop.run(lambda: work)
    except BaseException:
        if inspect.getcoroutinestate(work) == inspect.CORO_CREATED:  # It is cancelled, or refused.
            work.close()
        raise


def nothing_is_left() -> WouldBlock | None:
    """None while the interpreter is taken apart, when the loop has ended and all it did; else LATER."""
    return None if sys.is_finalizing() else WOULD_BLOCK


def begin(work: Coroutine[Any, Any, T]) -> "Future[T]":
    """Start `work` as `block_on` does, without waiting for it.

    The future is one of threads, for `asyncio.wrap_future`; cancelling it cancels the work.
    """
    return store_loop.spawn(work)


def end_at_exit() -> None:
    """Register the end of the loop and its workers at the exit, before handlers registered so far.

    Called after the import of the engine, so it runs before the engine ends: at its end the engine
    waits for its threads, and holds resources that a call from this loop needs to return. Background
    work that the end of the interpreter interrupts prints an error, and a thread inside a native
    library that is unloaded crashes the process.
    """
    atexit.unregister(_end)
    atexit.register(_end)


def _end() -> None:
    store_loop.end()
    wait_for_all()


atexit.register(store_loop.close)
end_at_exit()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=store_loop.forget)
