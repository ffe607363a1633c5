"""Which rows of a block meet a condition: each condition is asked of each row once."""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np

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


class Mask(NamedTuple):
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


class Masks:
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

    def of(self, where: Condition) -> Mask:
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
        return Mask(mask, spans)

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
