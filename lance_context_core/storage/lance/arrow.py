"""Converts rows of Python values to Arrow, column by column."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lance_context_core.filters.columns import METADATA
from lance_context_core.storage.lance.fields import columns_of, declared_in
from lance_context_core.storage.lance.fields import values as values_of
from lance_context_core.storage.lance.schema import VECTOR

Row = Mapping[str, Any]
"""Values by column name; a missing column is null. JSON columns have their text."""


def written_as(schema: pa.Schema, vector: pa.Field | None = None) -> list[pa.Field]:
    """The columns in the engine's format, and the `vector` column, if one exists.

    The engine accepts JSON as text and stores it in its own binary form.
    """
    fields = [pa.field(one.name, pa.string()) if _is_json(one) else one for one in schema]
    return fields if vector is None else [*fields, vector]


def to_table(
    rows: Sequence[Row], fields: Sequence[pa.Field], *, is_sparse: bool = False
) -> pa.Table:
    """`rows` as Arrow, with these columns in the engine's format.

    With `is_sparse`, leaves out the columns in which no row has a value. The columns of declared
    fields have what the metadata has.
    """
    taken, columns = [], []
    declared = declared_in(field.name for field in fields)
    of_fields = values_of([row.get(METADATA) for row in rows] if declared else [], declared)
    for field in fields:
        values = of_fields.get(field.name) or [row.get(field.name) for row in rows]
        if is_sparse and field.nullable and all(value is None for value in values):
            continue
        taken.append(field)
        of_vectors = field.name == VECTOR
        columns.append(_vectors(values, field.type) if of_vectors else pa.array(values, field.type))
    return pa.Table.from_arrays(columns, schema=pa.schema(taken))


def with_fields(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with the columns of the declared fields of a table that they lack."""
    lacking = [one for one in declared_in(schema.names) if one.known not in rows.column_names]
    if not lacking or METADATA not in rows.column_names:
        return rows
    of_fields = values_of(rows[METADATA].to_pylist(), lacking)
    for one in lacking:
        for field in columns_of(one):
            values = pa.array(of_fields[field.name], field.type)
            rows = (
                rows.append_column(field, values)
                if field.name not in rows.column_names
                else rows.set_column(rows.column_names.index(field.name), field, values)
            )
    return rows


def rows_of(found: "pa.Table | list[Row]") -> list[Row]:
    """The rows of a table, or these themselves."""
    return found.to_pylist() if isinstance(found, pa.Table) else found


def column_of(rows: Sequence[Row], field: pa.Field) -> pa.Array:
    """One column of `rows`, as the engine returns it."""
    values = [row.get(field.name) for row in rows]
    if isinstance(field.type, pa.JsonType):
        return pa.ExtensionArray.from_storage(field.type, pa.array(values, field.type.storage_type))
    return _vectors(values, field.type) if field.name == VECTOR else pa.array(values, field.type)


def _is_json(field: pa.Field) -> bool:
    # The engine names a table's columns by its own extension, which Arrow takes for bytes.
    name = (field.metadata or {}).get(b"ARROW:extension:name")
    return isinstance(field.type, pa.JsonType) or name == b"lance.json"


def _vectors(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """A fixed-size list array, or one of lists of them, without Python floats."""
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
