"""What changed between two versions, by record and by field."""

from dataclasses import fields
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_context_core.codecs.records import COLUMNS, from_row
from lance_context_core.storage.lance import diff as comparing
from lance_context_core.storage.lance.schema import KEY, VECTOR
from lance_context_core.storage.table import Table
from lance_context_core.types import ContextRecord, Diff, RecordChange

_INCIDENTAL = ("updated_at", "author")
"""Who wrote it, and when: not what."""

_COMPARED = [one.name for one in fields(ContextRecord) if one.name not in _INCIDENTAL]


async def diff(before: Table, after: Table, where: str | None) -> Diff:
    """What was added, changed and removed on the way from one place of a table to another.

    Nothing but their addresses is read of the rows that neither was written to nor moved.
    """
    old, new = await comparing.apart(before, after, where, columns=[KEY, "revision"])
    both = old.join(new, keys=KEY, right_suffix="_new", join_type="full outer")
    is_gone, is_new = pc.is_null(both["_rowid_new"]), pc.is_null(both["_rowid"])
    differs = pc.fill_null(pc.not_equal(both["revision"], both["revision_new"]), fill_value=False)
    changed = both.filter(differs).sort_by("_rowid_new")
    pairs = zip(
        await _read(before, changed, "_rowid"),
        await _read(after, changed, "_rowid_new"),
        strict=True,
    )
    changes = [RecordChange(before=a, after=b, fields=differing(a, b)) for a, b in pairs]
    return Diff(
        added=await _read(after, both.filter(is_new), "_rowid_new", in_order=True),
        changed=[change for change in changes if change.fields],
        removed=await _read(before, both.filter(is_gone), "_rowid", in_order=True),
    )


def differing(before: ContextRecord, after: ContextRecord) -> tuple[str, ...]:
    """The names of the fields that differ, except when and by whom it was updated, in their order."""
    return tuple(name for name in _COMPARED if getattr(before, name) != getattr(after, name))


async def _read(
    table: Table, rows: pa.Table, row_ids: str, *, in_order: bool = False
) -> list[ContextRecord]:
    """The records with these row ids, in their order, or in that of the commits."""
    wanted: Any = rows[row_ids].to_pylist()
    found = await table.take(sorted(wanted) if in_order else wanted, columns=[*COLUMNS, VECTOR])
    return [from_row(row) for row in found.to_pylist()]
