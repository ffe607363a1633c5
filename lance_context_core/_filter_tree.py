"""The tree of the filter language: fields, conditions on them, and And, Or, Not."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import Any, Literal

from lance_context_core.errors import FilterError

MAX_DEPTH = 16
"""Filters are nested at most this deep; a metadata path has at most this many keys."""

MAX_PATHS = 8
"""A field has at most this many paths, see `Field.paths`."""

_LONGEST_SHOWN = 80


class Filter:
    """A condition on a record: true or false, never unknown.

    A value that is missing, or of another type than the operand, does not match; so the negation of
    a condition does match it. Filters combine with `&`, `|` and `~`.
    """

    __slots__ = ()

    def __and__(self, other: "Filter") -> "And":
        """Both hold."""
        return And((*_members(self, And), *_members(other, And)))

    def __or__(self, other: "Filter") -> "Or":
        """At least one holds."""
        return Or((*_members(self, Or), *_members(other, Or)))

    def __invert__(self) -> "Filter":
        """It does not hold: among others, for records in which its field is absent."""
        return self.filter if isinstance(self, Not) else Not(self)


@dataclass(frozen=True, slots=True, init=False)
class Field:
    """A column, or a place in the metadata, named by literal keys.

    `Field("role")` is a column, `Field("metadata", "a.b")` the value under the key "a.b", and
    `Field("metadata", "a", "b")` the value under "b" in the object under "a". A key is never a
    position in a list. `str()` of a field is for messages.
    """

    column: str
    paths: tuple[tuple[str, ...], ...]
    """Paths into a JSON column. The first one that a record has, be it with null, is the field."""

    def __init__(self, column: str, /, *keys: str) -> None:
        """Raises FilterError for names that are no text, and for more than MAX_DEPTH keys."""
        for name in (column, *keys):
            if not isinstance(name, str):
                raise FilterError(f"a field is named by texts, not by {shown(name)}")
            _check_encodable(name, what=f"the field name {shown(name)}")
        if len(keys) > MAX_DEPTH:
            raise FilterError(f"a metadata path has at most {MAX_DEPTH} keys, not {len(keys)}")
        object.__setattr__(self, "column", column)
        object.__setattr__(self, "paths", (keys,))

    def otherwise(self, *keys: str) -> "Field":
        """This field in the records that have it; in the others, the value at the path `keys`."""
        return self._along([*self.paths, keys])

    def child(self, key: str) -> "Field":
        """The value under `key`; a key with dots is itself, or else the path that it spells."""
        return self._along(
            (*path, *keys) for path in self.paths for keys in ((key,), key.split("."))
        )

    def eq(self, value: Any) -> Filter:
        """The value is `value`, see `Comparison`; None is what absent and null values are."""
        return Absent(self) if value is None else Comparison(self, operator="eq", operand=value)

    def ne(self, value: Any) -> Filter:
        """Not `eq`: matches records without the field too, unless `value` is None."""
        return Not(self.eq(value))

    def gt(self, value: str | float | datetime) -> Filter:
        """The value comes after `value`."""
        return Comparison(self, operator="gt", operand=value)

    def gte(self, value: str | float | datetime) -> Filter:
        """The value is `value` or comes after it."""
        return Comparison(self, operator="gte", operand=value)

    def lt(self, value: str | float | datetime) -> Filter:
        """The value comes before `value`."""
        return Comparison(self, operator="lt", operand=value)

    def lte(self, value: str | float | datetime) -> Filter:
        """The value is `value` or comes before it."""
        return Comparison(self, operator="lte", operand=value)

    def is_in(self, values: Iterable[Any]) -> Filter:
        """`eq` one of `values`. Of no values, nothing is one."""
        return Membership(self, _listed(values, field=self, operator="$in"))

    def not_in(self, values: Iterable[Any]) -> Filter:
        """Not `is_in`: matches records without the field too, unless None is among `values`."""
        return Not(Membership(self, _listed(values, field=self, operator="$nin")))

    def exists(self) -> Filter:
        """The value is there, and is not null."""
        return Not(Absent(self))

    def contains(self, value: str | float | None) -> Filter:
        """The value is a list with `value` in it, or a text with the text `value` in it."""
        return Contains(self, value)

    def contains_any(self, values: Iterable[str | float | None]) -> Filter:
        """The value is a list with one of `values` in it. Of no values, no list has one."""
        return ContainsAny(self, _listed(values, field=self, operator="$contains_any"))

    def contains_all(self, values: Iterable[str | float | None]) -> Filter:
        """The value is a list with each of `values` in it. No values are in every list."""
        return ContainsAll(self, _listed(values, field=self, operator="$contains_all"))

    def text(self, part: str) -> Filter:
        """The value is a text with `part` in it, upper and lower case being the same."""
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


@dataclass(frozen=True, slots=True)
class Absent(Filter):
    """The field is missing, or null."""

    field: Field


@dataclass(frozen=True, slots=True)
class Comparison(Filter):
    """The field's value stands to `operand` as `operator` says.

    Texts compare with texts, by code points; numbers with numbers, integers and floats exactly on
    one scale; booleans equal booleans and have no order; timestamp columns compare with aware
    datetimes and with ISO 8601 texts that have an offset; lists and objects equal those with the
    same JSON, in whatever order the keys are, and have no order.
    """

    field: Field
    _: KW_ONLY
    operator: Literal["eq", "gt", "gte", "lt", "lte"]
    operand: Any

    def __post_init__(self) -> None:
        name = f"${self.operator}"
        operand = _value(self.operand, field=self.field, operator=name)
        if operand is None or (self.operator != "eq" and isinstance(operand, list | dict)):
            wanted = "a value" if self.operator == "eq" else "a text, number or datetime"
            raise refused(self.operand, field=self.field, operator=name, wanted=wanted)
        object.__setattr__(self, "operand", operand)


@dataclass(frozen=True, slots=True)
class Membership(Filter):
    """The field equals one of `operands`; None among them is what absent and null values are."""

    field: Field
    operands: tuple[Any, ...]

    def __post_init__(self) -> None:
        values = (_value(one, field=self.field, operator="$in") for one in self.operands)
        object.__setattr__(self, "operands", tuple(values))


@dataclass(frozen=True, slots=True)
class Contains(Filter):
    """The field is a list with `operand` as an element, or a text with the text `operand` in it."""

    field: Field
    operand: str | float | None

    def __post_init__(self) -> None:
        element = _element(self.operand, field=self.field, operator="$contains")
        object.__setattr__(self, "operand", element)


@dataclass(frozen=True, slots=True)
class ContainsAny(Filter):
    """The field is a list with at least one of `operands` as an element."""

    field: Field
    operands: tuple[str | float | None, ...]

    def __post_init__(self) -> None:
        elements = (
            _element(one, field=self.field, operator="$contains_any") for one in self.operands
        )
        object.__setattr__(self, "operands", tuple(elements))


@dataclass(frozen=True, slots=True)
class ContainsAll(Filter):
    """The field is a list with every one of `operands` as an element."""

    field: Field
    operands: tuple[str | float | None, ...]

    def __post_init__(self) -> None:
        elements = (
            _element(one, field=self.field, operator="$contains_all") for one in self.operands
        )
        object.__setattr__(self, "operands", tuple(elements))


@dataclass(frozen=True, slots=True)
class Text(Filter):
    """The field is a text in which `part` is found once both are in lower case. No wildcards."""

    field: Field
    part: str

    def __post_init__(self) -> None:
        part = _value(self.part, field=self.field, operator="$text")
        if not isinstance(part, str):
            raise refused(part, field=self.field, operator="$text", wanted="a text")
        object.__setattr__(self, "part", part)


@dataclass(frozen=True, slots=True)
class And(Filter):
    """Every one of `filters` holds; so does an And of none."""

    filters: tuple[Filter, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "filters", _checked(self.filters))


@dataclass(frozen=True, slots=True)
class Or(Filter):
    """At least one of `filters` holds; an Or of none never does."""

    filters: tuple[Filter, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "filters", _checked(self.filters))


@dataclass(frozen=True, slots=True)
class Not(Filter):
    """`filter` does not hold: among others, for records in which its field is absent."""

    filter: Filter

    def __post_init__(self) -> None:
        _checked((self.filter,))


def refused(operand: Any, *, field: Field, operator: str, wanted: str) -> FilterError:
    """The error for an operand that its operator cannot take."""
    return FilterError(f"{operator} on {str(field)!r} takes {wanted}, not {shown(operand)}")


def shown(value: Any) -> str:
    """The repr of `value` as messages show it: at most 80 characters."""
    if isinstance(value, int) and value.bit_length() > 1024:
        return f"an integer of {value.bit_length()} bits"  # too long for repr(), which would raise
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."


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
        raise refused(values, field=field, operator=operator, wanted="a list")
    return tuple(values)


def _element(value: Any, *, field: Field, operator: str) -> Any:
    value = _value(value, field=field, operator=operator)
    if isinstance(value, list | dict | datetime):
        wanted = "texts, numbers, booleans and None as elements"
        raise refused(value, field=field, operator=operator, wanted=wanted)
    return value


def _value(value: Any, *, field: Field, operator: str) -> Any:
    """A copy of an operand, made of plain JSON types; or the aware datetime that it is."""
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            wanted = "a datetime that knows its time zone"
            raise refused(value, field=field, operator=operator, wanted=wanted)
        return value

    def copy(part: Any, depth: int) -> Any:
        match part:
            case None | bool():
                return part
            case str():
                what = f"the operand {shown(part)} of {operator} on {str(field)!r}"
                _check_encodable(part, what=what)
                return str(part)
            case int() if part.bit_length() <= 1024:
                return int(part)
            case float() if math.isfinite(part):
                return float(part)
            case list() | tuple() if depth < MAX_DEPTH:
                return [copy(one, depth + 1) for one in part]
            case Mapping() if depth < MAX_DEPTH and all(isinstance(key, str) for key in part):
                return {copy(key, depth): copy(one, depth + 1) for key, one in part.items()}
        wanted = f"a JSON value at most {MAX_DEPTH} levels deep"
        raise refused(part, field=field, operator=operator, wanted=wanted)

    return copy(value, 0)


def _check_encodable(text: str, *, what: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise FilterError(f"{what} has a lone surrogate, which no stored text has") from None
