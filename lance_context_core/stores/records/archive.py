"""The cold table: records of archived sessions, which searches and reads skip.

A record is moved by two commits: it is added to one table, and then removed from the other. In
between both contain it, and the one outside the cold table counts: a process killed there loses and
duplicates nothing, and the next move of the record completes it. A record that is brought back gets
another revision, so that an earlier move does not remove it. Moves, erasure and clearing lock both
tables: an erasure misses nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

from lance_context_core._util.retry import Attempts
from lance_context_core.codecs.records import from_row
from lance_context_core.scope import Scope
from lance_context_core.storage import sql
from lance_context_core.storage.database import COLD_TABLE
from lance_context_core.storage.lance.schema import COLD, KEY, VECTOR, vector_length, vector_model
from lance_context_core.storage.lance.writes import with_revisions
from lance_context_core.storage.names import next_revision
from lance_context_core.storage.table import Table
from lance_context_core.storage.write_batch import Mode, WriteBatch
from lance_context_core.stores.records.scoped import Records
from lance_context_core.types import ContextRecord
from lance_context_core.versioning import branches
from lance_context_core.versioning.locations import Whole

_AT_ONCE = 1_000
_COLUMNS = (*COLD.schema.names, VECTOR)

Row = Mapping[str, Any]


def held(records: Records) -> AbstractAsyncContextManager[None]:
    """Lock the tables against moves and erasures; waits for another holder up to a minute."""
    return records.resources.upkeep.hold([records.table, apart(records).table])


def apart(records: Records) -> Records:
    """Return the cold records of these."""
    return replace(records, is_cold=True)


async def are_any(records: Records) -> bool:
    """Whether the store has such records, or had."""
    return await records.resources.database.root.has(COLD_TABLE)


async def put_away(records: Records, *conditions: sql.Clause) -> int:
    """Move the matching records to the cold table; returns their number."""
    where, n_moved = records.own(*conditions), 0
    found = await records.table.select(where, columns=[KEY])
    if not found.num_rows:
        return 0
    async with held(records):
        # It must exist before rows to be moved are read: see `delete`.
        await (await apart(records).table.here()).access.ready()
        for keys in _pieces(found[KEY].to_pylist()):
            n_moved += await _put_away(records, sql.all_of([where, sql.in_list(KEY, keys)]), keys)
    return n_moved


async def _put_away(records: Records, where: sql.Clause, keys: Sequence[str]) -> int:
    here, there = records.table, apart(records).table
    attempts = Attempts("the records of an archived session kept being changed by others")
    while True:
        attempts.begin()
        before = await _revisions(there, keys)
        rows = await _whole(here, where)
        if not rows:
            return 0
        await _make_room(here, there)
        seen = {row[KEY]: row["revision"] for row in rows}
        # Rows of an earlier state, which never returns.
        stale = {key: one for key, one in before.items() if seen.get(key, one) != one}
        if stale:
            await there.write(WriteBatch(where=with_revisions(stale.items())))
        await there.write(WriteBatch(rows, Mode.INSERT))
        if not seen.items() <= (await _revisions(there, list(seen))).items():
            continue
        if (await here.write(WriteBatch(deletes=seen, expect=seen))).is_done:
            return len(rows)


async def bring_back(records: Records, *conditions: sql.Clause) -> int:
    """Move the matching records back from the cold table; returns their number.

    They follow all other records, in their order.
    """
    return await _bring_back(records, records.own(*conditions))


async def put_last(records: Records, where: sql.Clause) -> None:
    """Move records added meanwhile behind these, which came back."""
    if rows := await _whole(records.table, where):
        again = [row | {"revision": next_revision(row["revision"])} for row in rows]
        seen = {row[KEY]: row["revision"] for row in rows}
        await records.table.write(WriteBatch(again, deletes=seen, expect=seen, is_whole=False))


async def bring_all_back(records: Records) -> None:
    """Move all cold records of the scope back, on all branches; hidden ones stay hidden."""
    if not await are_any(records):
        return
    resources = records.resources
    whole = Whole(resources, Scope())

    async def step(name: str) -> None:
        on = resources.on(resources.writable().on(name))
        view = replace(records, resources=on)
        await _bring_back(view, view.inside())

    await branches.on_each(whole.main(), step)


async def _bring_back(records: Records, where: sql.Clause) -> int:
    here, there = records.table, apart(records).table
    found = await there.select(where, columns=[KEY])
    if not found.num_rows:
        return 0
    async with held(records):
        await _move_back(here, there, where, found[KEY].to_pylist())
    return int(found.num_rows)


async def _move_back(here: Table, there: Table, where: sql.Clause, found: Sequence[str]) -> None:
    for keys in _pieces(found):
        rows = await _whole(there, sql.all_of([where, sql.in_list(KEY, keys)]))
        if not rows:
            continue
        await _make_room(there, here)
        # A record outside the cold table counts, and stays unchanged.
        again = [row | {"revision": next_revision(row["revision"])} for row in rows]
        await here.write(WriteBatch(again, Mode.UPSERT))
        moved = with_revisions((row[KEY], row["revision"]) for row in rows)
        await there.write(WriteBatch(where=moved))


async def read(
    records: Records, *conditions: sql.Clause, columns: Sequence[str]
) -> list[ContextRecord]:
    """Return the matching cold records, hidden ones too."""
    if not await are_any(records):
        return []
    where = records.own(*conditions)
    rows = await apart(records).table.find(where, columns=[KEY, *columns])
    if not rows:
        return []
    by_key = {row[KEY]: row for row in (rows if isinstance(rows, list) else rows.to_pylist())}
    known = await _revisions(records.table, list(by_key))
    return [from_row(row) for key, row in by_key.items() if key not in known]


async def delete(
    records: Records, where: sql.Clause, *, within: Mapping[str, str | None] | None = None
) -> int:
    """Delete the matching records from both tables; returns their number.

    `within` as in `Records.observed`.
    """
    records.resources.writable()
    observed = await records.observed(where, within=within, columns=[KEY])
    n_deleted = (await records.table.write(WriteBatch(where=where, observed=observed))).n_removed
    if await are_any(records):  # Otherwise no process has read them in order to move them.
        async with held(records):
            n_deleted += (await records.table.write(WriteBatch(where=where))).n_removed
            n_deleted += await forget(records, where)
    return n_deleted


async def forget(records: Records, where: sql.Clause) -> int:
    """Delete the matching cold records; returns their number."""
    if not await are_any(records):
        return 0
    return (await apart(records).table.write(WriteBatch(where=where))).n_removed


# Helpers


async def _whole(table: Table, where: sql.Clause) -> list[dict[str, Any]]:
    rows = (await table.select(where, columns=_COLUMNS)).to_pylist()
    return [{name: value for name, value in row.items() if name != "_rowid"} for row in rows]


async def _make_room(source: Table, target: Table) -> None:
    """Give one table the vector column of another."""
    schema = await source.schema()
    if VECTOR in schema.names:
        field = schema.field(VECTOR)
        await target.vectors.ensure(vector_length(field), vector_model(field))


async def _revisions(table: Table, keys: Sequence[str]) -> dict[str, int]:
    rows = await table.select(sql.in_list(KEY, keys), columns=[KEY, "revision"])
    return dict(zip(rows[KEY].to_pylist(), rows["revision"].to_pylist(), strict=True))


def _pieces(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(keys), _AT_ONCE):
        yield keys[start : start + _AT_ONCE]
