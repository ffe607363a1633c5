"""Views of what stands in tables as it is shown: read batch by batch, of one moment in one statement."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import field

import pyarrow as pa

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.querying.dataset import View
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import VECTOR, TableSpec
from lance_context_core.storage.sql.predicates import UnsureError
from lance_context_core.storage.table import Table
from lance_context_core.storage.table_reads import Snapshot

BATCH_ROWS = 16_384
"""So many rows are read at a time: of 1 KiB texts two batches are some 30 MiB."""

NAMED_ONLY = {"embedding": VECTOR, "blob": "blob", "data": "data"}
"""Columns that `*` leaves out: they are there in a statement that names them."""

_HIDDEN = frozenset(
    ("key", "revision", "fields", "search_text", "edges", "previous_key", "acknowledged_at", "owes", "vector_paths")
)  # fmt: skip
_VECTORS = pa.list_(pa.float32())


@frozen_by_name
class Part:
    """The rows of one table that a view shows."""

    table: Table
    where: sql.Clause
    constant: Mapping[str, str] = field(default_factory=dict)
    """What the table itself does not say, by the column that says it."""


def view_of(
    spec: TableSpec,
    parts: Sequence[Part],
    *,
    named: frozenset[str],
    called: Mapping[str, str] | None = None,
    without: Sequence[str] = (),
    constant: Sequence[str] = (),
) -> View:
    """The rows of all parts, whose tables are of one sort.

    - `named`: the columns that the statement names;
    - `called`: what columns of the tables are called in the view;
    - `constant`: the columns that each part has one value of.
    """
    stored = {
        (called or {}).get(one.name, one.name): one
        for one in spec.schema
        if one.name not in {*_HIDDEN, *NAMED_ONLY, *without}
    }
    for name in sorted(named & NAMED_ONLY.keys()):
        if (inside := NAMED_ONLY[name]) == VECTOR:
            many = pa.list_(_VECTORS) if spec.has_many_vectors else _VECTORS
            stored[name] = pa.field(VECTOR, many)
        elif inside in spec.schema.names:
            stored[name] = spec.schema.field(inside)
    schema = pa.schema(
        [pa.field(one, pa.string()) for one in constant]
        + [pa.field(name, _shown_type(one.name, one.type)) for name, one in stored.items()]
    )
    reading = _Reading(schema, {name: one.name for name, one in stored.items()}, parts)
    askable = {
        name: one.name
        for name, one in stored.items()
        if pa.types.is_string(one.type) or pa.types.is_timestamp(one.type) or one.type == pa.int64()
        if one.name != "namespace"
    }
    return View(schema=schema, read=reading.read, askable=askable, close=reading.close)


class _Reading:
    """The reading of a view, each time of the same moment."""

    def __init__(self, schema: pa.Schema, inside: Mapping[str, str], parts: Sequence[Part]) -> None:
        self._schema = schema
        self._inside = inside
        self._parts = parts
        self._snapshots: dict[str, Snapshot] = {}

    async def read(
        self, where: sql.Clause, columns: Sequence[str]
    ) -> AsyncGenerator[pa.RecordBatch]:
        """The rows that match, with these columns."""
        schema = pa.schema([self._schema.field(name) for name in columns])
        inside = [self._inside[name] for name in columns if name in self._inside]
        for part in self._parts:
            async for batch in self._batches(part, sql.all_of([part.where, where]), inside):
                yield pa.RecordBatch.from_arrays(
                    [self._column(batch, part, one) for one in schema], schema=schema
                )

    def close(self) -> None:
        """Let go of the tables."""
        while self._snapshots:
            self._snapshots.popitem()[1].close()

    async def _batches(
        self, part: Part, where: sql.Clause, columns: Sequence[str]
    ) -> AsyncGenerator[pa.RecordBatch]:
        table = part.table
        if table.name not in self._snapshots:
            self._snapshots[table.name] = await table.snapshot()
        snapshot = self._snapshots[table.name]
        is_begun = False
        try:
            async for batch in snapshot.batches(where, columns=columns, batch_rows=BATCH_ROWS):
                is_begun = True
                yield batch
        except UnsureError:
            assert not is_begun  # The journal's rows are asked before any is handed out.
            snapshot = await table.snapshot(is_settled=True)
            self._snapshots[table.name] = snapshot
            async for batch in snapshot.batches(where, columns=columns, batch_rows=BATCH_ROWS):
                yield batch

    def _column(self, batch: pa.RecordBatch, part: Part, field: pa.Field) -> pa.Array:
        if field.name in part.constant:
            return pa.repeat(part.constant[field.name], batch.num_rows)
        if (name := self._inside[field.name]) not in batch.schema.names:
            return pa.nulls(batch.num_rows, field.type)
        values = batch.column(name)
        if isinstance(values, pa.ExtensionArray):
            values = values.storage
        if name == "namespace":  # Each segment has a NUL behind it.
            return pa.array([one.split("\0")[:-1] for one in values.to_pylist()], field.type)
        return values if values.type == field.type else values.cast(field.type)


def _shown_type(name: str, type_: pa.DataType) -> pa.DataType:
    if name == "namespace":
        return pa.list_(pa.string())
    return pa.string() if isinstance(type_, pa.JsonType) else type_
