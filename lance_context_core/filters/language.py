"""The filter language of the store: dicts or SQL, parsed into a typed tree."""

from collections.abc import Callable, Mapping
from typing import Any

from lance_context_core._util.checks import shown
from lance_context_core._util.lru import remembered
from lance_context_core.errors import FilterError
from lance_context_core.filters.columns import METADATA, VALUE, Columns
from lance_context_core.filters.sql import parse_sql
from lance_context_core.filters.tree import (
    MAX_DEPTH,
    Absent,
    And,
    Condition,
    Field,
    Filter,
    Not,
    Or,
)

FilterLike = Mapping[str, Any] | str | Filter
"""A filter in any of its three forms: a dict, an SQL condition, or a `Field` condition; see `parse`."""


def parse(filter: FilterLike | None, *, columns: Columns) -> Filter | None:
    """Parses a filter into its tree; None if it restricts nothing."""
    if filter is None:
        return None
    if isinstance(filter, Filter):
        _check_names(filter, columns=columns, depth=0)
        return filter
    if isinstance(filter, str):
        return _sql(filter, columns=columns)
    conditions = _entries(filter, columns=columns, depth=0)
    return _all(conditions) if conditions else None


def _sql(text: str, *, columns: Columns) -> Filter:
    def literal(*names: str) -> Field:
        if len(names) == 1 and names[0] in columns.types:
            return _place(names[0], columns=columns)
        return Field(columns.json, *(names[1:] if names[0] == columns.json else names))

    return parse_sql(text, place=lambda name: _place(name, columns=columns), literal=literal)


def _check_names(filter: Filter, *, columns: Columns, depth: int) -> None:
    _check_depth(depth)
    match filter:
        case And() | Or():
            for one in filter.filters:
                _check_names(one, columns=columns, depth=depth + 1)
        case Not():
            _check_names(filter.filter, columns=columns, depth=depth + 1)
        case Condition():
            columns.check(filter.field.column)


def _entries(filter: Any, *, columns: Columns, depth: int) -> list[Filter]:
    """Returns the conditions of a dict, all of which must hold."""
    _check_depth(depth)
    if not isinstance(filter, Mapping):
        raise FilterError(
            f"a filter is a dict, a condition in SQL or a Filter, not {shown(filter)}"
        )
    found: list[Filter] = []
    for key, value in filter.items():
        if not isinstance(key, str):
            raise FilterError(f"the keys of a filter are texts, not {shown(key)}")
        if key.startswith("$"):
            found.append(_logical(key, value, columns=columns, depth=depth + 1))
        elif key in _TIME_BOUNDS and "created_at" in columns.types:
            found.append(_operation(Field("created_at"), _TIME_BOUNDS[key], value, depth=depth))
        else:
            place = _place(key, columns=columns)
            found += _conditions(place, value, depth=depth + 1)
    return found


def _logical(operator: str, operand: Any, *, columns: Columns, depth: int) -> Filter:
    if operator not in _LOGICAL:
        raise FilterError(
            f"unknown operator {operator!r} at the top of a filter, which knows "
            f"{', '.join(_LOGICAL)}; 'metadata.{operator}' means the metadata key"
        )
    if operator == "$not" and isinstance(operand, Mapping | Filter | str):
        operand = [operand]
    if not isinstance(operand, list | tuple):
        raise FilterError(f"{operator} takes a list of filters, not {shown(operand)}")
    filters = []
    for one in operand:
        if isinstance(one, Filter):
            _check_names(one, columns=columns, depth=depth)
            filters.append(one)
        elif isinstance(one, str):
            filters.append(_sql(one, columns=columns))
        else:
            filters.append(_all(_entries(one, columns=columns, depth=depth)))
    if operator == "$and":
        return And(tuple(filters))
    some = Or(tuple(filters))
    return some if operator == "$or" else Not(some)


def _place(key: str, *, columns: Columns) -> Field:
    if key in columns.types or columns.json not in columns.types:
        columns.check(key)
        return Field(key)
    return _inside(columns.json, key.removeprefix(f"{columns.json}."))


@remembered(64 * 1024)
def _inside(column: str, key: str) -> Field:
    """Returns a path in a JSON column; cached, since one filter may use it a thousand times."""
    return Field(column).child(key)


def _conditions(place: Field, value: Any, *, depth: int) -> list[Filter]:
    """Returns the conditions of `{place: value}`: a value, operators, or conditions on nested keys."""
    _check_depth(depth)
    if not isinstance(value, Mapping):
        return [place.eq(value)]
    if not value:
        raise FilterError(
            f"{shown(str(place))} is {{}}: write {{'$eq': {{}}}} to mean the empty object"
        )
    spelled = [isinstance(key, str) and key.startswith("$") for key in value]
    if any(spelled) and not all(spelled):
        raise FilterError(
            f"{shown(str(place))} has operators and keys side by side: {shown(value)}"
        )
    if any(spelled):
        return [_operation(place, name, operand, depth=depth) for name, operand in value.items()]
    if place.column not in (METADATA, VALUE):
        return [
            _operation(place, f"${name}", operand, depth=depth) for name, operand in value.items()
        ]
    found: list[Filter] = []
    for key, below in value.items():
        if not isinstance(key, str):
            raise FilterError(f"{shown(str(place))} has the key {shown(key)}: keys are texts")
        is_operator = key == "contains" and len(value) == 1 and not isinstance(below, Mapping)
        if is_operator and place.paths != ((),):
            found.append(place.contains(below))
        else:
            found += _conditions(place.child(key), below, depth=depth + 1)
    return found


def _operation(place: Field, operator: str, operand: Any, *, depth: int) -> Filter:
    if operator in _OPERATIONS:
        return _OPERATIONS[operator](place, operand)
    if operator == "$not":
        return Not(_all(_conditions(place, operand, depth=depth + 1)))
    if operator != "$exists":
        known = ", ".join((*_OPERATIONS, "$exists", "$not"))
        raise FilterError(
            f"unknown operator {operator!r} on {shown(str(place))}, which knows {known}"
        )
    if not isinstance(operand, bool):
        raise Absent(place).refused(operand, wanted="True or False")
    return place.exists() if operand else Absent(place)


def _all(filters: list[Filter]) -> Filter:
    return filters[0] if len(filters) == 1 else And(tuple(filters))


def _check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise FilterError(f"the filter is nested more than {MAX_DEPTH} deep: flatten it")


_LOGICAL = ("$and", "$or", "$not")
_TIME_BOUNDS = {"created_after": "$gte", "created_before": "$lte"}
_OPERATIONS: dict[str, Callable[[Field, Any], Filter]] = {
    "$eq": Field.eq,
    "$ne": Field.ne,
    "$gt": Field.gt,
    "$gte": Field.gte,
    "$lt": Field.lt,
    "$lte": Field.lte,
    "$in": Field.is_in,
    "$nin": Field.not_in,
    "$contains": Field.contains,
    "$contains_any": Field.contains_any,
    "$contains_all": Field.contains_all,
    "$text": Field.text,
}
