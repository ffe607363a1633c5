"""One body for a blocking and an asynchronous method: a coroutine, awaited or blocked on.

A framework that has each method twice, `get` and `aget`, gets a class whose methods are coroutines
over a store's asynchronous object; the blocking methods block on them:

    class Notes:
        def __init__(self, history):
            self._history = history

        async def acount(self):
            return len(await self._history.get_messages("notes", session_id="1"))

        def count(self):
            return block_on(self.acount())

The coroutine runs on the store's event loop, which serves all stores of the process: run long
work `beside_the_loop` or `in_steps`, and blocking functions of the user, such as an embedding
function, `in_thread`. Run work that must not overlap `one_at_a_time`.
"""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import ParamSpec, TypeVar
from weakref import WeakValueDictionary

P = ParamSpec("P")
T = TypeVar("T")

_MAX_INLINE_BYTES = 64 * 1024
"""The most bytes converted on an event loop, which would otherwise block for milliseconds."""


def in_thread(function: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """Wraps a blocking `function` as a coroutine function that runs it in its own thread.

    In that thread it may call blocking methods of a store itself.
    """

    async def called(*args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(function, *args, **kwargs)

    return called


async def beside_the_loop(work: Callable[[], T], *, n_bytes: int) -> T:
    """Runs `work` on about so many bytes; from 64 KiB on in its own thread."""
    return await asyncio.to_thread(work) if n_bytes > _MAX_INLINE_BYTES else work()


class _Queue(deque["Future[None]"]):
    """The waiters for one name, the holder first; weakly referable."""


_queues: WeakValueDictionary[tuple[Hashable, ...], _Queue] = WeakValueDictionary()
_access = threading.Lock()


@asynccontextmanager
async def one_at_a_time(*name: Hashable) -> AsyncIterator[None]:
    """Waits until no other block of this name runs in this process, first come first served.

    Blocks may be in several event loops and threads: an `asyncio.Lock` belongs to one loop. A block
    inside another one of the same name waits forever.
    """
    turn: Future[None] = Future()
    with _access:
        queue = _queues.setdefault(name, _Queue())
        queue.append(turn)
        _grant(queue)
    try:
        if not turn.done():
            await asyncio.wrap_future(turn)
        yield
    finally:
        with _access:
            queue.remove(turn)
            _grant(queue)


def _grant(queue: _Queue) -> None:
    """Lets the first waiter begin, unless it has; a cancelled one removes itself."""
    for first in queue:
        if not first.done() and first.set_running_or_notify_cancel():
            first.set_result(None)
        if not first.cancelled():
            return
