"""What a record supersedes is marked with its id, in the commit that writes the record.

The mark is a field of the older record, so a read asks for it as for any other. It stays when the
newer record is changed, expires or is forgotten: nothing outdated comes back by itself.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lance_context_core._retrying import Attempts
from lance_context_core.engine import sql
from lance_context_core.engine.schema import KEY
from lance_context_core.records import ContextRecord
from lance_context_core.rows.records import from_row

if TYPE_CHECKING:
    from lance_context_core.stores.records.view import Records


def among(records: Sequence[ContextRecord]) -> Sequence[ContextRecord]:
    """The records; those that others among them supersede have the mark."""
    newer = [record for record in records if _supersedes(record)]
    return [_marked(record, newer) for record in records] if newer else records


async def marks(records: "Records", rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of what `rows`, which are about to be written, supersede: with the mark."""
    newer = [from_row(row) for row in rows if row["supersedes_id"] is not None]
    return await _missing(records, newer, but={row[KEY] for row in rows})


async def write(
    records: "Records", rows: Sequence[Mapping[str, Any]], marks: Sequence[Mapping[str, Any]]
) -> tuple[int, int]:
    """Write new rows and marks in one commit; how many of the rows are new, and the version then.

    Only where another writer changes a marked record at the same moment it takes a second commit.
    """
    n_written, version = await records.table.upsert([*rows, *marks])
    if n_written == len(rows) + len(marks):
        return len(rows), version
    there = await records.written({row[KEY]: row for row in rows})
    await mark(records, [from_row(row) for row in rows if row[KEY] in there])
    return len(there), await records.table.version()


async def mark(records: "Records", newer: Sequence[ContextRecord]) -> None:
    """Mark what records that are written supersede, in a commit of its own; none if it is marked."""
    attempts = Attempts("a superseded record kept being changed by others")
    while True:
        attempts.begin()
        missing = await _missing(records, newer)
        if not missing or await records.table.replace(missing) == len(missing):
            return


async def _missing(
    records: "Records", newer: Sequence[ContextRecord], *, but: Collection[str] = ()
) -> list[dict[str, Any]]:
    """The rows that lack the mark, with it."""
    newer = [record for record in newer if _supersedes(record)]
    if not newer:
        return []
    where = records.where(
        sql.in_list("id", sorted({str(record.supersedes_id) for record in newer})),
        "superseded_by_id IS NULL",
        include_expired=True,
        include_retired=True,
    )
    found = [row for row in await records.whole_rows(where) if row[KEY] not in but]
    return [
        records.successor(row, lambda record: _marked(record, newer))[1]
        for row in found
        if _marked(record := from_row(row), newer) is not record
    ]


def _supersedes(record: ContextRecord) -> bool:
    return record.supersedes_id not in {None, record.id}


def _marked(record: ContextRecord, newer: Sequence[ContextRecord]) -> ContextRecord:
    """The record with the id of the first that supersedes it; itself if none does, or one did."""
    by = next((one for one in newer if _is_superseded(record, one)), None)
    if by is None or record.superseded_by_id is not None:
        return record
    return replace(record, superseded_by_id=by.id)


def _is_superseded(record: ContextRecord, by: ContextRecord) -> bool:
    """Whether `by` supersedes it: what belongs to one tenant supersedes nothing of another's."""
    is_one_tenant = None in {record.tenant, by.tenant} or record.tenant == by.tenant
    return by.supersedes_id == record.id != by.id and is_one_tenant
