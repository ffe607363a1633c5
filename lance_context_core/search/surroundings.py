"""The turns around those that a search found, in their sessions."""

from collections.abc import Sequence

import pyarrow as pa

from lance_context_core.engine import sql
from lance_context_core.engine.schema import KEY
from lance_context_core.engine.table.table import Table
from lance_context_core.hot.answering import HotTable

LINK = "previous_key"
"""The column that names the turn before, by its key."""


async def surroundings(
    table: Table | HotTable, where: sql.Clause, found: Sequence[pa.Table], *, columns: Sequence[str]
) -> pa.Table:
    """The turns just before and just after those found that meet `where`, but these themselves.

    One query, which looks for keys, so that a session may be of any length. What is gone, or does
    not meet `where`, is not among them.
    """
    keys = {key for rows in found for key in rows[KEY].to_pylist()}
    links = {key for rows in found if LINK in rows.column_names for key in rows[LINK].to_pylist()}
    before = sorted(key for key in links if key and key not in keys)
    if not links:
        return table.nothing(columns)
    beside = sql.any_of([sql.in_list(LINK, sorted(keys)), sql.in_list(KEY, before)])
    rows = await table.select(sql.all_of([where, beside]), columns=columns)
    return rows.filter(pa.array([key not in keys for key in rows[KEY].to_pylist()], pa.bool_()))
