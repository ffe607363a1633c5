"""The links between turns that an earlier release stored. Nothing reads them, and they outlive what they name."""

from typing import Any

from lance_context_core.engine.schema import KEY, LINK, MADE
from lance_context_core.engine.sql.clauses import Clause, all_of, is_present, not_in_list
from lance_context_core.engine.table.table import Table

STORED = all_of([is_present(LINK), not_in_list("context", MADE)])
"""The condition that a row has one. No text of a caller is in it."""

_AT_ONCE = 100_000
"""So many rows are written anew in one commit, for which others wait."""


async def forget(table: Table) -> None:
    """Take them out of all rows of a table; where there are none, that costs a look at two columns."""
    if LINK not in table.spec.schema.names or not await table.count(STORED):
        return
    ids = (await table.select(STORED, columns=[KEY]))["_rowid"].to_pylist()
    for start in range(0, len(ids), _AT_ONCE):
        some = ids[start : start + _AT_ONCE]
        # A condition that only the engine can tell is a commit: so many are nothing for the journal.
        where = Clause(f"{STORED} AND _rowid >= {some[0]} AND _rowid <= {some[-1]}")
        await table.update(where, {LINK: None})


async def forget_on(table: Table, handle: Any) -> None:
    """Take them out of all rows that a handle of the table shows, in one commit."""
    if LINK in table.spec.schema.names and await handle.count_rows(STORED):
        async with table.access.commits.in_flight.committing():
            await handle.update(where=STORED, updates_sql={LINK: "NULL"})
