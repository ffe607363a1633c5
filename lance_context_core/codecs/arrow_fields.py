"""Declared fields of documents in columns of Arrow: their values, without a Python object a row."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_context_core.codecs.arrow_json import microseconds, plain
from lance_context_core.errors import InvalidRequestError
from lance_context_core.filters import DeclaredField, FieldType
from lance_context_core.storage.lance.fields import EXACT, TYPES
from lance_context_core.storage.lance.schema import TIMESTAMP


def check_types(
    schema: pa.Schema, metadata: Sequence[str], fields: Collection[DeclaredField]
) -> None:
    """Raise InvalidRequestError for a column of metadata whose field has another type."""
    for field in fields:
        if field.name in metadata and not fits(type_ := schema.field(field.name).type, field.type):
            raise InvalidRequestError(
                f"metadata column {field.name!r} has the type {type_}: the field is declared as "
                f"{field.type}: cast it, or leave it out"
            )


def fits(type_: pa.DataType, declared: FieldType) -> bool:
    """Whether a column has values of a declared type alone."""
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    return pa.types.is_null(type_) or _FITS[declared](type_)


def columns_of(
    batch: pa.RecordBatch, metadata: Sequence[str], fields: Collection[DeclaredField]
) -> dict[str, pa.Array]:
    """The two columns of each field whose column fits; of others the metadata is read later."""
    made: dict[str, pa.Array] = {}
    for field in fields:
        known = pa.repeat(pa.scalar(True), batch.num_rows)
        if field.name not in metadata:
            made[field.column] = pa.nulls(batch.num_rows, TYPES[field.type])
            made[field.known] = known
        elif fits(batch.schema.field(field.name).type, field.type):
            column = _converted(plain(batch[field.name]), field)
            if field.type is FieldType.FLOAT and pa.types.is_integer(batch[field.name].type):
                # A large integer is no exact float.
                is_exact = pc.less(pc.abs(column), float(EXACT))
                known = pc.if_else(is_exact.fill_null(True), known, None)
                column = pc.if_else(is_exact, column, pa.scalar(None, pa.float64()))
            made[field.column], made[field.known] = column, known
    return made


def _converted(column: pa.Array, field: DeclaredField) -> pa.Array:
    if pa.types.is_timestamp(column.type):
        micros = microseconds(column, f"metadata column {field.name!r}")
        return micros.cast(pa.timestamp("us")).cast(TIMESTAMP)
    try:
        return column.cast(TYPES[field.type], safe=field.type is not FieldType.FLOAT)
    except pa.ArrowInvalid as error:
        raise InvalidRequestError(
            f"metadata column {field.name!r}: the field is declared as {field.type}: {error}"
        ) from error


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_))


def _is_instant(type_: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(type_) and type_.tz is not None)


def _is_text(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(type_)
        or pa.types.is_large_string(type_)
        or pa.types.is_string_view(type_)
    )


_FITS: dict[FieldType, Callable[[Any], bool]] = {
    FieldType.TEXT: _is_text,
    FieldType.INTEGER: pa.types.is_integer,
    FieldType.FLOAT: _is_number,
    FieldType.BOOLEAN: pa.types.is_boolean,
    FieldType.MOMENT: _is_instant,
}
