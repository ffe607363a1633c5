"""The links between turns that an earlier release stored. Nothing reads them, and they outlive what they name."""

from lance_context_core.engine import sql
from lance_context_core.engine.schema import KEY, LINK, MADE
from lance_context_core.engine.table.table import Table

_STORED = sql.all_of([sql.is_present(LINK), sql.not_in_list("context", MADE)])

_AT_ONCE = 100_000
"""So many rows are written anew in one commit, for which others wait."""


async def forget(table: Table) -> None:
    """Take them out of all rows of a table; where there are none, that costs one look at two columns."""
    if LINK not in table.spec.schema.names or not await table.count(_STORED):
        return
    ids = (await table.select(_STORED, columns=[KEY]))["_rowid"].to_pylist()
    for start in range(0, len(ids), _AT_ONCE):
        some = ids[start : start + _AT_ONCE]
        # A condition that only the engine can tell is a commit: so many are nothing for the journal.
        where = sql.Clause(f"{_STORED} AND _rowid >= {some[0]} AND _rowid <= {some[-1]}")
        await table.update(where, {LINK: None})
