"""One body for both faces of a class: a coroutine that is awaited, or that runs to its end at once."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


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
    """What `work` returns, which awaits nothing but what is `as_awaited`."""
    try:
        work.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    work.close()
    raise AssertionError("a coroutine was to run at once, but it waits for something")
