"""What was used last, within a bound: the one way in which anything is kept to be found again sooner."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


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
