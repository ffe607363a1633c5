"""Which rows of a block meet a condition: each condition is asked of each row once."""

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
"""So many conditions are remembered of a block."""

_LONG = 1_000
"""What is longer is remembered by its digest."""

_EVER, _NEVER = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Condition(NamedTuple):
    """What is asked of rows, apart from moments, which are others at each search."""

    name: str
    """The same for conditions that say the same of all but moments."""
    rest: Clause
    """All that says nothing of moments."""
    moments: Sequence[tuple[str, int]]
    """Columns that have to be null, or later, in microseconds since 1970."""

    @classmethod
    def of(cls, where: Clause, further: Sequence[tuple[str, datetime]] = ()) -> "Condition":
        """What a clause asks that can be asked of a row in memory, and `further` moments."""
        own, rest = apart(where)
        moments = [(column, _microseconds(moment)) for column, moment in (*own, *further)]
        if len(rest) < _LONG:
            return cls(rest, rest, moments)
        return cls(hashlib.blake2b(rest.encode(), digest_size=32).hexdigest(), rest, moments)

    def asked(self, rows: Sequence[Row]) -> np.ndarray:
        """For each row whether it meets the rest. Raises as `Clause.holds`."""
        holds: Any = self.rest.holds
        # What is gone is not asked.
        return np.fromiter((bool(row) and holds(row) for row in rows), bool, len(rows))


class Bitmap(NamedTuple):
    """Which rows meet a condition, and while which moments it asks of these do."""

    rows: np.ndarray
    """For each whether it does; not to be changed."""
    spans: Sequence[tuple[str, int, int]]
    """Of each column of moments, from when on it is so, and until when."""

    def holds(self, where: Condition) -> bool:
        """Whether it is so at the moments of another condition of that name."""
        return len(self.spans) == len(where.moments) and all(
            column == asked and start <= moment < end
            for (column, start, end), (asked, moment) in zip(self.spans, where.moments, strict=True)
        )


class Bitmaps:
    """What was found out about rows by number, of which there only come more.

    Moments are compared by columns; of all else is remembered which rows meet it.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        """Of these, and of those that will be added to them."""
        self._rows = rows
        self._known: OrderedDict[str, np.ndarray] = OrderedDict()
        self._moments: dict[str, np.ndarray] = {}

    @property
    def n_bytes(self) -> int:
        """What it takes in memory, about."""
        known = [*self._known.values(), *self._moments.values()]
        return sum(200 + one.nbytes for one in known)

    def of(self, where: Condition) -> Bitmap:
        """For each row whether it meets `where`. Raises as `Condition.asked`."""
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
        """Of how many rows, from the first one on, `of` knows without asking them."""
        if (known := self._known.get(where.name)) is None:
            return 0
        self._known.move_to_end(where.name)
        return len(known)

    def note(self, where: Condition, answers: np.ndarray, first: int) -> None:
        """Remember what the rows from `first` on said, unless others were faster."""
        known = self._known.get(where.name, answers[:0])
        if len(known) == first:
            self._known[where.name] = np.concatenate([known, answers])
            while len(self._known) > _MOST:
                self._known.popitem(last=False)

    # Helpers

    def _column(self, column: str) -> np.ndarray:
        """The moments in a column, the last of all where there is none."""
        known = self._moments.get(column, np.empty(0, np.int64))
        if len(known) < len(self._rows):
            more = [_microseconds(row.get(column)) for row in self._rows[len(known) :]]
            known = np.concatenate([known, np.array(more, np.int64)])
            self._moments[column] = known
        return known


def _microseconds(moment: datetime | None) -> int:
    return _NEVER if moment is None else (moment - _EPOCH) // _MICROSECOND


# The rows of a table as Python has them: what of them is kept in memory, and what it takes there.

_ROWS_AT_A_TIME = 512
"""Arrow makes Python's values of a column of so many rows in a fraction of a millisecond, in which no
other thread runs."""

_VALUE_BYTES = 50
"""What Python takes for a value beside its text."""


def plain(rows: pa.Table) -> list[Row]:
    """The rows without vectors, each without what is null."""
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
    """About as the sum of `size`, which takes longer than to make them."""
    kept = rows.drop_columns([name for name in (VECTOR, "_rowid") if name in rows.column_names])
    n_values = sum(map(len, made))
    return int(kept.nbytes) + _VALUE_BYTES * n_values + sum(map(sys.getsizeof, made))


def size(row: Row) -> int:
    """About what a row takes in memory, in bytes."""
    return sys.getsizeof(row) + sum(map(_size_of_value, row.values()))


def _values(column: pa.ChunkedArray) -> list[Any]:
    if column.type != TIMESTAMP:
        values: list[Any] = column.to_pylist()
        return values
    # Arrow looks for the time zone each time, which takes ten times as long.
    numbers = column.cast(pa.int64()).to_pylist()
    return [None if one is None else _EPOCH + timedelta(microseconds=one) for one in numbers]


def _size_of_value(value: Any) -> int:
    if type(value) is str:
        return sys.getsizeof(value)
    if isinstance(value, Collection) and not isinstance(value, str | bytes):
        parts = value.values() if isinstance(value, Mapping) else value
        return sys.getsizeof(value) + sum(map(_size_of_value, parts))
    return sys.getsizeof(value)


# Which row of a block is the turn before another one.

_SESSION = ("context", *SCOPE_PARTS, "session_id")
_NONE = -1

Session = tuple[str | None, ...]


def session_of(row: Row) -> Session | None:
    """The session in whose order a row stands; None of what has no session, or was made of records."""
    if row.get("session_id") is None or row.get("context") in MADE:
        return None
    return tuple(map(row.get, _SESSION))


class Turns:
    """The rows of a block by their numbers, each with the row before it in its session.

    That is the order of writing, whoever wrote: of turns nothing else is stored. What was made of
    records, in whatever order, names the row before it, which may come later.
    """

    def __init__(self, numbers: Mapping[str, int]) -> None:
        """`numbers` are those of the rows by key, which is followed."""
        self._numbers = numbers
        self._before = array("i")
        self._after = array("i")
        self._last: dict[Session, int] = {}
        # Mostly one row names another: ten thousand lists would have Python collect its garbage.
        self._naming: dict[str, int] = {}
        self._others: dict[str, list[int]] = {}
        """The row that names a key, and what else does."""

    @property
    def before(self) -> np.ndarray:
        """Of each row the number of the row before it, or -1; hold it no longer than nothing is added."""
        return np.frombuffer(self._before, np.int32)

    def add(self, row: Row, number: int, *, former: int | None = None) -> None:
        """Add a row, at the end of its session, or in the place of a `former` one of the same."""
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
        """Take out a row, which is there: the row behind it then follows the one before it."""
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
                # The row that it names is written anew.
                self._before[later] = number
        if (before := row.get(LINK)) is None:
            return
        self._before[number] = self._numbers.get(before, _NONE)
        if self._naming.setdefault(before, number) != number:
            self._others.setdefault(before, []).append(number)
