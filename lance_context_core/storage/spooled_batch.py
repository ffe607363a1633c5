"""Spooled rows: arrive in steps, go to a file, and are written at once."""

import mmap
import weakref
from collections.abc import Iterator
from tempfile import TemporaryFile
from typing import Any

import pyarrow as pa

from lance_context_core.storage.lance.schema import KEY


class SpooledBatch:
    """Rows in the engine's format on disk, with one step in memory at a time.

    Each step is a stream of its own in the file, so that a later one may have more columns. The
    file has no name, and is deleted with this object or the process: a commit may continue after
    its caller was cancelled.
    """

    def __init__(self) -> None:
        """Starts empty."""
        self.schema: pa.Schema | None = None
        """The schema of the step with the most columns; None before the first step."""
        self.keys: list[str] = []
        self.revision: int | None = None
        """The key of the first row; None without rows."""
        self._file: Any = TemporaryFile()  # noqa: SIM115 - see above
        self._ends = [0]
        weakref.finalize(self, self._file.close)

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.keys)

    def add(self, rows: pa.Table) -> None:
        """Add a step."""
        if self.schema is None or len(rows.schema) > len(self.schema):
            self.schema = rows.schema
        if not self.keys and rows.num_rows:
            self.revision = rows["revision"][0].as_py()
        self.keys += rows[KEY].to_pylist()
        self._file.seek(self._ends[-1])
        with pa.ipc.new_stream(self._file, rows.schema) as stream:
            stream.write_table(rows)
        self._ends.append(self._file.tell())

    def reader(self) -> pa.RecordBatchReader:
        """All rows in the order of the steps, read lazily; each call starts again."""
        assert self.schema is not None
        return pa.RecordBatchReader.from_batches(self.schema, self._batches(self.schema))

    def table(self) -> pa.Table:
        """All rows at once, memory-mapped from the file."""
        assert self.schema is not None
        self._file.flush()
        whole = pa.py_buffer(mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ))
        parts = [
            pa.ipc.open_stream(whole.slice(start, end - start)).read_all()
            for start, end in zip(self._ends, self._ends[1:], strict=False)
        ]
        return pa.concat_tables([_with_all(part, self.schema) for part in parts])

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for start, end in zip(self._ends, self._ends[1:], strict=False):
            self._file.seek(start)
            rows = pa.ipc.open_stream(self._file.read(end - start)).read_all()
            yield from _with_all(rows, schema).combine_chunks().to_batches()


def _with_all(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with all columns of the schema; missing ones are null."""
    if rows.schema.equals(schema):
        return rows
    columns = [
        rows[field.name] if field.name in rows.column_names else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
