"""A scope in memory that answers a search as its table would."""

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from lance_context_core.engine import sql
from lance_context_core.engine.schema import KEY, VECTOR
from lance_context_core.engine.table.arrow import Row, column_of
from lance_context_core.engine.table.table import Table
from lance_context_core.hot.block import Block, UnsureError


class HotTable:
    """The rows of one scope, as they were when the search began to ask, or later."""

    def __init__(self, table: Table, block: Block, *, was_known: bool) -> None:
        """Those of `block`, which are some of `table`."""
        self.was_known = was_known
        """Whether they were in memory before the search."""
        self._table = table
        self._block = block

    def nothing(self, columns: Sequence[str], score: str | None = None) -> pa.Table:
        """As `Table.nothing`."""
        return self._table.nothing(columns, score)

    async def nearest(
        self,
        vector: np.ndarray,
        *,
        model: str | None,
        where: sql.Clause | None,
        limit: int,
        columns: Sequence[str],
    ) -> pa.Table:
        """As `Table.nearest`."""
        block = self._sound()
        with block.lock:
            if block.vectors is None:
                return self.nothing(columns, "_distance")
            self._table.vectors.check(pa.schema([block.vectors]), len(vector), model)
            cosines = block.nearest(where or sql.EVERYTHING, vector, limit)
            distances = [1.0 - cosine for cosine in cosines.values()]
            return self._rows(cosines, columns, distances, "_distance")

    async def match(
        self, text: str, *, where: sql.Clause | None, limit: int, columns: Sequence[str]
    ) -> pa.Table:
        """As `Table.match`. Raises UnsureError if only the engine can tell the words."""
        block = self._sound()
        with block.lock:
            scores = block.match(where or sql.EVERYTHING, text, limit)
            return self._rows(scores, columns, list(scores.values()), "_score")

    async def select(self, where: sql.Clause, *, columns: Sequence[str]) -> pa.Table:
        """As `Table.select`."""
        block = self._sound()
        with block.lock:
            return self._rows(block.matching(where), columns)

    async def take(self, row_ids: Sequence[int], *, columns: Sequence[str]) -> pa.Table:
        """As `Table.take`, of rows that were found here."""
        block = self._sound()
        with block.lock:
            there = block.numbers_of(row_ids)
            if "blob" not in columns:
                return self._rows(there, columns)
            places = {block.row(number, [KEY])[KEY]: block.place(number) for number in there}
        # What is large is not kept; what was changed meanwhile is as it is now.
        found = await self._table.select(sql.in_list(KEY, places), columns=[KEY, *columns])
        ids = pa.array([places[key] for key in found[KEY].to_pylist()], pa.uint64())
        return found.set_column(found.column_names.index("_rowid"), "_rowid", ids)

    def _sound(self) -> Block:
        if not self._block.is_sound:
            raise UnsureError
        return self._block

    def _rows(
        self,
        numbers: Iterable[int],
        columns: Sequence[str],
        scores: Sequence[float] = (),
        score: str | None = None,
    ) -> pa.Table:
        there = list(numbers)
        rows: list[Row] = [self._block.row(number, columns) for number in there]
        schema = self._table.spec.schema
        fields = [schema.field(name) for name in columns if name in schema.names]
        if VECTOR in columns and self._block.vectors is not None:
            fields.append(self._block.vectors)
        made = [column_of(rows, field) for field in fields]
        fields.append(pa.field("_rowid", pa.uint64()))
        made.append(pa.array([self._block.place(number) for number in there], pa.uint64()))
        if score is not None:
            fields.append(pa.field(score, pa.float32()))
            made.append(pa.array(scores, pa.float32()))
        return pa.Table.from_arrays(made, schema=pa.schema(fields))
