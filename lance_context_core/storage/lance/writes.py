"""Writes through an open handle, one commit each, which keep others' changes."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from lance_context_core.storage.lance.arrow import Row, with_fields, written_as
from lance_context_core.storage.lance.schema import ACKNOWLEDGED, KEY, VECTOR
from lance_context_core.storage.names import SUCCEEDS
from lance_context_core.storage.sql.predicates import EVERYTHING, Clause, all_of, in_list, timestamp

NULLS = {"on_bad_vectors": "null"}
"""A merge takes a row without a vector for one with a bad vector, and would refuse it."""


@dataclass(slots=True)
class Written:
    """The amount written since the last upkeep.

    Approximate, as several threads may count at once. A commit that is retried on top of another's
    counts its rows twice.
    """

    commits: int = 0
    rows: int = 0
    bytes: int = 0
    """Of the rows in memory."""

    def note(self, rows: pa.Table) -> None:
        """Count rows that are passed to the engine."""
        self.rows += rows.num_rows
        self.bytes += rows.nbytes

    def clear(self) -> None:
        """Reset the counts."""
        self.commits = self.rows = self.bytes = 0


class Merged(NamedTuple):
    """The numbers of rows that a commit added, replaced and deleted, and its version."""

    n_added: int
    n_replaced: int
    n_removed: int
    version: int


# With an index on the key the engine panics over JSON columns in a merge: it updates them as plain
# texts. So no merge that updates rows uses one.


async def merge(
    handle: Any,
    rows: pa.Table | None,
    *,
    adds: bool = True,
    over: str | None = None,
    removes: str | None = None,
    on: Sequence[str] = (KEY,),
) -> Merged:
    """Merge rows: add absent ones if it `adds`, replace others, delete those in `removes`.

    One commit. A row exists if one has the same values `on`; it is replaced if the condition `over`
    holds of both (`target` and `source`), and not at all without it.
    """
    if rows is None:
        deleted = await handle.delete(removes)
        return Merged(0, 0, int(deleted.num_deleted_rows), int(deleted.version))
    merge = handle.merge_insert(list(on))
    if over is not None:
        merge = merge.when_matched_update_all(where=None if over == EVERYTHING else over)
    if adds:
        merge = merge.when_not_matched_insert_all()
    if removes is not None:
        merge = merge.when_not_matched_by_source_delete(removes)
    if over is not None or removes is not None:
        merge = merge.use_index(False)
    # Of several chunks the engine reads some at the same time, and loses their order.
    done = await merge.execute(rows.combine_chunks(), **NULLS)
    return Merged(
        int(done.num_inserted_rows),
        int(done.num_updated_rows),
        int(done.num_deleted_rows),
        int(done.version or await handle.version()),
    )


def claiming(keys: Collection[str] | None) -> str:
    """As SUCCEEDS, but divides by zero if a row of these keys contradicts it.

    Any key, if none are named. The engine has no merge that fails where a row matches.
    """
    is_fine = SUCCEEDS if keys is None else f"{SUCCEEDS} OR NOT source.{in_list(KEY, keys)}"
    return f"1 / CAST(({is_fine}) AS BIGINT) = 1 AND {SUCCEEDS}"


async def put(handle: Any, rows: pa.Table | None, removed: Collection[str]) -> None:
    """Put these rows, replacing any rows of their keys, and delete the keys `removed`.

    Requires that no other process commits. Idempotent.
    """
    removes = in_list(KEY, removed) if removed or rows is None else None
    await merge(handle, rows, over=EVERYTHING, removes=removes)


async def clear_way(handle: Any, rows: Sequence[Row]) -> None:
    """Delete other rows with the keys of these, so that these come last."""
    there = all_of(
        [
            in_list(KEY, [row[KEY] for row in rows]),
            f"revision NOT IN ({_listed(row['revision'] for row in rows)})",
        ]
    )
    if await handle.count_rows(there):
        await handle.delete(there)


async def there(handle: Any, rows: Iterable[Row]) -> set[str]:
    """The keys of the rows that exist in the table; revisions distinguish other rows."""
    ours = {row[KEY]: row["revision"] for row in rows}
    query = handle.query().where(in_list(KEY, list(ours))).select([KEY, "revision"])
    return {row[KEY] for row in await query.to_list() if row["revision"] == ours[row[KEY]]}


async def make_way(handle: Any, rows: Sequence[Row]) -> None:
    """Delete the expired rows of new keys, so that the new rows come last.

    Without a reported version. Each new row has the current time in `updated_at`.
    """
    now = min(row["updated_at"] for row in rows)
    expired = f"{in_list(KEY, [row[KEY] for row in rows])} AND expires_at <= {timestamp(now)}"
    if await handle.count_rows(expired):
        await handle.delete(expired)


async def fitted(handle: Any, rows: pa.Table) -> pa.Table:
    """`rows` of the engine, with the table's columns; adds a column for their vectors."""
    schema = await handle.schema()
    has_vectors = VECTOR in rows.column_names and rows[VECTOR].null_count < rows.num_rows
    if has_vectors and VECTOR not in schema.names:
        schema = await add_column(handle, rows.schema.field(VECTOR))
    return conformed(rows, schema)


def anew(rows: pa.Table) -> pa.Table:
    """Rows of another table, as rows of this one from this commit on."""
    return rows.drop_columns([ACKNOWLEDGED]) if ACKNOWLEDGED in rows.column_names else rows


async def add_column(handle: Any, field: pa.Field) -> pa.Schema:
    """Add an empty column; returns those that the table then has.

    Another writer may be faster, or remove it again at once: the result is the actual state.
    """
    try:
        await handle.add_columns(field)
    except Exception:
        await handle.checkout_latest()
        if field.name not in (await handle.schema()).names:
            raise
    schema: pa.Schema = await handle.schema()
    return schema


def conformed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """`rows` of another ref, or an earlier version, converted to the columns of `schema`."""
    columns = []
    fields = []
    rows = with_fields(rows, schema)
    for field in written_as(schema):
        column = rows[field.name] if field.name in rows.column_names else None
        if column is None or column.null_count == len(column):
            column = pa.chunked_array([pa.nulls(rows.num_rows, field.type)])
        elif isinstance(column.type, pa.JsonType):
            column = pa.chunked_array([chunk.storage for chunk in column.chunks], pa.string())
        columns.append(column if column.type == field.type else column.cast(field.type))
        fields.append(field)
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def with_revisions(rows: Iterable[tuple[str, int]]) -> Clause:
    """The condition that a row is one of these, by key, with the given revision."""
    rows = list(rows)
    keys, revisions = [key for key, _ in rows], [revision for _, revision in rows]
    return all_of([in_list(KEY, keys), f"revision IN ({_listed(revisions)})"])


def has_revision(revisions: Iterable[int]) -> str:
    """The merge condition that the existing row has one of these."""
    return f"target.revision IN ({_listed(revisions)})"


def _listed(revisions: Iterable[int]) -> str:
    return ", ".join(map(str, revisions))
