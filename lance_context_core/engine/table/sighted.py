"""Small keyed writes in one transaction that reads what they replace: also in the caller's own thread.

Nothing here belongs to one event loop. What is decided is decided in the transaction, of what the
journal says then; all else that is looked at never changes, or has a lock of its own.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from lance_context_core.engine.journal.entries import Entry, How, Moment, New, View, size_of
from lance_context_core.engine.journal.ledger import Ledger
from lance_context_core.engine.journal.policy import JournalPolicy
from lance_context_core.engine.schema import KEY, VECTOR
from lance_context_core.engine.table import keyed
from lance_context_core.engine.table.access import Access
from lance_context_core.engine.table.arrow import Row
from lance_context_core.engine.table.folding import Folding, is_overfull

_FEW_ROWS = 8
"""So many are looked for among the entries while others wait for the journal."""


class Known(NamedTuple):
    """What was seen of a version of the table."""

    moment: Moment
    vectors: pa.Field | None
    """Its column of vectors, if it has one."""


class Sighted:
    """Such writes of one table; safe to share between threads and loops."""

    def __init__(self, access: Access, ledger: Ledger, folding: Folding) -> None:
        """Write into `ledger` what the table of `access` takes."""
        self._access = access
        self._ledger = ledger
        self._folding = folding

    async def write(
        self, rows: Sequence[Row], known: Known | None, policy: JournalPolicy
    ) -> list[bool] | None:
        """For each row whether its key held one; None if the journal cannot tell that.

        The table is as `known` to take the rows.
        """
        if known is None or not _are_fit(rows):
            return None
        work = _Work(self._access, rows, known, policy)
        if (written := await self._ledger.write(work.decide)) is None:
            return None
        await self._folding.relieve(len(written.entries), written.size, policy)
        return work.existed

    def write_now(self, rows: Sequence[Row], known: Known | None) -> list[bool] | None:
        """As `write`, in any thread; None, too, where one would have to wait."""
        policy = self._ledger.policy_now()
        if policy is None or known is None or not _are_fit(rows):
            return None
        work = _Work(self._access, rows, known, policy)
        if (written := self._ledger.write_now(work.decide)) is None:
            return None
        self._folding.relieve_later(written, policy)
        return work.existed


class _Work:
    """One write."""

    __slots__ = ("_access", "_keys", "_known", "_policy", "_rows", "existed")

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

    def decide(self, view: View) -> Sequence[New] | None:
        """The entries; None if the journal alone cannot tell them, or is to be folded before."""
        if view.moment != self._known.moment or is_overfull(view, self._policy):
            return None
        keys = self._keys
        last = {entry.key: entry for entry in view.entries if entry.key in keys}
        if not self._access.presence.lacks_now(view.moment, KEY, keys - last.keys()):
            return None
        self.existed.clear()
        new = [*self._entries(last)]
        return new if size_of(new) <= self._policy.batch_bytes else None

    def _entries(self, last: Mapping[str, Entry]) -> Iterable[New]:
        """The entries of the rows, where these are the last of their keys; says which existed."""
        for row in self._rows:
            entry = last.get(row[KEY])
            old = None if entry is None or entry.how is How.REMOVE else entry.row
            is_there, settled = keyed.outcome_of(row, old)
            self.existed.append(is_there)
            if settled is not None:
                how = How.APPEND if entry is None else How.PUT
                yield New.of(how, settled, self._access.spec.columns)
            elif old is not None and row[keyed.HOW] == keyed.REMOVE:
                yield New.removing(row[KEY])


def _are_fit(rows: Sequence[Row]) -> bool:
    return len(rows) <= _FEW_ROWS and all(map(_is_fit, rows))


def _is_fit(row: Mapping[str, Any]) -> bool:
    return row.get(VECTOR) is None and keyed.is_plain(row)
