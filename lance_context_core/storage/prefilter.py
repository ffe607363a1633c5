"""Conditions that are too long for the engine, which takes longer to read them than to find the rows.

A thousand values and more, of which a column has to have one, are looked for in the column itself. What
is long otherwise is asked of the rows once for all queries of a search, which are told the rows.
"""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_context_core.storage.sql.predicates import NOTHING, Clause, Listed, all_of, lists_apart

_MANY_VALUES = 1_000
_ROWS_A_VALUE = 10
"""The engine takes 6 microseconds to read a value, and a third of one to hand over that of a row."""

_LONG = 10_000
"""Conditions of so many characters take the engine milliseconds for each query."""

_FEW = 1_000
"""So few rows are told by their ids."""

_LARGEST_POOL = 10_000
"""The nearest of these are found as fast as a few of them."""

Search = Callable[[str | None, int], Awaitable[pa.Table]]
"""The best rows that meet a condition, so many of them, best first, with their `_rowid`."""


class Narrowed(NamedTuple):
    """The rows that meet a long condition, as a table is at one version."""

    version: int
    n_rows: int
    """How many the table has."""
    ids: np.ndarray
    """Those of the rows, rising."""
    rest: str | None
    """What of the condition is short enough for each query."""


def is_long(where: str | None) -> bool:
    """Whether the rows that meet it are to be found before they are searched."""
    return where is not None and len(where) > _LONG


async def apart(handle: Any, where: str | None) -> tuple[list[Listed], str | None]:
    """The long lists of a condition that are to be looked for by `among`, and the rest of it."""
    if where is None or len(where) <= _LONG:
        return [], where
    lists, rest = lists_apart(where, _MANY_VALUES)
    if not lists:
        return [], where
    names, n_rows = (await handle.schema()).names, await handle.count_rows()
    if any(name not in names or n_rows > _ROWS_A_VALUE * len(some) for name, some in lists):
        return [], where
    return lists, rest or None


def among(rows: pa.Table, lists: list[Listed]) -> pa.Table:
    """Those of the rows whose columns have one of the values."""
    for name, values in lists:
        column = rows[name]
        rows = rows.filter(pc.is_in(column, pa.array(values, column.type)))
    return rows


def narrowed(where: str, ids: np.ndarray, *, version: int, n_rows: int) -> Narrowed:
    """What `where` comes to, which the rows with these ids meet."""
    parts = where.parts or (where,) if isinstance(where, Clause) else (where,)
    rest = all_of([part for part in parts if not is_long(part)])
    return Narrowed(version, n_rows, ids, rest or None)


async def search(rows: Narrowed, limit: int, find: Search) -> pa.Table:
    """The best `limit` of the rows, as `find` tells them; all of them if these are fewer.

    Few rows are told by their ids. Of many, as many are asked for as will have `limit` of them among
    them, and more until there are, or there are no more.
    """
    if not len(rows.ids):
        return await find(NOTHING, limit)
    pool = 2 * limit * (rows.n_rows // len(rows.ids) + 1)
    if len(rows.ids) <= _FEW or pool > _LARGEST_POOL:
        return await find(f"_rowid IN ({', '.join(map(str, rows.ids.tolist()))})", limit)
    mine = pa.array(rows.ids)
    while True:
        found = await find(rows.rest, pool)
        best = found.filter(pc.is_in(found["_rowid"], mine))
        if best.num_rows >= limit or found.num_rows < pool:
            return best.slice(0, limit)
        pool *= 4
