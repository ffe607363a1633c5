"""The turns around those that a search found, in their sessions."""

from collections.abc import Collection, Sequence
from typing import Generic, NamedTuple, TypeVar

from lance_context_core.engine import sql
from lance_context_core.engine.schema import KEY
from lance_context_core.engine.table.found import Found, Rows
from lance_context_core.engine.table.table import Table
from lance_context_core.hot.answering import HotTable, Picked
from lance_context_core.hot.block import LINK
from lance_context_core.records import SearchHit

R = TypeVar("R")


class Around(NamedTuple, Generic[R]):
    """A hit, and what was said around it."""

    hit: SearchHit[R]
    turns: Sequence[R] = ()
    """The turn before it and the one after it, as far as they may be found themselves."""


async def surroundings(
    table: Table | HotTable, where: sql.Clause, found: Sequence[Found], *, columns: Sequence[str]
) -> Found:
    """The turns just before and just after those found that meet `where`, but these themselves.

    One query, which looks for keys, so that a session may be of any length. What is gone, or does
    not meet `where`, is not among them.
    """
    if isinstance(table, HotTable) and LINK in table.spec.schema.names:
        picked = [one for one in found if isinstance(one, Picked)]
        return await table.beside(picked, columns=columns)
    keys = {key for rows in found for key in rows.column(KEY)}
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
