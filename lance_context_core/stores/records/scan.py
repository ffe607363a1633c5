"""Reading any number of records of one moment without holding them all."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from lance_context_core.codecs.records import COLUMNS, from_rows
from lance_context_core.errors import InvalidRequestError
from lance_context_core.storage import sql
from lance_context_core.storage.database import PinnedDatabase
from lance_context_core.storage.lance import reads
from lance_context_core.storage.lance.errors import translated
from lance_context_core.storage.lance.schema import VECTOR
from lance_context_core.stores.records.mappings import RecordDict, record_dict
from lance_context_core.stores.records.scoped import Records


def check_batch_size(batch_size: object) -> int:
    """`batch_size`, if so many records can be read at a time; else raises InvalidRequestError."""
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise InvalidRequestError(f"batch_size={batch_size!r}: give a whole number, 1 or more")
    return batch_size


async def scan(
    records: Records, where: sql.Clause, *, batch_size: int
) -> AsyncIterator[RecordDict]:
    """The matching records in order, as they are when the first one is asked for.

    Beside `batch_size` records, memory holds eight bytes for each match.
    """
    label = f"read {records.table.label}"
    async with _snapshot(records) as handle:
        if handle is None:
            return
        with translated(label):
            row_ids = (await reads.scan(handle, where, []))["_rowid"].to_numpy()
        for start in range(0, len(row_ids), batch_size):
            batch = row_ids[start : start + batch_size]
            with translated(label):
                rows = await reads.take(handle, batch, [*COLUMNS, VECTOR])
            for record in from_rows(rows):
                yield record_dict(record)


@asynccontextmanager
async def _snapshot(records: Records) -> AsyncIterator[Any | None]:
    """A handle that nobody moves to a newer version; None if the table is absent."""
    access = records.table.access
    handle = await access.complete_reader()
    is_pinned = isinstance(records.resources.database, PinnedDatabase)
    if handle is None or is_pinned or access.connection.is_read_only:
        yield handle
    else:
        async with records.table.access.separately() as own:
            yield own
