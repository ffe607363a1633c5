"""What a record supersedes is marked with its id, in the commit that writes the record.

The mark is a field of the older record, so a read asks for it as for any other. It stays when the
newer record is changed, expires or is forgotten: nothing outdated comes back by itself.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lance_context_core._util.retry import Attempts
from lance_context_core.codecs.records import from_row
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.stores.records.scoped import Records
from lance_context_core.types import ContextRecord


def superseded_by(record: ContextRecord, newer: Iterable[ContextRecord]) -> str | None:
    """The id of the first of `newer` that supersedes it; None if none does, or one did before."""
    if record.superseded_by_id is not None:
        return None
    return next((one.id for one in newer if _supersedes(one, record)), None)


async def marks(records: Records, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of what `rows`, which are about to be written, supersede: with the mark."""
    newer = [from_row(row) for row in rows if row["supersedes_id"] is not None]
    return await _missing(records, newer, but={row[KEY] for row in rows})


async def write(
    records: Records, rows: Sequence[Mapping[str, Any]], marks: Sequence[Mapping[str, Any]]
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


async def mark(records: Records, newer: Sequence[ContextRecord]) -> None:
    """Mark what records that are written supersede, in a commit of its own; none if it is marked."""
    attempts = Attempts("a superseded record kept being changed by others")
    while True:
        attempts.begin()
        missing = await _missing(records, newer)
        if not missing or await records.table.replace(missing) == len(missing):
            return


async def _missing(
    records: Records, newer: Sequence[ContextRecord], *, but: Collection[str] = ()
) -> list[dict[str, Any]]:
    """The rows that lack the mark, with it."""
    newer = [record for record in newer if record.supersedes_id not in {None, record.id}]
    if not newer:
        return []
    where = records.where(
        sql.in_list("id", sorted({str(record.supersedes_id) for record in newer})),
        sql.is_absent("superseded_by_id"),
        include_expired=True,
        include_retired=True,
    )
    marked = []
    for row in await records.whole_rows(where):
        by = superseded_by(record := from_row(row), newer)
        if by is not None and row[KEY] not in but:
            after = records.stamped(replace(record, superseded_by_id=by, updated_at=records.now()))
            marked.append(records.replacing(row, after))
    return marked


def _supersedes(newer: ContextRecord, record: ContextRecord) -> bool:
    """Whether it does: what belongs to one tenant supersedes nothing of another's."""
    is_one_tenant = None in {record.tenant, newer.tenant} or record.tenant == newer.tenant
    return newer.supersedes_id == record.id != newer.id and is_one_tenant
