"""The views: what each shows of a store, of a branch of it, or of the store as it was."""

import builtins
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import field, fields, replace
from typing import Any

import pyarrow as pa

from lance_context_core._resources import Resources
from lance_context_core._util.checks import dumps
from lance_context_core._util.frozen import frozen, frozen_by_name
from lance_context_core.codecs import sources
from lance_context_core.codecs.records import alive, conditions
from lance_context_core.documents.scoped import ScopedDocuments
from lance_context_core.graph.graph import AsyncGraph
from lance_context_core.graph.scoped import ScopedGraph
from lance_context_core.information.schema import LAYOUTS
from lance_context_core.information.tables import AsyncInformationTables
from lance_context_core.jobs.queue import Queue
from lance_context_core.jobs.types import Job
from lance_context_core.knowledge import params
from lance_context_core.scope import Scope
from lance_context_core.sql_views.dataset import View
from lance_context_core.sql_views.statements import DIFF, Source
from lance_context_core.storage import sql
from lance_context_core.storage.database import spec_of
from lance_context_core.storage.lance import versions as engine_versions
from lance_context_core.storage.lance.schema import (
    DOCUMENTS,
    KEY_VALUES,
    RECORDS,
    TIMESTAMP,
    VECTOR,
    VECTORS,
    TableSpec,
)
from lance_context_core.storage.lance.versions import Ref
from lance_context_core.storage.names import collection_of, kv_of
from lance_context_core.storage.sql.predicates import UnsureError
from lance_context_core.storage.table import Table
from lance_context_core.storage.table_reads import Snapshot
from lance_context_core.stores.records.scoped import Records
from lance_context_core.stores.sessions import AsyncSessions
from lance_context_core.types import ContextRecord, Session, Version
from lance_context_core.types.graph import Entity, Mention, Relation, Statement
from lance_context_core.versioning import locations

# Views of what stands in tables as it is shown: read batch by batch, of one moment in one statement.

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


Rows = builtins.list[dict[str, Any]]

_TYPES: Mapping[pa.DataType, tuple[str, ...]] = {
    TIMESTAMP: (
        *("created_at", "updated_at", "ended_at", "expires_at", "scheduled_at", "lease_until"),
        *("valid_from", "valid_to", "recorded_at"),
    ),
    pa.list_(pa.string()): ("tags", "input_ids", "source_ids"),
    pa.int64(): ("number", "n_messages", "attempts", "fence", "start", "end"),
    pa.float64(): ("weight", "confidence"),
    pa.bool_(): ("one_of_many",),
}
"""What fields of values are, but for texts, and JSON as texts."""

_TYPE_OF = {name: type_ for type_, names in _TYPES.items() for name in names}

_CHANGES = pa.schema(
    [
        *(
            pa.field(name, pa.string())
            for name in ("change", "id", "kind", "context", "session_id")
        ),
        *(pa.field(name, pa.string()) for name in ("user_id", "author", "before", "after")),
        pa.field("fields", pa.list_(pa.string())),
    ]
)


@frozen
class Views:
    """What a handle's scope sees, as views."""

    resources: Resources
    scope: Scope

    async def view(self, source: Source, named: frozenset[str]) -> View:
        """A view, with the columns that `*` leaves out if they are named. Raises NotFoundError."""
        if source.view == DIFF:
            return _made(_CHANGES, lambda: self._changes(*source.moments))
        here = self
        if source.moments:
            here = replace(self, resources=await self.resources.shown_at(source.moments[0]))
        return await here.now(source.view, named)

    async def now(self, name: str, named: frozenset[str]) -> View:
        """As `view`, of what is seen now."""
        if name in LAYOUTS:
            tables = AsyncInformationTables(self._records())

            async def read() -> pa.Table:
                return await tables.read(name)

            return _made(LAYOUTS[name].schema, read)
        return await _VIEWS[name](self, named)

    def _records(self, context: str = "default") -> Records:
        return Records(self.resources, self.scope, context)

    # Of tables

    async def messages(self, named: frozenset[str]) -> View:
        """What was said."""
        return self._of_records(self._kind("message"), named)

    async def memories(self, named: frozenset[str]) -> View:
        """What agents shall still know."""
        return self._of_records(self._kind("memory"), named)

    async def facts(self, named: frozenset[str]) -> View:
        """What is known of what was said."""
        return self._of_records(self._kind(params.FACT, params.CONTEXT), named)

    async def all_records(self, named: frozenset[str]) -> View:
        """All that is kept, in all contexts."""
        records = self._records()
        return self._of_records(
            sql.all_of([records.everything(), *conditions(records.now())]), named
        )

    def _kind(self, kind: str, context: str = "default") -> sql.Clause:
        return self._records(context).where(sql.equals("kind", kind))

    def _of_records(self, where: sql.Clause, named: frozenset[str]) -> View:
        return view_of(RECORDS, [Part(table=self.resources.records, where=where)], named=named)

    async def documents(self, named: frozenset[str]) -> View:
        """Files that were read, without their texts."""
        chunks = ("document_id", "position", "start_offset", "end_offset", "page", "section")
        return self._of_documents(sources.DOCUMENT, named, without=("kind", "text", *chunks))

    async def passages(self, named: frozenset[str]) -> View:
        """What files say, passage by passage."""
        whole = ("hash", "size", "n_pages", "n_chunks", "properties")
        return self._of_documents(sources.CHUNK, named, without=("kind", *whole))

    def _of_documents(self, kind: str, named: frozenset[str], *, without: Sequence[str]) -> View:
        held = ScopedDocuments(self.resources, self.scope)
        part = Part(table=held.table, where=held.where(sql.equals("kind", kind)))
        return view_of(DOCUMENTS, [part], named=named, without=without)

    async def items(self, named: frozenset[str]) -> View:
        """Key-value items of all names."""
        shown = alive(self._records().now())
        parts = await self._parts(KEY_VALUES, kv_of, "store", shown)
        return view_of(
            KEY_VALUES, parts, named=named, called={"id": "item_key"}, constant=["store"]
        )

    async def vectors(self, named: frozenset[str]) -> View:
        """Documents of all collections."""
        parts = await self._parts(VECTORS, collection_of, "collection")
        return view_of(VECTORS, parts, named=named, constant=["collection"])

    async def _parts(
        self, spec: TableSpec, name_of: Callable[[str], str | None], column: str, *shown: sql.Clause
    ) -> builtins.list[Part]:
        """The tables of one sort, each with the name that its users call it."""
        return [
            Part(
                table=self.resources.database.table(table, spec),
                where=sql.all_of([self._records().inside(), *shown]),
                constant={column: name},
            )
            for table in await self.resources.database.table_names()
            if (name := name_of(table)) is not None and spec_of(table) is spec
        ]

    # Of values

    async def sessions(self, _: frozenset[str]) -> View:
        """Conversations."""
        return _of_values(Session, AsyncSessions(self._records()).list)

    async def jobs(self, _: frozenset[str]) -> View:
        """Work that is owed or done."""
        return _of_values(Job, Queue(self._records(params.CONTEXT)).list)

    async def entities(self, _: frozenset[str]) -> View:
        """Who and what is known."""
        return _of_values(Entity, self._graph.entities)

    async def relations(self, _: frozenset[str]) -> View:
        """What leads from one of these to another."""
        return _of_values(Relation, self._graph.relations)

    async def mentions(self, _: frozenset[str]) -> View:
        """Where they are spoken of."""
        return _of_values(Mention, self._graph.mentions)

    async def statements(self, _: frozenset[str]) -> View:
        """What is said of them, superseded or not."""
        return _of_values(Statement, lambda: self._graph.statements.list(include_superseded=True))

    @property
    def _graph(self) -> AsyncGraph:
        return AsyncGraph(ScopedGraph(self.resources, self.scope))

    async def versions(self, _: frozenset[str]) -> View:
        """The versions that are kept."""
        return _of_values(Version, lambda: engine_versions.versions(self.resources.records))

    async def _changes(self, before: Ref, after: Ref | None = None) -> pa.Table:
        old = await self.resources.at(before)
        new = self.resources if after is None else await self.resources.at(after)
        await new.settle()
        found = await locations.diff(old.records, new.records, self._records().everything())
        rows = [_change("removed", one, None) for one in found.removed]
        rows += [_change("changed", one.before, one.after, one.fields) for one in found.changed]
        rows += [_change("added", None, one) for one in found.added]
        return pa.Table.from_pylist(rows, schema=_CHANGES)


_VIEWS: Mapping[str, Callable[[Views, frozenset[str]], Awaitable[View]]] = {
    "messages": Views.messages,
    "memories": Views.memories,
    "facts": Views.facts,
    "records": Views.all_records,
    "sessions": Views.sessions,
    "documents": Views.documents,
    "passages": Views.passages,
    "items": Views.items,
    "vectors": Views.vectors,
    "entities": Views.entities,
    "relations": Views.relations,
    "mentions": Views.mentions,
    "statements": Views.statements,
    "jobs": Views.jobs,
    "versions": Views.versions,
}

NAMES = frozenset((*_VIEWS, *LAYOUTS))
"""What the views are called."""


def _made(schema: pa.Schema, read: Callable[[], Awaitable[pa.Table]]) -> View:
    """A view whose rows are made anew each time, all of them."""

    async def batches(_: sql.Clause, columns: Sequence[str]) -> AsyncGenerator[pa.RecordBatch]:
        for batch in (await read()).select(list(columns)).to_batches():
            yield batch

    return View(schema=schema, read=batches, askable={})


def _of_values(kind: type[Any], listed: Callable[[], Awaitable[Sequence[Any]]]) -> View:
    """The values as rows, with a column for each of their fields."""
    names = [one.name for one in fields(kind)]
    schema = pa.schema([pa.field(name, _TYPE_OF.get(name, pa.string())) for name in names])

    async def read() -> pa.Table:
        rows = [{name: _cell(getattr(one, name)) for name in names} for one in await listed()]
        return pa.Table.from_pylist(rows, schema=schema)

    return _made(schema, read)


def _cell(value: Any) -> Any:
    return dumps(value) if isinstance(value, Mapping) else value


def _change(
    change: str,
    before: ContextRecord | None,
    after: ContextRecord | None,
    differing: Sequence[str] = (),
) -> dict[str, Any]:
    one: Any = after or before
    return {
        **{name: getattr(one, name) for name in ("id", "kind", "context", "session_id")},
        **{name: getattr(one, name) for name in ("user_id", "author")},
        "change": change,
        "before": None if before is None else before.text,
        "after": None if after is None else after.text,
        "fields": list(differing),
    }
