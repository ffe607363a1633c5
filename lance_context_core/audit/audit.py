"""`store.audit`: reads and verifies the log of writes, changes, merges, erasures and reads."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, replace
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from lance_context_core._handle import handle
from lance_context_core._util.checks import check_name, check_names, dumps, shown
from lance_context_core.audit import derive_events, log, types
from lance_context_core.audit.derive_events import Event, Place, Sealed
from lance_context_core.audit.log import Link, Log, head_of
from lance_context_core.audit.types import AuditEntry, AuditHead, AuditReport, AuditRow, Recalled
from lance_context_core.errors import AlreadyExistsError, InvalidRequestError, StorageError
from lance_context_core.storage.lance import versions
from lance_context_core.storage.lance.branches import MAIN
from lance_context_core.storage.lance.versions import Ref
from lance_context_core.storage.table import Table
from lance_context_core.types import ContextRecord, SearchHit
from lance_context_core.versioning import branches
from lance_context_core.versioning.locations import Whole

# Verification of the chain, and of the tables against it.

_MOST = 100
"""How many rows are reported one by one."""


async def verify_chain(whole: Whole, head: types.AuditHead | None) -> types.AuditReport:
    """See `AsyncAudit.verify`."""
    await whole.resources.settle()
    links = await Log(whole.resources.database).links()
    problems, entries = _chain(links), list[types.AuditEntry]()
    if head is not None:
        problems += _head(links, head)
    for link in links:
        try:
            kept = link.rows
            if log.root(kept) != json.loads(link.text)["root"]:
                problems.append(_problem("rows", f"entry {int(link.key)}", "they were changed"))
            entries.append(log.entry_of(link.text, kept))
        except (StorageError, ValueError, TypeError, KeyError) as error:
            problems.append(_problem("rows", f"entry {int(link.key)}", str(error)))
    problems += _gaps(entries)
    n_unsealed = 0
    if links and not problems:
        n_unsealed = await _tables(whole, links, entries, problems)
    return types.AuditReport(
        n_entries=len(links),
        n_rows=sum(len(entry.rows) + entry.n_erased for entry in entries),
        n_unsealed=n_unsealed,
        problems=tuple(problems[:_MOST]),
    )


def _chain(links: list[Link]) -> list[types.AuditProblem]:
    problems, previous = [], log.START
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
        previous = log.hash_of(link.text)
    return problems


def _head(links: list[Link], head: types.AuditHead) -> list[types.AuditProblem]:
    there = head_of(links[: head.n])
    if there == head:
        return []
    what = "it has another hash than was kept" if len(links) >= head.n else "it is missing"
    return [_problem("chain", f"entry {head.n}", what)]


def _gaps(entries: list[types.AuditEntry]) -> list[types.AuditProblem]:
    problems, last = [], dict[Place, types.AuditEntry]()
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
    entries: list[types.AuditEntry],
    problems: list[types.AuditProblem],
) -> int:
    """Compares each table with its entries; returns how many versions came since."""
    known, told, n_unsealed = derive_events.sealed(links), derive_events.net(entries), 0

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
    told: dict[Place, dict[tuple[str, int], types.AuditRow]],
) -> list[str]:
    kept = {one.number: one for one in await versions.versions(table)}
    if at.version not in kept:
        return [f"version {at.version}, which was noted last, is gone"] if at.version else []
    if kept[at.version].created_at.isoformat() != at.committed_at:
        return [f"version {at.version} is another one than was noted"]
    rows = await derive_events.shown(whole.resources, table, kept[at.version])
    there = {(row["key"], row["revision"]): row for row in rows}
    mine = told.get((table.name, MAIN), {})
    found = [
        f"{row['id']!r} was written, but has no audit entry"
        for mark, row in there.items()
        if mark not in mine
    ]
    found += [
        f"{row.id!r} is missing, and has no audit entry"
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


def _problem(kind: types.AuditProblemKind, where: str, what: str) -> types.AuditProblem:
    return types.AuditProblem(kind=kind, where=where, what=what)


Ask: TypeAlias = Callable[
    [str, Ref | None, Mapping[str, Any]], Awaitable[list[SearchHit[ContextRecord]]]
]
"""Runs searches as of a moment, with further arguments."""


@handle
class AsyncAudit:
    """The audit log of a whole store, for all processes that write to it.

    Nothing is logged until the first call of `seal`. From then on merges, erasures, restores, tags,
    branches, imports and pruning are logged at once, and writes are logged by maintenance, before
    their versions are removed, and by `seal`.
    """

    _whole: Whole
    _ask: Ask

    async def seal(self) -> AuditHead:
        """Logs all writes since the last call; returns the last entry's number and hash.

        Store these elsewhere, and pass them to `verify`: an attacker with write access could
        rebuild the chain, but not with the same hash. The first call starts the log; existing rows
        are logged as added by their last writer, or version by version as far as versions exist.
        """
        self._require("seal the audit")
        resources = self._whole.main().resources
        if not await Log(resources.database).is_begun():
            begin = Event("begin", [derive_events.named(None, self._whole.resources.author)])
            await derive_events.seal(resources, begin, only=("",))
        head = await derive_events.seal(resources)
        assert head is not None
        return head

    async def head(self) -> AuditHead | None:
        """Returns the last entry's number and hash; None before the start. Writes nothing."""
        self._require("read the audit")
        return head_of(await Log(self._whole.resources.database).links(with_rows=False))

    async def entries(
        self, *, after: int = 0, table: str | None = None, branch: str | None = None
    ) -> list[AuditEntry]:
        """Returns the entries numbered above `after`, oldest first: of all tables, or of one."""
        self._require("read the audit")
        links = await Log(self._whole.resources.database).links()
        return [
            entry
            for entry in (link.entry for link in links if int(link.key) > after)
            if table in {None, entry.table} and branch in {None, entry.branch}
        ]

    async def of(self, id: str) -> list[AuditEntry]:
        """Returns the history of this id, oldest first; each entry with its rows alone.

        Empty if nothing is logged of it, or if it was erased.
        """
        id = check_name(id, "id")
        return [
            replace(entry, rows=rows)
            for entry in await self.entries()
            if (rows := tuple(row for row in entry.rows if row.id == id))
        ]

    async def note_read(self, ids: Sequence[str], *, reader: str) -> AuditHead:
        """Logs that a reader was shown these records: one entry, which is one commit."""
        self._require("note what was read")
        names, reader = check_names(ids, "ids"), check_name(reader, "reader")
        rows = [AuditRow("read", None, one, None, None, None, reader, None) for one in names]
        if not await Log(self._whole.resources.database).is_begun():
            await self.seal()
        resources = self._whole.resources
        event = Event("read", rows, resources.database.branch)
        head = await derive_events.seal(resources, event, only=("",))
        assert head is not None
        return head

    async def verify(self, *, head: AuditHead | None = None) -> AuditReport:
        """Checks the chain, and the tables against it; writes nothing.

        - each entry has the hash of the one before, and of its rows;
        - the entries of a table follow each other without a gap;
        - the rows of the last logged version are those that result from the entries;
        - `head`, which was stored elsewhere, is still the entry of its number.

        Writes since the last entry are not covered yet: `n_unsealed` counts their versions.
        """
        self._require("verify the audit")
        if head is not None and not isinstance(head, AuditHead):
            raise InvalidRequestError(f"head={shown(head)}: give what seal() or head() returned")
        return await verify_chain(self._whole.main(), head)

    async def export(self, destination: str | PathLike[str]) -> int:
        """Writes all entries to a file of JSON, a line each; returns how many.

        The file gets its name once it is complete. Raises AlreadyExistsError if it exists. It has
        ids and authors: an erasure does not reach it.
        """
        entries, goal = await self.entries(), Path(destination)
        if await asyncio.to_thread(goal.exists):
            raise AlreadyExistsError(f"{str(goal)!r} already exists: choose another name")
        await asyncio.to_thread(_write, goal, entries)
        return len(entries)

    async def why(
        self,
        query: str,
        id: str,
        *,
        at: Ref | None = None,
        arguments: Mapping[str, Any] | None = None,
        limit: int = 100,
    ) -> Recalled:
        """Explains why a search found a record, with the history of the record.

        `arguments` are those of the original `search`; the moment is a version, tag, branch or
        time. Searches for the record among the best `limit`. Raises NotFoundError if there was no
        such moment.
        """
        id = check_name(id, "id")
        hits = await self._ask(query, at, {**(arguments or {}), "limit": limit})
        place = next((n for n, hit in enumerate(hits, 1) if hit.record.id == id), None)
        return Recalled(
            rank=place,
            hit=None if place is None else hits[place - 1],
            entries=tuple(await self.of(id)),
        )

    def _require(self, action: str) -> None:
        self._whole.require(action)


def _write(goal: Path, entries: Sequence[AuditEntry]) -> None:
    part = goal.with_name(f"{goal.name}.part-{os.getpid()}")
    try:
        with part.open("w", encoding="utf-8", newline="\n") as file:
            for entry in entries:
                file.write(dumps(plain(entry)) + "\n")
        part.rename(goal)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def plain(entry: AuditEntry) -> dict[str, Any]:
    """Converts an entry to JSON types."""
    rows = [row._asdict() for row in entry.rows]
    told: dict[str, Any] = json.loads(json.dumps(asdict(entry), default=str))
    return {**told, "at": entry.at.isoformat(), "rows": rows} | (
        {"committed_at": entry.committed_at.isoformat()} if entry.committed_at else {}
    )
