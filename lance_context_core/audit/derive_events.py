"""Derives the row changes of a table from its versions."""

import json
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from lance_context_core._resources import Resources
from lance_context_core._util.frozen import frozen
from lance_context_core._util.retry import Attempts
from lance_context_core.audit.log import MOST_ROWS, Link, Log, head_of, row_of
from lance_context_core.audit.types import AuditAction, AuditEntry, AuditHead, AuditRow
from lance_context_core.errors import ConflictError, NotFoundError
from lance_context_core.scope import Scope
from lance_context_core.storage.lance import diff, versions
from lance_context_core.storage.lance.branches import MAIN
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.storage.lance.versions import AtMoment
from lance_context_core.storage.table import Table
from lance_context_core.types import Version
from lance_context_core.versioning import branches
from lance_context_core.versioning.locations import Whole

COLUMNS = (KEY, "id", "tenant", "user_id", "agent_id", "author", "revision")

_MOST_LOOKED_AT = 20_000_000
"""Comparing two versions takes time per row of the table. If comparing each version exceeds this
in all, several are combined."""


@frozen
class Step:
    """The changes after one version of a table, up to another one."""

    first: int
    last: Version
    rows: list[AuditRow]


async def steps(
    resources: Resources, table: Table, first: int, later: list[Version]
) -> AsyncIterator[Step]:
    """Returns the changes after version `first` (0: before any), by the later versions, ascending.

    A version without row changes, as after merging files, is combined with the next one.
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
    """Returns the differences between two versions of a table, in commit order.

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
    """Returns the changes from the rows `old` to the rows `new`."""
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
    """Returns all rows of a version."""
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


# Logging: the changes since the last logged version, and events.
#
# Nothing is logged until an audit is started. Then each entry is one commit to a separate table,
# made after its event: with merges, erasures, tags and pruning, and by maintenance; it does not
# slow down writes.

New = tuple[AuditEntry, Sequence[AuditRow]]
Place = tuple[str, str]
"""A table, and a branch."""


@frozen
class Event:
    """An event outside the versions of tables."""

    action: AuditAction
    rows: Sequence[AuditRow] = ()
    branch: str | None = None


@frozen
class Sealed:
    """The last logged version of a table on a branch."""

    version: int
    committed_at: str | None


async def note(resources: Resources, action: AuditAction, *names: str) -> None:
    """Logs an event, and the changes up to it, if an audit was started.

    `names` are the tag, branch or version concerned.
    """
    if not await Log(resources.database).is_begun():
        return
    rows = [named(one, resources.author) for one in names]
    if not rows and resources.author:
        rows = [named(None, resources.author)]
    branch = resources.database.branch
    await seal(resources, Event(action, rows, branch))


def named(name: str | None, author: str | None) -> AuditRow:
    """Returns the row of a name that an entry is about, with the author."""
    return AuditRow("named", None, name, None, None, None, author, None)


async def seal(
    resources: Resources, *events: Event, gap: str = "unknown", only: Collection[str] = ()
) -> AuditHead | None:
    """Logs the changes of all new versions, and then the events; returns the head.

    `gap` is the reason why versions may be missing; `only` restricts it to the tables of these
    names.
    """
    log = Log(resources.database)
    await resources.settle()
    attempts = Attempts("the audit kept being written to by others")
    while True:
        attempts.begin()
        links = await log.links(with_rows=False)
        try:
            derived = await _derived(resources, links, gap, only)
        except (NotFoundError, ConflictError):
            continue  # Others have just removed a version or a branch that was being read.
        new = [*derived, *_told(resources, events)]
        if not new:
            return head_of(links)
        if (head := await log.append(new, head_of(links))) is not None:
            return head


async def forget(
    resources: Resources,
    scope: Scope,
    *,
    keys: Mapping[str, Collection[str]],
    ids: Collection[str],
    is_whole_scope: bool,
) -> None:
    """Removes erased rows from the entries, and logs the erasure.

    `keys` are those of erased rows by table, `ids` are their public ids. For a whole
    scope all its rows are removed, and their author, if that was the scope's user.
    """
    log = Log(resources.database)
    if not await log.is_begun():
        return
    parts = scope.parts()

    def is_erased(entry: AuditEntry, row: AuditRow) -> bool:
        is_inside = all(getattr(row, part) == value for part, value in parts.items())
        if entry.table is None:
            is_own = is_whole_scope and row.author is not None and row.author == scope.user_id
            return is_own or (row.id is not None and row.id in ids)
        if row.key in keys.get(entry.table, ()):
            return True
        return is_inside and (is_whole_scope or row.id in ids)

    await log.erase(is_erased)
    rows = [] if resources.author in {None, scope.user_id} else [named(None, resources.author)]
    await seal(resources, Event("erase", rows, resources.database.branch), gap="erasure")


def sealed(links: Sequence[Link]) -> dict[Place, Sealed]:
    """Returns the last logged version of each table."""
    found: dict[Place, Sealed] = {}
    for link in links:
        told: dict[str, Any] = json.loads(link.text)
        if told["table"] is not None:
            found[told["table"], told["branch"]] = Sealed(
                told["last_version"], told["committed_at"]
            )
    return found


def net(entries: Sequence[AuditEntry]) -> dict[Place, dict[tuple[str, int], AuditRow]]:
    """Returns the rows that each table should have, by key and revision, from the entries."""
    found: dict[Place, dict[tuple[str, int], AuditRow]] = {}
    newest: dict[Place, dict[str, int]] = {}
    for entry in entries:
        if entry.table is None or entry.branch is None:
            continue
        rows = found.setdefault((entry.table, entry.branch), {})
        last = newest.setdefault((entry.table, entry.branch), {})
        for row in entry.rows:
            assert row.key is not None
            assert row.revision is not None
            if row.did in {"removed", "replaced"}:
                rows.pop((row.key, row.revision), None)
                continue
            if row.did == "changed" and row.key in last:
                rows.pop((row.key, last[row.key]), None)
            rows[row.key, row.revision], last[row.key] = row, row.revision
    return found


# Helpers


def _told(resources: Resources, events: Sequence[Event]) -> list[New]:
    now = resources.clock.now()
    return [
        (
            AuditEntry(n=0, at=now, action=one.action, branch=one.branch),
            one.rows[start : start + MOST_ROWS],
        )
        for one in events
        for start in range(0, max(len(one.rows), 1), MOST_ROWS)
    ]


async def _derived(
    resources: Resources, links: Sequence[Link], gap: str, only: Collection[str]
) -> list[New]:
    known, new = sealed(links), list[New]()
    whole = Whole(resources, Scope()).main()

    async def step(branch: str) -> None:
        on, found = whole.on(branch), list[New]()
        tables = {one.name: one for one in await on.tables()}
        if branch != MAIN and not tables:
            return  # Others have just removed it: each branch has records.
        for name in sorted(tables):
            if not only or name in only:
                found += await _of_table(on.resources, tables[name], known.get((name, branch)), gap)
        dropped = [] if only else [at for at in known if at[1] == branch and at[0] not in tables]
        for place in dropped:
            if known[place].version:
                found += await _of_dropped(resources, place)
        new.extend(found)

    await branches.on_each(whole, step)
    return new


async def _of_table(
    resources: Resources, table: Table, known: Sealed | None, gap: str
) -> list[New]:
    kept = await versions.versions(table)
    if not kept:
        return []
    branch = resources.database.branch
    first = known.version if known else (0 if branch == MAIN else kept[0].number)
    there = {one.number: one.created_at.isoformat() for one in kept}
    later = [one for one in kept if one.number > first]
    if known and known.version and there.get(known.version) != known.committed_at:
        # Another table of that name, or the last logged version no longer exists.
        is_other = known.version in there or known.version > kept[-1].number
        why = "dropped" if is_other else gap
        rows = await _difference(resources, table, (table.name, branch), kept[-1])
        step = Step(0 if is_other else first, kept[-1], rows)
        return _entries(resources, table.name, branch, step, why)
    new: list[New] = []
    if later:
        async for step in steps(resources, table, first, later):
            new += _entries(resources, table.name, branch, step, None)
    elif known is None:
        # A branch without writes: it is logged from here on.
        new += _entries(resources, table.name, branch, Step(first, kept[-1], []), None)
    return new


async def _difference(
    resources: Resources, table: Table, place: Place, last: Version
) -> list[AuditRow]:
    """Returns the difference between the entries and the table."""
    entries = [link.entry for link in await Log(resources.database).links()]
    old = [row._asdict() for row in net(entries).get(place, {}).values()]
    new = await shown(resources, table, last)
    return differing(old, new, repeats_keys=table.spec.repeats_keys)


async def _of_dropped(resources: Resources, place: Place) -> list[New]:
    entries = [link.entry for link in await Log(resources.database).links()]
    rows = [
        row._replace(did="removed", author=None) for row in net(entries).get(place, {}).values()
    ]
    now = resources.clock.now()
    table, branch = place
    return [
        (
            AuditEntry(
                n=0, at=now, action="write", table=table, branch=branch, gap="dropped",
                first_version=0, last_version=0,
            ),
            rows[start : start + MOST_ROWS],
        )
        for start in range(0, max(len(rows), 1), MOST_ROWS)
    ]  # fmt: skip


def _entries(
    resources: Resources, table: str, branch: str, step: Step, gap: str | None
) -> list[New]:
    entry = AuditEntry(
        n=0,
        at=resources.clock.now(),
        action="write",
        table=table,
        branch=branch,
        first_version=step.first,
        last_version=step.last.number,
        committed_at=step.last.created_at,
        gap=gap,
    )
    return [
        (entry, step.rows[start : start + MOST_ROWS])
        for start in range(0, max(len(step.rows), 1), MOST_ROWS)
    ]
