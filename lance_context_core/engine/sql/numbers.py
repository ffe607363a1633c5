"""Comparisons of numbers, exactly: of integers and doubles with numbers of any type."""

import math
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import TypeGuard

from lance_context_core.engine.sql.clauses import EVERYTHING, NOTHING

_LARGEST = sys.float_info.max


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
    if sign == "=" and (floor != least or not is_integer):
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
