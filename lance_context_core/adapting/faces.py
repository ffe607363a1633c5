"""One body for both faces of a class: a coroutine that is awaited, or that runs to its end at once.

A framework that has each method twice, `get` and `aget`, gets a class whose methods are coroutines,
made once over a store's asynchronous object and once over the `Blocking` twin of it:

    class Notes:
        def __init__(self, history):
            self._history = history

        async def count(self):
            return len(await self._history.get_messages("notes", session_id="1"))

    await Notes(store.aio.history).count()
    at_once(Notes(Blocking(store.history)).count())
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

_MAX_INLINE_BYTES = 64 * 1024
"""More are not converted on an event loop, which would stand still for milliseconds."""


def as_awaited(function: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """`function`, which blocks, as a coroutine function; it never lets go of the thread."""

    async def called(*args: P.args, **kwargs: P.kwargs) -> T:
        return function(*args, **kwargs)

    return called


class Blocking:
    """An object whose methods block, with all of them `as_awaited`."""

    def __init__(self, target: object) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        return as_awaited(getattr(self._target, name))


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """What `work` returns, or raises, without an event loop, and beside one that runs.

    All that `work` awaits must be `as_awaited`, `Blocking`, `in_place` or `at_a_stretch`. Raises RuntimeError where
    it waits for anything else; what it has done by then is done.
    """
    try:
        work.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    work.close()
    raise RuntimeError(f"{work!r} was to run at once, but it waits for something")


class Convert(Protocol):
    """How work is done that waits for nothing, but takes long if there are many bytes."""

    async def __call__(self, work: Callable[[], T], *, n_bytes: int) -> T:
        """The result of `work` on about so many bytes."""


async def in_place(work: Callable[[], T], *, n_bytes: int) -> T:
    """A `Convert` for who blocks anyway."""
    del n_bytes
    return work()


async def beside_the_loop(work: Callable[[], T], *, n_bytes: int) -> T:
    """A `Convert` that works in another thread where an event loop would stand still: from 64 KiB."""
    return await asyncio.to_thread(work) if n_bytes > _MAX_INLINE_BYTES else work()


class ConvertEach(Protocol):
    """How many things are converted, one after the other."""

    async def __call__(
        self, convert: Callable[[S], T], items: Iterable[S], *, n_as_one: int = 1
    ) -> list[T]:
        """What `convert` makes of each of the items, `n_as_one` of which take as long as a record."""


async def at_a_stretch(
    convert: Callable[[S], T], items: Iterable[S], *, n_as_one: int = 1
) -> list[T]:
    """A `ConvertEach` for who blocks anyway; `in_steps` is that for who awaits."""
    del n_as_one
    return list(map(convert, items))
