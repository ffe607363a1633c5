"""SQL, as the stores see it: clauses to build conditions from, and filters made into conditions."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from lance_context_core._stand_ins import has_order
from lance_context_core.engine.sql import json as json_sql
from lance_context_core.engine.sql.clauses import (
    EVERYTHING,
    NOTHING,
    SIGNS,
    all_of,
    any_of,
    equals,
    in_list,
    quote_identifier,
    quote_string,
    timestamp,
)
from lance_context_core.engine.sql.numbers import compare_integer, is_number
from lance_context_core.errors import FilterError
from lance_context_core.filters import (
    RECORD_FIELDS,
    Absent,
    And,
    Columns,
    ColumnType,
    Comparison,
    Condition,
    Contains,
    ContainsAll,
    ContainsAny,
    Filter,
    FilterLike,
    Membership,
    Not,
    Or,
    Text,
    parse,
)

__all__ = [
    "all_of",
    "any_of",
    "compile",
    "equals",
    "filtered",
    "in_list",
    "quote_identifier",
    "quote_string",
    "timestamp",
]


def compile(filter: Filter, *, columns: Columns = RECORD_FIELDS) -> str:
    """The condition that a row satisfies `filter`: for scans, and as the prefilter of searches.

    Conditions on columns are bare wherever they can be, so that scalar indexes answer them.
    `columns` tells the columns' types. Raises FilterError for a column that is not among them, and
    for what cannot be asked of a column of its type.
    """
    return _clause(filter, columns=columns, negated=False)


def filtered(filter: FilterLike | None, *, columns: Columns) -> str:
    """The condition that a filter stands for, as callers give it; empty if it restricts nothing."""
    if filter is None or (parsed := parse(filter, columns=columns)) is None:
        return ""
    return compile(parsed, columns=columns)


def _clause(filter: Filter, *, columns: Columns, negated: bool) -> str:
    # Negations move down to the conditions, which are never NULL once they are negated. What
    # remains, AND and OR, is monotone: there, a condition that is NULL is as good as a false one.
    match filter:
        case Not():
            return _clause(filter.filter, columns=columns, negated=not negated)
        case And() | Or():
            clauses = [_clause(one, columns=columns, negated=negated) for one in filter.filters]
            if isinstance(filter, And) is negated:
                return any_of(clauses)
            return all_of(clauses) or EVERYTHING
        case Membership() if None in filter.operands:
            others = tuple(one for one in filter.operands if one is not None)
            either = Or((Absent(filter.field), Membership(filter.field, others)))
            return _clause(either, columns=columns, negated=negated)
        case Condition():
            return _condition(filter, columns=columns, negated=negated)
    raise FilterError(f"{type(filter).__name__} is no part of the filter language")


def _condition(condition: Condition, *, columns: Columns, negated: bool) -> str:
    public = condition.field.column
    type_ = columns.check(public)
    name = quote_identifier(columns.stored_as.get(public, public))
    if type_ is ColumnType.JSON:
        clause = json_sql.condition(condition, name)
        return f"({clause}) IS NOT TRUE" if negated else clause
    if condition.field.paths != ((),):
        raise FilterError(
            f"{str(condition.field)!r}: only 'metadata' has keys, {public!r} has none"
        )
    match type_:
        case ColumnType.TEXT_LIST | ColumnType.TARGETS:
            clause = _on_list(condition, name, is_ordered=type_ is ColumnType.TEXT_LIST)
            return f"({clause}) IS NOT TRUE" if negated else clause
        case ColumnType.TEXT:
            clause = _on_text(condition, name)
        case ColumnType.INTEGER:
            clause = _on_integer(condition, name)
        case _:
            clause = _on_timestamp(condition, name)
    if isinstance(condition, Absent):
        return f"{name} IS NOT NULL" if negated else clause
    # A scalar index answers this negation; IS NOT TRUE it does not.
    return f"NOT ({clause}) OR {name} IS NULL" if negated else clause


def _on_text(condition: Condition, name: str) -> str:
    match condition:
        case Absent():
            return f"{name} IS NULL"
        case Comparison(operator=operator, operand=operand):
            _check(condition, [operand], wanted="a text; one of several is $in")
            is_text = isinstance(operand, str)
            return f"{name} {SIGNS[operator]} {quote_string(operand)}" if is_text else NOTHING
        case Membership(operands=operands):
            _check(condition, operands, wanted="a list of texts")
            return _one_of(name, [quote_string(one) for one in operands if isinstance(one, str)])
        case Contains(operand=str(operand)):
            return f"contains({name}, {quote_string(operand)})"
        case Contains():
            return NOTHING
        case Text(part=part):
            return f"contains(lower({name}), lower({quote_string(part)}))"
    raise _inapplicable(condition, "text")


def _on_integer(condition: Condition, name: str) -> str:
    match condition:
        case Absent():
            return f"{name} IS NULL"
        case Comparison(operator=operator, operand=operand):
            _check(condition, [operand], wanted="a number; one of several is $in")
            if not is_number(operand):
                return NOTHING
            clause = compare_integer(
                name, SIGNS[operator], operand, least=-(2**63), greatest=2**63 - 1
            )
            return f"{name} IS NOT NULL" if clause == EVERYTHING else clause
        case Membership(operands=operands):
            _check(condition, operands, wanted="a list of numbers")
            bounded = [one for one in operands if is_number(one) and -(2**63) < one < 2**63]
            return _one_of(name, [str(int(one)) for one in bounded if one == int(one)])
    raise _inapplicable(condition, "integer")


def _on_timestamp(condition: Condition, name: str) -> str:
    match condition:
        case Absent():
            return f"{name} IS NULL"
        case Comparison(operator=operator, operand=operand):
            return f"{name} {SIGNS[operator]} {timestamp(_instant(condition, operand))}"
        case Membership(operands=operands):
            return _one_of(name, [timestamp(_instant(condition, one)) for one in operands])
    raise _inapplicable(condition, "timestamp")


def _on_list(condition: Condition, name: str, *, is_ordered: bool) -> str:
    """For a list of texts; a null is an empty list, and an empty list is an absent value."""
    match condition:
        case Absent():
            return f"coalesce(array_length({name}), 0) = 0"
        case Contains(operand=str(operand)):
            return f"array_has({name}, {quote_string(operand)})"
        case Contains():
            return NOTHING
        case ContainsAny(operands=operands):
            texts = [one for one in operands if isinstance(one, str)]
            return f"array_has_any({name}, {_array(texts)})" if texts else NOTHING
        case ContainsAll(operands=operands):
            texts = [one for one in operands if isinstance(one, str)]
            if len(texts) < len(operands):
                return NOTHING
            return f"array_has_all({name}, {_array(texts)})" if texts else EVERYTHING
        case Comparison(operator="eq", operand=operand) if is_ordered:
            return _equal_list(condition, name, operand)
        case Membership(operands=operands) if is_ordered:
            return any_of(_equal_list(condition, name, one) for one in operands)
    raise _inapplicable(condition, "list" if is_ordered else "set of relationships")


def _equal_list(condition: Condition, name: str, operand: Any) -> str:
    if isinstance(operand, dict) or (has_order(operand) and not is_number(operand)):
        raise condition.refused(operand, wanted="a list of texts")
    if operand == []:
        return f"coalesce(array_length({name}), 0) = 0"
    if not isinstance(operand, list) or not all(isinstance(one, str) for one in operand):
        return NOTHING
    return f"{name} = {_array(operand)}"


def _one_of(name: str, literals: list[str]) -> str:
    return f"{name} IN ({', '.join(literals)})" if literals else NOTHING


def _array(texts: list[str]) -> str:
    return f"make_array({', '.join(map(quote_string, texts))})"


def _check(condition: Condition, operands: Iterable[Any], *, wanted: str) -> None:
    """Refuse what no row of a text or number column could ever be."""
    for operand in operands:
        if isinstance(operand, list | dict) or (has_order(operand) and not is_number(operand)):
            raise condition.refused(operand, wanted=wanted)


def _instant(condition: Condition, operand: Any) -> datetime:
    wanted = "a datetime, or an ISO 8601 text, that has a time zone"
    try:
        moment = datetime.fromisoformat(operand) if isinstance(operand, str) else operand
    except ValueError:
        raise condition.refused(operand, wanted=wanted) from None
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise condition.refused(operand, wanted=wanted)
    return moment


def _inapplicable(condition: Condition, kind: str) -> FilterError:
    column = condition.field.column
    return FilterError(f"{condition.spelling} cannot be asked of {column!r}, which is a {kind}")
