"""One body for a blocking and an asynchronous method: a coroutine, which is awaited or blocked on.

A framework that has each method twice, `get` and `aget`, gets a class whose methods are coroutines
over a store's asynchronous object; the blocking methods block on them:

    class Notes:
        def __init__(self, history):
            self._history = history

        async def acount(self):
            return len(await self._history.get_messages("notes", session_id="1"))

        def count(self):
            return block_on(self.acount())

All that such a coroutine does happens on the store's event loop, which serves all stores of the
process: what takes long goes `beside_the_loop` or `in_steps`, and a function of the user's that
blocks, such as one that embeds, `in_thread`. What must not overlap is done `one_at_a_time`.
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
"""More are not converted on an event loop, which would stand still for milliseconds."""


def in_thread(function: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """`function`, which blocks, as a coroutine function that calls it in a thread of its own.

    There it may call blocking methods of a store itself.
    """

    async def called(*args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(function, *args, **kwargs)

    return called


async def beside_the_loop(work: Callable[[], T], *, n_bytes: int) -> T:
    """What `work` makes of about so many bytes; from 64 KiB on in a thread of its own."""
    return await asyncio.to_thread(work) if n_bytes > _MAX_INLINE_BYTES else work()


class _Queue(deque["Future[None]"]):
    """Those who want one name, the holder first; can be referred to weakly."""


_queues: WeakValueDictionary[tuple[Hashable, ...], _Queue] = WeakValueDictionary()
_access = threading.Lock()


@asynccontextmanager
async def one_at_a_time(*name: Hashable) -> AsyncIterator[None]:
    """Wait until no other block of this name runs in this process, in the order of asking.

    Blocks may be in several event loops and threads: an `asyncio.Lock` belongs to one loop. A block
    inside another one of the same name waits for ever.
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
    """Let the first of them begin, unless it has; one that was cancelled removes itself."""
    for first in queue:
        if not first.done() and first.set_running_or_notify_cancel():
            first.set_result(None)
        if not first.cancelled():
            return
