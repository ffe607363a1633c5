"""Changes of records: each is read, changed, and written if unchanged meanwhile."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from lance_context_core._embedding import embedded
from lance_context_core._util import cooperative as steps
from lance_context_core._util.retry import Attempts
from lance_context_core.codecs.records import from_row
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.storage.write_batch import Mode, Observed, WriteBatch
from lance_context_core.stores.records.scoped import Records
from lance_context_core.types import ContextRecord

# A superseded record is marked with the id of the newer one, in the commit that writes that.
#
# The mark is a field of the older record, which reads filter like any other. It stays if the newer
# record is changed, expires or is deleted: nothing outdated comes back automatically.


def superseded_by(record: ContextRecord, newer: Iterable[ContextRecord]) -> str | None:
    """Return the id of the first of `newer` that supersedes it; else None.

    None also if it is marked already.
    """
    if record.superseded_by_id is not None:
        return None
    return next((one.id for one in newer if _supersedes(one, record)), None)


async def marks(records: Records, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows that `rows`, which are about to be written, supersede, with their marks."""
    newer = [from_row(row) for row in rows if row["supersedes_id"] is not None]
    return await _missing(records, newer, but={row[KEY] for row in rows})


async def write(
    records: Records, rows: Sequence[Mapping[str, Any]], marks: Sequence[Mapping[str, Any]]
) -> tuple[int, int]:
    """Write rows and marks in one commit; returns the new rows' number, and version.

    Only if another writer changes a marked record at the same moment it takes a second commit.
    """
    done = await records.table.write(WriteBatch([*rows, *marks], Mode.UPSERT))
    there = [row for row in rows if row[KEY] not in done.lost]
    if not done.is_done:
        await mark(records, [from_row(row) for row in there])
        return len(there), await records.table.version()
    return len(there), done.version


async def mark(records: Records, newer: Sequence[ContextRecord]) -> None:
    """Mark the records superseded by written ones, in a separate commit if necessary."""
    attempts = Attempts("a superseded record kept being changed by others")
    while True:
        attempts.begin()
        missing = await _missing(records, newer)
        if not missing:
            return
        if (await records.table.write(WriteBatch(missing, Mode.REPLACE))).is_done:
            return


async def _missing(
    records: Records, newer: Sequence[ContextRecord], *, but: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Return the rows that lack the mark, with it."""
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
    """Whether it does; a record supersedes nothing of another tenant."""
    is_one_tenant = None in {record.tenant, newer.tenant} or record.tenant == newer.tenant
    return newer.supersedes_id == record.id != newer.id and is_one_tenant


Change = Callable[[ContextRecord], ContextRecord]
"""Returns the changed record, with values in plain types."""


async def patch(
    records: Records,
    where: sql.Clause,
    change: Change,
    *,
    within: Mapping[str, str | None] | None = None,
) -> ContextRecord | None:
    """Change the first matching record and return it; None if none matches.

    `within` as in `Records.observed`. Concurrent changes of one record are applied one after the
    other, none is lost.
    """
    records.resources.writable()
    attempts = Attempts("the same record kept being changed by others")
    while True:
        attempts.begin()
        rows, view = await records.observed_whole(where, within=within)
        if not rows:
            return None
        before = from_row(rows[0])
        attempts.problem = f"record {before.id!r} kept being changed by others"
        after = records.changed(before, change)
        if after.embedding is not before.embedding:
            after = await _embedded(records, after)
        new = [row := records.replacing(rows[0], after)]
        if after.supersedes_id != before.supersedes_id:
            new += await marks(records, new)
        # The record that gets another record's mark was not observed.
        seen = Observed(rows, view) if len(new) == 1 else None
        done = await records.table.write(WriteBatch(new, Mode.REPLACE, observed=seen))
        if done.is_done:
            return after
        if row[KEY] not in done.lost:
            await mark(records, [after])
            return after


async def expire_all(
    records: Records,
    where: sql.Clause,
    moment: datetime | None,
    *,
    within: Mapping[str, str | None] | None = None,
) -> int:
    """Set the expiry of all matching records, None for never; returns their number, as `patch_all`.

    Their contents, authors, and update times stay.
    """

    def expire(record: ContextRecord) -> ContextRecord:
        return replace(record, expires_at=moment)

    return len(await patch_all(records, where, expire, is_said=False, within=within))


async def patch_all(
    records: Records,
    where: sql.Clause,
    change: Change,
    *,
    is_said: bool = True,
    within: Mapping[str, str | None] | None = None,
) -> list[ContextRecord]:
    """Change all matching records, in one commit, and return them in order.

    `within` as in `Records.observed`.

    Unless it `is_said` by the current writer, their authors and update times stay.

    Only if another writer changes one of them at the same moment it takes a second commit, on top
    of the other's.
    """
    records.resources.writable()
    done: dict[str, ContextRecord] = {}

    def successor(row: Mapping[str, Any]) -> tuple[ContextRecord, dict[str, Any]]:
        record = from_row(row)
        record = records.changed(record, change) if is_said else records.stamped(change(record))
        return record, records.replacing(row, record)

    attempts = Attempts("the same records kept being changed by others")
    while True:
        attempts.begin()
        observed = await records.observed_whole(where, within=within)
        rows = [row for row in observed.rows if row[KEY] not in done]
        if not rows:
            return list(done.values())
        pairs = await steps.each(successor, rows)
        changed = {row[KEY]: record for record, row in pairs}
        new = {row[KEY]: row for _, row in pairs}
        batch = WriteBatch([*new.values()], Mode.REPLACE, observed=observed)
        lost = (await records.table.write(batch)).lost
        changed = {key: one for key, one in changed.items() if key not in lost}
        done |= changed
        if len(changed) == len(new):
            return list(done.values())


async def _embedded(records: Records, record: ContextRecord) -> ContextRecord:
    """Return the record with its vector, if given or computable."""
    (vector,) = await embedded(
        records.table,
        records.resources,
        given=[record.embedding],
        texts=[records.resources.composer.embed_text(record)],
    )
    made: Any = vector
    return replace(record, embedding=made)
