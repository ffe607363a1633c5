"""Conditions on declared fields: the answers of the JSON, by columns that have an index."""

import sys
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

from lance_context_core.filters import tree
from lance_context_core.filters.columns import DeclaredField, FieldType
from lance_context_core.storage.sql.predicates import (
    EVERYTHING,
    NOTHING,
    SIGNS,
    any_of,
    compare_double,
    compare_integer,
    has_part,
    in_list,
    is_absent,
    is_number,
    is_present,
    quote_identifier,
    quote_string,
    timestamp,
)

_LARGEST = sys.float_info.max


def condition(leaf: tree.Condition, field: DeclaredField) -> str | None:
    """The condition on the column of a field, which has all that the metadata has.

    None if only the metadata can answer it. NULL for some rows that do not match.
    """
    match leaf:
        case tree.Absent():
            return is_absent(field.column)
        case tree.Comparison(operator=operator, operand=operand):
            return _compared(field, operator, operand)
        case tree.Membership(operands=operands):
            if field.type is FieldType.TEXT:
                return in_list(field.column, [one for one in operands if isinstance(one, str)])
            equal = [_compared(field, "eq", one) for one in operands]
            known = [one for one in equal if one is not None]
            return any_of(known) if len(known) == len(equal) else None
        case tree.Contains(operand=str(operand)) if field.type is FieldType.TEXT:
            return has_part(field.column, operand)
    return None


def _compared(field: DeclaredField, operator: str, operand: Any) -> str | None:
    """That the value compares so to the operand: a value of another type does not."""
    if operand is None or isinstance(operand, list | dict):
        return None
    return _COMPARED[field.type](field.column, operator, operand)


def _text(column: str, operator: str, operand: Any) -> str | None:
    if not isinstance(operand, str):
        return NOTHING
    return f"{quote_identifier(column)} {SIGNS[operator]} {quote_string(operand)}"


def _integer(column: str, operator: str, operand: Any) -> str | None:
    if not is_number(operand):
        return NOTHING
    if _is_special(operand):
        return None
    made = compare_integer(
        quote_identifier(column), SIGNS[operator], operand, least=-(2**63), greatest=2**63 - 1
    )
    return is_present(column) if made == EVERYTHING else made


def _float(column: str, operator: str, operand: Any) -> str | None:
    if not is_number(operand):
        return NOTHING
    if _is_special(operand):
        return None
    if operator == "eq":
        is_double = -_LARGEST <= operand <= _LARGEST and float(operand) == operand
        return f"{quote_identifier(column)} = {float(operand)!r}" if is_double else NOTHING
    return compare_double(quote_identifier(column), SIGNS[operator], operand)


def _boolean(column: str, operator: str, operand: Any) -> str | None:
    if operator != "eq" or not isinstance(operand, bool):
        return NOTHING
    return f"{quote_identifier(column)} = {'true' if operand else 'false'}"


def _moment(column: str, operator: str, operand: Any) -> str | None:
    if not isinstance(operand, datetime) or operand.utcoffset() is None:
        return NOTHING
    return f"{quote_identifier(column)} {SIGNS[operator]} {timestamp(operand)}"


def _is_special(number: float | Decimal) -> bool:
    """Whether it is NaN or infinite."""
    return number != number or number in (float("inf"), float("-inf"))  # noqa: PLR0124 - NaN


_COMPARED: dict[FieldType, Callable[[str, str, Any], str | None]] = {
    FieldType.TEXT: _text,
    FieldType.INTEGER: _integer,
    FieldType.FLOAT: _float,
    FieldType.BOOLEAN: _boolean,
    FieldType.MOMENT: _moment,
}
