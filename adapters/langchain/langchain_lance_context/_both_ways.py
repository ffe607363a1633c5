"""Answers that may be awaited too: LangGraph has one name for a method that its two stores differ in.

`store.sweep_ttl()` is what it returns of a `SqliteStore`, and a coroutine of an `AsyncSqliteStore`.
What is awaited here is there already.
"""

import asyncio
from collections.abc import Generator
from concurrent.futures import Future
from typing import Any


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
