"""From blocking calls to the asynchronous store: one event loop of our own, in one thread.

The engine has such a loop too, but a blocking call made there would stall its other users.
"""

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future
from contextvars import Context, copy_context
from functools import partial
from types import coroutine
from typing import Any, TypeVar, cast

from lance_context_core.errors import BlockingCallError

T = TypeVar("T")

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
            future.cancel()
            raise

    def run_from_here(self, work: Coroutine[Any, Any, T]) -> T:
        """As `run`, of work that begins in this thread."""
        loop = self._running_loop()
        if self.is_here() or loop.get_debug():
            # A loop that is debugged refuses what it does not see coming.
            return self.run(work)
        context, own = copy_context(), asyncio._get_running_loop()  # noqa: SLF001 - as loops do
        asyncio._set_running_loop(cast(asyncio.AbstractEventLoop, _SeenFromElsewhere(loop)))  # noqa: SLF001
        try:
            waits_for = context.run(work.send, None)
        except StopIteration as done:
            return cast(T, done.value)
        finally:
            asyncio._set_running_loop(own)  # noqa: SLF001
        try:
            return self.run(_go_on(work, waits_for, context))
        except _InterruptedError as error:
            raise error.cause from None

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


class _SeenFromElsewhere:
    """The loop for work that begins in another thread: whatever it asks for is safe between threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self._loop.call_soon_threadsafe(partial(callback, *args), context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> "_Timer":
        return self.call_at(self._loop.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> "_Timer":
        timer = _Timer(partial(callback, *args))
        self.call_soon(partial(self._loop.call_at, when, timer.run), context=context)
        return timer

    def create_task(self, work: Coroutine[Any, Any, T], **_: Any) -> asyncio.Future[T]:
        begun = asyncio.run_coroutine_threadsafe(work, self._loop)
        return asyncio.wrap_future(begun, loop=self._loop)


class _Timer:
    """What is called at some time, unless it is cancelled before."""

    def __init__(self, callback: Callable[[], object]) -> None:
        self._callback: Callable[[], object] | None = callback

    def run(self) -> None:
        if self._callback is not None:
            self._callback()

    def cancel(self) -> None:
        self._callback = None


class _InterruptedError(Exception):
    """Work was interrupted where it began, and has ended since; the loop itself goes on."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(cause)
        self.cause = cause


async def _go_on(work: Coroutine[Any, Any, T], waits_for: Any, context: Context) -> T:
    """The rest of what was begun elsewhere, from where it first waits."""
    try:
        return await _rest(work, waits_for, context)
    except (KeyboardInterrupt, SystemExit) as error:
        raise _InterruptedError(error) from None


@coroutine
def _rest(work: Coroutine[Any, Any, T], waits_for: Any, context: Context) -> Generator[Any, Any, T]:
    while True:
        try:
            step = partial(work.send, (yield waits_for))
        except BaseException as error:  # noqa: BLE001 - it is for the work to say what becomes of it
            step = partial(work.throw, error)
        try:
            waits_for = context.run(step)
        except StopIteration as done:
            return cast(T, done.value)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run `loop` until it is stopped, then cancel what is left in it and close it."""
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop().run_forever()


store_loop = StoreLoop()
"""The one loop of the process; it serves any number of stores."""


def block_on(work: Coroutine[Any, Any, T], *, begins_here: bool = False) -> T:
    """What `work` returns, or raises: it runs on the store's event loop, and this thread waits.

    For any thread, also for one that runs an event loop, which stands still meanwhile. `work` sees
    the context variables of the caller. An interrupt such as Ctrl-C cancels it. On the store's loop
    itself it would wait for itself: there it is not begun, and BlockingCallError is raised.

    Work that `begins_here` runs in this thread, and goes on on the store's loop only from where it
    first waits: for what mostly waits for nothing, as a small write or an item that is looked up, since
    the way there and back takes longer. Until then it runs in no task: what asks for one, as others'
    asynchronous code may, raises RuntimeError.
    """
    return store_loop.run_from_here(work) if begins_here else store_loop.run(work)


async def on_a_loop() -> None:
    """Go on as a task of a loop, before others' code is called that may ask for one; see `block_on`."""
    if asyncio.current_task() is None:
        await asyncio.sleep(0)


def begin(work: Coroutine[Any, Any, T]) -> "Future[T]":
    """Start `work` as `block_on` does, without waiting for it.

    The future is one of threads, for `asyncio.wrap_future`; cancelling it cancels the work.
    """
    return store_loop.spawn(work)


# Background work that is cut off by the end of the interpreter complains about it.
atexit.register(store_loop.stop)

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=store_loop.forget)
