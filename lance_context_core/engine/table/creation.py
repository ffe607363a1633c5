"""Making a table while others may be making it.

The engine looks whether a table exists, and then creates it. What another process creates between
these steps, and writes there, it replaces by an empty table. In a local directory that cannot be:
those who create wait for each other, on a lock that the system takes from a process which ends.

On an object store acknowledged rows are then in earlier versions alone. Whoever did so notices by the
number of its version, and puts them back. (A clone of an empty table replaces nothing, but loses what
makes row ids stable.)
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from lance_context_core.engine.files.locks import locked
from lance_context_core.engine.schema import KEY
from lance_context_core.engine.table.arrow import written_as


async def create(
    connection: Any, uri: str, name: str, *, schema: pa.Schema, options: Mapping[str, str]
) -> Any:
    """The engine's handle of a new table of the database at `uri`; fails if it is seen to exist."""
    if (place := Path(uri)).is_absolute():
        await asyncio.to_thread(place.mkdir, parents=True, exist_ok=True)
    async with locked(place):
        return await _make(connection, name, schema=schema, options=options)


async def _make(
    connection: Any, name: str, *, schema: pa.Schema, options: Mapping[str, str]
) -> Any:
    handle = await connection.create_table(name, schema=schema, storage_options=dict(options))
    version: int = await handle.version()
    if version > 1:
        await _put_back(connection, name, handle, replaced=version - 1)
    return handle


async def _put_back(connection: Any, name: str, handle: Any, *, replaced: int) -> None:
    """Make the table what it was at version `replaced`, with what was written after it."""
    await handle.restore(replaced)
    version: int = await handle.version()
    if version > replaced + 2:
        # Somebody wrote into the empty table before it was restored.
        meanwhile = await connection.open_table(name, version=version - 1)
        rows = (await meanwhile.query().with_row_id().to_arrow()).sort_by("_rowid")
        names = (await handle.schema()).names
        fields = [field for field in written_as(rows.schema) if field.name in names]
        rows = rows.select([field.name for field in fields]).cast(pa.schema(fields))
        merge = handle.merge_insert(KEY).when_not_matched_insert_all()
        await merge.execute(rows, on_bad_vectors="null")
