"""The two channels of a search, asked of a table or of what of it is in memory."""

from typing import NamedTuple

import numpy as np

from lance_context_core.engine import sql
from lance_context_core.engine.table.found import Found, Rows
from lance_context_core.engine.table.narrowing import Narrowed
from lance_context_core.engine.table.table import Table
from lance_context_core.hot.answering import HotTable

_MOST = 2**31 - 1
"""How many rows the engine can be asked for; no table of ours has more."""


class Asking(NamedTuple):
    """What is asked of each channel, beside the question."""

    table: Table | HotTable
    where: sql.Clause
    """What the engine is asked of rows; what is in memory knows what it is asked."""
    limit: int
    columns: list[str]
    narrowed: Narrowed | None
    """Which rows meet a long condition, where the engine is asked."""
    preceding: float = 0.0
    """In the process: how much the words of a short turn count in the one after it."""
    must_match: bool = True
    """Whether only turns are found that have a word of the question themselves."""

    async def nearest(self, vector: np.ndarray | None, model: str | None) -> Found:
        """The nearest rows; none if there is nothing to be near to."""
        if vector is None:
            return self._nothing("_distance")
        limit, columns = min(self.limit, _MOST), self.columns
        if isinstance(self.table, HotTable):
            return await self.table.nearest(vector, model=model, limit=limit, columns=columns)
        rows = await self.table.nearest(
            vector,
            model=model,
            where=self.where,
            limit=limit,
            columns=columns,
            narrowed=self.narrowed,
        )
        return Rows(rows, "_distance")

    async def matching(self, words: str | None) -> Found:
        """The rows that have the words; none without any."""
        if words is None:
            return self._nothing("_score")
        limit, columns = min(self.limit, _MOST), self.columns
        if isinstance(self.table, HotTable):
            return await self.table.match(
                words,
                limit=limit,
                columns=columns,
                preceding=self.preceding,
                must_match=self.must_match,
            )
        rows = await self.table.match(
            words, where=self.where, limit=limit, columns=columns, narrowed=self.narrowed
        )
        return Rows(rows, "_score")

    def _nothing(self, score: str) -> Found:
        if isinstance(self.table, HotTable):
            return self.table.none(score)
        return Rows(self.table.nothing(self.columns, score), score)
