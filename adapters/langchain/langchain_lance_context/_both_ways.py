"""Answers that may be awaited too: LangGraph has one name for a method that its two stores differ in.

`store.sweep_ttl()` is what it returns of a `SqliteStore`, and a coroutine of an `AsyncSqliteStore`.
What is awaited here is there already, or, beside a running event loop, on its way.
"""

import asyncio
from collections.abc import Coroutine, Generator
from concurrent.futures import Future
from functools import total_ordering
from typing import Any

from lance_context_core.adapting import begin, block_on


def is_beside_a_loop() -> bool:
    """Whether an event loop runs in this thread, which nothing must hold up."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class Count(int):
    """A number that may be awaited."""

    def __await__(self) -> Generator[Any, None, int]:
        yield from ()
        return int(self)


class Answer(int):
    """Yes or no, as 1 or 0 that may be awaited; awaited, it is a bool."""

    def __await__(self) -> Generator[Any, None, bool]:
        yield from ()
        return bool(self)

    def __repr__(self) -> str:
        return repr(bool(self))


@total_ordering
class Later:
    """A number, yes or no that begun work will return: who awaits it holds up no event loop.

    Who takes it for what it will be, as in `int(later)`, `later == 2` or `if later:`, waits for it.
    """

    def __init__(self, work: Coroutine[Any, Any, int]) -> None:
        self._future = begin(work)

    def __await__(self) -> Generator[Any, None, int]:
        return asyncio.wrap_future(self._future).__await__()

    async def _returned(self) -> int:
        return await self

    def __int__(self) -> int:
        return int(block_on(self._returned()))

    def __index__(self) -> int:
        return int(self)

    def __eq__(self, other: object) -> bool:
        return int(self) == other

    def __lt__(self, other: int) -> bool:
        return int(self) < other

    def __hash__(self) -> int:
        return hash(int(self))

    def __bool__(self) -> bool:
        return bool(int(self))

    def __repr__(self) -> str:
        return repr(block_on(self._returned()))


class Nothing:
    """None that may be awaited."""

    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


class Running(Future[None]):
    """A future of a thread; awaited, it is at once the same for the event loop.

    That one can be awaited until the thread ends, and cancelling it cancels this one.
    """

    def __await__(self) -> "Generator[Any, None, asyncio.Future[None]]":
        yield from ()
        return asyncio.wrap_future(self)
