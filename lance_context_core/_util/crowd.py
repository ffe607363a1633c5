"""Many tasks of one process, on whichever loops and in whichever threads, that want the same thing."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


class FairLock:
    """A lock for tasks: those who wait have it in the order in which they came."""

    def __init__(self) -> None:
        """It is free."""
        self._lock = threading.Lock()
        self._is_held = False
        self._waiting: deque[Future[None]] = deque()

    @asynccontextmanager
    async def held(self, patience_seconds: float | None = None) -> AsyncIterator[None]:
        """Have the lock in here. Raises TimeoutError if that takes longer than `patience_seconds`."""
        if (turn := self._taken()) is not None:
            try:
                waiting = asyncio.shield(asyncio.wrap_future(turn))
                await asyncio.wait_for(waiting, patience_seconds)
            except BaseException:
                if not turn.cancel():
                    self._pass_on()  # It was handed over in this moment.
                raise
        try:
            yield
        finally:
            self._pass_on()

    def _taken(self) -> Future[None] | None:
        """None where the lock was free; else the future that is done once it is handed over."""
        with self._lock:
            if not self._is_held:
                self._is_held = True
                return None
            turn: Future[None] = Future()
            self._waiting.append(turn)
            return turn

    def _pass_on(self) -> None:
        with self._lock:
            while self._waiting:
                turn = self._waiting.popleft()
                if turn.set_running_or_notify_cancel():
                    turn.set_result(None)
                    return
            self._is_held = False


class SharedCall(Generic[T]):
    """A call of which one is under way at a time: who asks meanwhile has the outcome of that one."""

    def __init__(self) -> None:
        """None is under way."""
        self._lock = threading.Lock()
        self._running: Future[T] | None = None

    async def of(self, call: Callable[[], Awaitable[T]]) -> T:
        """What `call` returns, or the one that is under way.

        Where that one fails, or is cancelled, its caller alone is told, and the next one calls anew.
        """
        while True:
            mine: Future[T] = Future()
            with self._lock:
                if (running := self._running) is None:
                    self._running = mine
            if running is None:
                return await self._led(mine, call)
            if await asyncio.shield(asyncio.wrap_future(_ended(running))):
                return running.result()

    async def _led(self, mine: Future[T], call: Callable[[], Awaitable[T]]) -> T:
        try:
            outcome = await call()
        except BaseException:
            with self._lock:
                self._running = None
            mine.cancel()
            raise
        with self._lock:
            self._running = None
        mine.set_result(outcome)
        return outcome


def _ended(running: Future[T]) -> Future[bool]:
    """Whether it has an outcome, once it has ended; cancelling that leaves `running` as it is."""
    ended: Future[bool] = Future()
    running.add_done_callback(lambda done: ended.set_result(not done.cancelled()))
    return ended
