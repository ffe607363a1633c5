"""Columns of Arrow as JSON texts, one for each row, without a Python object a row."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_context_core._util.checks import dumps
from lance_context_core._util.json_tags import DATE, DATETIME, INSTANT, TYPE, VALUE
from lance_context_core.errors import InvalidRequestError

_CONTROL = r"[\x00-\x1f]"
_NEEDS_POINT = r"^-?[0-9]+$"

_EPOCH_OF_ORDER = 62_135_596_800_000_000
"""Microseconds from year 1, from which the order of datetimes counts, to 1970."""
_END_OF_TIME = 253_402_300_800_000_000
"""Microseconds from 1970 to the year 10,000."""
_SIZE_OF_ORDER = 10**19
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def objects(columns: Mapping[str, pa.Array], n_rows: int) -> pa.Array:
    """One JSON object for each row, with a key for each column that is not null there.

    A column may have texts, integers, floats, booleans, dates, times, lists and structs of these.
    Raises InvalidRequestError, which names the column, for any other type, NaN and infinity.
    """
    # Joining with null_handling="skip" would drop the rows in which all are null.
    members = [
        pc.binary_join_element_wise(f",{dumps(name)}:", _values(column, name), "").fill_null("")
        for name, column in columns.items()
    ]
    if not members:
        return pa.repeat(pa.scalar("{}"), n_rows)
    inside = members[0] if len(members) == 1 else pc.binary_join_element_wise(*members, "")
    return pc.binary_join_element_wise("{", pc.ascii_ltrim(inside, ","), "}", "")


def plain(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one array, decoded and in the small form of its type."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        column = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type):
        column = column.cast(pa.string())
    return column


def _values(column: pa.Array, name: str) -> pa.Array:
    """The JSON text of each value; null for null."""
    column = plain(column)
    type_: pa.DataType = column.type
    for is_one, write in _WRITERS:
        if is_one(type_):
            return write(column, name)
    raise InvalidRequestError(
        f"metadata column {name!r} has the type {type_}: cast it to texts, numbers, booleans, "
        "dates, timestamps, or lists and structs of these"
    )


def _null(column: pa.Array, _name: str) -> pa.Array:
    return pa.nulls(len(column), pa.string())


def _text(column: pa.Array, _name: str) -> pa.Array:
    if pc.any(pc.match_substring_regex(column, r'["\\]')).as_py():
        column = pc.replace_substring(column, "\\", "\\\\")
        column = pc.replace_substring(column, '"', '\\"')
    if pc.any(pc.match_substring_regex(column, _CONTROL)).as_py():
        for code in range(32):
            column = pc.replace_substring(column, chr(code), dumps(chr(code))[1:-1])
    return pc.binary_join_element_wise('"', column, '"', "")


def _number(column: pa.Array, _name: str) -> pa.Array:
    return column.cast(pa.string())


def _float(column: pa.Array, name: str) -> pa.Array:
    column = column.cast(pa.float64())
    if not pc.all(pc.is_finite(column)).as_py() and column.null_count < len(column):
        raise InvalidRequestError(
            f"metadata column {name!r} holds a number that is NaN or infinite, which JSON cannot "
            "hold: use null"
        )
    text = column.cast(pa.string())
    # A whole number stays a float.
    is_whole = pc.match_substring_regex(text, _NEEDS_POINT)
    return pc.if_else(is_whole, pc.binary_join_element_wise(text, ".0", ""), text)


def _list(column: pa.Array, name: str) -> pa.Array:
    if pa.types.is_fixed_size_list(column.type) or pa.types.is_large_list(column.type):
        column = column.cast(pa.list_(column.type.value_type))
    offsets = pc.subtract(column.offsets, column.offsets[0])
    # `flatten` leaves out what null lists hide, which offsets would count.
    inside = column.values.slice(column.offsets[0].as_py(), offsets[-1].as_py())
    texts = _values(inside, name).fill_null("null")
    lists = pa.ListArray.from_arrays(offsets, texts)
    joined = pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", "")
    return _where(column, joined)


def _struct(column: pa.Array, _name: str) -> pa.Array:
    parts = {
        field.name: pc.struct_field(column, [index]) for index, field in enumerate(column.type)
    }
    made = objects(parts, len(column))
    return _where(column, made)


def _date(column: pa.Array, _name: str) -> pa.Array:
    day = pc.strftime(column.cast(pa.timestamp("s")), format="%Y-%m-%d")
    return _stand_in("date", DATE, day, day)


def _timestamp(column: pa.Array, name: str) -> pa.Array:
    """As `JsonCodec` writes a datetime, so that filters order them."""
    zone: str | None = column.type.tz
    micros = microseconds(column, f"metadata column {name!r}")
    span = pc.min_max(micros).as_py()
    if span["min"] is not None and not (
        span["min"] >= -_EPOCH_OF_ORDER and span["max"] < _END_OF_TIME
    ):
        raise InvalidRequestError(
            f"metadata column {name!r} holds a time outside of the years 1 to 9999: use null"
        )
    text = pc.strftime(micros.cast(pa.timestamp("us")), format="%Y-%m-%dT%H:%M:%S")
    if zone is not None:
        text = pc.binary_join_element_wise(text, "+00:00", "")
    return _stand_in("datetime", DATETIME if zone is None else INSTANT, text, _order(micros))


def microseconds(column: pa.Array, what: str) -> pa.Array:
    """The microseconds since 1970 of timestamps; raises for a fraction of one."""
    unit = _PER_SECOND[column.type.unit]
    numbers = column.cast(pa.int64())
    if unit <= _PER_SECOND["us"]:
        return pc.multiply_checked(numbers, _PER_SECOND["us"] // unit)
    per = unit // _PER_SECOND["us"]
    whole = pc.divide(numbers, per)
    if pc.any(pc.not_equal(pc.multiply(whole, per), numbers)).as_py():
        raise InvalidRequestError(f"{what} holds a time with nanoseconds: round it to microseconds")
    return whole


def _order(micros: pa.Array) -> pa.Array:
    """As `json_tags.order_of` for times."""
    text = pc.add(micros.fill_null(0), _EPOCH_OF_ORDER).cast(pa.string())
    lengths = pc.utf8_length(text).to_numpy()
    prefixes = {int(n): f"1{_SIZE_OF_ORDER + int(n):020}" for n in np.unique(lengths)}
    prefix = pa.array(list(prefixes.values())).take(
        pa.array(np.searchsorted(list(prefixes), lengths))
    )
    made = pc.binary_join_element_wise(prefix, pc.ascii_rtrim(text, "0"), "")
    return _where(micros, pc.if_else(pc.equal(text, "0"), "0", made))


def _where(column: pa.Array, texts: pa.Array) -> pa.Array:
    """The texts; null where the column is."""
    if not column.null_count:
        return texts
    return pc.if_else(column.is_valid(), texts, pa.scalar(None, pa.string()))


def _stand_in(type_: str, key: str, value: pa.Array, order: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(
        f'{{"{key}":"', order, f'","{TYPE}":"{type_}","{VALUE}":"', value, '"}', ""
    )


_WRITERS: list[tuple[Callable[[pa.DataType], bool], Callable[[Any, str], Any]]] = [
    (pa.types.is_null, _null),
    (pa.types.is_string, _text),
    (pa.types.is_integer, _number),
    (pa.types.is_boolean, _number),
    (pa.types.is_floating, _float),
    (pa.types.is_date, _date),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_list, _list),
    (pa.types.is_large_list, _list),
    (pa.types.is_fixed_size_list, _list),
    (pa.types.is_struct, _struct),
]
