"""The row cache: recently written or read rows by key, without disk access.

They are as fresh as every read: the log returns the writes since then, of all processes. Other
changes, such as an erasure, clear the cache. A table that can be read whole in about the time of the
rows that were read one by one is read whole.
"""

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from lance_context_core.storage.key_filter import Budget
from lance_context_core.storage.lance import manifests
from lance_context_core.storage.lance.arrow import Row
from lance_context_core.storage.lance.schema import KEY, KEY_VALUES, VECTOR
from lance_context_core.storage.lance.table_handle import TableHandle
from lance_context_core.storage.sql.predicates import Clause, UnsureError
from lance_context_core.storage.wal.entries import Entry, How, Moment, News, View

_MOST_ROWS = 4_096
_MOST_BYTES = 8 * 1024 * 1024
"""The maximum size for one table."""

_MOST_ALL_BYTES = 4 * 1024 * 1024
"""The maximum size of a table of which all rows are cached."""

_MOST_BYTES_IN_ALL = 64 * 1024 * 1024
_SHARE = 1024 * 1024
"""The maximum size in the process, and the step in which a table reserves it."""

_MOST_ROW_BYTES = 64 * 1024
"""A larger row is not cached."""

_MOST_KEYS = 512
"""A read of more rows is not cached."""

_ROWS_PER_READ = 2_000
_BYTES_PER_READ = 512 * 1024
"""The rows, and their bytes, that the engine reads in about the time of a single row: that takes it
1.8 ms, 1,000 rows 2.1 ms, and 8,000 rows of 200 bytes 7.5 ms."""

_PLACE_BYTES = 200
"""The approximate size of a key and its place."""

_LARGE = frozenset(("blob", "data"))
"""Columns that are not read just for the cache."""

_ROW_BYTES = 500
"""The approximate size of a row besides its texts."""


class _Known(NamedTuple):
    """The cached rows of one key."""

    rows: tuple[Row, ...]
    n_bytes: int
    has_vectors: bool
    """Whether the vectors are cached, too."""


class _Moment(NamedTuple):
    """The table's content at the last check, as in `View`."""

    table: int
    token: int
    last: int


class Begun(NamedTuple):
    """A read of all rows of some keys that may be cached afterwards."""

    keys: frozenset[str]
    moment: _Moment
    n_forgotten: int
    has_vectors: bool
    """Whether the vectors are read, too."""


_budget = Budget(_MOST_BYTES_IN_ALL)
_NEVER = _Moment(-1, 0, 0)
_GONE = -1
"""The place of a row that was written since."""


class _AllRows:
    """All rows of a table at one moment, in Arrow's form, and the keys that were written since."""

    def __init__(self, rows: pa.Table) -> None:
        names = [name for name in rows.column_names if rows[name].null_count < rows.num_rows]
        self._rows = rows.select(names).combine_chunks()
        keys = rows[KEY].to_pylist()
        self._places: dict[str, int] = dict(zip(keys, range(len(keys)), strict=True))
        self.is_unique = len(self._places) == len(keys)
        """Whether no two rows have one key."""
        self._n_row_bytes = int(self._rows.nbytes)

    @property
    def n_bytes(self) -> int:
        """Their approximate size."""
        return self._n_row_bytes + _PLACE_BYTES * len(self._places)

    def of(self, key: str) -> tuple[Row, ...] | None:
        """The rows of a key; None if it was written since."""
        if (place := self._places.get(key)) is None:
            return ()
        return None if place == _GONE else tuple(map(_kept, self._rows.slice(place, 1).to_pylist()))

    def change(self, key: str, *, is_removed: bool) -> None:
        """Note that the rows of a key are others now, or none."""
        if is_removed:
            self._places.pop(key, None)
        else:
            self._places[key] = _GONE


class RowCache:
    """Some rows of one table; safe to share between threads and loops."""

    def __init__(self, access: TableHandle) -> None:
        """Starts empty, and stays so for branches, earlier versions, and without a log."""
        self._access = access
        self._ledger = access.ledger if access.ref is None and not access.is_pinned else None
        self._folder = f"{access.connection.uri}/{access.name}.lance"
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._n_bytes = 0
        self._moment = _NEVER
        self._view: View | None = None
        self._n_forgotten = 0
        self._n_shares = 0
        self._n_misses = 0
        """The reads that were not answered since the cache was cleared."""
        self._all: _AllRows | None = None
        self._is_reading_all = False
        self._is_unfit = False
        """Whether the table is too large for that, has two rows of one key, or cannot be read."""
        self._is_asked = access.spec is KEY_VALUES
        """Whether rows are read by their keys; items are read in no other way."""
        self._lock = threading.Lock()
        if self._ledger is not None:
            self._ledger.on_break(self.forget)

    @property
    def columns(self) -> list[str]:
        """The cached columns: all but the vectors."""
        return list(self._access.spec.schema.names)

    def find(
        self, where: Clause, columns: Sequence[str], *, at: View | None = None
    ) -> list[Row] | None:
        """The matching rows of a condition on keys, unordered; None if not all are cached.

        With `at`, also None if anything was written since. Waits for nothing; callable in any
        thread.
        """
        keys = self._keys(where, columns)
        if keys is None or (found := self._found(keys, at, with_vectors=VECTOR in columns)) is None:
            return None
        known = found[1]
        rows = [row for key in keys for row in known[key]]
        return matching(rows, where, columns)

    def rows_of(
        self, keys: Collection[str], *, at: View | None = None
    ) -> dict[str, Sequence[Row]] | None:
        """All rows of each of these keys, with their non-null columns; otherwise as `find`."""
        found = self._found(keys, at)
        return None if found is None else found[1]

    def looked_up(self, keys: Collection[str]) -> tuple[Moment, dict[str, Sequence[Row]]] | None:
        """As `rows_of`, with the table version and the log entries it goes with."""
        found = self._found(keys, None)
        return None if found is None else (found[0].moment, found[1])

    def begin(self, where: Clause, columns: Sequence[str]) -> Begun | None:
        """Begin to read all rows of a condition's keys for the cache; see `keep`.

        None if they cannot be cached.
        """
        keys = self._keys(where, columns)
        if keys is None or not _LARGE.isdisjoint({*self.columns}.difference(columns)):
            return None
        if self._now() is None:
            return None
        with self._lock:
            self._n_misses += self._all is None
            return Begun(keys, self._moment, self._n_forgotten, VECTOR in columns)

    @property
    def may_hold_all(self) -> bool:
        """Whether all rows of the table may be read for the cache: see `begin_all`."""
        return self._all is None and not (self._is_reading_all or self._is_unfit)

    def begin_all(self, n_rows: int, n_bytes: int) -> Begun | None:
        """Begin to read all rows of the table, of that size on disk; see `keep_all`.

        None if that takes far longer than the reads before it, if they are too large to be cached,
        or if another read of all is under way.
        """
        with self._lock:
            n_reads = self._n_misses
            self._is_unfit |= n_bytes + n_rows * _PLACE_BYTES > _MOST_ALL_BYTES
            is_soon = n_rows <= n_reads * _ROWS_PER_READ and n_bytes <= n_reads * _BYTES_PER_READ
            if not (n_rows and is_soon and self.may_hold_all):
                return None
            self._is_reading_all = True
            return Begun(frozenset(), self._moment, self._n_forgotten, has_vectors=False)

    def keep_all(self, begun: Begun, rows: pa.Table | None) -> None:
        """Cache all rows of the table, which were read since then, unless they are too large.

        None if they could not be read: that is not tried again before the cache is cleared.
        """
        every = None if rows is None else _AllRows(rows)
        news = self._news(begun.moment)
        with self._lock:
            self._is_reading_all, self._n_misses = False, 0
            if every is None or not every.is_unique or every.n_bytes > _MOST_ALL_BYTES:
                self._is_unfit = True
                return
            if news is None or news.entries is None or news.view.table != begun.moment.table:
                return
            if begun.n_forgotten != self._n_forgotten or self._moment.token > news.view.token:
                return
            self._go_on(news)
            for entry in news.entries:
                every.change(entry.key, is_removed=False)
            self._all = every
            self._n_bytes += every.n_bytes
        self._take_shares()

    def keep(self, begun: Begun, rows: Iterable[Row]) -> None:
        """Cache the rows read since then, which are all of their keys, unless they changed."""
        by_key: dict[str, list[Row]] = {key: [] for key in begun.keys}
        for row in rows:
            by_key[row[KEY]].append(_kept(row))
        news = self._news(begun.moment)
        if news is None or news.entries is None or news.view.table != begun.moment.table:
            return
        with self._lock:
            is_known = begun.n_forgotten == self._n_forgotten
            if not is_known or self._moment.token > news.view.token:
                return
            self._go_on(news)
            changed = {entry.key for entry in news.entries}
            for key in by_key.keys() - changed:
                self._put(key, _known(by_key[key], has_vectors=begun.has_vectors))
        self._take_shares()

    def follow(self) -> None:
        """Cache recent writes before their flush, if rows are read by their keys."""
        if self._is_asked:
            self._now()

    def forget(self) -> None:
        """Clear the cache: some of its rows may have been erased."""
        with self._lock:
            self._forget()

    # Helpers

    def _found(
        self, keys: Collection[str], at: View | None, *, with_vectors: bool = False
    ) -> tuple[View, dict[str, Sequence[Row]]] | None:
        """As `rows_of`, with the log's view at that moment."""
        if self._ledger is None:
            return None
        self._is_asked = True
        if self._now() is None:
            return None
        with self._lock:
            if (view := self._view) is None or (at is not None and not _is_same(view, at)):
                return None
            rows: dict[str, Sequence[Row]] = {}
            unknown: list[str] = []
            for key in keys:
                known = self._known.get(key) or self._taken(key)
                if known is None or (with_vectors and not known.has_vectors):
                    unknown.append(key)
                    rows[key] = ()
                else:
                    if key in self._known:
                        self._known.move_to_end(key)
                    rows[key] = known.rows
        return (view, rows) if not unknown or self._are_absent(unknown, view) else None

    def _keys(self, where: Clause, columns: Sequence[str]) -> frozenset[str] | None:
        """The keys of a condition; None if the cache cannot answer it."""
        if self._ledger is None or where.holds is None:
            return None
        if VECTOR in columns and self._access.spec.has_many_vectors:
            return None
        keys = where.keys
        return None if keys is None or len(keys) > _MOST_KEYS else keys

    def _now(self) -> View | None:
        """Follow the writes since; None if only the engine knows the table's content."""
        with self._lock:
            before = self._moment
        if (news := self._news(before)) is None or not news.view.version:
            return None
        if not news.view.entries and not manifests.is_newest(self._folder, news.view.version):
            # Another program has written to the table itself.
            return None
        if news.view is self._view:  # no change
            return news.view
        with self._lock:
            if self._moment == before:
                self._go_on(news)
        self._take_shares()
        return news.view

    def _are_absent(self, keys: Collection[str], view: View) -> bool:
        """Whether table and log surely lack these keys, without disk access."""
        lacks = self._access.presence.lacks_now(view.moment, KEY, keys)
        return lacks and not view.places(keys)

    def _news(self, moment: _Moment) -> News | None:
        return None if self._ledger is None else self._ledger.news_now(moment.token, moment.last)

    def _go_on(self, news: News) -> None:
        """Move to the current state; `news` begin no later than the cached state."""
        view = news.view
        if news.entries is None or view.table != self._moment.table:
            self._forget()
            new: Sequence[Entry] = view.entries
        else:
            new = [entry for entry in news.entries if entry.seq > self._moment.last]
        for entry in new:
            self._add(entry)
        self._moment, self._view = _Moment(view.table, view.token, view.last), view

    def _taken(self, key: str) -> _Known | None:
        """The rows of a key that were read with all of the table, or that it has none."""
        if self._all is None or (rows := self._all.of(key)) is None:
            return None
        known = _known(rows, has_vectors=not rows)
        if rows:
            self._put(key, known)
        return known

    def _add(self, entry: Entry) -> None:
        if self._all is not None:
            n_bytes = self._all.n_bytes
            self._all.change(entry.key, is_removed=entry.how is How.REMOVE)
            self._n_bytes += self._all.n_bytes - n_bytes
            if self._all.n_bytes > _MOST_ALL_BYTES:
                self._n_bytes -= self._all.n_bytes
                self._all = None
        if entry.how is How.REMOVE:
            self._put(entry.key, _known((), has_vectors=True))
            return
        row = entry.row
        if VECTOR in row and self._access.spec.has_many_vectors:
            row = {name: value for name, value in row.items() if name != VECTOR}
        # An append under a new key: the table has no row of it.
        former = self._known.get(entry.key) if entry.how is How.APPEND else None
        has_vectors = former is None or former.has_vectors
        rows = (row,) if former is None else (*former.rows, row)
        self._put(entry.key, _known(rows, has_vectors=has_vectors))

    def _put(self, key: str, known: _Known) -> None:
        self._drop(key)
        if known.n_bytes > _MOST_ROW_BYTES:
            return
        self._known[key] = known
        self._n_bytes += known.n_bytes
        while len(self._known) > _MOST_ROWS or self._n_bytes > _MOST_BYTES:
            self._drop(next(iter(self._known)))

    def _take_shares(self) -> None:
        """Evict from other tables as much as this one has grown; without the lock."""
        if (n_shares := -(-self._n_bytes // _SHARE)) > self._n_shares:
            for other in _budget.make_room(self, n_shares * _SHARE):
                other.forget()
        self._n_shares = n_shares

    def _drop(self, key: str) -> None:
        if (known := self._known.pop(key, None)) is not None:
            self._n_bytes -= known.n_bytes

    def _forget(self) -> None:
        self._n_forgotten += 1
        self._known.clear()
        self._all, self._n_misses, self._is_unfit = None, 0, False
        self._n_bytes = 0
        self._moment, self._view = _NEVER, None


def _is_same(one: View, other: View) -> bool:
    return (one.table, one.token) == (other.table, other.token)


def _kept(row: Row) -> Row:
    """A row of the engine's without its nulls, as the log has it."""
    kept = {name: value for name, value in row.items() if value is not None}
    if VECTOR in kept:
        kept[VECTOR] = np.asarray(kept[VECTOR], np.float32)
    return kept


def _known(rows: Sequence[Row], *, has_vectors: bool) -> _Known:
    texts = (one for row in rows for one in row.values() if isinstance(one, str | bytes))
    vectors = sum(np.asarray(row[VECTOR]).nbytes for row in rows if VECTOR in row)
    n_bytes = _ROW_BYTES * len(rows) + sum(map(len, texts)) + vectors
    return _Known(tuple(rows), n_bytes, has_vectors)


def matching(rows: Iterable[Row], where: Clause, columns: Sequence[str]) -> list[Row] | None:
    """The rows that match, with these columns; None if only the engine can tell."""
    if (holds := where.holds) is None:
        return None
    try:
        return [
            {name: _read(row.get(name), name) for name in columns} for row in rows if holds(row)
        ]
    except UnsureError:
        return None


def _read(value: Any, column: str) -> Any:
    return value.tolist() if column == VECTOR and isinstance(value, np.ndarray) else value
