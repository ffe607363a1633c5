"""Threads for blocking work, which serve until the interpreter ends.

Those of `concurrent.futures` take nothing more once the main thread has ended, where other threads
and exit handlers still use the store.
"""

import queue
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_Asked = tuple["Future[Any]", Callable[[], Any]]
_Queue = "queue.Queue[_Asked | None]"


class Workers(ThreadPoolExecutor):
    """An executor of daemon threads, at most `max_workers` of them, started as they are needed.

    Where the interpreter starts no thread any more, those that there are do the work, or the
    caller's.
    """

    def __init__(self, max_workers: int, name: str) -> None:
        """`name` is what each thread is called."""
        super().__init__(max_workers)  # It is one by its type alone: asyncio takes no other.
        self._n_most, self._name = max_workers, name
        self._asked: queue.Queue[_Asked | None] = queue.Queue()
        self._idle = threading.Semaphore(0)
        self._at_work: list[threading.Thread] = []
        self._turn = threading.Lock()
        self._is_over = False
        # As those of the standard library: threads end with the executor that nobody has any more.
        end = weakref.finalize(self, _end, self._asked, self._at_work)
        end.atexit = False
        _all.add(self)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """As every executor."""
        future: Future[T] = Future()
        with self._turn:
            if self._is_over:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._asked.put((future, partial(fn, *args, **kwargs)))
            if not self._idle.acquire(blocking=False) and len(self._at_work) < self._n_most:
                self._start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002, ARG002
        """As every executor, but that all work that was asked for is done."""
        with self._turn:
            is_first, self._is_over = not self._is_over, True
        if is_first:
            _end(self._asked, self._at_work)
        for thread in self._at_work if wait else ():
            thread.join()

    def wait(self) -> None:
        """Wait for all that was asked for."""
        self._asked.join()

    def _start(self) -> None:
        thread = threading.Thread(
            target=_serve, args=[self._asked, self._idle], name=self._name, daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # Python 3.12.0 and 3.12.1 start none once the main thread has ended.
            if not self._at_work:
                _do(self._asked)
        else:
            self._at_work.append(thread)


def _serve(asked: "queue.Queue[_Asked | None]", idle: threading.Semaphore) -> None:
    while _do(asked):
        idle.release()


def _do(asked: "queue.Queue[_Asked | None]") -> bool:
    """Do what is asked for next, once there is something; whether it was more than to end."""
    one = asked.get()
    try:
        if one is None:
            return False
        future, work = one
        if future.set_running_or_notify_cancel():
            try:
                done = work()
            except BaseException as error:  # noqa: BLE001 - whoever waits for it is told
                future.set_exception(error)
            else:
                future.set_result(done)
        return True
    finally:
        asked.task_done()


def _end(asked: "queue.Queue[_Asked | None]", at_work: list[threading.Thread]) -> None:
    for _ in at_work:
        asked.put(None)


_all: "weakref.WeakSet[Workers]" = weakref.WeakSet()


def wait_for_all() -> None:
    """Wait for all that any of them was asked for, as the exit of the interpreter has to."""
    for one in list(_all):
        one.wait()
