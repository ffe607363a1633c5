"""Rows that are brought in steps and written at once: in a file until all of them are there."""

import mmap
import weakref
from collections.abc import Iterator
from tempfile import TemporaryFile
from typing import Any

import pyarrow as pa

from lance_context_core.storage.lance.schema import KEY


class SpooledBatch:
    """Rows as the engine takes them, on disk; one step of them is in memory at a time.

    Each step stands in the file as a stream of its own, so that a later one may have a column more.
    The file has no name, and is gone when nobody holds this any more, or with the process: a commit
    may go on after its caller was cancelled.
    """

    def __init__(self) -> None:
        """None yet."""
        self.schema: pa.Schema | None = None
        """Of the step with the most columns; None before the first one."""
        self.keys: list[str] = []
        self.revision: int | None = None
        """That of the first row; None if there are none."""
        self._file: Any = TemporaryFile()  # noqa: SIM115 - see above
        self._ends = [0]
        weakref.finalize(self, self._file.close)

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.keys)

    def add(self, rows: pa.Table) -> None:
        """Take another step."""
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
        """All rows in the order of the steps, read as they are asked for; again at each call."""
        assert self.schema is not None
        return pa.RecordBatchReader.from_batches(self.schema, self._batches(self.schema))

    def table(self) -> pa.Table:
        """All rows at once, which the system reads from the file where it needs them."""
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
    """The rows with all columns of the schema; empty where they have none."""
    if rows.schema.equals(schema):
        return rows
    columns = [
        rows[field.name] if field.name in rows.column_names else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
