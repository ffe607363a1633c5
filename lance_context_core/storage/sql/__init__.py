"""SQL of the stores: clauses for conditions, and filters compiled to conditions."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from lance_context_core._util.checks import shown
from lance_context_core._util.json_tags import has_order
from lance_context_core.errors import FilterError, InvalidRequestError
from lance_context_core.filters import RECORD_FIELDS, Columns, ColumnType, FilterLike, parse, tree
from lance_context_core.storage.sql import declared, json
from lance_context_core.storage.sql import json as json_sql
from lance_context_core.storage.sql.predicates import (
    COMPARISONS,
    EVERYTHING,
    NOTHING,
    SIGNS,
    Clause,
    absent_or_after,
    after,
    all_equal,
    all_of,
    any_of,
    at_or_after,
    at_or_before,
    before,
    compare,
    compare_integer,
    differs,
    ends_with,
    equals,
    has_all,
    has_any,
    has_element,
    has_part,
    in_list,
    is_absent,
    is_empty,
    is_list,
    is_not_empty,
    is_number,
    is_present,
    matches,
    not_in_list,
    not_true,
    quote_identifier,
    quote_string,
    starts_with,
    timestamp,
)

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "Clause",
    "absent_or_after",
    "after",
    "all_equal",
    "all_of",
    "any_of",
    "at_or_after",
    "at_or_before",
    "before",
    "compile",
    "differs",
    "ends_with",
    "equals",
    "filtered",
    "has_any",
    "has_element",
    "in_list",
    "is_absent",
    "is_not_empty",
    "is_present",
    "matches",
    "not_in_list",
    "not_true",
    "quote_identifier",
    "quote_string",
    "restricting",
    "starts_with",
    "timestamp",
]


def compile(filter: tree.Filter, *, columns: Columns = RECORD_FIELDS) -> Clause:
    """The condition that a row satisfies `filter`: for scans, and as prefilter of searches.

    Conditions on columns are bare wherever possible, so that scalar indexes answer them. `columns`
    gives the columns' types. Raises FilterError for a column that is not among them, and for an
    operator that its type does not support. `Clause.holds` evaluates it on a row in memory, and is
    None where only the engine can: for some operands that are compared with a value in JSON.
    """
    return _clause(filter, columns=columns, negated=False)


def filtered(filter: FilterLike | None, *, columns: Columns) -> Clause:
    """The condition of a caller's filter; empty if it restricts nothing."""
    if filter is None or (parsed := parse(filter, columns=columns)) is None:
        return all_of([])
    return compile(parsed, columns=columns)


def restricting(filter: FilterLike | None, *, columns: Columns, instead: str) -> Clause:
    """As `filtered`, for a call that deletes or changes the rows that match.

    Raises InvalidRequestError for a filter that matches every row, such as {} or {"$and": []}: it
    is mostly a mistake. `instead` names the alternative.
    """
    clause = filtered(filter, columns=columns)
    if filter is not None and clause in {"", EVERYTHING}:
        raise InvalidRequestError(f"filter={shown(filter)} matches everything: {instead}")
    return clause


def _clause(filter: tree.Filter, *, columns: Columns, negated: bool) -> Clause:
    # Negations move down to the conditions, which are never NULL once negated. The rest, AND and
    # OR, is monotone: there, a NULL condition is as good as a false one.
    match filter:
        case tree.Not():
            return _clause(filter.filter, columns=columns, negated=not negated)
        case tree.And() | tree.Or():
            parts = (
                _with_memberships(filter, columns)
                if isinstance(filter, tree.Or)
                else filter.filters
            )
            clauses = [_clause(one, columns=columns, negated=negated) for one in parts]
            if isinstance(filter, tree.And) is negated:
                return EVERYTHING if EVERYTHING in clauses else any_of(clauses)
            return all_of(one for one in clauses if one != EVERYTHING) or EVERYTHING
        case tree.Membership() if None in filter.operands:
            others = tuple(one for one in filter.operands if one is not None)
            either = tree.Or((tree.Absent(filter.field), tree.Membership(filter.field, others)))
            return _clause(either, columns=columns, negated=negated)
        case tree.Condition():
            return _condition(filter, columns=columns, negated=negated)
    raise FilterError(f"{type(filter).__name__} is not part of the filter language: pass a Filter")


def _with_memberships(filter: tree.Or, columns: Columns) -> Iterable[tree.Filter]:
    """Its parts, with several equalities of one field merged into a membership.

    A thousand of them are then one list lookup for the engine, and one set lookup in memory.
    """
    equal: dict[tree.Field, list[Any]] = {}
    parts: list[tree.Filter] = []
    for one in filter.filters:
        match one:
            case tree.Comparison(
                operator="eq", field=field, operand=str() | int() | float() as operand
            ):
                if columns.types.get(field.column) in _SCALARS:
                    equal.setdefault(field, []).append(operand)
                    continue
        parts.append(one)
    for field, operands in equal.items():
        if len(operands) == 1:
            parts.append(tree.Comparison(field, operator="eq", operand=operands[0]))
        else:
            parts.append(tree.Membership(field, tuple(operands)))
    return parts


_SCALARS = (ColumnType.TEXT, ColumnType.INTEGER, ColumnType.JSON)
"""Of these an equality and a membership refuse the same values."""


def _condition(condition: tree.Condition, *, columns: Columns, negated: bool) -> Clause:
    public = condition.field.column
    type_ = columns.check(public)
    column = columns.stored_as.get(public, public)
    if type_ is ColumnType.JSON:
        inside = Clause(
            json_sql.condition(condition, quote_identifier(column)),
            json.condition_in_memory(condition, column),
        )
        by_column = _declared(condition, columns, negated=negated)
        inside = _negated(inside) if negated else inside
        return inside if by_column is None else Clause(by_column, inside.holds)
    if condition.field.paths != ((),):
        raise FilterError(
            f"{str(condition.field)!r}: only 'metadata' has keys, {public!r} has none"
        )
    if type_ in {ColumnType.TEXT_LIST, ColumnType.TARGETS}:
        clause = _on_list(condition, column, is_ordered=type_ is ColumnType.TEXT_LIST)
        return _negated(clause) if negated else clause
    if isinstance(condition, tree.Absent):
        return is_present(column) if negated else is_absent(column)
    match type_:
        case ColumnType.TEXT:
            clause = _on_text(condition, column)
        case ColumnType.INTEGER:
            clause = _on_integer(condition, column)
        case _:
            clause = _on_timestamp(condition, column)
    if negated and clause == NOTHING:
        return EVERYTHING
    # A scalar index answers this negation, but not IS NOT TRUE.
    return (
        clause
        if not negated
        else Clause(f"NOT ({clause}) OR {quote_identifier(column)} IS NULL", not_true(clause).holds)
    )


def _declared(condition: tree.Condition, columns: Columns, *, negated: bool) -> str | None:
    """The condition on the column of a declared field; None if it is on no such field."""
    paths = condition.field.paths
    if not columns.declared or len(paths) != 1 or len(paths[0]) != 1:
        return None
    if (field := columns.declared.get(paths[0][0])) is None:
        return None
    made = declared.condition(condition, field)
    if made is None or not negated:
        return made
    if made in (EVERYTHING, NOTHING):
        return NOTHING if made == EVERYTHING else EVERYTHING
    if isinstance(condition, tree.Absent):
        return is_present(field.column)
    # A scalar index answers this negation, but not IS NOT TRUE.
    return f"NOT ({made}) OR {quote_identifier(field.column)} IS NULL"


def _negated(clause: Clause) -> Clause:
    return EVERYTHING if clause == NOTHING else not_true(clause)


def _on_text(condition: tree.Condition, column: str) -> Clause:
    match condition:
        case tree.Comparison(operator=operator, operand=operand):
            _check(condition, [operand], wanted="a text; one of several is $in")
            return compare(column, operator, operand) if isinstance(operand, str) else NOTHING
        case tree.Membership(operands=operands):
            _check(condition, operands, wanted="a list of texts")
            return in_list(column, [one for one in operands if isinstance(one, str)])
        case tree.Contains(operand=str(operand)):
            return has_part(column, operand)
        case tree.Contains():
            return NOTHING
        case tree.Text(part=part):
            name = quote_identifier(column)
            return Clause(
                f"contains(lower({name}), lower({quote_string(part)}))",
                lambda row: (
                    (found := row.get(column)) is not None
                    and json.lowered(part) in json.lower(found)
                ),
            )
    raise _inapplicable(condition, "text")


def _on_integer(condition: tree.Condition, column: str) -> Clause:
    match condition:
        case tree.Comparison(operator=operator, operand=operand):
            _check(condition, [operand], wanted="a number; one of several is $in")
            return _compare_integer(column, operator, operand) if is_number(operand) else NOTHING
        case tree.Membership(operands=operands):
            _check(condition, operands, wanted="a list of numbers")
            bounded = [one for one in operands if is_number(one) and -(2**63) < one < 2**63]
            return in_list(column, [int(one) for one in bounded if one == int(one)])
    raise _inapplicable(condition, "integer")


def _compare_integer(column: str, operator: str, operand: float | Decimal) -> Clause:
    clause = compare_integer(
        quote_identifier(column), SIGNS[operator], operand, least=-(2**63), greatest=2**63 - 1
    )
    if clause in {EVERYTHING, NOTHING}:
        return NOTHING if clause == NOTHING else is_present(column)
    stands = COMPARISONS[operator]
    return Clause(
        clause, lambda row: (found := row.get(column)) is not None and stands(found, operand)
    )


def _on_timestamp(condition: tree.Condition, column: str) -> Clause:
    match condition:
        case tree.Comparison(operator=operator, operand=operand):
            return compare(column, operator, _instant(condition, operand))
        case tree.Membership(operands=operands):
            return in_list(column, [_instant(condition, one) for one in operands])
    raise _inapplicable(condition, "timestamp")


def _on_list(condition: tree.Condition, column: str, *, is_ordered: bool) -> Clause:
    """For a list of texts; null, an empty list and an absent value are equal."""
    match condition:
        case tree.Absent():
            return is_empty(column)
        case tree.Contains(operand=str(operand)):
            return has_element(column, operand)
        case tree.Contains():
            return NOTHING
        case tree.ContainsAny(operands=operands):
            return has_any(column, [one for one in operands if isinstance(one, str)])
        case tree.ContainsAll(operands=operands):
            texts = [one for one in operands if isinstance(one, str)]
            return has_all(column, texts) if len(texts) == len(operands) else NOTHING
        case tree.Comparison(operator="eq", operand=operand) if is_ordered:
            return _equal_list(condition, column, operand)
        case tree.Membership(operands=operands) if is_ordered:
            return any_of(_equal_list(condition, column, one) for one in operands)
    raise _inapplicable(condition, "list" if is_ordered else "set of relationships")


def _equal_list(condition: tree.Condition, column: str, operand: Any) -> Clause:
    if isinstance(operand, dict) or (has_order(operand) and not is_number(operand)):
        raise condition.refused(operand, wanted="a list of texts")
    if operand == []:
        return is_empty(column)
    if not isinstance(operand, list) or not all(isinstance(one, str) for one in operand):
        return NOTHING
    return is_list(column, operand)


def _check(condition: tree.Condition, operands: Sequence[Any], *, wanted: str) -> None:
    """Raise for a value that no text or number column can contain."""
    if set(map(type, operands)) == {str}:
        return  # as most are, of maybe many thousands
    for operand in operands:
        if type(operand) is str:
            continue
        if isinstance(operand, list | dict) or (has_order(operand) and not is_number(operand)):
            raise condition.refused(operand, wanted=wanted)


def _instant(condition: tree.Condition, operand: Any) -> datetime:
    wanted = "a datetime, or an ISO 8601 text, that has a time zone"
    try:
        moment = datetime.fromisoformat(operand) if isinstance(operand, str) else operand
    except ValueError:
        raise condition.refused(operand, wanted=wanted) from None
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise condition.refused(operand, wanted=wanted)
    return moment


def _inapplicable(condition: tree.Condition, kind: str) -> FilterError:
    column = condition.field.column
    return FilterError(f"{condition.spelling} cannot be asked of {column!r}, which is a {kind}")
