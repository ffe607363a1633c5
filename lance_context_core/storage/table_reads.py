"""The reads of a table."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Self, TypeVar

import numpy as np
import pyarrow as pa

from lance_context_core._util.frozen import frozen
from lance_context_core.errors import StorageError
from lance_context_core.storage import merge_on_read, prefilter, side_table
from lance_context_core.storage.declared_fields import DeclaredFields
from lance_context_core.storage.group_commit import Incoming
from lance_context_core.storage.lance import indexes, reads
from lance_context_core.storage.lance.arrow import Row, rows_of
from lance_context_core.storage.lance.errors import translated
from lance_context_core.storage.lance.schema import KEY, VECTOR
from lance_context_core.storage.lance.table_handle import TableHandle
from lance_context_core.storage.lance.vectors import Vectors
from lance_context_core.storage.prefilter import Narrowed
from lance_context_core.storage.row_cache import RowCache, matching
from lance_context_core.storage.side_table import SideTable
from lance_context_core.storage.sql.predicates import Clause, UnsureError, in_list
from lance_context_core.storage.wal.entries import Entry, View
from lance_context_core.storage.wal_writes import WalWrites

# Empty results, in the shape of a read.


class Nothings:
    """Empty tables of a schema; each is created once."""

    def __init__(self, schema: pa.Schema) -> None:
        """For some of these columns."""
        self._schema = schema
        self._known: dict[frozenset[str], pa.Table] = {}

    def of(self, columns: Sequence[str], score: str | None = None) -> pa.Table:
        """No rows, with these columns, a `_rowid`, and the `score` of a search channel."""
        names = frozenset([*columns, *([score] if score else [])])
        if names not in self._known:
            fields = [field for field in self._schema if field.name in names]
            fields.append(pa.field("_rowid", pa.uint64()))
            fields += [pa.field(score, pa.float32())] if score else []
            self._known[names] = pa.schema(fields).empty_table()
        return self._known[names]

    def beside(self, schema: pa.Schema, columns: Sequence[str]) -> pa.Table:
        """As `of`, with the vectors of a table of that `schema`, if among the columns."""
        nothing = self.of(columns)
        if VECTOR in columns and VECTOR in schema.names:
            field = schema.field(VECTOR)
            return nothing.append_column(field, pa.array([], field.type))
        return nothing


# All matching rows of one snapshot, batch by batch: for long reads, in no order.


@frozen
class Snapshot:
    """A table at one moment, log merged in, which no later write changes."""

    access: TableHandle
    handle: Any | None
    """The engine's handle, at a fixed version; None if the table itself has no row."""
    view: View | None
    """The log's entries; None if it has none."""
    is_own: bool = True
    """Whether closing this closes the handle."""

    @classmethod
    async def of(cls, access: TableHandle, *, is_settled: bool = False) -> "Snapshot":
        """The table at this moment; a missing one reads as empty.

        Where a flush is not allowed, and `is_settled` is requested, it shows the same as after one.
        """
        if is_settled and access.aside is not None:
            return cls(access, await access.aside(), None, is_own=False)
        view = await access.view()
        if view is not None and view.entries:
            if await access.presence.is_empty(view.moment):
                return cls(access, None, view)
            return cls(access, await access.at(view.version), view)
        if (handle := await access.reader()) is None:
            return cls(access, None, None)
        return cls(access, await access.at(await handle.version()), None)

    async def batches(
        self, where: str | None, *, columns: Sequence[str], batch_rows: int
    ) -> AsyncIterator[pa.RecordBatch]:
        """The matching rows, in no order, with the requested columns that the table has.

        Batches may be shorter than `batch_rows`, about the number that is in memory.
        """
        mine: list[Entry] = []
        if self.view is not None:
            if not merge_on_read.is_askable(where):
                raise UnsureError
            mine = merge_on_read.matching(self.view, where)
            where = merge_on_read.beneath(self.view, where)
        if self.handle is not None:
            async with self._reading():
                present = await reads.present(self.handle, columns)
                async for batch in reads.stream(self.handle, where, present, batch_rows):
                    yield batch
        if mine:
            known = self.access.spec.schema
            if VECTOR in columns:
                assert self.view is not None
                known = await self.access.schema_at(self.view.moment)
            schema = pa.schema([known.field(name) for name in columns if name in known.names])
            for batch in merge_on_read.as_table(mine, schema).to_batches():
                yield batch

    async def in_order(
        self, where: str | None, *, columns: Sequence[str], batch_rows: int
    ) -> AsyncIterator[pa.RecordBatch]:
        """As `batches`, of the table without the log, in the order of the commits.

        Memory holds one batch, and eight bytes for each row.
        """
        if self.handle is None:
            return
        async with self._reading():
            present = await reads.present(self.handle, columns)
            ids = (await reads.stored_ids(self.handle, where)).astype(np.int64)
            if len(ids) < 2 or bool(np.all(ids[1:] > ids[:-1])):
                async for batch in reads.stream(self.handle, where, present, batch_rows):
                    yield batch
                return
            ids.sort()
            for start in range(0, len(ids), batch_rows):
                rows = await reads.take(self.handle, ids[start : start + batch_rows], present)
                for batch in rows.select(present).combine_chunks().to_batches():
                    yield batch

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[None]:
        """Read through the handle. Raises ConflictError if the version is removed meanwhile."""
        try:
            with translated(f"read {self.access.label}"):
                yield
        except StorageError as error:
            await self.access.explain(self.handle, error)
            raise

    def close(self) -> None:
        """Close the engine's handle, if this snapshot owns it."""
        if self.handle is not None and self.is_own and not self.access.is_pinned:
            self.handle.close()


T = TypeVar("T")

_MOST_AS_ROWS = 32
"""From about this number of rows on, creating a table is faster than creating single rows."""


class TableReads:
    """A table by name; a missing one reads as empty."""

    def __init__(self, access: TableHandle) -> None:
        """The table on the ref of `access`."""
        self.access = access
        """The engine's handles of it, and operations on the whole table."""
        self.vectors = Vectors(access)
        """The vectors that it accepts."""
        self.fields = DeclaredFields(access)
        """The fields of its metadata that have columns."""
        self.remembered = RowCache(access)
        """The rows that can be read by key without disk access."""
        self.name, self.ref = access.name, access.ref
        self.label, self.spec = access.label, access.spec
        self._is_text_indexed = False
        self._nothings = Nothings(self.spec.schema)
        self._incoming = Incoming(self.spec, self.vectors, self.label)
        self._journaled: WalWrites | None = None
        self._aside: SideTable | None = None

    async def here(self) -> Self:
        """This table, or, if its rows may move to another store, the one that has them now."""
        return self

    async def schema(self) -> pa.Schema:
        """The actual columns of the table; those of its specification if it is missing."""
        return await self.access.schema()

    async def exists(self) -> bool:
        """Whether the table exists."""
        return await self.access.peek() is not None

    async def version(self) -> int:
        """The number of the current version; 0 if the table is missing.

        It includes the log: the call flushes it first.
        """
        handle = await self.access.reader()
        return 0 if handle is None else await handle.version()

    async def token(self) -> int:
        """A number that grows with each change of the table; 0 if it is missing."""
        if (view := await self.access.view()) is not None:
            return view.token
        handle = await self.access.peek()
        return 0 if handle is None else int(await handle.version())

    async def last_seen(self) -> int:
        """As `token`, of the last read or write; includes the caller's own writes."""
        if (view := await self.access.view()) is not None:
            return view.token
        return 0 if (handle := self.access.handle) is None else int(await handle.version())

    async def count(self, where: str | None = None) -> int:
        """The number of matching rows."""
        n = await self.access.over(
            where, lambda view: merge_on_read.count(self.access, view, where)
        )
        if n is not None:
            return n
        return await self.access.look("count {}", lambda handle: reads.count(handle, where), 0)

    async def select(self, where: str | None, *, columns: Sequence[str]) -> pa.Table:
        """The matching rows in the order of their commits, with their `_rowid`."""
        rows = await self.find(where, columns=columns, is_table=True)
        assert isinstance(rows, pa.Table)
        return rows

    async def snapshot(self, *, is_settled: bool = False) -> Snapshot:
        """A snapshot of the table for a long read; close it.

        With `is_settled`, the log's rows are in the table itself, unless another write intervenes.
        """
        if is_settled:
            await self.access.settle()
        return await Snapshot.of(self.access, is_settled=is_settled)

    async def batches(
        self, where: Clause, *, columns: Sequence[str], batch_rows: int
    ) -> AsyncIterator[pa.RecordBatch]:
        """The matching rows of one snapshot, in no order; see `Snapshot.batches`."""
        for is_settled in (False, True):
            snapshot = await self.snapshot(is_settled=is_settled)
            try:
                read = snapshot.batches(where, columns=columns, batch_rows=batch_rows)
                async for batch in read:
                    yield batch
            except UnsureError:  # before the first batch: the log is read before the table
                if is_settled:
                    raise
            else:
                return
            finally:
                snapshot.close()

    async def find(
        self, where: str | None, *, columns: Sequence[str], is_table: bool = False
    ) -> pa.Table | list[Row]:
        """As `select`; returns rows that only the log has as they are.

        With `is_table`, always returns a table.
        """

        async def over(view: View) -> pa.Table | list[Row]:
            mine = await merge_on_read.all_matching(self.access, view, where)
            if mine is None:
                return await merge_on_read.select(self.access, view, where, columns)
            if is_table:
                return merge_on_read.laid_over(await self.nothing_at(view, columns), mine)
            return merge_on_read.as_rows(mine, columns)

        async def scan(handle: Any) -> pa.Table:
            return await reads.scan(
                handle, where, await reads.shown(handle, columns), are_there=True
            )

        if (rows := await self.access.over(where, over)) is not None:
            return rows
        return await self.access.look("read {}", scan, self.nothing(columns))

    async def get(self, where: Clause, *, columns: Sequence[str]) -> list[Row]:
        """The matching rows of a condition on keys, in no order.

        Recently written or read rows come from the cache.
        """
        remembered = self.remembered
        if (known := remembered.find(where, columns)) is not None:
            return known
        found: list[Row] | None = None
        await self.access.view()  # opens the log if needed
        if (begun := remembered.begin(where, columns)) is not None:
            await self._remember_all()
            if (known := remembered.find(where, columns)) is not None:
                return known
            everything = await self.find(in_list(KEY, begun.keys), columns=remembered.columns)
            remembered.keep(begun, rows := rows_of(everything))
            found = matching(rows, where, columns)
        return rows_of(await self.find(where, columns=columns)) if found is None else found

    async def slice(
        self,
        where: str | None,
        *,
        columns: Sequence[str],
        offset: int = 0,
        limit: int | None = None,
        last: int | None = None,
    ) -> pa.Table:
        """A range of the matching rows, in the order of their commits.

        With `last`, the `offset` counts from the end: the last rows but `offset`. Of rows outside
        the range only the ids are read.
        """
        span: dict[str, Any] = {"offset": offset, "limit": limit, "last": last}

        async def over(view: View) -> pa.Table:
            return await self._slice_at(view, where, columns, span)

        return await self._slice(where, columns, span, over)

    async def page(
        self, where: str | None, *, columns: Sequence[str], span: Mapping[str, Any]
    ) -> pa.Table | list[Row]:
        """As `slice`, bounded by `span`; but a few last rows in the log as they are.

        A table takes longer.
        """

        async def over(view: View) -> pa.Table | list[Row]:
            is_short = span["last"] is not None and span["last"] <= _MOST_AS_ROWS
            if is_short and (end := merge_on_read.end_of(view, where, **span)) is not None:
                return merge_on_read.as_rows(end, columns)
            return await self._slice_at(view, where, columns, span)

        return await self._slice(where, columns, span, over)

    async def tail(
        self, where: str | None, *, columns: Sequence[str], last: int
    ) -> tuple[pa.Table, int]:
        """The last matching rows, as by `slice`, and the number of rows before them."""

        async def over(view: View) -> tuple[pa.Table, int]:
            return await self.tail_at(view, where, columns=columns, last=last)

        if (found := await self.access.over(where, over)) is not None:
            return found
        nothing = self.nothing(columns)
        return await self.access.look(
            "read {}",
            lambda handle: reads.tail_of(handle, where, columns, last, nothing=nothing),
            (nothing, 0),
        )

    async def tail_at(
        self, view: View, where: str | None, *, columns: Sequence[str], last: int
    ) -> tuple[pa.Table, int]:
        """As `tail`, with the log's entries of that moment."""
        nothing = await self.nothing_at(view, columns)
        return await merge_on_read.tail_of(self.access, view, where, columns, last, nothing=nothing)

    async def take(
        self, row_ids: Sequence[int] | np.ndarray, *, columns: Sequence[str]
    ) -> pa.Table:
        """The rows with these ids, in their order, without deleted ones."""
        nothing = self.nothing(columns)
        if len(row_ids) == 0:
            return nothing
        if self._aside is not None and any(
            side_table.FIRST_ID <= id < merge_on_read.FIRST_ID for id in row_ids
        ):
            return await self._taken_aside(self._aside, [*map(int, row_ids)], columns)
        if self._journaled is not None:
            return await self._journaled.take(row_ids, columns=columns, nothing=nothing)
        if (view := await self.access.view()) is not None:
            ids = [int(one) for one in row_ids]
            return await merge_on_read.take(self.access, view, ids, columns, nothing)
        return await self.access.look(
            "read {}", lambda handle: reads.take(handle, row_ids, columns), nothing
        )

    async def narrowed(self, where: str) -> Narrowed | None:
        """The rows of a long condition, for all queries of a search; else None."""
        if not prefilter.is_long(where):
            return None
        found: Narrowed | None = await self.access.look(
            "search {}", lambda handle: reads.narrow(handle, where), None
        )
        return found

    async def nearest(
        self,
        vector: np.ndarray,
        *,
        model: str | None,
        where: str | None,
        limit: int,
        columns: Sequence[str],
        narrowed: Narrowed | None = None,
    ) -> pa.Table:
        """The `limit` nearest rows by cosine, best first, with `_rowid` and `_distance` in [0, 2].

        `narrowed` is the result of `narrowed` for the condition. Raises as `Vectors.check` if the
        table has vectors of another length or model.
        """
        nothing = self.nothing(columns, "_distance")

        async def search(handle: Any) -> pa.Table:
            schema = (await self._incoming.look_at(handle)).schema
            if limit == 0 or VECTOR not in schema.names:
                return nothing
            self.vectors.check(schema, len(vector), model)
            there = [column for column in columns if column in schema.names]

            async def find(where: str | None, limit: int) -> pa.Table:
                return await reads.nearest(handle, vector, where=where, limit=limit, columns=there)

            return await reads.search(handle, where, narrowed, limit, find)

        return await self.access.look("search {} by vector", search, nothing)

    async def match(
        self,
        text: str,
        *,
        where: str | None,
        limit: int,
        columns: Sequence[str],
        narrowed: Narrowed | None = None,
    ) -> pa.Table:
        """The `limit` rows that best match words of `text`, with `_rowid` and BM25 `_score`.

        A text without words, such as "" or "?!", matches nothing. `narrowed` as in `nearest`.
        """
        nothing = self.nothing(columns, "_score")

        async def search(handle: Any) -> pa.Table:
            if limit == 0 or not await self._has_text_index(handle):
                return nothing

            async def find(where: str | None, limit: int) -> pa.Table:
                return await reads.match(handle, text, where=where, limit=limit, columns=columns)

            return await reads.search(handle, where, narrowed, limit, find)

        return await self.access.look("search {} by words", search, nothing)

    def nothing(self, columns: Sequence[str], score: str | None = None) -> pa.Table:
        """No rows, with these columns, a `_rowid`, and the `score` of a search channel."""
        return self._nothings.of(columns, score)

    # Helpers

    async def _remember_all(self) -> None:
        """Read the whole table into the cache of rows, if it is small enough."""

        async def look() -> Any | None:
            if (handle := await self.access.peek()) is None:
                return None
            with translated(f"read {self.label}"):
                return await handle.stats()

        if not self.remembered.may_hold_all or (stats := await self.access.follow(look)) is None:
            return
        begun = self.remembered.begin_all(int(stats["num_rows"]), int(stats["total_bytes"]))
        if begun is None:
            return
        rows = None
        try:
            with suppress(StorageError):  # the wanted rows alone may be readable
                rows = await self.select(None, columns=self.remembered.columns)
        finally:
            self.remembered.keep_all(begun, rows)

    async def _taken_aside(
        self, places: SideTable, ids: list[int], columns: Sequence[str]
    ) -> pa.Table:
        """As `take`, for rows found in side tables, where a flush is not allowed."""
        known = [id for id in ids if not side_table.FIRST_ID <= id < merge_on_read.FIRST_ID]
        found = [await self.take(known, columns=columns)]
        for handle, some in places.owners([id for id in ids if id not in {*known}]).items():
            with translated(f"read {self.label}"):
                rows = await reads.take(handle, some, columns)
            found.append(rows.select(found[0].column_names).cast(found[0].schema))
        return merge_on_read.in_order(pa.concat_tables(found), ids)

    async def _slice(
        self,
        where: str | None,
        columns: Sequence[str],
        span: Mapping[str, Any],
        over: Callable[[View], Awaitable[T]],
    ) -> T | pa.Table:
        """A range of the matching rows, with the log merged in if `over` has entries."""
        if (rows := await self.access.over(where, over)) is not None:
            return rows
        nothing = self.nothing(columns)
        return await self.access.look(
            "read {}",
            lambda handle: reads.slice_of(handle, where, columns, nothing=nothing, **span),
            nothing,
        )

    async def _slice_at(
        self, view: View, where: str | None, columns: Sequence[str], span: Mapping[str, Any]
    ) -> pa.Table:
        nothing = await self.nothing_at(view, columns)
        return await merge_on_read.slice_of(
            self.access, view, where, columns=columns, nothing=nothing, **span
        )

    async def nothing_at(self, view: View, columns: Sequence[str]) -> pa.Table:
        """As `nothing`, with the vectors too, if among the columns."""
        if VECTOR not in columns:
            return self.nothing(columns)
        return self._nothings.beside(await self.access.schema_at(view.moment), columns)

    async def _has_text_index(self, handle: Any) -> bool:
        self._is_text_indexed = self._is_text_indexed or await indexes.has_text_index(handle)
        return self._is_text_indexed
