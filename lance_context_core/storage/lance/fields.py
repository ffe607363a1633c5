"""Declared fields: keys of the metadata that a table also has as columns, for indexes on them.

Such a field has two columns. One has the value; it is null if the row lacks the key, or has a value
of another type there. The other one tells the two apart: it is true unless the type is another one,
and null for a row of a writer that did not know the field. As long as one row is null there, only
the metadata can answer.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from lance_context_core._util.checks import loads
from lance_context_core._util.json_tags import INSTANT, order_of
from lance_context_core.filters.columns import METADATA, DeclaredField, FieldType
from lance_context_core.storage.lance.schema import TIMESTAMP

_COLUMN = re.compile(f"{METADATA}:({'|'.join(FieldType)}):(.+)", re.DOTALL)

TYPES = {
    FieldType.TEXT: pa.string(),
    FieldType.INTEGER: pa.int64(),
    FieldType.FLOAT: pa.float64(),
    FieldType.BOOLEAN: pa.bool_(),
    FieldType.MOMENT: TIMESTAMP,
}
INDEXES = {one: "bitmap" if one is FieldType.BOOLEAN else "btree" for one in FieldType}

EXACT = 2**53
"""Up to here a double represents an integer exactly."""


def declared_in(names: Iterable[str]) -> list[DeclaredField]:
    """The fields that have columns among these."""
    names = list(names)
    found = [
        DeclaredField(one[2], FieldType(one[1])) for one in map(_COLUMN.fullmatch, names) if one
    ]
    return [one for one in found if one.known in names]


def columns_of(field: DeclaredField) -> list[pa.Field]:
    """The two columns of a field."""
    return [pa.field(field.column, TYPES[field.type]), pa.field(field.known, pa.bool_())]


def index_of(column: str) -> str | None:
    """The type of the index of a column; None if it is not that of a field's values."""
    found = _COLUMN.fullmatch(column)
    return None if found is None else INDEXES[FieldType(found[1])]


# Values of rows in Python


def values(metadata: Sequence[str | None], fields: Sequence[DeclaredField]) -> dict[str, list[Any]]:
    """The values of the fields' columns, by the JSON of each row."""
    found: dict[str, list[Any]] = {}
    for field in fields:
        found[field.column], found[field.known] = [], []
    if not fields:
        return found
    for text in metadata:
        given = loads(text, METADATA) if text else {}
        for field in fields:
            value = given.get(field.name)
            kept = None if value is None else as_column(value, field.type)
            found[field.column].append(kept)
            found[field.known].append(True if kept is not None or value is None else None)
    return found


def as_column(value: Any, type_: FieldType) -> Any:
    """A value of JSON as one of a field's column; None if it has another type."""
    match type_:
        case FieldType.TEXT:
            return value if isinstance(value, str) else None
        case FieldType.INTEGER:
            return value if type(value) is int and -(2**63) <= value < 2**63 else None
        case FieldType.FLOAT:
            is_exact = type(value) is float or (type(value) is int and -EXACT < value < EXACT)
            return float(value) if is_exact else None
        case FieldType.BOOLEAN:
            return value if type(value) is bool else None
        case FieldType.MOMENT:
            return _moment(value)


def _moment(value: Any) -> datetime | None:
    """The instant of a datetime in JSON, as `JsonCodec` encodes it."""
    order = value.get(INSTANT) if isinstance(value, Mapping) else None
    if not isinstance(order, str) or not (found := _ORDER.fullmatch(order)):
        return None
    micros = int(found[2].ljust(int(found[1]), "0"))
    try:
        moment = datetime.min.replace(tzinfo=UTC) + timedelta(microseconds=micros)
    except OverflowError:
        return None
    return moment if order_of(moment) == (INSTANT, order) else None


_ORDER = re.compile(r"110{17}(\d\d)(\d+)")


# The same of all rows of a table, in SQL, which has no CASE where columns are added


def in_sql(field: DeclaredField) -> dict[str, str]:
    """The expressions of the two columns, by the JSON of a row.

    The second one is also null for a few values that only Python can read: see `values`.
    """
    name = field.name.replace("'", "''")
    json = f"json_get({METADATA}, '{name}')"
    text = f"json_extract({json}, '$')"
    match field.type:
        case FieldType.TEXT:
            # Without escapes, which SQL cannot resolve.
            value = f"nullif(regexp_replace({text}, '^\"([^\\\\]*)\"$', '${{1}}'), {text})"
        case FieldType.INTEGER:
            value = f"TRY_CAST({text} AS BIGINT)"
        case FieldType.FLOAT:
            number = f"TRY_CAST({text} AS DOUBLE)"
            is_exact = f"nullif(abs({number}) < {EXACT}.0 OR regexp_like({text}, '[.e]'), false)"
            value = f"{number} * CAST({is_exact} AS DOUBLE)"
        case FieldType.BOOLEAN:
            value = f"({text} = 'true') = nullif({text} IN ('true', 'false'), false)"
        case FieldType.MOMENT:
            order = f"json_extract(json_get({json}, '{INSTANT}'), '$')"
            # Of the years 318 to 3169, whose microseconds have 17 digits.
            padded = f"regexp_replace({order}, '^\"1{10**19 + 17}([0-9]+)\"$', '${{1}}{'0' * 17}')"
            micros = f"regexp_replace({padded}, '^([0-9]{{17}})0*$', '${{1}}')"
            since = f"TRY_CAST({micros} AS BIGINT) - 62135596800000000"
            value = f"arrow_cast({since}, 'Timestamp(Microsecond, Some(\"UTC\"))')"
    is_known = f"({value}) IS NOT NULL OR {text} IS NULL OR {text} = 'null'"
    return {field.column: value, field.known: f"nullif({is_known}, false)"}
