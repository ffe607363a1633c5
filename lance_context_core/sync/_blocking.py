"""What every blocking object is made of: the asynchronous one, and its methods, each said only there."""

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
"""How many items are fetched on one way to the store's loop, where the caller does not say."""


@dataclass(frozen=True)
class Blocking(Generic[A]):
    """Waits for the asynchronous object behind it."""

    _aio: A

    def __init_subclass__(cls) -> None:
        for one in vars(cls).values():
            if isinstance(one, FunctionType):  # Made of another's, it bears that one's names.
                one.__module__, one.__qualname__ = cls.__module__, f"{cls.__name__}.{one.__name__}"

    def __repr__(self) -> str:
        return repr(self._aio).removeprefix("Async")


class HasName(Protocol):
    """What has a name."""

    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=HasName)


class Named(Blocking[N]):
    """A blocking object that has a name."""

    @property
    def name(self) -> str:
        """The name under which the store keeps it."""
        return self._aio.name


def blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
    *,
    at_once: Callable[Concatenate[Any, P], T | WouldBlock] | None = None,
) -> Callable[Concatenate[Any, P], T]:
    """The method that waits for the asynchronous one.

    Its name, its parameters and its docstring are that one's, to type checkers, editors and `help()`.
    What can be done `at_once` is done in the caller's thread: the way to the store's loop and back
    takes longer than that. Where the method is replaced, as by what tells of calls, that is called.
    """
    ask, name = _asking(method), method.__name__
    if at_once is not None:
        at_once.__qualname__ = method.__qualname__  # By which Python tells of a wrong call.

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
    """The method whose items are those of the asynchronous one, `batch_size` fetched at once."""
    n = at_once
    ask = _asking(method)

    @wraps(method)
    def call(self: Blocking[Any], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        at_once = cast(int, kwargs.get("batch_size", n))
        return _fetched(ask(self, *args, **kwargs), at_once=at_once)

    return _named(call, method)


def handing(method: Callable[Concatenate[Any, P], Any]) -> Callable[Concatenate[H, P], H]:
    """The method that hands out a blocking object of the same class over what the other hands out."""
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
    """The method that hands out a blocking object over what the other hands out at once."""
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
    """The property that is, in the asynchronous one's words, the blocking object over that one's."""
    asynchronous = cast(property, prop).fget
    assert asynchronous is not None
    name = asynchronous.__name__

    def get(self: Blocking[Any]) -> T:
        return made(getattr(self._aio, name))

    get.__name__, get.__doc__ = name, asynchronous.__doc__
    get.__annotations__["return"] = made
    return cast(Shown[T], property(get))


def field(slot: T, says: str) -> Shown[T]:
    """The property whose value is that of a field of the asynchronous one, which has no words at run time."""
    name = cast(MemberDescriptorType, slot).__name__

    def get(self: Blocking[Any]) -> T:
        value: T = getattr(self._aio, name)
        return value

    get.__name__, get.__doc__ = name, says
    return cast(Shown[T], property(get))


def _asking(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """The method of whatever stands behind the blocking object, found by its name."""
    name = method.__name__

    def ask(self: Blocking[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        asked: T = getattr(self._aio, name)(*args, **kwargs)
        return asked

    return ask


F = TypeVar("F", bound=Callable[..., Any])


def _named(call: F, method: Callable[..., Any]) -> F:
    """`call` as one shows it who asks what it is."""
    # Who looks behind a wrapper, such as a framework that wants to know what to await, stops here.
    del call.__wrapped__  # type: ignore[attr-defined]
    call.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
    return call


def _fetched(items: AsyncIterator[T], *, at_once: int) -> Iterator[T]:
    """The items; the way to the store's loop is taken once for `at_once` of them."""

    async def some() -> list[T]:
        found: list[T] = []
        async for item in items:
            found.append(item)
            if len(found) == at_once:
                break
        return found

    while found := block_on(some):
        yield from found
