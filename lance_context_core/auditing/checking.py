"""Whether the chain holds, and whether the tables are what it tells."""

import json

from lance_context_core.auditing import chain, deriving, keeping, values
from lance_context_core.auditing.keeping import Place, Sealed
from lance_context_core.auditing.log import Link, Log, head_of
from lance_context_core.errors import StorageError
from lance_context_core.storage.lance import versions
from lance_context_core.storage.lance.branches import MAIN
from lance_context_core.storage.table import Table
from lance_context_core.versioning import branches
from lance_context_core.versioning.places import Whole

_MOST = 100
"""So many rows are told one by one."""


async def verify(whole: Whole, head: values.AuditHead | None) -> values.AuditReport:
    """What `AsyncAudit.verify` returns."""
    await whole.resources.settle()
    links = await Log(whole.resources.database).links()
    problems, entries = _chain(links), list[values.AuditEntry]()
    if head is not None:
        problems += _head(links, head)
    for link in links:
        try:
            kept = link.rows
            if chain.root(kept) != json.loads(link.text)["root"]:
                problems.append(_problem("rows", f"entry {int(link.key)}", "they were changed"))
            entries.append(chain.entry_of(link.text, kept))
        except (StorageError, ValueError, TypeError, KeyError) as error:
            problems.append(_problem("rows", f"entry {int(link.key)}", str(error)))
    problems += _gaps(entries)
    n_unsealed = 0
    if links and not problems:
        n_unsealed = await _tables(whole, links, entries, problems)
    return values.AuditReport(
        n_entries=len(links),
        n_rows=sum(len(entry.rows) + entry.n_erased for entry in entries),
        n_unsealed=n_unsealed,
        problems=tuple(problems[:_MOST]),
    )


def _chain(links: list[Link]) -> list[values.AuditProblem]:
    problems, previous = [], chain.START
    for n, link in enumerate(links, 1):
        where = f"entry {int(link.key)}"
        if int(link.key) != n:
            problems.append(_problem("chain", where, f"entry {n} is missing"))
            return problems
        try:
            told = json.loads(link.text)
            is_next = told["previous"] == previous and told["n"] == n
        except (ValueError, TypeError, KeyError):
            is_next = False
        if not is_next:
            problems.append(_problem("chain", where, "it does not follow the entry before it"))
        previous = chain.hash_of(link.text)
    return problems


def _head(links: list[Link], head: values.AuditHead) -> list[values.AuditProblem]:
    there = head_of(links[: head.n])
    if there == head:
        return []
    what = "it has another hash than was kept" if len(links) >= head.n else "it is missing"
    return [_problem("chain", f"entry {head.n}", what)]


def _gaps(entries: list[values.AuditEntry]) -> list[values.AuditProblem]:
    problems, last = [], dict[Place, values.AuditEntry]()
    for entry in entries:
        if entry.table is None or entry.branch is None:
            continue
        before = last.get((entry.table, entry.branch))
        last[entry.table, entry.branch] = entry
        where = f"entry {entry.n}: {_where((entry.table, entry.branch))}"
        span = f"versions {entry.first_version} to {entry.last_version}"
        if entry.gap == "unknown":
            problems.append(_problem("gap", where, f"{span} went before they were noted"))
        elif before and entry.gap is None:
            same = (entry.first_version, entry.last_version)
            # The rows of one step may take several entries.
            if same != (before.first_version, before.last_version) and (
                entry.first_version != before.last_version
            ):
                problems.append(_problem("gap", where, f"{span} do not follow the entry before"))
    return problems


async def _tables(
    whole: Whole,
    links: list[Link],
    entries: list[values.AuditEntry],
    problems: list[values.AuditProblem],
) -> int:
    """Compare each table with what the entries tell; returns how many versions came since."""
    known, told, n_unsealed = keeping.sealed(links), keeping.net(entries), 0

    async def step(branch: str) -> None:
        nonlocal n_unsealed
        on, n_later = whole.on(branch), 0
        for table in await on.tables():
            kept = await versions.versions(table)
            at = known.get((table.name, branch))
            n_later += sum(one.number > (at.version if at else 0) for one in kept)
            if at is not None and branch == MAIN:
                found = await _of_table(on, table, at, told)
                problems.extend(
                    _problem("table", _where((table.name, branch)), one) for one in found
                )
        n_unsealed += n_later

    await branches.on_each(whole, step)
    return n_unsealed


async def _of_table(
    whole: Whole,
    table: Table,
    at: Sealed,
    told: dict[Place, dict[tuple[str, int], values.AuditRow]],
) -> list[str]:
    kept = {one.number: one for one in await versions.versions(table)}
    if at.version not in kept:
        return [f"version {at.version}, which was noted last, is gone"] if at.version else []
    if kept[at.version].created_at.isoformat() != at.committed_at:
        return [f"version {at.version} is another one than was noted"]
    rows = await deriving.shown(whole.resources, table, kept[at.version])
    there = {(row["key"], row["revision"]): row for row in rows}
    mine = told.get((table.name, MAIN), {})
    found = [
        f"{row['id']!r} was written, and no entry tells of it"
        for mark, row in there.items()
        if mark not in mine
    ]
    found += [
        f"{row.id!r} is gone, and no entry tells of it"
        for mark, row in mine.items()
        if mark not in there
    ]
    found += [
        f"{row['id']!r} has the author {row['author']!r}, and was written by {mine[mark].author!r}"
        for mark, row in there.items()
        if mark in mine and row.get("author") != mine[mark].author
    ]
    return found


def _where(place: Place) -> str:
    table, branch = place
    return table if branch == MAIN else f"{table} on {branch}"


def _problem(kind: values.AuditProblemKind, where: str, what: str) -> values.AuditProblem:
    return values.AuditProblem(kind=kind, where=where, what=what)
