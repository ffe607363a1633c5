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
blocks, such as one that embeds, `in_thread`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

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
