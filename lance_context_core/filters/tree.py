"""The tree of the filter language: fields, conditions on them, and And, Or, Not."""

import math
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal, TypeAlias
from uuid import UUID

from lance_context_core._util.checks import check_json, check_text, check_time, shown
from lance_context_core._util.frozen import frozen
from lance_context_core._util.json_tags import has_order
from lance_context_core.errors import FilterError, InvalidRequestError

MAX_DEPTH = 16
"""The deepest nesting of filters; the most keys of a metadata path."""

MAX_PATHS = 8
"""The most paths of a field, see `Field.paths`."""


Ordered: TypeAlias = str | float | Decimal | date | time | timedelta | UUID
"""Types with an order; a datetime is a date."""


class Filter:
    """A condition on a record: true or false, never unknown.

    A missing value, or one of another type than the operand, does not match; so the negation of
    a condition does match it. Filters combine with `&`, `|` and `~`.
    """

    __slots__ = ()

    def __and__(self, other: "Filter") -> "And":
        """Matches if both match."""
        return And((*_members(self, And), *_members(other, And)))

    def __or__(self, other: "Filter") -> "Or":
        """Matches if at least one matches."""
        return Or((*_members(self, Or), *_members(other, Or)))

    def __invert__(self) -> "Filter":
        """Matches if it does not: also records without its field."""
        return self.filter if isinstance(self, Not) else Not(self)


@dataclass(frozen=True, slots=True, init=False)
class Field:
    """A column, or a path in the metadata, named by literal keys.

    `Field("role")` is a column, `Field("metadata", "a.b")` the value under the key "a.b", and
    `Field("metadata", "a", "b")` the value under "b" in the object under "a". A key is never a
    position in a list. `str()` of a field is for messages.
    """

    column: str
    paths: tuple[tuple[str, ...], ...]
    """Paths into a JSON column. The field is the first one that a record has, even with null."""

    def __init__(self, column: str, /, *keys: str) -> None:
        """Raises FilterError for names that are not texts, and for more than MAX_DEPTH keys."""
        names = [_valid(check_text, name, "the name of a field") for name in (column, *keys)]
        if len(keys) > MAX_DEPTH:
            raise FilterError(f"a metadata path has at most {MAX_DEPTH} keys, not {len(keys)}")
        object.__setattr__(self, "column", names[0])
        object.__setattr__(self, "paths", (tuple(names[1:]),))

    def otherwise(self, *keys: str) -> "Field":
        """Returns this field with the path `keys` as a fallback for records without it."""
        return self._along([*self.paths, keys])

    def child(self, key: str) -> "Field":
        """Returns the field under `key`; a key with dots is literal, or else a path."""
        return self._along(
            (*path, *keys) for path in self.paths for keys in ((key,), key.split("."))
        )

    def eq(self, value: Any) -> Filter:
        """Matches a value equal to `value`, see `Comparison`; None matches absent and null values."""
        return Absent(self) if value is None else Comparison(self, operator="eq", operand=value)

    def ne(self, value: Any) -> Filter:
        """Matches if `eq` does not: also records without the field, unless `value` is None."""
        return Not(self.eq(value))

    def gt(self, value: Ordered) -> Filter:
        """Matches if the value comes after `value`."""
        return Comparison(self, operator="gt", operand=value)

    def gte(self, value: Ordered) -> Filter:
        """Matches if the value equals `value` or comes after it."""
        return Comparison(self, operator="gte", operand=value)

    def lt(self, value: Ordered) -> Filter:
        """Matches if the value comes before `value`."""
        return Comparison(self, operator="lt", operand=value)

    def lte(self, value: Ordered) -> Filter:
        """Matches if the value equals `value` or comes before it."""
        return Comparison(self, operator="lte", operand=value)

    def is_in(self, values: Iterable[Any]) -> Filter:
        """Matches if `eq` one of `values`. Without values, nothing matches."""
        return Membership(self, _listed(values, field=self, operator="$in"))

    def not_in(self, values: Iterable[Any]) -> Filter:
        """Negates `is_in`: also matches records without the field, unless `values` contain None."""
        return Not(Membership(self, _listed(values, field=self, operator="$nin")))

    def exists(self) -> Filter:
        """Matches if the value exists, and is not null."""
        return Not(Absent(self))

    def contains(self, value: Ordered | None) -> Filter:
        """Matches a list that contains `value`, or a text with the substring `value`."""
        return Contains(self, value)

    def contains_any(self, values: Iterable[Ordered | None]) -> Filter:
        """Matches a list that contains one of `values`. Without values, no list matches."""
        return ContainsAny(self, _listed(values, field=self, operator="$contains_any"))

    def contains_all(self, values: Iterable[Ordered | None]) -> Filter:
        """Matches a list that contains each of `values`. Without values, every list matches."""
        return ContainsAll(self, _listed(values, field=self, operator="$contains_all"))

    def text(self, part: str) -> Filter:
        """Matches a text with the substring `part`, ignoring case."""
        return Text(self, part)

    def __str__(self) -> str:
        return ".".join((self.column, *self.paths[0]))

    def _along(self, paths: Iterable[Iterable[str]]) -> "Field":
        distinct = tuple(dict.fromkeys(Field(self.column, *path).paths[0] for path in paths))
        if len(distinct) > MAX_PATHS:
            raise FilterError(
                f"{str(self)!r} and the keys below it can be read in more than {MAX_PATHS} ways "
                "because of their dots; name the literal keys: Field('metadata', key, key, ...)"
            )
        field = Field(self.column)
        object.__setattr__(field, "paths", distinct)
        return field


@frozen
class Condition(Filter):
    """A condition on one field: the leaves of the tree."""

    field: Field

    @property
    def spelling(self) -> str:
        """The operator, as in filter dicts and messages."""
        return _SPELLINGS[type(self)]

    def refused(self, operand: Any, *, wanted: str) -> FilterError:
        """Returns the error for an operand that the operator does not accept."""
        return _refused(operand, field=self.field, operator=self.spelling, wanted=wanted)

    def _value(self, operand: Any) -> Any:
        """Returns a copy of an operand in plain JSON types; times, decimals and UUIDs stay.

        For a column a datetime must be aware, and is converted to UTC; metadata may contain any.
        """
        if type(operand) is str and operand.isascii():
            return operand  # unchanged: there may be many thousands
        if isinstance(operand, int | float | Decimal) and not isinstance(operand, bool):
            return _number(operand)
        is_time = isinstance(operand, datetime)
        if has_order(operand) and (self.field.paths != ((),) or not is_time):
            return operand
        check = check_time if is_time else check_json
        return _valid(check, operand, f"the operand of {self.spelling} on {str(self.field)!r}")

    def _element(self, operand: Any) -> Any:
        """As `_value`, for an operand that must be a scalar."""
        value = self._value(operand)
        if isinstance(value, list | dict):
            raise self.refused(operand, wanted="texts, numbers, booleans and None as elements")
        return value


@frozen
class Absent(Condition):
    """The field is missing, or null."""


@frozen
class Comparison(Condition):
    """Compares the field's value with `operand` by `operator`.

    Texts compare with texts, by code points; numbers with numbers, integers, floats and decimals
    exactly on one scale, with the infinities at its ends; NaN equals nothing and has no
    order; booleans equal booleans and have no order; timestamp columns compare with
    aware datetimes and with ISO 8601 texts that have an offset; lists and objects equal those with
    the same JSON, in any order of keys, and have no order.

    Metadata values encoded by an adapter, see `adapting.JsonCodec`, compare as in Python: times
    with times of the same type, aware ones with aware ones, durations with durations, UUIDs with
    UUIDs. Tuples and sets are lists.
    """

    _: KW_ONLY
    operator: Literal["eq", "gt", "gte", "lt", "lte"]
    operand: Any

    @property
    def spelling(self) -> str:
        """The operator, as in filter dicts and messages."""
        return f"${self.operator}"

    def __post_init__(self) -> None:
        operand = self._value(self.operand)
        if self.operator == "eq" and operand is None:
            raise self.refused(operand, wanted="a value: being absent is a condition of its own")
        if self.operator != "eq" and (operand is None or isinstance(operand, list | dict)):
            raise self.refused(operand, wanted="a text, a number, a time or a UUID")
        object.__setattr__(self, "operand", operand)


@frozen
class Membership(Condition):
    """The field equals one of `operands`; None among them matches absent and null values."""

    operands: tuple[Any, ...]

    def __post_init__(self) -> None:
        operands = tuple(self.operands)
        if not (set(map(type, operands)) == {str} and all(map(str.isascii, operands))):
            operands = tuple(map(self._value, operands))
        object.__setattr__(self, "operands", operands)


@frozen
class Text(Condition):
    """The field is a text with the substring `part`, once both are lower-cased. No wildcards."""

    part: str

    def __post_init__(self) -> None:
        part = self._value(self.part)
        if not isinstance(part, str):
            raise self.refused(part, wanted="a text")
        object.__setattr__(self, "part", part)


@frozen
class Contains(Condition):
    """The field is a list that contains `operand`, or a text with the substring `operand`."""

    operand: Ordered | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "operand", self._element(self.operand))


@frozen
class _ContainsSome(Condition):
    operands: tuple[Ordered | None, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "operands", tuple(map(self._element, self.operands)))


@frozen
class ContainsAny(_ContainsSome):
    """The field is a list that contains at least one of `operands`."""


@frozen
class ContainsAll(_ContainsSome):
    """The field is a list that contains every one of `operands`."""


@frozen
class _Several(Filter):
    filters: tuple[Filter, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "filters", _checked(self.filters))


@frozen
class And(_Several):
    """Every one of `filters` matches; an And of none always does."""


@frozen
class Or(_Several):
    """At least one of `filters` matches; an Or of none never does."""


@frozen
class Not(Filter):
    """`filter` does not match: also records without its field."""

    filter: Filter

    def __post_init__(self) -> None:
        _checked((self.filter,))


def _members(filter: Filter, kind: type[And] | type[Or]) -> tuple[Filter, ...]:
    return filter.filters if isinstance(filter, kind) else (filter,)


def _checked(filters: Iterable[Filter]) -> tuple[Filter, ...]:
    filters = tuple(filters)
    for one in filters:
        if not isinstance(one, Filter):
            raise FilterError(f"filters combine with filters, not with {shown(one)}")
    return filters


def _listed(values: Iterable[Any], *, field: Field, operator: str) -> tuple[Any, ...]:
    if not isinstance(values, list | tuple | set | frozenset):
        raise _refused(values, field=field, operator=operator, wanted="a list")
    return tuple(values)


def _refused(operand: Any, *, field: Field, operator: str, wanted: str) -> FilterError:
    return FilterError(f"{operator} on {str(field)!r} takes {wanted}, not {shown(operand)}")


def _number(value: float | Decimal) -> float | Decimal:
    """Returns the number in its plain type; there is one NaN."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Decimal):
        return math.nan if value.is_nan() else value
    return float(value)


def _valid(check: Callable[[Any, str], Any], value: Any, where: str) -> Any:
    try:
        return check(value, where)
    except InvalidRequestError as error:
        raise FilterError(str(error)) from error


_SPELLINGS: dict[type[Condition], str] = {
    Absent: "$exists",
    Membership: "$in",
    Contains: "$contains",
    ContainsAny: "$contains_any",
    ContainsAll: "$contains_all",
    Text: "$text",
}
