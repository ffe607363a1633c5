"""Rows of a table that were written or read by their keys lately: one of these costs no look at the disk.

They are as fresh as every read: the journal says what was written since, by whichever process. Rows that
were changed otherwise, as by an erasure, are forgotten with all the others.
"""

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lance_context_core.storage.key_filter import Budget
from lance_context_core.storage.lance import manifests
from lance_context_core.storage.lance.arrow import Row
from lance_context_core.storage.lance.schema import KEY, KEY_VALUES, VECTOR
from lance_context_core.storage.lance.table_handle import TableHandle
from lance_context_core.storage.sql.predicates import Clause, UnsureError
from lance_context_core.storage.wal.entries import Entry, How, Moment, News, View

_MOST_ROWS = 4_096
_MOST_BYTES = 8 * 1024 * 1024
"""How much is remembered of one table."""

_MOST_BYTES_IN_ALL = 64 * 1024 * 1024
_SHARE = 1024 * 1024
"""How much is remembered in the process, and what one table asks for at a time."""

_MOST_ROW_BYTES = 64 * 1024
"""A larger row is read each time."""

_MOST_KEYS = 512
"""More at once are read as a page is."""

_LARGE = frozenset(("blob", "data"))
"""Columns that are not read for the sake of others."""

_ROW_BYTES = 500
"""What a row takes beside its texts, about."""


class _Known(NamedTuple):
    """What is known of one key."""

    rows: tuple[Row, ...]
    n_bytes: int
    has_vectors: bool
    """Whether the vectors are among what is known."""


class _Moment(NamedTuple):
    """What the table held when it was looked at, as `View` tells it."""

    table: int
    token: int
    last: int


class Begun(NamedTuple):
    """A read of all rows of some keys, which may be remembered once it is done."""

    keys: frozenset[str]
    moment: _Moment
    n_forgotten: int
    has_vectors: bool
    """Whether the vectors are read, too."""


_budget = Budget(_MOST_BYTES_IN_ALL)
_NEVER = _Moment(-1, 0, 0)


class RowCache:
    """Some rows of one table; safe to share between threads and loops."""

    def __init__(self, access: TableHandle) -> None:
        """Nothing is remembered yet; nothing ever is of a branch, of an earlier version, or without a journal."""
        self._access = access
        self._ledger = access.ledger if access.ref is None and not access.is_pinned else None
        self._folder = f"{access.connection.uri}/{access.name}.lance"
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._n_bytes = 0
        self._moment = _NEVER
        self._view: View | None = None
        self._n_forgotten = 0
        self._n_shares = 0
        self._is_asked = access.spec is KEY_VALUES
        """Whether rows are asked for by their keys; items are asked for in no other way."""
        self._lock = threading.Lock()
        if self._ledger is not None:
            self._ledger.on_break(self.forget)

    @property
    def columns(self) -> list[str]:
        """Those that are remembered: all but that of the vectors."""
        return list(self._access.spec.schema.names)

    def find(
        self, where: Clause, columns: Sequence[str], *, at: View | None = None
    ) -> list[Row] | None:
        """The matching rows, in no order, of a condition on keys; None if they are not all known.

        With `at`, None also if anything was written since that. Waits for nothing, and may be called in
        any thread.
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
        """All rows of each of these keys, with the columns that are not null; otherwise as `find`."""
        found = self._found(keys, at)
        return None if found is None else found[1]

    def looked_up(self, keys: Collection[str]) -> tuple[Moment, dict[str, Sequence[Row]]] | None:
        """As `rows_of`, and of which version of the table, with the journal's entries laid over it."""
        found = self._found(keys, None)
        return None if found is None else (found[0].moment, found[1])

    def begin(self, where: Clause, columns: Sequence[str]) -> Begun | None:
        """Begin to read all rows of the keys of a condition, with all that is remembered; see `keep`.

        None if they are not to be remembered.
        """
        keys = self._keys(where, columns)
        if keys is None or not _LARGE.isdisjoint({*self.columns}.difference(columns)):
            return None
        if self._now() is None:
            return None
        with self._lock:
            return Begun(keys, self._moment, self._n_forgotten, VECTOR in columns)

    def keep(self, begun: Begun, rows: Iterable[Row]) -> None:
        """Remember these, which were read since then and are all of their keys, unless they were changed."""
        by_key: dict[str, list[Row]] = {key: [] for key in begun.keys}
        for row in rows:
            kept = {name: row[name] for name in row if row[name] is not None}
            if VECTOR in kept:
                kept[VECTOR] = np.asarray(kept[VECTOR], np.float32)
            by_key[row[KEY]].append(kept)
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
        """Remember what was written lately, before it is folded, where rows are asked for by their keys."""
        if self._is_asked:
            self._now()

    def forget(self) -> None:
        """Forget all rows, some of which may have been erased."""
        with self._lock:
            self._forget()

    # Helpers

    def _found(
        self, keys: Collection[str], at: View | None, *, with_vectors: bool = False
    ) -> tuple[View, dict[str, Sequence[Row]]] | None:
        """As `rows_of`, and what the journal held then."""
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
                known = self._known.get(key)
                if known is None or (with_vectors and not known.has_vectors):
                    unknown.append(key)
                    rows[key] = ()
                else:
                    self._known.move_to_end(key)
                    rows[key] = known.rows
        return (view, rows) if not unknown or self._are_absent(unknown, view) else None

    def _keys(self, where: Clause, columns: Sequence[str]) -> frozenset[str] | None:
        """The keys that a condition is about; None if it is not for what is remembered to answer."""
        if self._ledger is None or where.holds is None:
            return None
        if VECTOR in columns and self._access.spec.has_many_vectors:
            return None
        keys = where.keys
        return None if keys is None or len(keys) > _MOST_KEYS else keys

    def _now(self) -> View | None:
        """Know what was written since; None if only the engine can tell what there is now."""
        with self._lock:
            before = self._moment
        if (news := self._news(before)) is None or not news.view.version:
            return None
        if not news.view.entries and not manifests.is_newest(self._folder, news.view.version):
            # Another program has written into the table itself.
            return None
        if news.view is self._view:  # Nothing has happened.
            return news.view
        with self._lock:
            if self._moment == before:
                self._go_on(news)
        self._take_shares()
        return news.view

    def _are_absent(self, keys: Collection[str], view: View) -> bool:
        """Whether neither the table nor the journal has these keys, as far as is known without a look."""
        lacks = self._access.presence.lacks_now(view.moment, KEY, keys)
        return lacks and not view.places(keys)

    def _news(self, moment: _Moment) -> News | None:
        return None if self._ledger is None else self._ledger.news_now(moment.token, moment.last)

    def _go_on(self, news: News) -> None:
        """Be as the table is now, where `news` begin no later than what is known."""
        view = news.view
        if news.entries is None or view.table != self._moment.table:
            self._forget()
            new: Sequence[Entry] = view.entries
        else:
            new = [entry for entry in news.entries if entry.seq > self._moment.last]
        for entry in new:
            self._add(entry)
        self._moment, self._view = _Moment(view.table, view.token, view.last), view

    def _add(self, entry: Entry) -> None:
        if entry.how is How.REMOVE:
            self._put(entry.key, _known((), has_vectors=True))
            return
        row = entry.row
        if VECTOR in row and self._access.spec.has_many_vectors:
            row = {name: value for name, value in row.items() if name != VECTOR}
        # Of a key that is appended as new, the table has none.
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
        """Have other tables make room for what this one has come to keep; not with the lock."""
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
        self._n_bytes = 0
        self._moment, self._view = _NEVER, None


def _is_same(one: View, other: View) -> bool:
    return (one.table, one.token) == (other.table, other.token)


def _known(rows: Sequence[Row], *, has_vectors: bool) -> _Known:
    texts = (one for row in rows for one in row.values() if isinstance(one, str | bytes))
    vectors = sum(np.asarray(row[VECTOR]).nbytes for row in rows if VECTOR in row)
    n_bytes = _ROW_BYTES * len(rows) + sum(map(len, texts)) + vectors
    return _Known(tuple(rows), n_bytes, has_vectors)


def matching(rows: Iterable[Row], where: Clause, columns: Sequence[str]) -> list[Row] | None:
    """Those that meet the condition, with these columns; None if only the engine can tell."""
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
