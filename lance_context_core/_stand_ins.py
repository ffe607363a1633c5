"""What stands in JSON for a value that JSON cannot hold, and by what such values are compared.

A stand-in is an object with the name of the value's type, what the value is made of again and, where
such values have an order, a text that sorts as they do:

    {"lance_context:type": "decimal", "value": "9.90", "order": "number:11000000000000000000099"}

`lance_context_core.adapting.JsonCodec` makes them, and filters look into them.
"""

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import Any
from uuid import UUID

TYPE = "lance_context:type"
"""The key that marks a stand-in; mappings that have it themselves are stood in for, too."""
VALUE = "value"
ORDER = "order"

LISTS = ("tuple", "set", "frozenset")
"""The types that are, to a filter, the list of what they hold."""

_ZERO = 10**19
"""Added to exponents, which have at most 19 digits: none is negative then."""
_COMPLEMENT = str.maketrans("0123456789", "9876543210")
_MICROSECOND = timedelta(microseconds=1)


def stand_in(name: str, content: Any, *, order: str | None = None) -> dict[str, Any]:
    """The object that stands for a value of the type that goes by that name."""
    made = {TYPE: name, VALUE: content}
    return made if order is None else {**made, ORDER: order}


def is_stand_in(value: dict[str, Any]) -> bool:
    """Whether an object of JSON is one."""
    return value.keys() - {ORDER} == {TYPE, VALUE} and isinstance(value[TYPE], str)


def order_of(value: Any) -> str | None:
    """A text that sorts, by code points, as the values do; None for what has no order, as NaN has not.

    What Python calls equal has one text, and what Python does not compare begins with different
    words: integers, floats and decimals are numbers; times with and without a zone are two things.
    """
    match value:
        case bool():
            return None
        case int() | float() | Decimal():
            key = _number(value)
            return key and f"number:{key}"
        case datetime() if value.utcoffset() is None:
            since = value.replace(tzinfo=None) - datetime.min  # noqa: DTZ901 - it has no zone either
            return f"datetime:{_number(since // _MICROSECOND)}"
        case datetime():
            since = value - datetime.min.replace(tzinfo=UTC)
            return f"instant:{_number(since // _MICROSECOND)}"
        case date():
            return f"date:{date.isoformat(value)}"
        case time():
            return _time_of_day(value)
        case timedelta():
            return f"duration:{_number(value // _MICROSECOND)}"
        case UUID():
            return f"uuid:{value}"
        case PurePath():
            return f"path:{value}"
    return None


def _number(value: int | float | Decimal) -> str | None:  # noqa: PYI041 - a decimal is neither
    """The sign, the exponent and the digits, such that texts sort as the numbers do, exactly."""
    exact = Decimal(value)
    if exact.is_nan():
        return None
    if exact.is_infinite():
        return "2" if exact > 0 else "!"
    sign, digits, exponent = exact.as_tuple()
    assert isinstance(exponent, int)
    significant = "".join(map(str, digits)).lstrip("0")
    if not significant:
        return "0"
    size = f"{_ZERO + len(significant) + exponent:020}{significant.rstrip('0')}"
    # Of two negative numbers the one with more digits is the smaller one: the end sorts last.
    return f"-{size.translate(_COMPLEMENT)}~" if sign else f"1{size}"


def _time_of_day(value: time) -> str:
    offset = value.utcoffset()
    since = timedelta(
        hours=value.hour,
        minutes=value.minute,
        seconds=value.second,
        microseconds=value.microsecond,
    )
    if offset is None:
        return f"time:{_number(since // _MICROSECOND)}"
    return f"time at an offset:{_number((since - offset) // _MICROSECOND)}"
