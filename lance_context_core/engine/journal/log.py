"""Entries that grow at their end, as they were at one moment: a new one costs no copy of the others."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import Generic, Protocol, TypeVar, overload


class Placed(Protocol):
    """What has a place among others, and is about a key."""

    @property
    def seq(self) -> int:
        """Its place; those of later ones are larger."""

    @property
    def key(self) -> str:
        """What it is about."""

    @property
    def replaces(self) -> bool:
        """Whether it changes what there is of its key."""


T = TypeVar("T", bound=Placed)

_NOWHERE = -1


class Log(Generic[T]):
    """Entries in order of their places. One thread at a time adds some; any number look at it."""

    __slots__ = ("_before", "_entries", "_last", "_replacing")

    def __init__(self, entries: Iterable[T] = ()) -> None:
        """It begins with `entries`."""
        self._entries: list[T] = []
        self._before: list[int] = []
        """For each entry, where the one before it is that has its key."""
        self._last: dict[str, int] = {}
        """Where the last one of each key is."""
        self._replacing: list[int] = []
        """Where those are that replace something."""
        self.add(entries)

    def add(self, entries: Iterable[T]) -> None:
        """Add entries, behind all others."""
        for entry in entries:
            # Whoever looks meanwhile finds by key what is in both lists already.
            self._before.append(self._last.get(entry.key, _NOWHERE))
            self._entries.append(entry)
            self._last[entry.key] = place = len(self._entries) - 1
            if entry.replaces:
                self._replacing.append(place)

    def now(self) -> "Logged[T]":
        """What is in it, and stays so whatever is added."""
        return Logged(self._entries, self._before, self._last, self._replacing)


class Logged(Sequence[T]):
    """The entries of a log at one moment."""

    __slots__ = ("_before", "_entries", "_last", "_n", "_n_replacing", "_replacing")

    def __init__(
        self, entries: list[T], before: list[int], last: dict[str, int], replacing: list[int]
    ) -> None:
        self._entries, self._before, self._last = entries, before, last
        self._replacing = replacing
        self._n, self._n_replacing = len(entries), len(replacing)

    def __len__(self) -> int:
        return self._n

    def __iter__(self) -> Iterator[T]:
        return islice(self._entries, self._n)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self._entries[place] for place in range(self._n)[index]]
        if not -self._n <= index < self._n:
            raise IndexError(index)
        return self._entries[index if index >= 0 else self._n + index]

    def last_of(self, key: str) -> T | None:
        """The last one about that key; None if there is none."""
        place = self._last.get(key, _NOWHERE)
        while place >= self._n:  # It came later.
            place = self._before[place]
        return None if place == _NOWHERE else self._entries[place]

    def about(self, keys: Iterable[str]) -> list[T]:
        """All that are about one of these keys, in order."""
        places = []
        for key in keys:
            place = self._last.get(key, _NOWHERE)
            while place != _NOWHERE:
                if place < self._n:
                    places.append(place)
                place = self._before[place]
        return [self._entries[place] for place in sorted(places)]

    def replacing(self) -> list[T]:
        """All that replace something, in order."""
        return [self._entries[place] for place in self._replacing[: self._n_replacing]]

    def after(self, seq: int) -> list[T]:
        """Those behind that place."""
        if not self._n or self._entries[self._n - 1].seq <= seq:
            return []
        start = bisect_right(self._entries, seq, hi=self._n, key=attrgetter("seq"))
        return self._entries[start : self._n]
