"""Rows that come in bulk: batch by batch, and in one commit."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_context_core._loop import begin
from lance_context_core.engine.schema import KEY
from lance_context_core.engine.sql.clauses import in_list
from lance_context_core.engine.table import reading
from lance_context_core.engine.table.arrow import written_as
from lance_context_core.engine.table.table import Table


async def load(table: Table, batches: Iterator[pa.RecordBatch], *, is_empty: bool) -> int:
    """Add the rows whose keys are absent, all in one commit; returns how many those were.

    The rows are in the order of the batches, each with all columns of the table but that of the
    vectors, which may be there, and whose keys differ. Memory holds a few batches. Where it fails,
    or the process ends, nothing was added.
    """
    added = 0

    async def write(handle: Any) -> int:
        nonlocal added
        added = 0
        fields = written_as(await handle.schema())
        schema = pa.schema(fields)

        async def absent(batch: pa.RecordBatch) -> pa.RecordBatch:
            if is_empty:
                return batch
            keys = batch.column(KEY)
            there = await reading.scan(handle, in_list(KEY, keys.to_pylist()), [KEY])
            return batch.filter(pc.invert(pc.is_in(keys, there[KEY].combine_chunks())))

        def fitting() -> Iterator[pa.RecordBatch]:
            nonlocal added
            for batch in batches:
                new = begin(absent(batch)).result()
                added += new.num_rows
                table.written.rows += new.num_rows
                yield pa.RecordBatch.from_arrays(
                    [
                        new.column(one.name).cast(one.type)
                        if one.name in new.schema.names
                        else pa.nulls(new.num_rows, one.type)
                        for one in schema
                    ],
                    schema=schema,
                )

        await handle.add(pa.RecordBatchReader.from_batches(schema, fitting()))
        return added

    return await table.access.write("import into", write, is_guarded=False)
