"""What one call writes into a table, and what came of it.

A batch is one commit, or one transaction of the log. Which of both it is, the table decides: it is the same batch.
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
"""Revisions by key; None of what is absent."""


class Tail(NamedTuple):
    """The last rows that match a condition."""

    where: Clause
    keys: Sequence[str]
    """Theirs, in order."""
    is_all: bool = False
    """Whether there are no others that match."""

    @property
    def n_looked_at(self) -> int:
        """How many of the last rows tell whether it is so."""
        return len(self.keys) + self.is_all


class Observed(NamedTuple):
    """The rows that met a condition, or the last of these, at one moment."""

    rows: Sequence[Row]
    """With their keys and revisions."""
    view: View | None
    """What the log held then; None where it cannot tell what came about since."""


class Mode(Enum):
    """When a row is written, by what the table holds under its key."""

    APPEND = "append"
    """Always, behind all others, without a look: its key is new, or that of a row that the batch deletes."""
    INSERT = "insert"
    """Where there is none. An expired one makes way."""
    UPSERT = "upsert"
    """Where there is none, or the one that it succeeds: it has the next revision after that one's."""
    REPLACE = "replace"
    """Where there is the one that it succeeds: what is gone stays gone."""
    ITEM = "item"
    """As the row itself says, which gets its revision from the table: see `put_if.HOW`."""


Decide = Callable[[Amending], tuple[Sequence[New], Any]]
"""What is written, and answered, by what the log holds in its transaction."""


@frozen
class WriteBatch:
    """Rows to put, keys to delete, and what is expected of what is there: one commit.

    What is `expect`ed holds for the whole: else nothing is written. Without it, each row counts for itself:
    what others have changed since it was read is passed by, and named.
    """

    rows: Sequence[Row] = ()
    """Their keys differ."""
    mode: Mode = Mode.APPEND
    deletes: Collection[str] = ()
    """The keys of rows that are removed."""
    where: Clause | None = None
    """All rows that match are removed, too, or get the `values`."""
    values: Mapping[str, Value | None] | None = None
    """Columns of the rows `where` it holds; their revisions stay what they are."""
    expect: Seen | None = None
    """What these keys have to have; each key of `rows` is among them, or none but those to be claimed."""
    is_whole: bool = True
    """Whether nothing is written where anything is not as expected; else that row alone is passed by."""
    tail: Tail | None = None
    """What has to be the end of the rows that match its condition."""
    observed: Observed | None = None
    """What was read of the rows that the batch is about. It is not read again, unless others are faster."""
    bulk: SpooledBatch | pa.Table | None = None
    """Rows that are laid aside on disk, or come from another table, instead of `rows`: a commit of its own."""
    keeps_states: bool = True
    """Whether some caller knows a version that shows what is replaced here, so that it has to be kept."""
    decide: Decide | None = None
    """What is written is decided in the log's transaction, of what is kept beside its entries."""

    @property
    def n_rows(self) -> int:
        """How many rows are named that are written or removed."""
        return len(self.rows if self.bulk is None else self.bulk) + len(self.deletes)

    @property
    def keys(self) -> Sequence[str]:
        """Those of the rows."""
        if self.bulk is None:
            return [row[KEY] for row in self.rows]
        if isinstance(self.bulk, SpooledBatch):
            return self.bulk.keys
        keys: list[str] = self.bulk[KEY].to_pylist() if len(self.bulk) else []
        return keys


class BatchResult(NamedTuple):
    """What became of a batch."""

    is_done: bool = True
    """Whether all of it was done; nothing was, where it was to be whole."""
    lost: AbstractSet[str] = frozenset()
    """The keys of the rows that were not written, as others were faster."""
    n_replaced: int = 0
    """How many rows were there, and have others in their place, or the values."""
    n_removed: int = 0
    version: int = 0
    """A version of the table that shows the rows: the one it made or will make, or a later one."""
    token: int = 0
    """As `Table.token`, once rows are there that were appended, or items: that of this write, or a later one."""
    n_rows: int | None = None
    """How many rows came with that token; None if others made it or the one before."""
    grows_since: int = 0
    """Since which token nothing but rows appended through this table came about, until that one."""
    existed: Sequence[bool] = ()
    """For each item whether there was one of its key, which had not expired."""
    outcome: Any = None
    """What was decided in the log's transaction answers."""


NOT_AS_EXPECTED = BatchResult(is_done=False)
"""Something of it was not as expected: nothing was written."""
