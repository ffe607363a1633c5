"""The base of the blocking objects: each method is documented only on the asynchronous object."""

import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from copy import copy
from dataclasses import dataclass
from functools import partial, wraps
from types import FunctionType, MemberDescriptorType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast

from lance_context_core._loop import WOULD_BLOCK, WouldBlock, block_on

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
A = TypeVar("A")
H = TypeVar("H", bound="Blocking[Any]")

_AT_ONCE = 1_000
"""The default number of items fetched in one call on the store's loop."""


@dataclass(frozen=True)
class Blocking(Generic[A]):
    """Waits for the asynchronous object behind it."""

    _aio: A

    def __init_subclass__(cls) -> None:
        for one in vars(cls).values():
            if isinstance(one, FunctionType):  # A copy of another's method bears that one's names.
                one.__module__, one.__qualname__ = cls.__module__, f"{cls.__name__}.{one.__name__}"

    def __repr__(self) -> str:
        return repr(self._aio).removeprefix("Async")


class HasName(Protocol):
    """An object with a name."""

    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=HasName)


class Named(Blocking[N]):
    """A blocking object that has a name."""

    @property
    def name(self) -> str:
        """The name of the object in the store."""
        return self._aio.name


def blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
    *,
    at_once: Callable[Concatenate[Any, P], T | WouldBlock] | None = None,
) -> Callable[Concatenate[Any, P], T]:
    """Returns a method that waits for the asynchronous one.

    It has the asynchronous method's name, parameters and docstring, for type checkers, editors and
    `help()`. `at_once` is called in the caller's thread, if given: the way to the store's loop and
    back takes longer. If the method is replaced, as by tracing, the replacement is called.
    """
    ask, name = _asking(method), method.__name__
    if at_once is not None:
        at_once.__qualname__ = method.__qualname__  # By which Python names a wrong call.

    @wraps(method)
    def call(self: Blocking[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        if at_once is not None and getattr(type(self._aio), name, None) is method:
            done = at_once(self._aio, *args, **kwargs)
            if done is not WOULD_BLOCK:
                return done
        return block_on(partial(ask, self, *args, **kwargs))

    return _named(call, method)


def iterating(
    method: Callable[Concatenate[Any, P], AsyncIterator[T]], *, at_once: int = _AT_ONCE
) -> Callable[Concatenate[Any, P], Iterator[T]]:
    """Returns a method that iterates the asynchronous one, `batch_size` items fetched at once."""
    n = at_once
    ask = _asking(method)

    @wraps(method)
    def call(self: Blocking[Any], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        at_once = cast(int, kwargs.get("batch_size", n))
        return _fetched(ask(self, *args, **kwargs), at_once=at_once)

    return _named(call, method)


def handing(method: Callable[Concatenate[Any, P], Any]) -> Callable[Concatenate[H, P], H]:
    """Returns a method whose result is a blocking object of the same class."""
    ask = _asking(method)

    @wraps(method)
    def call(self: H, /, *args: P.args, **kwargs: P.kwargs) -> H:
        made = ask(self, *args, **kwargs)
        other = copy(self)
        object.__setattr__(other, "_aio", block_on(made) if inspect.iscoroutine(made) else made)
        return other

    return _named(call, method)


def giving(
    method: Callable[Concatenate[Any, P], A], made: Callable[[A], T]
) -> Callable[Concatenate[Any, P], T]:
    """Returns a method whose result, available at once, is wrapped as a blocking object."""
    ask = _asking(method)

    @wraps(method)
    def call(self: Blocking[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return made(ask(self, *args, **kwargs))

    call = _named(call, method)
    signature = inspect.signature(method).replace(return_annotation=made)
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


class Shown(Protocol[T_co]):
    """A property, to type checkers."""

    def __get__(self, one: Any, of: type | None = None, /) -> T_co: ...


def showing(prop: Callable[[Any], A], made: Callable[[A], T]) -> Shown[T]:
    """Returns a property, documented as the asynchronous one, that wraps its value as blocking."""
    asynchronous = cast(property, prop).fget
    assert asynchronous is not None
    name = asynchronous.__name__

    def get(self: Blocking[Any]) -> T:
        return made(getattr(self._aio, name))

    get.__name__, get.__doc__ = name, asynchronous.__doc__
    get.__annotations__["return"] = made
    return cast(Shown[T], property(get))


def field(slot: T, says: str) -> Shown[T]:
    """Returns a property for a field of the asynchronous object, which has no docstring at run time."""
    name = cast(MemberDescriptorType, slot).__name__

    def get(self: Blocking[Any]) -> T:
        value: T = getattr(self._aio, name)
        return value

    get.__name__, get.__doc__ = name, says
    return cast(Shown[T], property(get))


def _asking(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """Returns the method of the asynchronous object, found by name."""
    name = method.__name__

    def ask(self: Blocking[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        asked: T = getattr(self._aio, name)(*args, **kwargs)
        return asked

    return ask


F = TypeVar("F", bound=Callable[..., Any])


def _named(call: F, method: Callable[..., Any]) -> F:
    """Returns `call` with the name, signature and docstring of the method."""
    # Code that unwraps, such as a framework that checks what to await, stops here.
    del call.__wrapped__  # type: ignore[attr-defined]
    call.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
    return call


def _fetched(items: AsyncIterator[T], *, at_once: int) -> Iterator[T]:
    """Yields the items, fetching `at_once` of them per call on the store's loop."""

    async def some() -> list[T]:
        found: list[T] = []
        async for item in items:
            found.append(item)
            if len(found) == at_once:
                break
        return found

    while found := block_on(some):
        yield from found
