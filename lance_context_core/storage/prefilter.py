"""Prefilter: conditions that take the engine longer to parse than to evaluate.

A list of a thousand values and more is compared with the column itself. Any other long condition
selects the rows once for all queries of a search, which then get the row ids.
"""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_context_core.storage.sql.predicates import NOTHING, Clause, Listed, all_of, lists_apart

_MANY_VALUES = 1_000
_ROWS_A_VALUE = 10
"""The engine parses a value in 6 microseconds, and returns a row's value in a third of one."""

_LONG = 10_000
"""A condition of this many characters costs the engine milliseconds for each query."""

_FEW = 1_000
"""The maximum number of rows that a query lists by id."""

_LARGEST_POOL = 10_000
"""The number of nearest rows that the engine finds as fast as a few."""

Search = Callable[[str | None, int], Awaitable[pa.Table]]
"""Returns that many of the best rows that match a condition, best first, with their `_rowid`."""


class Narrowed(NamedTuple):
    """The rows that match a long condition, at one version of the table."""

    version: int
    n_rows: int
    """The number of rows in the table."""
    ids: np.ndarray
    """The ids of these rows, ascending."""
    rest: str | None
    """The part of the condition that is short enough for each query."""


def is_long(where: str | None) -> bool:
    """Whether to find the rows of a condition before the search."""
    return where is not None and len(where) > _LONG


async def apart(handle: Any, where: str | None) -> tuple[list[Listed], str | None]:
    """The long lists of a condition, for `among`, and the rest of it."""
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
    """The result of `where`, whose rows have these ids."""
    parts = where.parts or (where,) if isinstance(where, Clause) else (where,)
    rest = all_of([part for part in parts if not is_long(part)])
    return Narrowed(version, n_rows, ids, rest or None)


async def search(rows: Narrowed, limit: int, find: Search) -> pa.Table:
    """The best `limit` of the rows, as returned by `find`; all of them if fewer.

    A few rows are listed by their ids. For many, asks for as many as should contain `limit` of
    them, and for more until they do, or no more exist.
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
