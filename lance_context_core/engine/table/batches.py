"""Rows on their way into a table: what many callers add at the same time is one commit."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from lance_context_core.engine.schema import ACKNOWLEDGED, KEY
from lance_context_core.engine.table import writing
from lance_context_core.engine.table.access import Access
from lance_context_core.engine.table.arrow import Row
from lance_context_core.engine.table.grouping import Group, Incoming
from lance_context_core.engine.table.writing import Appended, Written


class Batches:
    """What is written to one table."""

    def __init__(self, access: Access, incoming: Incoming, written: Written) -> None:
        """Add what is made ready as `incoming`; `written` is told how much that was."""
        self._access = access
        self._incoming = incoming
        self._written = written
        self._grows = _Growth(0, 0)
        self._appends = Group(self._append_all)
        self._inserts = Group(self._insert_all)

    async def append(self, rows: Sequence[Row]) -> Appended:
        """As `Table.append`."""
        await self._access.ready()
        return await self._appends.write(rows)

    async def insert(self, rows: Sequence[Row]) -> tuple[int, int]:
        """As `Table.insert_absent`."""
        await self._access.ready()
        return await self._inserts.write(rows)

    async def arrow(self, handle: Any, rows: Sequence[Row]) -> pa.Table:
        """The rows of one caller as the engine takes them; raises if it cannot."""
        if any(ACKNOWLEDGED in row for row in rows):
            # They were read, and become others with this commit.
            rows = [{**row, ACKNOWLEDGED: None} for row in rows]
        table, (refusal,) = await self._incoming.prepared(handle, [rows])
        if refusal is not None:
            raise refusal
        self._written.note(table)
        return table

    # Helpers

    async def _append_all(self, batches: Sequence[Sequence[Row]]) -> Sequence[Appended | Exception]:
        async def write(handle: Any) -> list[Appended | Exception]:
            # What an addition costs grows with its columns, and of a record's most are empty.
            rows, refusals = await self._incoming.prepared(handle, batches, is_sparse=True)
            if rows is None:
                return [refusal for refusal in refusals if refusal]
            self._written.note(rows)
            done = await self._append(handle, rows)
            return [refusal or done for refusal in refusals]

        return await self._access.write("append to", write, is_guarded=False)

    async def _append(self, handle: Any, rows: pa.Table) -> Appended:
        before = self._incoming.seen
        version = int((await handle.add(rows)).version)
        # The engine tells what is current after it, which may be the commit of another process.
        if is_next := before is not None and version == before.version + 1:
            self._incoming.seen = before._replace(version=version)
        since = version if not is_next else version - 1
        self._grows = _Growth(self._grows.since if self._grows.until == since else since, version)
        n_rows = rows.num_rows if is_next else None
        return Appended(version, version, n_rows, self._grows.since)

    async def _insert_all(
        self, batches: Sequence[Sequence[Row]]
    ) -> Sequence[tuple[int, int] | Exception]:
        async def write(handle: Any) -> list[tuple[int, int] | Exception]:
            rows, refusals = await self._incoming.prepared(handle, batches)
            if rows is None:
                return [refusal for refusal in refusals if refusal]
            self._written.note(rows)
            if self._access.spec.is_ordered:
                await writing.make_way(handle, [row for batch in batches for row in batch])
            n_inserted, version = await writing.insert(handle, rows)
            n_added = [len(batch) for batch in batches]
            if n_inserted < rows.num_rows:
                there = await writing.there(handle, [row for batch in batches for row in batch])
                n_added = [sum(row[KEY] in there for row in batch) for batch in batches]
            return [refusal or (n, version) for refusal, n in zip(refusals, n_added, strict=True)]

        return await self._access.write("insert into", write)


class _Growth(NamedTuple):
    """The versions that came about one after the other by appending through a table."""

    since: int
    until: int
