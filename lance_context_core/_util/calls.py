"""Functions that users hand over: each may be plain, or one to be awaited."""

import asyncio
import inspect
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar, get_type_hints

from lance_context_core._util.checks import shown
from lance_context_core.errors import InvalidRequestError


def is_async(function: object) -> bool:
    """Whether calling `function`, or an object with such a `__call__`, is known to give a coroutine."""
    return any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))


async def called(function: Callable[[Any], Any], argument: object) -> Any:
    """What a function returns, awaited where it is to be; a plain one runs in a thread."""
    if is_async(function):
        return await function(argument)
    answer = await asyncio.to_thread(function, argument)
    return await answer if inspect.isawaitable(answer) else answer


# Options that several calls take: declared once, as a TypedDict, shown by `help()`, checked by name.

F = TypeVar("F", bound=Callable[..., Any])


def takes(options: type, defaults: Mapping[str, object]) -> Callable[[F], F]:
    """A decorator of functions with `**kwargs: Unpack[options]`: they show each of the options.

    Signature and docstring become what they were if every option stood in them: with its type, and
    with its default among `defaults`. The options' own docstring is where each is described, below its
    first line.
    """
    shown_options = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name], annotation=annotation
        )
        for name, annotation in get_type_hints(options).items()
    ]
    _, _, described = (inspect.getdoc(options) or "").partition("\n\n")

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        fixed = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        expanded = signature.replace(parameters=[*fixed, *shown_options])
        function.__signature__ = expanded  # type: ignore[attr-defined]  # of all functions
        if described:
            function.__doc__ = f"{inspect.getdoc(function)}\n\n{described}"
        return function

    return decorate


def check_keywords(given: Collection[str], known: Collection[str], function: F) -> None:
    """Raise TypeError, as a call does, for keyword arguments that are not among the known ones."""
    for name in given:
        if name not in known:
            nearest = get_close_matches(name, inspect.signature(function).parameters, n=1)
            meant = f"; did you mean {nearest[0]!r}?" if nearest else ""
            raise TypeError(
                f"{function.__name__}() got an unexpected keyword argument {name!r}{meant}"
            )


def defaults_of(function: Callable[..., object]) -> dict[str, object]:
    """What holds where a keyword argument of the function is not given."""
    parameters = inspect.signature(function).parameters.values()
    return {one.name: one.default for one in parameters if one.kind is one.KEYWORD_ONLY}


def check_options(given: Collection[str], known: Collection[str], what: str) -> None:
    """Raise InvalidRequestError, which calls that which is opened `what`, for an unknown option."""
    for name in given:
        if name not in known:
            nearest = get_close_matches(name, known, n=1)
            meant = f"did you mean {nearest[0]!r}? " if nearest else ""
            raise InvalidRequestError(
                f"{shown(name)} is not an option of {what}: {meant}use one of {', '.join(known)}"
            )
