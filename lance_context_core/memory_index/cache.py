"""The search cache: scopes in memory, within a limit for the whole process."""

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
    """Records that a requested scope is not in memory."""

    state: Position
    """The position of the table at that time."""
    is_unfit: bool
    """Whether it cannot be cached: it has too many records, or a duplicate key.

    Else it has more than a few, and is read at the next request.
    """
    n_believed: int = 0
    """Number of times this was assumed since the last check of the table."""

    def is_believed(self) -> bool:
        """Whether the engine may search without checking if the scope has become fit.

        With a journal the check costs nothing next to a search; on the table itself a fifth of it.
        """
        if not self.is_unfit or self.state.is_journaled or self.n_believed >= _MOST_BELIEVED:
            return False
        self.n_believed += 1
        return True


class Held(Protocol):
    """The cached part of a table, such as a `Segment`."""

    @property
    def state(self) -> Position:
        """The table's position that it includes."""

    @property
    def n_bytes(self) -> int:
        """Its approximate memory in bytes."""


Kept: TypeAlias = Held | NotKept


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class SearchCache:
    """The last searched scopes, in memory: searches of them do not query the engine.

    It is as fresh as every read. Many stores may use one, and their scopes then share its limits;
    by default all stores of a process do. Safe to share between threads and loops.
    """

    max_bytes: int = 128 * 1024 * 1024
    """Approximate maximum of all scopes together."""
    max_records: int = 25_000
    """The engine searches a larger scope."""

    def __post_init__(self) -> None:
        """Raise InvalidRequestError for invalid limits."""
        for name in ("max_bytes", "max_records"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise InvalidRequestError(f"{name}={value!r}: give a whole number, 1 or more")


class Segments:
    """The contents of a search cache; safe to share between threads and loops."""

    def __init__(self, max_bytes: int) -> None:
        """Create it with an approximate maximum in bytes."""
        self._max_bytes = max_bytes
        self._kept: OrderedDict[tuple[Table, Scope], tuple[Kept, int]] = OrderedDict()
        self._scopes: dict[Table, set[Scope]] = {}
        self._n_bytes = 0
        self._gone: deque[object] = deque()
        """The stores whose scopes will be dropped."""
        self._lock = threading.Lock()

    @property
    def n_bytes(self) -> int:
        """Its current approximate memory."""
        with self._alone():
            return self._n_bytes

    @property
    def n_scopes(self) -> int:
        """Number of cached scopes."""
        with self._alone():
            return len(self._kept)

    def get(self, table: Table, scope: Scope) -> Kept | None:
        """Return the entry of a scope, and mark it as used."""
        with self._alone():
            if (found := self._kept.get((table, scope))) is None:
                return None
            self._kept.move_to_end((table, scope))
            return found[0]

    def put(self, table: Table, scope: Scope, kept: Kept) -> None:
        """Set the entry of a scope; evicts the least recently used if necessary."""
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
        """Drop a scope; an unknown one is no error."""
        with self._alone():
            self._forget(table, scope)

    def forget_table(self, table: Table) -> None:
        """Drop all entries of a table."""
        with self._alone():
            for scope in list(self._scopes.get(table, ())):
                if not isinstance(self._kept[table, scope][0], NotKept):
                    self._forget(table, scope)

    def forget_store(self, store: object) -> None:
        """Drop all scopes of a store, at the latest before the next lookup."""
        # The garbage collector may call this at any line, including code in here.
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
"""The default cache of all stores."""

_blocks: WeakKeyDictionary[SearchCache, Segments] = WeakKeyDictionary()
_lock = threading.Lock()


def segments_of(cache: SearchCache) -> Segments:
    """Return the contents of a search cache, shared by all its stores."""
    with _lock:
        if (known := _blocks.get(cache)) is None:
            known = _blocks[cache] = Segments(cache.max_bytes)
        return known
