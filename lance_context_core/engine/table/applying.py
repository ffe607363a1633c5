"""Many changes of one table in one commit: rows added, replaced and removed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lance_context_core.engine.schema import KEY
from lance_context_core.engine.sql.clauses import all_of, in_list
from lance_context_core.engine.table.arrow import writable


@dataclass(frozen=True, slots=True, kw_only=True)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """How many rows a commit added, replaced and removed."""

    added: int = 0
    replaced: int = 0
    removed: int = 0


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
    # See `_updating` in table.py for why without an index.
    merge = merge.use_index(False)
    # Of several chunks the engine takes some at the same time, and loses their order.
    rows = conformed(changes.rows, await handle.schema()).combine_chunks()
    result = await merge.execute(rows, on_bad_vectors="null")
    return Applied(
        added=int(result.num_inserted_rows),
        replaced=int(result.num_updated_rows),
        removed=int(result.num_deleted_rows),
    )


def with_revisions(rows: Iterable[tuple[str, int]]) -> str:
    """The condition that a row is one of these, by key, and has the revision given with it."""
    rows = list(rows)
    keys, revisions = [key for key, _ in rows], [revision for _, revision in rows]
    return all_of([in_list(KEY, keys), f"revision IN ({_listed(revisions)})"])


def conformed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """`rows` of another line, or an earlier version, with the columns of `schema`, to be written."""
    columns = []
    fields = []
    for field in map(writable, schema):
        column = rows[field.name] if field.name in rows.column_names else None
        if column is None or column.null_count == len(column):
            column = pa.chunked_array([pa.nulls(rows.num_rows, field.type)])
        elif isinstance(column.type, pa.JsonType):
            column = pa.chunked_array([chunk.storage for chunk in column.chunks], pa.string())
        columns.append(column if column.type == field.type else column.cast(field.type))
        fields.append(field)
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _listed(revisions: Sequence[int]) -> str:
    return ", ".join(map(str, revisions))
