"""Bulk loads: rows in batches of Arrow become one commit, with a few batches in memory."""

import weakref
from collections.abc import Callable, Coroutine, Iterator
from tempfile import TemporaryFile
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lance_context_core._loop import begin
from lance_context_core.storage.lance import reads
from lance_context_core.storage.lance.arrow import with_fields, written_as
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.storage.lance.table_handle import TableHandle
from lance_context_core.storage.lance.writes import Written
from lance_context_core.storage.sql.predicates import in_list

Kept = Callable[[Any, pa.RecordBatch], Coroutine[Any, Any, pa.RecordBatch]]
"""The rows of a batch that are to be added, by the engine's handle of the table."""


class Spooled:
    """Batches on disk, in a file without a name, which is deleted with this object."""

    def __init__(self) -> None:
        """Starts empty."""
        self.n_rows = 0
        self._file: Any = TemporaryFile()  # noqa: SIM115 - it lives as long as this object
        self._ends = [0]
        weakref.finalize(self, self._file.close)

    def add(self, batch: pa.RecordBatch) -> None:
        """Write a batch behind the others."""
        self._file.seek(self._ends[-1])
        with pa.ipc.new_stream(self._file, batch.schema) as stream:
            stream.write_batch(batch)
        self._ends.append(self._file.tell())
        self.n_rows += batch.num_rows

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All batches in order; each call starts again."""
        for start, end in zip(self._ends, self._ends[1:], strict=False):
            self._file.seek(start)
            yield from pa.ipc.open_stream(self._file.read(end - start))


async def absent(handle: Any, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of a batch whose keys the table lacks."""
    keys = batch.column(KEY)
    there = await reads.scan(handle, in_list(KEY, keys.to_pylist()), [KEY])
    return batch.filter(pc.invert(pc.is_in(keys, there[KEY].combine_chunks())))


class Loaded(Protocol):
    """A table that rows are loaded into."""

    access: TableHandle
    written: Written


async def load(
    table: Loaded, batches: Callable[[], Iterator[pa.RecordBatch]], *, kept: Kept | None
) -> int:
    """Add the rows of the batches that `kept` returns, or all, in one commit; returns how many.

    The rows are in the order of the batches, and lack no column of the table that cannot be null.
    If it fails, or the process ends, nothing is added. `batches` is called again for each try: a
    commit is retried on top of another's.
    """

    async def write(handle: Any) -> int:
        added, refusals = 0, list[Exception]()
        schema = pa.schema(written_as(await handle.schema()))

        def fitting() -> Iterator[pa.RecordBatch]:
            nonlocal added
            try:
                for batch in batches():
                    new = batch if kept is None else begin(kept(handle, batch)).result()
                    added += new.num_rows
                    table.written.rows += new.num_rows
                    yield fitted(new, schema)
            except Exception as error:
                # The engine passes on its text alone.
                refusals.append(error)
                raise

        try:
            await handle.add(pa.RecordBatchReader.from_batches(schema, fitting()))
        except Exception:
            if refusals:
                raise refusals[0] from None
            raise
        return added

    return await table.access.write("load into", write, is_guarded=False)


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with the columns of a table; those that it lacks are null.

    But those of declared fields have what the metadata has.
    """
    rows = with_fields(pa.Table.from_batches([batch]), schema)
    batch = rows.combine_chunks().to_batches()[0] if batch.num_rows else batch
    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
