"""The rows of one write to a table, and its result.

A batch is one commit, or one transaction of the log. The table decides which; the batch is the same
for both.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Any, NamedTuple

import pyarrow as pa

from lance_context_core._util.frozen import frozen
from lance_context_core.storage.lance.arrow import Row
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.storage.spooled_batch import SpooledBatch
from lance_context_core.storage.sql.predicates import Clause, Value
from lance_context_core.storage.wal.entries import New, View
from lance_context_core.storage.wal.transactions import Amending

Seen = Mapping[str, int | None]
"""Revisions by key; None for a missing row."""


class Tail(NamedTuple):
    """The last rows that match a condition."""

    where: Clause
    keys: Sequence[str]
    """Their keys and revisions, in order."""
    is_all: bool = False
    """Whether no other rows match; then in any order."""

    def is_of(self, keys: Sequence[str]) -> bool:
        """Whether these, the `n_looked_at` last keys of the condition, are as expected."""
        if self.is_all:
            return sorted(keys) == sorted(self.keys)
        return [*keys] == [*self.keys]

    @property
    def n_looked_at(self) -> int:
        """The number of last rows that decide this."""
        return len(self.keys) + self.is_all


class Observed(NamedTuple):
    """The rows that matched a condition, or the last of these, at one moment."""

    rows: Sequence[Row]
    """With their keys and revisions."""
    view: View | None
    """The log's view then; None if it cannot return the changes since."""


class Mode(Enum):
    """The condition of writing a row, on the table's row of its key."""

    APPEND = "append"
    """Always, appended without a check: its key is new, or that of a row that the batch deletes."""
    INSERT = "insert"
    """If no row exists. An expired one is replaced."""
    UPSERT = "upsert"
    """If no row exists, or the row that it succeeds, by its revision."""
    REPLACE = "replace"
    """If the row that it succeeds exists: deleted rows stay deleted."""
    ITEM = "item"
    """As the row itself specifies; the table assigns its revision: see `put_if.HOW`."""


Decide = Callable[[Amending], tuple[Sequence[New], Any]]
"""Decides the rows and the answer by the log's content in its transaction."""


@frozen
class WriteBatch:
    """Rows to put, keys to delete, and preconditions: one commit.

    `expect` holds for the whole batch: if it fails, nothing is written. Without it, each row counts
    for itself: rows that others changed since they were read are skipped, and named in the result.
    """

    rows: Sequence[Row] = ()
    """Their keys differ."""
    mode: Mode = Mode.APPEND
    deletes: Collection[str] = ()
    """The keys of the rows to delete."""
    where: Clause | None = None
    """All matching rows are deleted, too, or get the `values`."""
    values: Mapping[str, Value | None] | None = None
    """New column values for the rows that match `where`; their revisions stay the same."""
    expect: Seen | None = None
    """The expected revisions of these keys; includes each key of `rows`, or none but those to be
    claimed."""
    is_whole: bool = True
    """Whether a failed expectation cancels the whole batch; else it skips that row alone."""
    tail: Tail | None = None
    """The expected last rows of its condition. In a batch of the mode APPEND, those that `expect`
    names are deleted; in one of the mode UPSERT, they may also be rows that stay as they are."""
    observed: Observed | None = None
    """The batch's rows as read before. They are read again only if others wrote meanwhile."""
    bulk: SpooledBatch | pa.Table | None = None
    """Rows that are spooled on disk, or come from another table, instead of `rows`: a commit of its
    own."""
    keeps_states: bool = True
    """Whether a caller knows a version that shows the replaced rows, so that it has to stay."""
    decide: Decide | None = None
    """Decides the writes in the log's transaction, by the locks and tasks stored with its
    entries."""

    @property
    def n_rows(self) -> int:
        """The number of rows that are written or deleted by name."""
        return len(self.rows if self.bulk is None else self.bulk) + len(self.deletes)

    @property
    def keys(self) -> Sequence[str]:
        """The keys of the rows."""
        if self.bulk is None:
            return [row[KEY] for row in self.rows]
        if isinstance(self.bulk, SpooledBatch):
            return self.bulk.keys
        keys: list[str] = self.bulk[KEY].to_pylist() if len(self.bulk) else []
        return keys


class BatchResult(NamedTuple):
    """The result of a batch."""

    is_done: bool = True
    """Whether all of it was done; if it had to be whole, else nothing was."""
    lost: AbstractSet[str] = frozenset()
    """The keys of the rows that were skipped, because others wrote first."""
    n_replaced: int = 0
    """The number of existing rows that were replaced, or got the values."""
    n_removed: int = 0
    version: int = 0
    """A version of the table that shows the rows: the one it made or will make, or a later one."""
    token: int = 0
    """As `Table.token`, for appended rows and items: that of this write, or a later one."""
    n_rows: int | None = None
    """The number of rows with that token; None if others made it or the previous one."""
    grows_since: int = 0
    """The token since which only appends through this table happened, until that one."""
    existed: Sequence[bool] = ()
    """For each item, whether one of its key existed that had not expired."""
    outcome: Any = None
    """The answer that was decided in the log's transaction."""


NOT_AS_EXPECTED = BatchResult(is_done=False)
"""The result if an expectation failed: nothing was written."""
