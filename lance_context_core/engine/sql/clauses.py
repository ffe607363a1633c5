"""Quoting, and the small clauses that conditions are put together from.

A clause that is NULL for a row does not match it. Join clauses with `all_of` and `any_of`, and never
negate one by NOT alone: the negation of NULL does not match either.
"""

import math
import sys
from collections.abc import Callable, Iterable
from datetime import datetime
from decimal import Decimal
from typing import TypeGuard

from lance_context_core._checks import (
    check_text,
    check_time,
    shown,
)
from lance_context_core.errors import InvalidRequestError

EVERYTHING = "true"
NOTHING = "false"
SIGNS = {"eq": "=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
"""The operators of `Comparison`, as SQL."""

_LARGEST = sys.float_info.max


def quote_identifier(name: str) -> str:
    """A column's name, as SQL. Raises InvalidRequestError for one that no table can have."""
    if not name or "`" in name or "." in name:
        raise InvalidRequestError(f"{shown(name)} cannot be the name of a column")
    return f"`{check_text(name, 'the name of a column')}`"


def quote_string(text: str) -> str:
    """A text, as SQL: any but one with a lone surrogate; NULs and backslashes mean themselves."""
    return "'" + check_text(text, "a text in a condition").replace("'", "''") + "'"


def timestamp(moment: datetime) -> str:
    """An instant, as SQL; raises InvalidRequestError if it has no time zone."""
    utc = check_time(moment, "a time in a condition").replace(tzinfo=None)
    return f"timestamp '{utc.isoformat(sep=' ', timespec='microseconds')}'"


def literal(value: str | int | datetime) -> str:
    """A text, an integer or an instant, as SQL."""
    if isinstance(value, datetime):
        return timestamp(value)
    if isinstance(value, str):
        return quote_string(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(int(value))
    raise InvalidRequestError(f"{shown(value)} cannot stand in a condition on a column")


def equals(column: str, value: str | int | datetime | None) -> str:
    """That `column` is `value`, or is absent if that is None."""
    name = quote_identifier(column)
    return f"{name} IS NULL" if value is None else f"{name} = {literal(value)}"


def in_list(column: str, values: Iterable[str | int | datetime]) -> str:
    """That `column` is one of `values`, of which there may be many thousands, or none."""
    listed = ", ".join(literal(value) for value in values)
    return f"{quote_identifier(column)} IN ({listed})" if listed else NOTHING


def all_of(clauses: Iterable[str]) -> str:
    """That all of `clauses` hold; the empty clause, which restricts nothing, if there are none."""
    return _joined(" AND ", [clause for clause in clauses if clause])


def any_of(clauses: Iterable[str]) -> str:
    """That at least one of `clauses` holds; none of none does."""
    return _joined(" OR ", list(clauses)) or NOTHING


def compare_integer(
    integer: str,
    sign: str,
    operand: float | Decimal,
    *,
    least: int,
    greatest: int,
    literal: Callable[[int], str] = str,
) -> str:
    """`integer sign operand`, exactly, for an expression with integers in [least, greatest].

    EVERYTHING and NOTHING stand for what holds for all or none of them. Never asks the engine to
    read `least`: that of 64 bits is one that it cannot read.
    """
    if _is_nan(operand):
        return NOTHING
    floor = math.floor(min(max(operand, least - 1), greatest + 1))
    is_integer = floor == operand
    if sign == "=" and floor != least:
        is_possible = is_integer and least < floor <= greatest
        return f"{integer} = {literal(floor)}" if is_possible else NOTHING
    if sign in {">", ">="}:
        lowest = floor if sign == ">=" and is_integer else floor + 1
        if least < lowest <= greatest:
            return f"{integer} >= {literal(lowest)}"
        return EVERYTHING if lowest <= least else NOTHING
    beyond = floor if sign == "<" and is_integer else floor + 1
    if least < beyond <= greatest:
        return f"{integer} < {literal(beyond)}"
    return EVERYTHING if beyond > greatest else NOTHING


def compare_double(double: str, sign: str, operand: float | Decimal) -> str:
    """`double sign operand`, an order, exactly, for an expression with doubles.

    A number that is no double lies between two, of which `float()` gives one or the other, or beyond
    them all.
    """
    if not -_LARGEST <= operand <= _LARGEST:
        is_above = sign in {">", ">="}
        return NOTHING if _is_nan(operand) or is_above == (operand > 0) else f"{double} IS NOT NULL"
    nearest = float(operand)
    if nearest == operand:
        return f"{double} {sign} {nearest!r}"
    if sign in {">", ">="}:
        return f"{double} {'>=' if nearest > operand else '>'} {nearest!r}"
    return f"{double} {'<' if nearest > operand else '<='} {nearest!r}"


def is_number(value: object) -> TypeGuard[float | Decimal]:
    """Whether `value` is a number: True and False are none."""
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _is_nan(number: float | Decimal) -> bool:
    # Asked of a large integer, math.isnan overflows; a decimal that is NaN was made a float.
    return isinstance(number, float) and math.isnan(number)


def _joined(word: str, clauses: list[str]) -> str:
    return clauses[0] if len(clauses) == 1 else word.join(f"({clause})" for clause in clauses)
