"""`store.audit`: who wrote, changed, merged, erased and read what, and whether anything is amiss."""

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
from lance_context_core.auditing import checking, keeping
from lance_context_core.auditing.keeping import Event
from lance_context_core.auditing.log import Log, head_of
from lance_context_core.auditing.values import (
    AuditEntry,
    AuditHead,
    AuditReport,
    AuditRow,
    Recalled,
)
from lance_context_core.errors import AlreadyExistsError, InvalidRequestError
from lance_context_core.storage.lance.versions import Ref
from lance_context_core.types import ContextRecord, SearchHit
from lance_context_core.versioning.places import Whole

Ask: TypeAlias = Callable[
    [str, Ref | None, Mapping[str, Any]], Awaitable[list[SearchHit[ContextRecord]]]
]
"""Searches with a question, as of a moment, with further arguments."""


@handle
class AsyncAudit:
    """The audit of a whole store, whichever process or handle writes to it.

    Nothing is noted until `seal` is called for the first time. From then on merges, erasures,
    restores, tags, branches, imports and thinning are noted when they are done, and what was
    written is noted by maintenance, before versions go, and by `seal`.
    """

    _whole: Whole
    _ask: Ask

    async def seal(self) -> AuditHead:
        """Note what was written since the last time, and return the last entry's number and hash.

        Keep these elsewhere, and hand them to `verify`: who can write to the store could make the
        chain anew, but not with the same hash. The first call begins the audit; what is there then is
        noted as added by who wrote it last, or version by version as far as versions are kept.
        """
        self._require("seal the audit")
        resources = self._whole.main().resources
        if not await Log(resources.database).is_begun():
            begin = Event("begin", [keeping.named(None, self._whole.resources.author)])
            await keeping.seal(resources, begin, only=("",))
        head = await keeping.seal(resources)
        assert head is not None
        return head

    async def head(self) -> AuditHead | None:
        """The last entry's number and hash; None before the audit was begun. Nothing is written."""
        self._require("read the audit")
        return head_of(await Log(self._whole.resources.database).links(with_rows=False))

    async def entries(
        self, *, after: int = 0, table: str | None = None, branch: str | None = None
    ) -> list[AuditEntry]:
        """The entries with a number above `after`, oldest first: of all tables, or of one."""
        self._require("read the audit")
        links = await Log(self._whole.resources.database).links()
        return [
            entry
            for entry in (link.entry for link in links if int(link.key) > after)
            if table in {None, entry.table} and branch in {None, entry.branch}
        ]

    async def of(self, id: str) -> list[AuditEntry]:
        """What was done to whatever has this id, oldest first; each entry with these rows alone.

        Empty if nothing is noted of it, or if it was erased.
        """
        id = check_name(id, "id")
        return [
            replace(entry, rows=rows)
            for entry in await self.entries()
            if (rows := tuple(row for row in entry.rows if row.id == id))
        ]

    async def note_read(self, ids: Sequence[str], *, reader: str) -> AuditHead:
        """Note that somebody was shown the records with these ids: one entry, which is one commit."""
        self._require("note what was read")
        names, reader = check_names(ids, "ids"), check_name(reader, "reader")
        rows = [AuditRow("read", None, one, None, None, None, reader, None) for one in names]
        if not await Log(self._whole.resources.database).is_begun():
            await self.seal()
        resources = self._whole.resources
        event = Event("read", rows, resources.database.branch)
        head = await keeping.seal(resources, event, only=("",))
        assert head is not None
        return head

    async def verify(self, *, head: AuditHead | None = None) -> AuditReport:
        """Check the chain, and that what is there is what it tells; nothing is written.

        - each entry has the hash of the one before, and of what it tells of rows;
        - the entries of a table follow each other without a gap;
        - the rows of the version that was noted last are those that the entries make;
        - `head`, which was kept elsewhere, is still the entry of its number.

        What was written since the last entry is held by nothing yet: `n_unsealed` counts it.
        """
        self._require("verify the audit")
        if head is not None and not isinstance(head, AuditHead):
            raise InvalidRequestError(f"head={shown(head)}: give what seal() or head() returned")
        return await checking.verify(self._whole.main(), head)

    async def export(self, destination: str | PathLike[str]) -> int:
        """Write all entries to a file of JSON, a line each; returns how many.

        The file has its name once it is whole. Raises AlreadyExistsError if it is there. It has
        ids and authors: an erasure does not reach it.
        """
        entries, goal = await self.entries(), Path(destination)
        if await asyncio.to_thread(goal.exists):
            raise AlreadyExistsError(f"{str(goal)!r} is there already: choose another name")
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
        """Why a search found a record, now or at a version, tag, branch or time; and who wrote it.

        `arguments` are those of `search`, with which the question was asked. The record is looked
        for among the best `limit`. Raises NotFoundError if there was no such moment.
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
    """An entry in what JSON knows."""
    rows = [row._asdict() for row in entry.rows]
    told: dict[str, Any] = json.loads(json.dumps(asdict(entry), default=str))
    return {**told, "at": entry.at.isoformat(), "rows": rows} | (
        {"committed_at": entry.committed_at.isoformat()} if entry.committed_at else {}
    )
