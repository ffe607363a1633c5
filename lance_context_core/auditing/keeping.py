"""Noting: what the versions brought since they were looked at last, and what was done beside them.

The store notes nothing until an audit is begun. Then each entry is one commit to a table of its own,
made after what it is about: beside merges, erasures, names and thinning, and by maintenance; a write
is not made slower by it.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from lance_context_core._resources import Resources
from lance_context_core._util.frozen import frozen
from lance_context_core._util.retry import Attempts
from lance_context_core.auditing import deriving
from lance_context_core.auditing.log import MOST_ROWS, Link, Log, head_of
from lance_context_core.auditing.values import AuditAction, AuditEntry, AuditHead, AuditRow
from lance_context_core.errors import ConflictError, NotFoundError
from lance_context_core.scope import Scope
from lance_context_core.storage.lance import versions
from lance_context_core.storage.lance.branches import MAIN
from lance_context_core.storage.table import Table
from lance_context_core.types import Version
from lance_context_core.versioning import branches
from lance_context_core.versioning.places import Whole

New = tuple[AuditEntry, Sequence[AuditRow]]
Place = tuple[str, str]
"""A table, and a branch."""


@frozen
class Event:
    """What was done beside the versions of tables."""

    action: AuditAction
    rows: Sequence[AuditRow] = ()
    branch: str | None = None


@frozen
class Sealed:
    """How far a table was noted on a branch."""

    version: int
    committed_at: str | None


async def note(resources: Resources, action: AuditAction, *names: str) -> None:
    """Note that something was done, and what the versions brought, if an audit was begun.

    `names` are the tag, branch or version that it is about.
    """
    if not await Log(resources.database).is_begun():
        return
    rows = [named(one, resources.author) for one in names]
    if not rows and resources.author:
        rows = [named(None, resources.author)]
    branch = resources.database.branch
    await seal(resources, Event(action, rows, branch))


def named(name: str | None, author: str | None) -> AuditRow:
    """A name that an entry is about, and who brought it about."""
    return AuditRow("named", None, name, None, None, None, author, None)


async def seal(
    resources: Resources, *events: Event, gap: str = "unknown", only: Collection[str] = ()
) -> AuditHead | None:
    """Note what all versions brought that are not noted yet, and then the events; returns the head.

    `gap` says why versions may be missing; with `only` the tables of these names are looked at.
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
            continue  # Others have just removed a version or a branch that was being looked at.
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
    """Take what was erased out of the entries, and note the erasure.

    `keys` are those of erased rows by table, `ids` are the names that these were known by. Of a whole
    scope all goes that was ever noted of it, and who did it, if that was the scope's user.
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
    """How far each table was noted."""
    found: dict[Place, Sealed] = {}
    for link in links:
        told: dict[str, Any] = json.loads(link.text)
        if told["table"] is not None:
            found[told["table"], told["branch"]] = Sealed(
                told["last_version"], told["committed_at"]
            )
    return found


def net(entries: Sequence[AuditEntry]) -> dict[Place, dict[tuple[str, int], AuditRow]]:
    """The rows of each table that should be there, by key and revision, as the entries tell."""
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
        # Another table of that name, or what was noted last is not kept any more.
        is_other = known.version in there or known.version > kept[-1].number
        why = "dropped" if is_other else gap
        rows = await _difference(resources, table, (table.name, branch), kept[-1])
        step = deriving.Step(0 if is_other else first, kept[-1], rows)
        return _entries(resources, table.name, branch, step, why)
    new: list[New] = []
    if later:
        async for step in deriving.steps(resources, table, first, later):
            new += _entries(resources, table.name, branch, step, None)
    elif known is None:
        # A branch on which nothing was written: from here on it is told.
        new += _entries(resources, table.name, branch, deriving.Step(first, kept[-1], []), None)
    return new


async def _difference(
    resources: Resources, table: Table, place: Place, last: Version
) -> list[AuditRow]:
    """What differs between what the entries tell and what is there."""
    entries = [link.entry for link in await Log(resources.database).links()]
    old = [row._asdict() for row in net(entries).get(place, {}).values()]
    new = await deriving.shown(resources, table, last)
    return deriving.differing(old, new, repeats_keys=table.spec.repeats_keys)


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
    resources: Resources, table: str, branch: str, step: deriving.Step, gap: str | None
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
