"""Functions that users hand over: each may be plain, or one to be awaited."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any


def is_async(function: object) -> bool:
    """Whether calling `function`, or an object with such a `__call__`, is known to give a coroutine."""
    return any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))


async def called(function: Callable[[Any], Any], argument: object) -> Any:
    """What a function returns, awaited where it is to be; a plain one runs in a thread."""
    if is_async(function):
        return await function(argument)
    answer = await asyncio.to_thread(function, argument)
    return await answer if inspect.isawaitable(answer) else answer
