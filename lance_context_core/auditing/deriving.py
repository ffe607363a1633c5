"""What the versions of a table brought, row by row: read of the versions themselves."""

from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa

from lance_context_core._resources import Resources
from lance_context_core._util.frozen import frozen
from lance_context_core.auditing.log import row_of
from lance_context_core.auditing.values import AuditRow
from lance_context_core.storage.lance import diff
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.storage.lance.versions import AtMoment
from lance_context_core.storage.table import Table
from lance_context_core.types import Version

COLUMNS = (KEY, "id", "tenant", "user_id", "agent_id", "author", "revision")

_MOST_LOOKED_AT = 20_000_000
"""Comparing two versions takes time by the row of the table. Where each version would be more than
this in all, several are taken as one."""


@frozen
class Step:
    """What was done after one version of a table, up to another one."""

    first: int
    last: Version
    rows: list[AuditRow]


async def steps(
    resources: Resources, table: Table, first: int, later: list[Version]
) -> AsyncIterator[Step]:
    """What was done after version `first` (0: before there was any), by the later versions, ascending.

    A version that changed no row, as merging files does, is told with the one after it.
    """
    n_rows = await table.count(None)
    width = max(1, -(-n_rows * len(later) // _MOST_LOOKED_AT))
    begun, before = first, _at(resources, table, first, None) if first else None
    chosen = [*later[width - 1 :: width]]
    if chosen[-1:] != later[-1:]:
        chosen.append(later[-1])
    for version in chosen:
        after = _at(resources, table, version.number, version.created_at)
        rows = await _between(before, after)
        if rows or version is chosen[-1]:
            yield Step(begun, version, rows)
            begun = version.number
        before = after


async def _between(before: Table | None, after: Table) -> list[AuditRow]:
    """What differs between two versions of a table, in the order of the commits.

    Before the first one there was nothing.
    """
    repeats = after.spec.repeats_keys
    if before is None:
        every = await after.select(None, columns=COLUMNS)
        return differing([], _rows(every), repeats_keys=repeats)
    old, new = await diff.apart(before, after, None, columns=COLUMNS)
    return differing(_rows(old), _rows(new), repeats_keys=repeats)


def differing(
    old: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]], *, repeats_keys: bool
) -> list[AuditRow]:
    """What became of the rows of `old`, where those of `new` are there."""
    there, here = {_mark(row): row for row in old}, {_mark(row): row for row in new}
    were, are = {row[KEY] for row in there.values()}, {row[KEY] for row in here.values()}
    rows = [
        row_of("changed" if row[KEY] in were else "added", row)
        for mark, row in here.items()
        if mark not in there
    ]
    for mark, row in there.items():
        if mark in here:
            continue
        if row[KEY] not in are:
            rows.append(row_of("removed", {**row, "author": None}))
        elif repeats_keys:
            rows.append(row_of("replaced", {**row, "author": None}))
    return rows


async def shown(resources: Resources, table: Table, version: Version) -> list[dict[str, Any]]:
    """All rows of a version."""
    at = _at(resources, table, version.number, version.created_at)
    return _rows(await at.select(None, columns=COLUMNS))


def _at(resources: Resources, table: Table, number: int, moment: datetime | None) -> Table:
    pin = AtMoment(table.ref, moment or resources.clock.now(), {table.name: number})
    return resources.database.at(pin).table(table.name, table.spec)


def _rows(found: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def _mark(row: Mapping[str, Any]) -> tuple[str, int, str | None]:
    return row[KEY], row["revision"], row.get("author")
