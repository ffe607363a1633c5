"""The rows of a block that meet a condition: each is evaluated once per row."""

import hashlib
import sys
from array import array
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from lance_context_core.scope import SCOPE_PARTS
from lance_context_core.storage.lance.schema import KEY, LINK, MADE, TIMESTAMP, VECTOR
from lance_context_core.storage.sql.predicates import Clause, apart

Row = Mapping[str, Any]

_MOST = 32
"""Maximum number of conditions cached per block."""

_LONG = 1_000
"""Longer ones are cached by their digest."""

_EVER, _NEVER = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Condition(NamedTuple):
    """A condition on rows, apart from times, which differ in each search."""

    name: str
    """Equal for conditions that differ only in times."""
    rest: Clause
    """The part without times."""
    moments: Sequence[tuple[str, int]]
    """Columns that must be null, or later, in microseconds since 1970."""

    @classmethod
    def of(cls, where: Clause, further: Sequence[tuple[str, datetime]] = ()) -> "Condition":
        """Split a clause for rows in memory into the rest and times, with `further` ones."""
        own, rest = apart(where)
        moments = [(column, _microseconds(moment)) for column, moment in (*own, *further)]
        if len(rest) < _LONG:
            return cls(rest, rest, moments)
        return cls(hashlib.blake2b(rest.encode(), digest_size=32).hexdigest(), rest, moments)

    def asked(self, rows: Sequence[Row]) -> np.ndarray:
        """Return for each row whether it meets the rest. Raises the errors of `Clause.holds`."""
        holds: Any = self.rest.holds
        # Removed rows are not evaluated.
        return np.fromiter((bool(row) and holds(row) for row in rows), bool, len(rows))


class Bitmap(NamedTuple):
    """The rows that meet a condition, and the times for which this is valid."""

    rows: np.ndarray
    """Whether each row meets it; not to be changed."""
    spans: Sequence[tuple[str, int, int]]
    """For each column of times, the start and the end of validity."""

    def holds(self, where: Condition) -> bool:
        """Whether it is valid for the times of another condition of that name."""
        return len(self.spans) == len(where.moments) and all(
            column == asked and start <= moment < end
            for (column, start, end), (asked, moment) in zip(self.spans, where.moments, strict=True)
        )


class Bitmaps:
    """Cached conditions of rows by number; rows are only added.

    Times are compared by columns; for all other conditions the matching rows are cached.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        """Create it for these rows, and rows added later."""
        self._rows = rows
        self._known: OrderedDict[str, np.ndarray] = OrderedDict()
        self._moments: dict[str, np.ndarray] = {}

    @property
    def n_bytes(self) -> int:
        """Approximate memory in bytes."""
        known = [*self._known.values(), *self._moments.values()]
        return sum(200 + one.nbytes for one in known)

    def of(self, where: Condition) -> Bitmap:
        """Return for each row whether it meets `where`. Raises the errors of `Condition.asked`."""
        first = self.n_asked(where)
        if first < len(self._rows) or not first:
            self.note(where, where.asked(self._rows[first:]), first)
        mask, spans = self._known[where.name], []
        for column, moment in where.moments:
            moments = self._column(column)
            there = moments > moment
            start = moments.max(initial=_EVER, where=~there)
            spans.append((column, int(start), int(moments.min(initial=_NEVER, where=there))))
            mask = mask & there
        return Bitmap(mask, spans)

    def n_asked(self, where: Condition) -> int:
        """Return the number of rows, from the first, whose result `of` has cached."""
        if (known := self._known.get(where.name)) is None:
            return 0
        self._known.move_to_end(where.name)
        return len(known)

    def note(self, where: Condition, answers: np.ndarray, first: int) -> None:
        """Cache the results of rows from `first` on, unless another thread has."""
        known = self._known.get(where.name, answers[:0])
        if len(known) == first:
            self._known[where.name] = np.concatenate([known, answers])
            while len(self._known) > _MOST:
                self._known.popitem(last=False)

    # Helpers

    def _column(self, column: str) -> np.ndarray:
        """Return the times in a column, the maximum for null."""
        known = self._moments.get(column, np.empty(0, np.int64))
        if len(known) < len(self._rows):
            more = [_microseconds(row.get(column)) for row in self._rows[len(known) :]]
            known = np.concatenate([known, np.array(more, np.int64)])
            self._moments[column] = known
        return known


def _microseconds(moment: datetime | None) -> int:
    return _NEVER if moment is None else (moment - _EPOCH) // _MICROSECOND


# Conversion of rows to Python objects, and their size in memory.

_ROWS_AT_A_TIME = 512
"""Arrow converts these in a fraction of a millisecond, while no other thread runs."""

_VALUE_BYTES = 50
"""Bytes of a Python value besides its text."""


def plain(rows: pa.Table) -> list[Row]:
    """Return the rows without vectors and nulls."""
    there = [name for name in rows.column_names if name not in (VECTOR, "_rowid")]
    names = [name for name in there if rows[name].null_count < rows.num_rows]
    kept = rows.select(names)
    made: list[Row] = []
    for start in range(0, kept.num_rows, _ROWS_AT_A_TIME):
        some = kept.slice(start, _ROWS_AT_A_TIME)
        rows_of_values = zip(*map(_values, some.columns), strict=True)
        if any(column.null_count for column in some.columns):
            made += [
                {
                    name: value
                    for name, value in zip(names, values, strict=True)
                    if value is not None
                }
                for values in rows_of_values
            ]
        else:
            made += [dict(zip(names, values, strict=True)) for values in rows_of_values]
    return made


def size_of_rows(rows: pa.Table, made: Sequence[Row]) -> int:
    """Return about the sum of `size`, which takes longer than the conversion."""
    kept = rows.drop_columns([name for name in (VECTOR, "_rowid") if name in rows.column_names])
    n_values = sum(map(len, made))
    return int(kept.nbytes) + _VALUE_BYTES * n_values + sum(map(sys.getsizeof, made))


def size(row: Row) -> int:
    """Return the approximate memory of a row in bytes."""
    return sys.getsizeof(row) + sum(map(_size_of_value, row.values()))


def _values(column: pa.ChunkedArray) -> list[Any]:
    if column.type != TIMESTAMP:
        values: list[Any] = column.to_pylist()
        return values
    # Arrow looks up the time zone for each value, which takes ten times as long.
    numbers = column.cast(pa.int64()).to_pylist()
    return [None if one is None else _EPOCH + timedelta(microseconds=one) for one in numbers]


def _size_of_value(value: Any) -> int:
    if type(value) is str:
        return sys.getsizeof(value)
    if isinstance(value, Collection) and not isinstance(value, str | bytes):
        parts = value.values() if isinstance(value, Mapping) else value
        return sys.getsizeof(value) + sum(map(_size_of_value, parts))
    return sys.getsizeof(value)


# The previous turn of a row in a block.

_SESSION = ("context", *SCOPE_PARTS, "session_id")
_NONE = -1

Session = tuple[str | None, ...]


def session_of(row: Row) -> Session | None:
    """Return the session of a row; None without one, or for derived records."""
    if row.get("session_id") is None or row.get("context") in MADE:
        return None
    return tuple(map(row.get, _SESSION))


class Turns:
    """The rows of a block by number, each with the previous row of its session.

    This is the order of writing, by any writer: turns store no other. A derived record names the
    previous one, which may be written later.
    """

    def __init__(self, numbers: Mapping[str, int]) -> None:
        """Create it with the numbers of the rows by key, a mapping that it follows."""
        self._numbers = numbers
        self._before = array("i")
        self._after = array("i")
        self._last: dict[Session, int] = {}
        # Usually one row names another: ten thousand lists would trigger garbage collection.
        self._naming: dict[str, int] = {}
        self._others: dict[str, list[int]] = {}
        """The row that names a key, and further ones."""

    @property
    def before(self) -> np.ndarray:
        """The number of each row's previous one, or -1; valid until the next addition."""
        return np.frombuffer(self._before, np.int32)

    def add(self, row: Row, number: int, *, former: int | None = None) -> None:
        """Add a row to the end of its session, or replace a `former` one."""
        self._before.append(_NONE)
        self._after.append(_NONE)
        if (session := session_of(row)) is None:
            self._name(row, number)
            return
        if former is None:
            before, after = self._last.get(session, _NONE), _NONE
        else:
            before, after = self._before[former], self._after[former]
        self._join(before, number)
        self._join(number, after)
        if after == _NONE:
            self._last[session] = number

    def remove(self, row: Row, number: int) -> None:
        """Remove a row: the next row then follows the previous one."""
        if (session := session_of(row)) is None:
            return
        before, after = self._before[number], self._after[number]
        self._join(before, after)
        if after != _NONE:
            return
        if before == _NONE:
            del self._last[session]
        else:
            self._last[session] = before

    def _join(self, before: int, after: int) -> None:
        if before != _NONE:
            self._after[before] = after
        if after != _NONE:
            self._before[after] = before

    def _name(self, row: Row, number: int) -> None:
        if row.get("context") not in MADE:
            return
        for later in (self._naming.get(row[KEY]), *self._others.get(row[KEY], ())):
            if later is not None:
                # The row that it names is rewritten.
                self._before[later] = number
        if (before := row.get(LINK)) is None:
            return
        self._before[number] = self._numbers.get(before, _NONE)
        if self._naming.setdefault(before, number) != number:
            self._others.setdefault(before, []).append(number)
