"""What of the scopes is in memory, within a bound for the whole process."""

import threading
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias
from weakref import WeakKeyDictionary

from lance_context_core.errors import InvalidRequestError
from lance_context_core.storage.changes import Position

_MARK_BYTES = 1_000

_MOST_BELIEVED = 15


class Table(NamedTuple):
    """A table on a ref, of one store."""

    store: object
    name: str
    ref: str | None


Scope: TypeAlias = Hashable


@dataclass(slots=True)
class NotKept:
    """That a scope is not in memory, though it was asked for."""

    state: Position
    """When that was seen."""
    is_unfit: bool
    """Whether it cannot be, as it is: it has too many records, or a key twice. Else it has more than a
    few, and is read once it is asked for again."""
    n_believed: int = 0
    """How often that was taken for granted since the table was looked at."""

    def is_believed(self) -> bool:
        """Whether the engine may search without a look at whether the scope has become fit.

        Where the journal tells, a look is nothing beside a search; the table itself takes a fifth of it.
        """
        if not self.is_unfit or self.state.is_journaled or self.n_believed >= _MOST_BELIEVED:
            return False
        self.n_believed += 1
        return True


class Held(Protocol):
    """What is in memory of a part of a table, such as a `Segment`."""

    @property
    def state(self) -> Position:
        """What of the table is in it."""

    @property
    def n_bytes(self) -> int:
        """What it takes, about."""


Kept: TypeAlias = Held | NotKept


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class SearchCache:
    """The scopes that were searched last, in memory: a search of one of these does not ask the engine.

    It is as fresh as every read. One may be given to many stores, whose scopes then share its bounds;
    by default that is so for all stores of a process. Safe to share between threads and loops.
    """

    max_bytes: int = 128 * 1024 * 1024
    """What all scopes together take at most, about."""
    max_records: int = 25_000
    """A scope of more is searched by the engine."""

    def __post_init__(self) -> None:
        """Raise InvalidRequestError for bounds of no sense."""
        for name in ("max_bytes", "max_records"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise InvalidRequestError(f"{name}={value!r}: give a whole number, 1 or more")


class Segments:
    """What a search cache holds; safe to share between threads and loops."""

    def __init__(self, max_bytes: int) -> None:
        """Hold at most about so many bytes."""
        self._max_bytes = max_bytes
        self._kept: OrderedDict[tuple[Table, Scope], tuple[Kept, int]] = OrderedDict()
        self._scopes: dict[Table, set[Scope]] = {}
        self._n_bytes = 0
        self._gone: deque[object] = deque()
        """The stores whose scopes are to go."""
        self._lock = threading.Lock()

    @property
    def n_bytes(self) -> int:
        """What it takes now, about."""
        with self._alone():
            return self._n_bytes

    @property
    def n_scopes(self) -> int:
        """How many scopes are in it."""
        with self._alone():
            return len(self._kept)

    def get(self, table: Table, scope: Scope) -> Kept | None:
        """What is known of a scope, which is used by this."""
        with self._alone():
            if (found := self._kept.get((table, scope))) is None:
                return None
            self._kept.move_to_end((table, scope))
            return found[0]

    def put(self, table: Table, scope: Scope, kept: Kept) -> None:
        """Keep it, instead of what was known; what was used longest ago goes, if need be."""
        size = _MARK_BYTES if isinstance(kept, NotKept) else kept.n_bytes
        with self._alone():
            self._forget(table, scope)
            if size > self._max_bytes:
                return
            self._kept[table, scope] = kept, size
            self._scopes.setdefault(table, set()).add(scope)
            self._n_bytes += size
            while self._n_bytes > self._max_bytes:
                self._forget(*next(iter(self._kept)))

    def forget(self, table: Table, scope: Scope) -> None:
        """Let go of a scope; one that is not known is no error."""
        with self._alone():
            self._forget(table, scope)

    def forget_table(self, table: Table) -> None:
        """Let go of all that is in memory of a table."""
        with self._alone():
            for scope in list(self._scopes.get(table, ())):
                if not isinstance(self._kept[table, scope][0], NotKept):
                    self._forget(table, scope)

    def forget_store(self, store: object) -> None:
        """Let go of all scopes of a store, at the latest when this is asked for anything again."""
        # Python's collector of garbage may call this at any line, also of who is in here.
        self._gone.append(store)
        if self._lock.acquire(blocking=False):
            try:
                self._sweep()
            finally:
                self._lock.release()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self._lock:
            self._sweep()
            yield

    def _sweep(self) -> None:
        while self._gone:
            store = self._gone.popleft()
            for table in [one for one in self._scopes if one.store is store]:
                for scope in list(self._scopes[table]):
                    self._forget(table, scope)

    def _forget(self, table: Table, scope: Scope) -> None:
        if (found := self._kept.pop((table, scope), None)) is None:
            return
        self._n_bytes -= found[1]
        scopes = self._scopes[table]
        scopes.discard(scope)
        if not scopes:
            del self._scopes[table]


DEFAULT_SEARCH_CACHE = SearchCache()
"""That of all stores that are given no other."""

_blocks: WeakKeyDictionary[SearchCache, Segments] = WeakKeyDictionary()
_lock = threading.Lock()


def segments_of(cache: SearchCache) -> Segments:
    """What a search cache holds, for all stores that have it."""
    with _lock:
        if (known := _blocks.get(cache)) is None:
            known = _blocks[cache] = Segments(cache.max_bytes)
        return known
