"""What a search asks of a table, or of what of it is in memory: two channels, and the turns around what these found."""

import asyncio
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from lance_context_core.hot.answering import HotTable, Picked
from lance_context_core.protocols import SearchMode
from lance_context_core.search.turns import Order
from lance_context_core.storage import sql
from lance_context_core.storage.lance.reads import Found, Rows
from lance_context_core.storage.lance.schema import KEY, LINK
from lance_context_core.storage.prefilter import Narrowed
from lance_context_core.storage.table import Table

_MOST = 2**31 - 1
"""How many rows the engine can be asked for; no table of ours has more."""


class Question(NamedTuple):
    """What is looked for."""

    text: str | None
    """As it was asked; what a reranker reads."""
    words: str | None
    """What of the text is looked up in the words; None if they are not asked."""
    vector: np.ndarray | None
    """None if there is none, or none yet."""
    model: str | None
    """What made the vector; None for the caller's own."""
    mode: SearchMode
    is_embedded: bool
    """Whether a vector is to be made of the text."""


class Findings(NamedTuple):
    """What the channels found, and the turns around that which neither did."""

    vector: Found
    text: Found
    around: Sequence[Found] = ()


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

    async def channels(self, question: Question, matching: Found | None) -> Findings:
        """What the channels find that are asked, of which one may have been asked already."""
        near = None if question.mode == "text" else question.vector
        if matching is not None:
            return Findings(await self.nearest(near, question.model), matching)
        if question.mode != "hybrid" or isinstance(self.table, HotTable):
            return Findings(
                await self.nearest(near, question.model), await self.matching(question.words)
            )
        # At the same time, which has its price.
        found = await asyncio.gather(
            self.nearest(near, question.model), self.matching(question.words)
        )
        return Findings(*found)

    def _nothing(self, score: str) -> Found:
        if isinstance(self.table, HotTable):
            return self.table.none(score)
        return Rows(self.table.nothing(self.columns, score), score)


async def surroundings(
    table: Table | HotTable,
    where: sql.Clause,
    found: Sequence[Found],
    *,
    columns: Sequence[str],
    order: Order | None,
) -> Found:
    """The turns just before and just after those found that meet `where`, but these themselves.

    One query, which looks for keys. Without an `order` the rows name those before them; what is gone,
    or does not meet `where`, is not among them.
    """
    if isinstance(table, HotTable) and LINK in table.spec.schema.names:
        picked = [one for one in found if isinstance(one, Picked)]
        return await table.beside(picked, columns=columns)
    keys = {key for rows in found for key in rows.column(KEY)}
    if order is not None and not isinstance(table, HotTable):
        around = {*map(order.before.get, keys), *map(order.after.get, keys)} - keys
        if not (there := sorted(key for key in around if key)):
            return order.linked(Rows(table.nothing(columns)))
        beside = sql.all_of([where, sql.in_list(KEY, there)])
        return order.linked(Rows(await table.select(beside, columns=columns)))
    links = {key for rows in found for key in rows.column(LINK)}
    before = sorted(key for key in links if key and key not in keys)
    if not keys or isinstance(table, HotTable) or LINK not in table.spec.schema.names:
        # Documents have no turns before them.
        return Rows(table.nothing(columns))
    return await _beside(table, where, keys=keys, before=before, columns=columns)


async def _beside(
    table: Table,
    where: sql.Clause,
    *,
    keys: Collection[str],
    before: Collection[str],
    columns: Sequence[str],
) -> Found:
    beside = sql.any_of([sql.in_list(LINK, sorted(keys)), sql.in_list(KEY, before)])
    another = sql.not_in_list(KEY, sorted(keys))
    return Rows(await table.select(sql.all_of([where, beside, another]), columns=columns))


def beside_each(ids: Sequence[int], found: Sequence[Found]) -> dict[int, list[int]]:
    """Of each of these rows the turn before it, and the one after it, if these were found."""
    there: dict[str, int] = {}
    links: dict[int, str | None] = {}
    for rows in found:
        there.update(zip(rows.column(KEY), rows.ids, strict=True))
        links.update(zip(rows.ids, rows.column(LINK), strict=True))
    before = {id: there[key] for id, key in links.items() if key in there}
    after = {previous: id for id, previous in before.items()}
    return {id: [one for one in (before.get(id), after.get(id)) if one is not None] for id in ids}
