"""The two channels of a search, asked of a table or of what of it is in memory."""

from typing import NamedTuple, TypedDict

import numpy as np

from lance_context_core.engine import sql
from lance_context_core.engine.table.found import Found, Rows
from lance_context_core.engine.table.narrowing import Narrowed
from lance_context_core.engine.table.table import Table
from lance_context_core.hot.answering import HotTable

_MOST = 2**31 - 1
"""How many rows the engine can be asked for; no table of ours has more."""


class _Asked(TypedDict):
    """What both channels are asked in the same words."""

    where: sql.Clause
    limit: int
    columns: list[str]


class Asking(NamedTuple):
    """What is asked of each channel, beside the question."""

    table: Table | HotTable
    where: sql.Clause
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
        asked = self._asked
        if isinstance(self.table, HotTable):
            return await self.table.nearest(vector, model=model, **asked)
        rows = await self.table.nearest(vector, model=model, narrowed=self.narrowed, **asked)
        return Rows(rows, "_distance")

    async def matching(self, words: str | None) -> Found:
        """The rows that have the words; none without any."""
        if words is None:
            return self._nothing("_score")
        asked = self._asked
        if isinstance(self.table, HotTable):
            return await self.table.match(
                words, preceding=self.preceding, must_match=self.must_match, **asked
            )
        return Rows(await self.table.match(words, narrowed=self.narrowed, **asked), "_score")

    @property
    def _asked(self) -> "_Asked":
        limit = min(self.limit, _MOST)
        return {"where": self.where, "limit": limit, "columns": self.columns}

    def _nothing(self, score: str) -> Found:
        if isinstance(self.table, HotTable):
            return self.table.none(score)
        return Rows(self.table.nothing(self.columns, score), score)
