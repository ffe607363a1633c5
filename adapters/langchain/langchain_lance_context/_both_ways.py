"""Results that can be used directly or awaited, since LangGraph's two stores share method names.

`store.sweep_ttl()` returns a number in a `SqliteStore`, and a coroutine in an `AsyncSqliteStore`. A
result here is already known or, inside a running event loop, pending.
"""

import asyncio
from collections.abc import Coroutine, Generator
from concurrent.futures import Future
from functools import total_ordering
from typing import Any

from lance_context_core.adapting import begin, block_on


def is_beside_a_loop() -> bool:
    """Whether this thread runs an event loop, which must not be blocked."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class Count(int):
    """A number that can be awaited."""

    def __await__(self) -> Generator[Any, None, int]:
        yield from ()
        return int(self)


class Answer(int):
    """A bool, as 1 or 0, that can be awaited; awaited, it is a bool."""

    def __await__(self) -> Generator[Any, None, bool]:
        yield from ()
        return bool(self)

    def __repr__(self) -> str:
        return repr(bool(self))


@total_ordering
class Later:
    """The future result of started work: a number or a bool. Awaiting it does not block the loop.

    Using it as a value, as in `int(later)`, `later == 2` or `if later:`, waits for it.
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
    """None that can be awaited."""

    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


class Running(Future[None]):
    """A thread's future that can also be awaited as a future of the running event loop.

    It can be awaited until the thread ends; cancelling either future cancels the other.
    """

    def __await__(self) -> "Generator[Any, None, asyncio.Future[None]]":
        yield from ()
        return asyncio.wrap_future(self)
