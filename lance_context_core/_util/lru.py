"""Caches with a bound: `Recent` for one owner, `Made` and `remembered` for the whole process.

What the process keeps of users' texts and names goes through `Made`, or is named to
`emptied_with_stores`, so that `forget_all` empties it: when a store is closed, and when something is
erased. `tests/core/test_kept_in_memory.py` walks every cache that there is.
"""

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any, Generic, ParamSpec, Protocol, TypeVar
from weakref import WeakSet

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
P = ParamSpec("P")


class Recent(Generic[K, V]):
    """Values by key, of which those are forgotten that were used longest ago; for any number of threads."""

    def __init__(self, max_size: int, *, size_of: Callable[[V], int] = lambda _: 1) -> None:
        """Keep values of sizes that come to `max_size` at most; without `size_of` so many values."""
        self._max_size = max_size
        self._size_of = size_of
        self._values: OrderedDict[K, V] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    @property
    def size(self) -> int:
        """What the sizes of the values come to."""
        return self._size

    def get(self, key: K) -> V | None:
        """The value of a key, which is used by this; None if it is not known, or no more."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        """Keep a value, instead of the one that the key had."""
        with self._lock:
            if (former := self._values.pop(key, None)) is not None:
                self._size -= self._size_of(former)
            self._values[key] = value
            self._size += self._size_of(value)
            while self._size > self._max_size:
                _, oldest = self._values.popitem(last=False)
                self._size -= self._size_of(oldest)

    def drop(self, key: K) -> None:
        """Keep nothing of a key any longer."""
        with self._lock:
            if (former := self._values.pop(key, None)) is not None:
                self._size -= self._size_of(former)


class Made(dict[K, V]):
    """Values that are made of their keys at the first look, `made[key]`, for any number of threads.

    They are forgotten all at once: when they come to more than `max_bytes`, when a store is closed,
    and when something is erased. One that is larger than that is not kept.
    """

    __slots__ = (
        "__weakref__",
        "_lock",
        "_make",
        "_max_bytes",
        "_n_bytes",
        "_n_forgotten",
        "_size_of",
    )

    def __init__(
        self,
        make: Callable[[K], V],
        *,
        max_bytes: int,
        size_of: Callable[[K, V], int] | None = None,
    ) -> None:
        """Nothing is made yet; what `make` returns must not be changed by who gets it.

        `size_of` is what a key and its value take, where that is known without looking at all of them.
        """
        super().__init__()
        self._make = make
        self._max_bytes = max_bytes
        self._size_of = size_of or _size_of_both
        self._n_bytes = self._n_forgotten = 0
        self._lock = threading.Lock()
        emptied_with_stores(self)

    def __missing__(self, key: K) -> V:
        moment = self._n_forgotten, _n_emptied
        value = self._make(key)
        n_bytes = self._size_of(key, value)
        with self._lock:
            # What was forgotten meanwhile may be erased by now.
            is_current = moment == (self._n_forgotten, _n_emptied)
            # Another thread may have made it at the same time: it is counted once.
            if is_current and n_bytes <= self._max_bytes and key not in self:
                if self._n_bytes + n_bytes > self._max_bytes:
                    self._forget()
                self[key] = value
                self._n_bytes += n_bytes
        return value

    @property
    def n_bytes(self) -> int:
        """What keys and values take, about; never more than `max_bytes`."""
        return self._n_bytes

    def empty(self) -> None:
        """Keep nothing of what was made so far."""
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        self.clear()
        self._n_bytes = 0
        self._n_forgotten += 1

    __hash__ = object.__hash__  # type: ignore[assignment]  # known by itself, as what it is not equal to
    __eq__ = object.__eq__


class Emptied(Protocol):
    """A cache of what stores hold."""

    def empty(self) -> None:
        """Keep nothing of what was read or made so far."""


_all: WeakSet[Emptied] = WeakSet()
_all_lock = threading.Lock()
_n_emptied = 0
"""How often all were emptied."""


def emptied_with_stores(cache: Emptied) -> None:
    """Have a cache emptied when a store of the process is closed, and when something is erased.

    It is known as long as its owner keeps it.
    """
    with _all_lock:
        _all.add(cache)


def remembered(
    max_bytes: int, *, size_of: Callable[[Any, Any], int] | None = None
) -> Callable[[Callable[P, V]], Callable[P, V]]:
    """A decorator that keeps what a function returns as `Made` does, by its arguments, given by place."""

    def decorate(function: Callable[P, V]) -> Callable[P, V]:
        by_place: Callable[..., V] = function
        made: Made[Any, V] = Made(
            lambda given: by_place(*given), max_bytes=max_bytes, size_of=size_of
        )

        @wraps(function)
        def called(*given: P.args, **named: P.kwargs) -> V:
            return function(*given, **named) if named else made[given]

        return called

    return decorate


def forget_all() -> None:
    """Empty every cache of the process that `emptied_with_stores` knows."""
    global _n_emptied  # noqa: PLW0603 - of the process, as the caches are
    with _all_lock:
        _n_emptied += 1
        everything = [one for one in _all if not isinstance(one, Made) or len(one)]
    for one in everything:
        one.empty()


def _size_of_both(key: object, value: object) -> int:
    return _size(key) + _size(value)


def _size(value: object) -> int:
    """What a key or value takes, about."""
    if isinstance(value, str | bytes):
        return sys.getsizeof(value)
    if isinstance(value, dict):
        return 64 + sum(_size(key) + _size(one) + 64 for key, one in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return 64 + sum(_size(one) + 8 for one in value)
    if is_dataclass(value):
        return 64 + sum(_size(getattr(value, one.name)) for one in fields(value))
    return 64
