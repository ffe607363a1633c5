"""Which row of a block is the turn before another one."""

from array import array
from collections.abc import Mapping

import numpy as np

from lance_context_core.hot.rows import Row
from lance_context_core.scope import SCOPE_PARTS
from lance_context_core.storage.lance.schema import KEY, LINK, MADE

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
