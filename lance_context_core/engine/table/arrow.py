"""Rows as Python values to Arrow, column by column."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

Row = Mapping[str, Any]
"""Values by column name; a column that is missing is null. JSON columns hold their text."""


def to_table(
    rows: Sequence[Row], schema: pa.Schema, vector: pa.Field | None, *, is_sparse: bool = False
) -> pa.Table:
    """`rows` as Arrow, with the columns of `schema`, and `vector` where the table has vectors.

    With `is_sparse` the columns are left out in which no row has a value.
    """
    fields, columns = [], []
    for field in [*schema, *([] if vector is None else [vector])]:
        values = [row.get(field.name) for row in rows]
        if is_sparse and field.nullable and all(value is None for value in values):
            continue
        taken = writable(field)
        fields.append(taken)
        columns.append(
            _vectors(values, taken.type) if field is vector else pa.array(values, taken.type)
        )
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def writable(field: pa.Field) -> pa.Field:
    """The engine takes JSON as text and stores it in its own binary form."""
    if isinstance(field.type, pa.JsonType):
        return pa.field(field.name, pa.string())
    return field


def _vectors(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """A fixed-size list array, or one of lists of them, without a Python object per number."""
    if pa.types.is_list(type_):
        ends = np.cumsum([0, *(len(value or ()) for value in values)])
        missing = np.array([value is None for value in values], dtype=bool)
        return pa.ListArray.from_arrays(
            pa.array(ends, pa.int32()),
            _vectors([one for value in values for one in value or ()], type_.value_type),
            type=type_,
            mask=pa.array(missing) if missing.any() else None,
        )
    size = type_.list_size
    flat = np.zeros((len(values), size), dtype=np.float32)
    for index, value in enumerate(values):
        if value is not None:
            flat[index] = value
    missing = np.array([value is None for value in values], dtype=bool)
    return pa.FixedSizeListArray.from_arrays(
        pa.array(flat.ravel()), size, mask=pa.array(missing) if missing.any() else None
    )
