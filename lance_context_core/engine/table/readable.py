"""What is read of a table, whoever writes it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from lance_context_core.engine.errors import translated
from lance_context_core.engine.journal.entries import View
from lance_context_core.engine.schema import KEY, VECTOR
from lance_context_core.engine.sql.clauses import Clause, UnsureError, in_list
from lance_context_core.engine.table import aside, indexes, narrowing, overlay, reading
from lance_context_core.engine.table.access import Access
from lance_context_core.engine.table.arrow import Row, rows_of
from lance_context_core.engine.table.aside import Aside
from lance_context_core.engine.table.grouping import Incoming
from lance_context_core.engine.table.journaled import Journaled
from lance_context_core.engine.table.narrowing import Narrowed
from lance_context_core.engine.table.nothing import Nothings
from lance_context_core.engine.table.remembered import Remembered, matching
from lance_context_core.engine.table.streaming import Snapshot
from lance_context_core.engine.table.vectors import Vectors

T = TypeVar("T")

_MOST_AS_ROWS = 32
"""From about so many on, a table of rows is made sooner than they are one by one."""


class Readable:
    """A table by name, which need not exist: it reads as empty."""

    def __init__(self, access: Access) -> None:
        """The table, on the ref that `access` leads to."""
        self.access = access
        """The engine's handles of it, and what is done to them as a whole."""
        self.vectors = Vectors(access)
        """Which vectors it takes."""
        self.remembered = Remembered(access)
        """Which of its rows can be read by their keys without a look at the disk."""
        self.name, self.ref = access.name, access.ref
        self.label, self.spec = access.label, access.spec
        self._is_text_indexed = False
        self._nothings = Nothings(self.spec.schema)
        self._incoming = Incoming(self.spec, self.vectors, self.label)
        self._journaled: Journaled | None = None
        self._aside: Aside | None = None

    async def schema(self) -> pa.Schema:
        """The columns of the table as they are; those of its specification if it is absent."""
        return await self.access.schema()

    async def exists(self) -> bool:
        """Whether there is such a table."""
        return await self.access.peek() is not None

    async def version(self) -> int:
        """The number of the version that is read; 0 if the table is absent.

        What the journal holds is in it: it is folded before.
        """
        handle = await self.access.reader()
        return 0 if handle is None else await handle.version()

    async def token(self) -> int:
        """A number that changes with whatever the table holds, and grows; 0 if the table is absent."""
        if (view := await self.access.view()) is not None:
            return view.token
        handle = await self.access.peek()
        return 0 if handle is None else int(await handle.version())

    async def last_seen(self) -> int:
        """As `token`, of what was read or written last; a write of one's own is in it."""
        if (view := await self.access.view()) is not None:
            return view.token
        return 0 if (handle := self.access.handle) is None else int(await handle.version())

    async def count(self, where: str | None = None) -> int:
        """How many rows match."""
        n = await self.access.over(where, lambda view: overlay.count(self.access, view, where))
        if n is not None:
            return n
        return await self.access.look("count {}", lambda handle: reading.count(handle, where), 0)

    async def select(self, where: str | None, *, columns: Sequence[str]) -> pa.Table:
        """The matching rows in the order of their commits, with their `_rowid`."""
        rows = await self.find(where, columns=columns, is_table=True)
        assert isinstance(rows, pa.Table)
        return rows

    async def snapshot(self, *, is_settled: bool = False) -> Snapshot:
        """The table as it is now, to be read at length; close it.

        With `is_settled` the journal's rows are among those of the table, if nobody writes meanwhile.
        """
        if is_settled:
            await self.access.settle()
        return await Snapshot.of(self.access, is_settled=is_settled)

    async def batches(
        self, where: Clause, *, columns: Sequence[str], batch_rows: int
    ) -> AsyncIterator[pa.RecordBatch]:
        """The matching rows of one moment, in no order; see `Snapshot.batches`."""
        for is_settled in (False, True):
            snapshot = await self.snapshot(is_settled=is_settled)
            try:
                read = snapshot.batches(where, columns=columns, batch_rows=batch_rows)
                async for batch in read:
                    yield batch
            except UnsureError:  # Before the first one: the journal is asked before the table is.
                if is_settled:
                    raise
            else:
                return
            finally:
                snapshot.close()

    async def find(
        self, where: str | None, *, columns: Sequence[str], is_table: bool = False
    ) -> pa.Table | list[Row]:
        """As `select`; rows that stand in the journal alone are not made a table of.

        Unless it `is_table` that is asked for.
        """

        async def over(view: View) -> pa.Table | list[Row]:
            mine = await overlay.all_matching(self.access, view, where)
            if mine is None:
                return await overlay.select(self.access, view, where, columns)
            if is_table:
                return overlay.laid_over(await self._nothing_at(view, columns), mine)
            return overlay.as_rows(mine, columns)

        if (rows := await self.access.over(where, over)) is not None:
            return rows
        return await self.access.look(
            "read {}", lambda handle: reading.scan(handle, where, columns), self.nothing(columns)
        )

    async def get(self, where: Clause, *, columns: Sequence[str]) -> list[Row]:
        """The matching rows of a condition on keys, in no order.

        Those that were written or read so lately are answered from memory.
        """
        remembered = self.remembered
        if (known := remembered.find(where, columns)) is not None:
            return known
        found: list[Row] | None = None
        await self.access.view()  # Which opens the journal, if nobody has.
        if (begun := remembered.begin(where, columns)) is not None:
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
        """Part of the matching rows, in the order of their commits.

        With `last` the `offset` is counted from the end: the last rows but `offset`. Rows outside
        the part are not read, only their ids.
        """
        span: dict[str, Any] = {"offset": offset, "limit": limit, "last": last}

        async def over(view: View) -> pa.Table:
            return await self._slice_at(view, where, columns, span)

        return await self._slice(where, columns, span, over)

    async def page(
        self, where: str | None, *, columns: Sequence[str], span: Mapping[str, Any]
    ) -> pa.Table | list[Row]:
        """As `slice`, whose bounds are the `span`; a few last rows that are all in the journal, as they are.

        A table takes longer.
        """

        async def over(view: View) -> pa.Table | list[Row]:
            is_short = span["last"] is not None and span["last"] <= _MOST_AS_ROWS
            if is_short and (end := overlay.end_of(view, where, **span)) is not None:
                return overlay.as_rows(end, columns)
            return await self._slice_at(view, where, columns, span)

        return await self._slice(where, columns, span, over)

    async def tail(
        self, where: str | None, *, columns: Sequence[str], last: int
    ) -> tuple[pa.Table, int]:
        """The last matching rows, as `slice` has them, and how many there are before these."""

        async def over(view: View) -> tuple[pa.Table, int]:
            return await self.tail_at(view, where, columns=columns, last=last)

        if (found := await self.access.over(where, over)) is not None:
            return found
        nothing = self.nothing(columns)
        return await self.access.look(
            "read {}",
            lambda handle: reading.tail_of(handle, where, columns, last, nothing=nothing),
            (nothing, 0),
        )

    async def tail_at(
        self, view: View, where: str | None, *, columns: Sequence[str], last: int
    ) -> tuple[pa.Table, int]:
        """As `tail`, with what the journal held at that moment."""
        nothing = await self._nothing_at(view, columns)
        return await overlay.tail_of(self.access, view, where, columns, last, nothing=nothing)

    async def take(
        self, row_ids: Sequence[int] | np.ndarray, *, columns: Sequence[str]
    ) -> pa.Table:
        """The rows with these ids, in their order; those that are gone are left out."""
        nothing = self.nothing(columns)
        if len(row_ids) == 0:
            return nothing
        if self._aside is not None and any(
            aside.FIRST_ID <= id < overlay.FIRST_ID for id in row_ids
        ):
            return await self._taken_aside(self._aside, [*map(int, row_ids)], columns)
        if self._journaled is not None:
            return await self._journaled.take(row_ids, columns=columns, nothing=nothing)
        if (view := await self.access.view()) is not None:
            ids = [int(one) for one in row_ids]
            return await overlay.take(self.access, view, ids, columns, nothing)
        return await self.access.look(
            "read {}", lambda handle: reading.take(handle, row_ids, columns), nothing
        )

    async def narrowed(self, where: str) -> Narrowed | None:
        """The rows that meet a long condition, for all queries of a search; None for a short one."""
        if not narrowing.is_long(where):
            return None
        found: Narrowed | None = await self.access.look(
            "search {}", lambda handle: reading.narrow(handle, where), None
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
        """The `limit` rows nearest by cosine, best first, with `_rowid` and `_distance` in [0, 2].

        `narrowed` is what `narrowed` said of the condition. Raises as `Vectors.check` if the table
        holds vectors of another length or model.
        """
        nothing = self.nothing(columns, "_distance")

        async def search(handle: Any) -> pa.Table:
            schema = (await self._incoming.look_at(handle)).schema
            if limit == 0 or VECTOR not in schema.names:
                return nothing
            self.vectors.check(schema, len(vector), model)
            there = [column for column in columns if column in schema.names]

            async def find(where: str | None, limit: int) -> pa.Table:
                return await reading.nearest(
                    handle, vector, where=where, limit=limit, columns=there
                )

            return await reading.search(handle, where, narrowed, limit, find)

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
        """The `limit` rows that match words of `text` best, with `_rowid` and their BM25 `_score`.

        A text without words, such as "" or "?!", matches nothing. `narrowed` as in `nearest`.
        """
        nothing = self.nothing(columns, "_score")

        async def search(handle: Any) -> pa.Table:
            if limit == 0 or not await self._has_text_index(handle):
                return nothing

            async def find(where: str | None, limit: int) -> pa.Table:
                return await reading.match(handle, text, where=where, limit=limit, columns=columns)

            return await reading.search(handle, where, narrowed, limit, find)

        return await self.access.look("search {} by words", search, nothing)

    def nothing(self, columns: Sequence[str], score: str | None = None) -> pa.Table:
        """No rows, with these columns, a `_rowid`, and the `score` of a search channel."""
        return self._nothings.of(columns, score)

    # Helpers

    async def _taken_aside(self, places: Aside, ids: list[int], columns: Sequence[str]) -> pa.Table:
        """As `take`, where some rows were found in places that show what nobody may fold."""
        known = [id for id in ids if not aside.FIRST_ID <= id < overlay.FIRST_ID]
        found = [await self.take(known, columns=columns)]
        for handle, some in places.owners([id for id in ids if id not in {*known}]).items():
            with translated(f"read {self.label}"):
                rows = await reading.take(handle, some, columns)
            found.append(rows.select(found[0].column_names).cast(found[0].schema))
        return overlay.in_order(pa.concat_tables(found), ids)

    async def _slice(
        self,
        where: str | None,
        columns: Sequence[str],
        span: Mapping[str, Any],
        over: Callable[[View], Awaitable[T]],
    ) -> T | pa.Table:
        """Part of the matching rows: what is `over` the journal, if that holds any."""
        if (rows := await self.access.over(where, over)) is not None:
            return rows
        nothing = self.nothing(columns)
        return await self.access.look(
            "read {}",
            lambda handle: reading.slice_of(handle, where, columns, nothing=nothing, **span),
            nothing,
        )

    async def _slice_at(
        self, view: View, where: str | None, columns: Sequence[str], span: Mapping[str, Any]
    ) -> pa.Table:
        nothing = await self._nothing_at(view, columns)
        return await overlay.slice_of(
            self.access, view, where, columns=columns, nothing=nothing, **span
        )

    async def _nothing_at(self, view: View, columns: Sequence[str]) -> pa.Table:
        """As `nothing`, with the vectors too, if they are among the columns."""
        if VECTOR not in columns:
            return self.nothing(columns)
        return self._nothings.beside(await self.access.schema_at(view.moment), columns)

    async def _has_text_index(self, handle: Any) -> bool:
        self._is_text_indexed = self._is_text_indexed or await indexes.has_text_index(handle)
        return self._is_text_indexed
