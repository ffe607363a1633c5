"""Small keyed writes in one transaction that reads what they replace: also in the caller's own thread.

Nothing here belongs to one event loop. What is decided is decided in the transaction, of what the
journal says then; all else that is looked at never changes, or has a lock of its own.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from lance_context_core.engine.journal.entries import How, Moment, New, View, size_of
from lance_context_core.engine.journal.ledger import Ledger
from lance_context_core.engine.journal.policy import JournalPolicy
from lance_context_core.engine.schema import KEY, VECTOR
from lance_context_core.engine.table import keyed
from lance_context_core.engine.table.access import Access
from lance_context_core.engine.table.arrow import Row
from lance_context_core.engine.table.folding import Folding, is_overfull
from lance_context_core.engine.table.remembered import Remembered

_FEW_ROWS = 8
"""So many are looked for among the entries while others wait for the journal."""


class Known(NamedTuple):
    """What was seen of a version of the table."""

    moment: Moment
    vectors: pa.Field | None
    """Its column of vectors, if it has one."""


class Done(NamedTuple):
    """What came of a write."""

    existed: list[bool]
    """For each row whether its key held one."""
    token: int
    """Of the table, with the write in it."""


class Sighted:
    """Such writes of one table; safe to share between threads and loops."""

    def __init__(
        self, access: Access, ledger: Ledger, folding: Folding, remembered: Remembered
    ) -> None:
        """Write into `ledger` what the table of `access` takes; some of its rows are `remembered`."""
        self._access = access
        self._ledger = ledger
        self._folding = folding
        self._remembered = remembered

    async def write(
        self, rows: Sequence[Row], known: Known | None, policy: JournalPolicy
    ) -> list[bool] | None:
        """For each row whether its key held one; None if that cannot be told without a look.

        The table is as `known` to take the rows. Raises `keyed.Taken` and `keyed.Unexpected`.
        """
        if known is None or not _are_fit(rows):
            return None
        work = _Work(self._access, rows, known, policy)
        written = await self._ledger.write(work.decide)
        if written is None and self._may_know(work):
            written = await self._ledger.write(work.decide)
        if written is None:
            return None
        await self._folding.relieve(len(written.entries), written.size, policy)
        return work.existed

    def write_now(
        self, rows: Sequence[Row], known: Known | None, policy: JournalPolicy | None
    ) -> Done | None:
        """As `write`, in any thread; None, too, where one would have to wait."""
        if policy is None or known is None or not _are_fit(rows):
            return None
        work = _Work(self._access, rows, known, policy)
        written = self._ledger.write_now(work.decide)
        if written is None and self._may_know(work):
            written = self._ledger.write_now(work.decide)
        if written is None:
            return None
        self._folding.relieve_later(written, policy)
        return Done(work.existed, written.token)

    def _may_know(self, work: "_Work") -> bool:
        """Whether it is remembered what the table has of the keys on which a write depends."""
        if not work.missed:
            return False
        seen = self._remembered.looked_up(work.missed)
        work.seen = seen or work.seen
        return seen is not None


class _Work:
    """One write."""

    __slots__ = ("_access", "_keys", "_known", "_policy", "_rows", "existed", "missed", "seen")

    def __init__(
        self, access: Access, rows: Sequence[Row], known: Known, policy: JournalPolicy
    ) -> None:
        self._access = access
        self._rows = rows
        self._keys: Collection[str] = {row[KEY] for row in rows}
        self._known = known
        self._policy = policy
        self.existed: list[bool] = []
        """For each row whether its key held one, once it is decided."""
        self.missed: Collection[str] = ()
        """The keys of which it would have to be known what the table has."""
        self.seen: tuple[Moment, Mapping[str, Sequence[Row]]] = _NOTHING_SEEN
        """The rows of some keys, at a version of the table."""

    def decide(self, view: View) -> Sequence[New] | None:
        """The entries; None if they cannot be told of what is known, or it is to be folded before."""
        self.missed = ()
        if view.moment != self._known.moment or is_overfull(view, self._policy):
            return None
        last = view.last_of(self._keys)
        there = {key: None if one.how is How.REMOVE else one.row for key, one in last.items()}
        if len(there) < len(self._keys) and not self._is_told(view.moment, there):
            return None
        self.existed.clear()
        new = [*self._entries(there, last)]
        return new if size_of(new) <= self._policy.batch_bytes else None

    def _is_told(self, moment: Moment, there: dict[str, Row | None]) -> bool:
        """Whether it is known what the table has of the keys that have no entry; it is put `there`."""
        others = self._keys - there.keys()
        if self._access.presence.lacks_now(moment, KEY, others):
            return True
        when, rows = self.seen
        # What the journal had of a key then, it has still, or another version holds it.
        if when != moment or any(len(rows.get(key, _SEVERAL)) > 1 for key in others):
            self.missed = others
            return False
        there |= {key: rows[key][0] for key in others if rows[key]}
        return True

    def _entries(self, there: Mapping[str, Row | None], last: Collection[str]) -> Iterable[New]:
        """The entries of the rows, on top of what is `there`; says which existed."""
        for row in self._rows:
            key = row[KEY]
            old = there.get(key)
            is_there, settled = keyed.outcome_of(row, old)
            self.existed.append(is_there)
            if settled is not None:
                how = How.APPEND if old is None and key not in last else How.PUT
                yield New.of(how, settled, self._access.spec.columns)
            elif old is not None and row[keyed.HOW] == keyed.REMOVE:
                yield New.removing(key)


_NOTHING_SEEN: tuple[Moment, Mapping[str, Sequence[Row]]] = (Moment(-1, 0), {})
_SEVERAL: Sequence[Row] = ({}, {})


def _are_fit(rows: Sequence[Row]) -> bool:
    return len(rows) <= _FEW_ROWS and all(row.get(VECTOR) is None for row in rows)
