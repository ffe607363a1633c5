"""The writes: one commit each, over an open handle. What others have changed since it was read, stays."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.storage.lance.arrow import Row, written_as
from lance_context_core.storage.lance.schema import ACKNOWLEDGED, KEY, VECTOR
from lance_context_core.storage.names import SUCCEEDS
from lance_context_core.storage.sql.predicates import all_of, in_list, timestamp

NULLS = {"on_bad_vectors": "null"}
"""A merge takes a row without a vector for one with a bad vector, and would refuse it."""


class Appended(NamedTuple):
    """What became of rows that were appended."""

    version: int
    """A version of the table that shows them: the one it made or will make, or a later one."""
    token: int
    """As `Table.token`, once they are there: that of this addition, or a later one."""
    n_rows: int | None
    """How many rows came with that token; None if others made it or the one before."""
    grows_since: int
    """Since which token nothing but rows appended through this table came about, until that one."""


@dataclass(slots=True)
class Written:
    """How much was written since somebody looked after the table.

    About so much, as several threads may count at once. A commit that is tried again on top of
    another's counts its rows twice.
    """

    commits: int = 0
    rows: int = 0
    bytes: int = 0
    """Of the rows in memory."""

    def note(self, rows: pa.Table) -> None:
        """Count rows that are handed to the engine."""
        self.rows += rows.num_rows
        self.bytes += rows.nbytes

    def clear(self) -> None:
        """Begin anew."""
        self.commits = self.rows = self.bytes = 0


@frozen_by_name
class Changes:
    """What is to become of a table; each key stands in it once."""

    rows: pa.Table
    """The new rows and those that replace others, in the order in which the new ones are added."""
    replaced: Sequence[int] = ()
    """The revisions of the rows that are replaced: one that has another by now stays."""
    removed: Sequence[tuple[str, int]] = ()
    """The keys and revisions of the rows that are removed, likewise."""
    on: tuple[str, ...] = (KEY,)
    """What tells a new row from one that is there. With the revision too, a row may be removed and
    added anew, behind all others."""

    @property
    def expected(self) -> "Applied":
        """What is done if nobody has changed any of the rows meanwhile."""
        n_replaced = len(self.replaced)
        return Applied(
            added=self.rows.num_rows - n_replaced, replaced=n_replaced, removed=len(self.removed)
        )

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.rows.num_rows or self.removed)


@frozen_by_name
class Applied:
    """How many rows a commit added, replaced and removed."""

    added: int = 0
    replaced: int = 0
    removed: int = 0


# With an index on the key the engine panics over JSON columns in a merge: it updates them as plain
# texts. So no merge that updates rows uses one.


async def insert(handle: Any, rows: pa.Table) -> tuple[int, int]:
    """Add the rows whose keys are absent; returns how many, and the version that shows them."""
    merge = handle.merge_insert(KEY).when_not_matched_insert_all()
    result = await merge.execute(rows, **NULLS)
    return int(result.num_inserted_rows), int(result.version or await handle.version())


async def upsert(handle: Any, rows: pa.Table) -> tuple[int, int]:
    """Add rows, or replace those that these succeed; returns how many, and the version of it."""
    merge = updating(handle).when_not_matched_insert_all()
    result = await merge.execute(rows, **NULLS)
    n_written = int(result.num_inserted_rows) + int(result.num_updated_rows)
    return n_written, int(result.version or await handle.version())


async def replace(handle: Any, rows: pa.Table) -> int:
    """Replace the rows that these succeed; returns how many."""
    return int((await updating(handle).execute(rows, **NULLS)).num_updated_rows)


async def exchange(handle: Any, rows: pa.Table | None, removed: Mapping[str, int]) -> None:
    """Add rows behind all others, and remove those of these keys and revisions."""
    gone = with_revisions(removed.items())
    if rows is None:
        await handle.delete(gone)
        return
    merge = handle.merge_insert([KEY, "revision"]).when_not_matched_insert_all()
    if removed:
        merge = merge.when_not_matched_by_source_delete(gone)
    await merge.use_index(False).execute(rows, **NULLS)


async def merge(
    handle: Any, rows: pa.Table | None, removed: Collection[str], claims: Collection[str]
) -> int:
    """As `upsert`, and remove rows by key; returns how many rows were written.

    Divides by zero, and writes nothing, if one of the `claims` is there.
    """
    if rows is None:
        await handle.delete(in_list(KEY, removed))
        return 0
    merge = updating(handle, claims).when_not_matched_insert_all()
    if removed:
        merge = merge.when_not_matched_by_source_delete(in_list(KEY, removed))
    result = await merge.execute(rows, **NULLS)
    return int(result.num_inserted_rows + result.num_updated_rows)


async def put(handle: Any, rows: pa.Table | None, removed: Collection[str]) -> None:
    """Have these rows there, whatever there was of their keys, and none of the keys `removed`.

    For whoever knows that nobody else commits. Doing it again changes nothing.
    """
    if rows is None:
        await handle.delete(in_list(KEY, removed))
        return
    merge = handle.merge_insert(KEY).when_matched_update_all().when_not_matched_insert_all()
    if removed:
        merge = merge.when_not_matched_by_source_delete(in_list(KEY, removed))
    await merge.use_index(False).execute(rows, **NULLS)


async def clear_way(handle: Any, rows: Sequence[Row]) -> None:
    """Remove what has the keys of these rows, and is not they: then they come behind all others."""
    there = all_of(
        [
            in_list(KEY, [row[KEY] for row in rows]),
            f"revision NOT IN ({_listed(row['revision'] for row in rows)})",
        ]
    )
    if await handle.count_rows(there):
        await handle.delete(there)


async def apply(handle: Any, changes: Changes) -> Applied:
    """Make the changes in one commit; it does less where a row has changed since it was read."""
    gone = with_revisions(changes.removed)
    if not changes.rows.num_rows:
        return Applied(removed=int((await handle.delete(gone)).num_deleted_rows))
    merge = handle.merge_insert(list(changes.on)).when_not_matched_insert_all()
    if changes.replaced:
        guard = f"target.revision IN ({_listed(changes.replaced)})"
        merge = merge.when_matched_update_all(where=guard)
    if changes.removed:
        merge = merge.when_not_matched_by_source_delete(gone)
    # Of several chunks the engine takes some at the same time, and loses their order.
    rows = (await fitted(handle, _anew(changes.rows))).combine_chunks()
    result = await merge.use_index(False).execute(rows, **NULLS)
    return Applied(
        added=int(result.num_inserted_rows),
        replaced=int(result.num_updated_rows),
        removed=int(result.num_deleted_rows),
    )


async def there(handle: Any, rows: Iterable[Row]) -> set[str]:
    """The keys of the rows that are in the table; their revisions tell them from others'."""
    ours = {row[KEY]: row["revision"] for row in rows}
    query = handle.query().where(in_list(KEY, list(ours))).select([KEY, "revision"])
    return {row[KEY] for row in await query.to_list() if row["revision"] == ours[row[KEY]]}


async def make_way(handle: Any, rows: Sequence[Row]) -> None:
    """Remove the expired rows that have the keys of new ones: these come last, not in their place.

    Nobody sees that commit. Each new row says by `updated_at` what the time is.
    """
    now = min(row["updated_at"] for row in rows)
    expired = f"{in_list(KEY, [row[KEY] for row in rows])} AND expires_at <= {timestamp(now)}"
    if await handle.count_rows(expired):
        await handle.delete(expired)


async def fitted(handle: Any, rows: pa.Table) -> pa.Table:
    """`rows`, which came from the engine, with the table's columns; it gets one for their vectors."""
    schema = await handle.schema()
    has_vectors = VECTOR in rows.column_names and rows[VECTOR].null_count < rows.num_rows
    if has_vectors and VECTOR not in schema.names:
        schema = await add_column(handle, rows.schema.field(VECTOR))
    return conformed(rows, schema)


async def add_column(handle: Any, field: pa.Field) -> pa.Schema:
    """Add a column, which is empty; returns those that the table then has.

    Another writer may be faster, or take it away again at once: what counts is what is there.
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
    """`rows` of another ref, or an earlier version, with the columns of `schema`, to be written."""
    columns = []
    fields = []
    for field in written_as(schema):
        column = rows[field.name] if field.name in rows.column_names else None
        if column is None or column.null_count == len(column):
            column = pa.chunked_array([pa.nulls(rows.num_rows, field.type)])
        elif isinstance(column.type, pa.JsonType):
            column = pa.chunked_array([chunk.storage for chunk in column.chunks], pa.string())
        columns.append(column if column.type == field.type else column.cast(field.type))
        fields.append(field)
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def updating(handle: Any, claims: Collection[str] = (), *, is_strict: bool = False) -> Any:
    """A merge that replaces rows which nobody changed meanwhile; fails where one of `claims` was.

    If it `is_strict` it fails where any was.
    """
    guard = SUCCEEDS
    if claims or is_strict:
        # The engine has no merge that fails where a row matches. A division by zero is one.
        is_fine = SUCCEEDS if is_strict else f"{SUCCEEDS} OR NOT source.{in_list(KEY, claims)}"
        guard = f"1 / CAST(({is_fine}) AS BIGINT) = 1 AND {SUCCEEDS}"
    return handle.merge_insert(KEY).when_matched_update_all(where=guard).use_index(False)


def with_revisions(rows: Iterable[tuple[str, int]]) -> str:
    """The condition that a row is one of these, by key, and has the revision given with it."""
    rows = list(rows)
    keys, revisions = [key for key, _ in rows], [revision for _, revision in rows]
    return all_of([in_list(KEY, keys), f"revision IN ({_listed(revisions)})"])


def _anew(rows: pa.Table) -> pa.Table:
    """Rows of another place, which are in this one from this commit on."""
    return rows.drop_columns([ACKNOWLEDGED]) if ACKNOWLEDGED in rows.column_names else rows


def _listed(revisions: Iterable[int]) -> str:
    return ", ".join(map(str, revisions))
