"""What is in a store, read and written through the engine alone."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from lance_context_core.storage.wal.table_log import TableLog
from lance_context_core.store.store import AsyncContextStore


class BackDoor:
    """The tables of a store, without any of the store's own code for reading and writing."""

    def __init__(self, store: AsyncContextStore) -> None:
        self._store = store

    async def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows, in no particular order; none if the table does not exist."""
        await self._store.flush()
        handle = await self._open(table)
        return [] if handle is None else await handle.query().to_list()

    async def n_commits(self, table: str) -> int:
        """A number that grows by one with each commit to the table; 0 if it does not exist.

        What the journal took at once counts as one, as if it had been committed.
        """
        handle = await self._open(table)
        if handle is None:
            return 0
        journal = self._store._resources.database.connection.journal
        view = journal and await TableLog(journal, table, None).view()
        return view.token if view else len(await handle.list_versions())

    async def n_versions(self, table: str) -> int:
        """How many versions the table has when all is folded; 0 if it does not exist."""
        await self._store.flush()
        handle = await self._open(table)
        return 0 if handle is None else len(await handle.list_versions())

    async def add(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows into a table that exists; columns that they lack are null."""
        await self._store.flush()
        handle = await self._open(table)
        schema = pa.schema(
            pa.field(field.name, pa.string(), nullable=field.nullable)
            if field.name == "metadata"
            else field
            for field in await handle.schema()
        )
        columns = [pa.array([row.get(f.name) for row in rows], f.type) for f in schema]
        await handle.add(pa.Table.from_arrays(columns, schema=schema))

    async def _open(self, table: str) -> Any:
        # Of all the store's code, only the connection is used: `memory://` has no second one.
        connection = await self._store._resources.database.connection.engine()
        if table not in (await connection.list_tables()).tables:
            return None
        return await connection.open_table(table)
