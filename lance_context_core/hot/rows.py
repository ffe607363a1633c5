"""The rows of a table as Python has them: what of them is kept in memory, and what it takes there."""

import sys
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from lance_context_core.storage.lance.schema import TIMESTAMP, VECTOR

Row = Mapping[str, Any]

_ROWS_AT_A_TIME = 512
"""Arrow makes Python's values of a column of so many rows in a fraction of a millisecond, in which no
other thread runs."""

_VALUE_BYTES = 50
"""What Python takes for a value beside its text."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def plain(rows: pa.Table) -> list[Row]:
    """The rows without vectors, each without what is null."""
    there = [name for name in rows.column_names if name not in (VECTOR, "_rowid")]
    names = [name for name in there if rows[name].null_count < rows.num_rows]
    kept = rows.select(names)
    made: list[Row] = []
    for start in range(0, kept.num_rows, _ROWS_AT_A_TIME):
        some = kept.slice(start, _ROWS_AT_A_TIME)
        rows_of_values = zip(*map(_values, some.columns), strict=True)
        if any(column.null_count for column in some.columns):
            made += [
                {
                    name: value
                    for name, value in zip(names, values, strict=True)
                    if value is not None
                }
                for values in rows_of_values
            ]
        else:
            made += [dict(zip(names, values, strict=True)) for values in rows_of_values]
    return made


def size_of_rows(rows: pa.Table, made: Sequence[Row]) -> int:
    """About as the sum of `size`, which takes longer than to make them."""
    kept = rows.drop_columns([name for name in (VECTOR, "_rowid") if name in rows.column_names])
    n_values = sum(map(len, made))
    return int(kept.nbytes) + _VALUE_BYTES * n_values + sum(map(sys.getsizeof, made))


def size(row: Row) -> int:
    """About what a row takes in memory, in bytes."""
    return sys.getsizeof(row) + sum(map(_size_of_value, row.values()))


def _values(column: pa.ChunkedArray) -> list[Any]:
    if column.type != TIMESTAMP:
        values: list[Any] = column.to_pylist()
        return values
    # Arrow looks for the time zone each time, which takes ten times as long.
    numbers = column.cast(pa.int64()).to_pylist()
    return [None if one is None else _EPOCH + timedelta(microseconds=one) for one in numbers]


def _size_of_value(value: Any) -> int:
    if type(value) is str:
        return sys.getsizeof(value)
    if isinstance(value, Collection) and not isinstance(value, str | bytes):
        parts = value.values() if isinstance(value, Mapping) else value
        return sys.getsizeof(value) + sum(map(_size_of_value, parts))
    return sys.getsizeof(value)
