"""A thread that removes expired items periodically."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future

from lance_context_core.errors import StoreClosedError
from langchain_lance_context._both_ways import Running

_log = logging.getLogger(__name__)


class Sweeper:
    """At most one thread.

    It references only the sweep function, so that it does not keep a store alive.
    """

    def __init__(self, sweep: Callable[[], int]) -> None:
        self._sweep = sweep
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._done = Running()

    def start(self, seconds: float) -> Running:
        """Sweeps at this interval until `stop`; does nothing if a thread already runs.

        The future is done when the thread ends, and cancelling it ends the thread.
        """
        with self._lock:
            if self._thread is None or not self._thread.is_alive() or self._stopping.is_set():
                self._stopping = threading.Event()
                self._done = Running()
                self._done.add_done_callback(_stopping_if_cancelled(self._stopping))
                self._thread = threading.Thread(
                    target=_sweep_on,
                    args=[self._sweep, seconds, self._stopping, self._done],
                    name="lance-context-sweep",
                    daemon=True,
                )
                self._thread.start()
            return self._done

    def let_go(self) -> None:
        """Asks the thread to end, without waiting for it."""
        with self._lock:
            self._stopping.set()

    def stop(self, timeout_seconds: float | None = None) -> bool:
        """Ends the thread.

        Returns whether none runs any more. None waits as long as a sweep takes.
        """
        self.let_go()
        thread = self._thread
        if thread is None:
            return True
        thread.join(timeout_seconds)
        return not thread.is_alive()


def _sweep_on(
    sweep: Callable[[], int], seconds: float, stopping: threading.Event, done: "Future[None]"
) -> None:
    while not stopping.wait(seconds):
        try:
            sweep()
        except StoreClosedError:
            break
        except Exception:  # noqa: BLE001 - it is said, and the thread goes on
            # The next sweep may succeed, and expired items are hidden meanwhile.
            _log.exception("what has expired could not be removed")
    if done.set_running_or_notify_cancel():
        done.set_result(None)


def _stopping_if_cancelled(stopping: threading.Event) -> "Callable[[Future[None]], None]":
    def called(future: "Future[None]") -> None:
        if future.cancelled():
            stopping.set()

    return called
