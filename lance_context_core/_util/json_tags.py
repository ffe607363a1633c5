"""What stands in JSON for a value that JSON cannot hold, and by what such values are compared.

A stand-in is an object with the name of the value's type, what the value is made of again and, where
such values have an order, a text that sorts as they do:

    {
        "lance_context:type": "decimal",
        "value": "9.90",
        "lance_context:number": "11000000000000000000199",
    }

`lance_context_core.adapting.JsonCodec` makes them, and filters look into them.
"""

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

TYPE = "lance_context:type"
"""The key that marks a stand-in; mappings that have it themselves are stood in for, too."""
VALUE = "value"

_ORDERS = frozenset(
    (
        NUMBER := "lance_context:number",
        INSTANT := "lance_context:instant",
        DATETIME := "lance_context:datetime",
        DATE := "lance_context:date",
        TIME := "lance_context:time",
        TIME_AT_OFFSET := "lance_context:time_at_offset",
        DURATION := "lance_context:duration",
        ID := "lance_context:uuid",
    )
)
"""Under which of these keys the order stands tells what is compared with what."""

LISTS = ("tuple", "set", "frozenset")
"""The types that are, to a filter, the list of what they hold."""

_SORTED = (int, float, Decimal, date, time, timedelta, UUID)

_ZERO = 10**19
"""Added to exponents, which have at most 19 digits: none is negative then."""
_COMPLEMENT = str.maketrans("0123456789", "9876543210")
_MICROSECOND = timedelta(microseconds=1)


class Order(NamedTuple):
    """What a value sorts by."""

    key: str
    """Where it stands in the stand-in: what has another key is not compared."""
    text: str
    """Sorts by code points."""


def stand_in(name: str, content: Any, *, order: Order | None = None) -> dict[str, Any]:
    """The object that stands for a value of the type that goes by that name."""
    made = {TYPE: name, VALUE: content}
    return made if order is None else {**made, order.key: order.text}


def is_stand_in(value: dict[str, Any]) -> bool:
    """Whether an object of JSON is one."""
    if value.keys() - _ORDERS != {TYPE, VALUE} or len(value) > 3:
        return False
    return isinstance(value[TYPE], str)


def has_order(value: object) -> bool:
    """Whether `value` is of a type that sorts, or NaN: a number, a time or a UUID."""
    return isinstance(value, _SORTED) and not isinstance(value, bool)


def order_of(value: Any) -> Order | None:
    """What sorts as the values do; None for what has no order, as NaN has not.

    What Python calls equal has one order, and what Python does not compare has other keys: integers,
    floats and decimals are numbers; times with and without a zone are two things.
    """
    match value:
        case bool():
            return None
        case int() | float() | Decimal():
            text = _number(value)
            return None if text is None else Order(NUMBER, text)
        case datetime() if value.utcoffset() is None:
            since = value.replace(tzinfo=None) - datetime.min  # noqa: DTZ901 - it has no zone either
            return Order(DATETIME, _n_microseconds(since))
        case datetime():
            since = value - datetime.min.replace(tzinfo=UTC)
            return Order(INSTANT, _n_microseconds(since))
        case date():
            return Order(DATE, date.isoformat(value))
        case time():
            return _order_in_a_day(value)
        case timedelta():
            return Order(DURATION, _n_microseconds(value))
        case UUID():
            return Order(ID, str(value))
    return None


def _n_microseconds(duration: timedelta) -> str:
    return _number(duration // _MICROSECOND) or ""


def _number(value: float | Decimal) -> str | None:
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


def _order_in_a_day(value: time) -> Order:
    offset = value.utcoffset()
    since = timedelta(
        hours=value.hour,
        minutes=value.minute,
        seconds=value.second,
        microseconds=value.microsecond,
    )
    if offset is None:
        return Order(TIME, _n_microseconds(since))
    return Order(TIME_AT_OFFSET, _n_microseconds(since - offset))
