"""Telling a caller how far a long call has come."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from lance_context_core._loop import store_loop
from lance_context_core._util.checks import shown
from lance_context_core.errors import InvalidRequestError
from lance_context_core.types import Progress

P = ParamSpec("P")
T = TypeVar("T")


def check_progress(progress: Callable[[T], object] | None) -> None:
    """Raise InvalidRequestError for an unusable `progress`."""
    if progress is None:
        return
    if not callable(progress) or inspect.iscoroutinefunction(progress):
        raise InvalidRequestError(
            f"progress={shown(progress)}: pass a plain function, which is given how far the call is"
        )


async def tell(progress: Callable[[T], object] | None, now: T) -> None:
    """Call `progress` in this task; or, on the loop behind the blocking calls, in a worker thread.

    On that loop it would block all other calls, and could not call the store. Propagates its
    exceptions; a task cancelled meanwhile ends here.
    """
    if progress is None:
        return
    if store_loop.is_here():
        await asyncio.to_thread(progress, now)
    else:
        progress(now)
        await asyncio.sleep(0)


async def tell_written(
    progress: Callable[[Progress], object] | None, n: int, what: str = "records"
) -> None:
    """Report that all are written: the last report of a call."""
    if progress is not None:
        await tell(progress, Progress(n_done=n, n_total=n, what=what))


def told_at_the_end(
    what: str,
) -> Callable[[Callable[P, Coroutine[Any, Any, T]]], Callable[P, Coroutine[Any, Any, T]]]:
    """A decorator for a write of one thing: checks `progress` and reports the write."""

    def decorate(
        method: Callable[P, Coroutine[Any, Any, T]],
    ) -> Callable[P, Coroutine[Any, Any, T]]:
        @wraps(method)
        async def call(*args: P.args, **kwargs: P.kwargs) -> T:
            progress: Any = kwargs.get("progress")
            check_progress(progress)
            done = await method(*args, **kwargs)
            await tell_written(progress, 1, what)
            return done

        return call

    return decorate
