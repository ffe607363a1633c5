"""The clauses of conditions on rows.

A clause that is NULL for a row does not match it. Join clauses with `all_of` and `any_of`, and
negate one with `not_true`, never with NOT alone: the negation of NULL does not match either.
"""

import math
import operator
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, Self, TypeAlias, TypeGuard, cast

from lance_context_core._util.checks import check_text, check_time, shown
from lance_context_core.errors import InvalidRequestError
from lance_context_core.storage.lance.schema import KEY

Row: TypeAlias = Mapping[str, Any]
"""Values by column name; a missing column is null."""

Value: TypeAlias = str | int | datetime
"""The value of a condition on a column."""

Test: TypeAlias = Callable[[Row], bool]


Among: TypeAlias = Mapping[str, frozenset[str]]

IDENTIFYING = frozenset((KEY, "id", "external_id", "session_id", "namespace"))
"""The columns that identify a row, or its few siblings, whose conditions are worth a lookup
first."""

_ANY: Among = {}

Listed: TypeAlias = tuple[str, frozenset[Any]]
"""A column, and the list of its possible values."""


class UnsureError(Exception):
    """Only the engine can tell whether this row matches."""


class Clause(str):
    """A condition on rows in SQL, which can also be evaluated in memory."""

    __slots__ = ("among", "equal", "holds", "later", "listed", "parts", "rest")

    holds: Test | None
    """Whether a row matches, as for the engine; None if only the engine can tell.

    Raises UnsureError if only the engine can tell for that row.
    """
    among: Among
    """By column, values that include those of all matching rows; for columns that identify a
    row."""
    equal: "tuple[str, str | None] | None"
    """The column and the text of an `equals`; None for an absent text."""
    later: tuple[str, datetime] | None
    """The column and the moment of an `absent_or_after`, which changes with each read."""
    listed: "Listed | None"
    """The column and the values of an `in_list` of texts or integers."""
    parts: "tuple[Clause, ...]"
    """Its parts, all of which hold; empty if it is not composed."""
    rest: "Clause | None"
    """All of it but the moments, if it was composed of that and moments alone."""

    def __new__(cls, text: str, holds: Test | None = None, among: Among = _ANY) -> Self:
        """The condition that is `text` in SQL; the caller ensures that `holds` agrees."""
        clause = str.__new__(cls, text)
        clause.holds = holds
        clause.among = among
        clause.equal = clause.later = clause.listed = clause.rest = None
        clause.parts = ()
        return clause

    @property
    def keys(self) -> frozenset[str] | None:
        """Primary keys that include those of all matching rows; None if unknown."""
        return self.among.get(KEY)


EVERYTHING = Clause("true", lambda _: True)
NOTHING = Clause("false", lambda _: False, {KEY: frozenset()})

SIGNS = {"eq": "=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
"""The operators of `Comparison`, as SQL."""

COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
"""The same as functions."""

_UNRESTRICTED = Clause("", EVERYTHING.holds)
_CONSTANTS: Mapping[str, Clause] = {one: one for one in (_UNRESTRICTED, EVERYTHING, NOTHING)}


@lru_cache(256)
def quote_identifier(name: str) -> str:
    """A column's name, as SQL. Raises InvalidRequestError for an invalid name."""
    if not name or "`" in name or "." in name:
        raise InvalidRequestError(f"{shown(name)} cannot be the name of a column: choose another")
    return f"`{check_text(name, 'the name of a column')}`"


def quote_string(text: str) -> str:
    """A text, as SQL: any without a lone surrogate; NULs and backslashes are literal."""
    if not (type(text) is str and text.isascii()):
        check_text(text, "a text in a condition")
    return "'" + text.replace("'", "''") + "'"


def timestamp(moment: datetime) -> str:
    """An instant, as SQL; raises InvalidRequestError if it has no time zone."""
    return _bound(moment)[1]


def literal(value: Value) -> str:
    """A text, an integer or an instant, as SQL."""
    if isinstance(value, datetime):
        return timestamp(value)
    if isinstance(value, str):
        return quote_string(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(int(value))
    raise InvalidRequestError(
        f"{shown(value)} cannot be compared with a column: give a text, an integer or a time"
    )


# For any column


def is_absent(column: str) -> Clause:
    """That `column` is null."""
    clause = Clause(f"{quote_identifier(column)} IS NULL", lambda row: row.get(column) is None)
    clause.equal = column, None
    return clause


def is_present(column: str) -> Clause:
    """That `column` is not null."""
    return Clause(
        f"{quote_identifier(column)} IS NOT NULL", lambda row: row.get(column) is not None
    )


# For a column with texts, integers or instants


def equals(column: str, value: Value | None) -> Clause:
    """That `column` is `value`, or is absent if that is None."""
    if value is None:
        return is_absent(column)
    bound, text = _bound(value)
    clause = Clause(
        f"{quote_identifier(column)} = {text}",
        lambda row: row.get(column) == bound,
        {column: frozenset((str(value),))} if column in IDENTIFYING else _ANY,
    )
    if isinstance(value, str):
        clause.equal = column, value
    return clause


def differs(column: str, value: Value) -> Clause:
    """That `column` is neither `value` nor absent."""
    bound, text = _bound(value)
    return Clause(
        f"{quote_identifier(column)} <> {text}",
        lambda row: (found := row.get(column)) is not None and found != bound,
    )


def in_list(column: str, values: Iterable[Value]) -> Clause:
    """That `column` is one of `values`, which may be many thousands, or none."""
    values = _bounds(values)
    if not values:
        return NOTHING
    named = frozenset(values)
    clause = Clause(
        _in_list(column, values),
        lambda row: row.get(column) in named,
        {column: cast("frozenset[str]", named)} if column in IDENTIFYING else _ANY,
    )
    if not isinstance(values[0], datetime):
        clause.listed = column, named
    return clause


def not_in_list(column: str, values: Iterable[Value]) -> Clause:
    """That `column` is none of `values`, and not absent."""
    values = _bounds(values)
    if not values:
        return is_present(column)
    unnamed = frozenset([None, *values])
    return Clause(f"NOT {_in_list(column, values)}", lambda row: row.get(column) not in unnamed)


def compare(column: str, name: str, value: Value) -> Clause:
    """That `column` compares to `value` as the operator of that name says, one of SIGNS.

    Texts are compared by code points.
    """
    bound, text = _bound(value)
    stands = COMPARISONS[name]
    return Clause(
        f"{quote_identifier(column)} {SIGNS[name]} {text}",
        lambda row: (found := row.get(column)) is not None and stands(found, bound),
    )


def after(column: str, value: Value) -> Clause:
    """That `column` is more, or later, than `value`."""
    return compare(column, "gt", value)


def at_or_after(column: str, value: Value) -> Clause:
    """That `column` is `value` or more, or later."""
    return compare(column, "gte", value)


def absent_or_after(column: str, value: Value) -> Clause:
    """That `column` is null, or more, or later, than `value`."""
    bound, text = _bound(value)
    name = quote_identifier(column)
    clause = Clause(
        f"{name} IS NULL OR {name} > {text}",
        lambda row: (found := row.get(column)) is None or found > bound,
    )
    if isinstance(value, datetime):
        clause.later = column, bound
    return clause


def before(column: str, value: Value) -> Clause:
    """That `column` is less, or earlier, than `value`."""
    return compare(column, "lt", value)


def at_or_before(column: str, value: Value) -> Clause:
    """That `column` is `value` or less, or earlier."""
    return compare(column, "lte", value)


# For a column with texts


def starts_with(column: str, text: str) -> Clause:
    """That `column` is a text that begins with this one."""
    return Clause(
        f"starts_with({quote_identifier(column)}, {quote_string(text)})",
        lambda row: (found := row.get(column)) is not None and found.startswith(text),
    )


def ends_with(column: str, text: str) -> Clause:
    """That `column` is a text that ends with this one."""
    return Clause(
        f"ends_with({quote_identifier(column)}, {quote_string(text)})",
        lambda row: (found := row.get(column)) is not None and found.endswith(text),
    )


def has_part(column: str, text: str) -> Clause:
    """That `column` is a text that contains this one."""
    return Clause(
        f"contains({quote_identifier(column)}, {quote_string(text)})",
        lambda row: (found := row.get(column)) is not None and text in found,
    )


def matches(column: str, regex: str, *, to_end: bool = False) -> Clause:
    """That `regex` is found in `column`; with `to_end`, at the end of the text.

    The expression must mean the same to Rust and to Python: escaped characters, sets without
    classes, groups, alternatives and `^` do; `$` does not, before a line feed at the end.
    """
    search = re.compile(rf"{regex}\Z" if to_end else regex).search
    return Clause(
        f"regexp_like({quote_identifier(column)}, {quote_string(f'{regex}$' if to_end else regex)})",
        lambda row: (found := row.get(column)) is not None and search(found) is not None,
    )


# Of several clauses; evaluated on a row in memory if each of them can be


def all_of(clauses: Iterable[str]) -> Clause:
    """That all of `clauses` hold; without any, the empty clause, which restricts nothing.

    On a row in memory they are evaluated in their order: selective ones belong first.
    """
    parts = [one if isinstance(one, Clause) else _clause(one) for one in clauses if one]
    if len(parts) < 2:
        return parts[0] if parts else _UNRESTRICTED
    tests = [part.holds for part in parts if part.holds is not None]
    among: dict[str, frozenset[str]] = {}
    for part in parts:
        for column, values in part.among.items():
            among[column] = among[column] & values if column in among else values

    def holds(row: Row) -> bool:
        for test in tests:  # noqa: SIM110 - all() costs a generator for each row
            if not test(row):
                return False
        return True

    clause = Clause(
        f"({') AND ('.join(parts)})",
        holds if len(tests) == len(parts) else None,
        among,
    )
    clause.parts = tuple(one for part in parts for one in part.parts or (part,))
    if len(standing := [part for part in parts if part.later is None]) == 1:
        one = standing[0]
        clause.rest = one.rest if any(part.later for part in one.parts) else one
    return clause


def apart(clause: Clause) -> tuple[list[tuple[str, datetime]], Clause]:
    """Its condition on moments, as `Clause.later`, and the rest."""
    parts = clause.parts or (clause,)
    moments = [part.later for part in parts if part.later is not None]
    if not moments:
        return [], clause
    if clause.rest is not None:
        return moments, clause.rest
    return moments, all_of([part for part in parts if part.later is None])


def named(columns: frozenset[str], *clauses: str) -> frozenset[str]:
    """Those of the columns that one of the clauses may name."""
    parts = [part for clause in map(_clause, clauses) for part in clause.parts or (clause,)]
    # A list may have many thousands of values, and names its column.
    listed = {part.listed[0] for part in parts if part.listed}
    # A name is between two quotes of its own, whatever other quotes exist.
    others = (part.split("`") for part in parts if not part.listed)
    return columns.intersection(listed.union(*others))


def lists_apart(where: str, least: int) -> tuple[list[Listed], Clause]:
    """Its conditions on columns with at least so many possible values, and the rest."""
    clause = _clause(where)
    parts = clause.parts or (clause,)
    lists = [part.listed for part in parts if part.listed and len(part.listed[1]) >= least]
    if not lists:
        return [], clause
    return lists, all_of([part for part in parts if part.listed not in lists])


def any_of(clauses: Iterable[str]) -> Clause:
    """That at least one of `clauses` holds; false without any."""
    parts = [_clause(clause) for clause in clauses]
    if not all(parts):
        return _UNRESTRICTED
    if len(parts) < 2:
        return parts[0] if parts else NOTHING
    tests = [part.holds for part in parts if part.holds is not None]
    columns = frozenset.intersection(*(frozenset(part.among) for part in parts))

    def holds(row: Row) -> bool:
        for test in tests:  # noqa: SIM110 - any() costs a generator for each row
            if test(row):
                return True
        return False

    return Clause(
        f"({') OR ('.join(parts)})",
        holds if len(tests) == len(parts) else None,
        {column: frozenset.union(*(part.among[column] for part in parts)) for column in columns},
    )


def all_equal(values: Mapping[str, Value | None]) -> Clause:
    """That each of these columns is its value, or is absent if that is None."""
    return all_of([equals(column, value) for column, value in values.items()])


def not_true(clause: str) -> Clause:
    """That `clause` does not hold."""
    test = _clause(clause).holds
    return Clause(f"({clause}) IS NOT TRUE", None if test is None else lambda row: not test(row))


def _clause(text: str) -> Clause:
    return text if isinstance(text, Clause) else _CONSTANTS.get(text) or Clause(text)


def _bound(value: Value) -> tuple[Any, str]:
    """The value to compare with those of a column, in memory and in SQL."""
    if not isinstance(value, datetime):
        return value, literal(value)
    # In UTC: Python calls no two times equal if one is in an hour that some zone repeats.
    is_utc = type(value) is datetime and value.tzinfo is UTC  # as the clock returns it
    utc = value if is_utc else check_time(value, "a time in a condition")
    return utc, _of_time(utc)


@lru_cache(16)
def _of_time(utc: datetime) -> str:
    """As SQL: conditions of one read use the same moment for several columns."""
    text = utc.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
    return f"timestamp '{text}'"


def _bounds(values: Iterable[Value]) -> list[Any]:
    given = list(values)
    if set(map(type, given)) <= {str, int}:
        return given
    return [_bound(one)[0] if isinstance(one, datetime) else one for one in given]


def _in_list(column: str, values: Sequence[Value]) -> str:
    if set(map(type, values)) == {str}:
        plain = "', '".join(cast("Sequence[str]", values))
        if plain.isascii() and plain.count("'") == 2 * (len(values) - 1):
            return f"{quote_identifier(column)} IN ('{plain}')"
    return f"{quote_identifier(column)} IN ({', '.join(map(literal, values))})"


# Exact comparisons of integers and doubles with numbers of any type.

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

    EVERYTHING and NOTHING are the results that hold for all or none of them. Never has the engine
    parse `least`: it cannot parse that of 64 bits.
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

    A number that is no double is between two, one of which `float()` returns, or beyond all.
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
    """Whether `value` is a number; False for True and False."""
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _is_nan(number: float | Decimal) -> bool:
    # math.isnan overflows for a large integer; a decimal NaN was made a float.
    return isinstance(number, float) and math.isnan(number)


# Clauses about a column with lists of texts; a null is an empty list.


def is_empty(column: str) -> Clause:
    """That the list is empty."""
    text = f"coalesce(array_length({quote_identifier(column)}), 0) = 0"
    return Clause(text, lambda row: not row.get(column))


def is_not_empty(column: str) -> Clause:
    """That the list is not empty."""
    text = f"array_length({quote_identifier(column)}) > 0"
    return Clause(text, lambda row: bool(row.get(column)))


def is_list(column: str, texts: Sequence[str]) -> Clause:
    """That the list contains exactly these texts in this order, at least one."""
    wanted = list(texts)
    return Clause(
        f"{quote_identifier(column)} = {_array(wanted)}",
        lambda row: (found := row.get(column)) is not None and list(found) == wanted,
    )


def has_element(column: str, text: str) -> Clause:
    """That `text` is in the list."""
    return Clause(
        f"array_has({quote_identifier(column)}, {quote_string(text)})",
        lambda row: text in (row.get(column) or ()),
    )


def has_any(column: str, texts: Sequence[str]) -> Clause:
    """That at least one of `texts` is in the list."""
    return _compared(
        column, "array_has_any", texts, lambda wanted, found: not wanted.isdisjoint(found), NOTHING
    )


def has_all(column: str, texts: Sequence[str]) -> Clause:
    """That all of `texts` are in the list; true without any."""
    return _compared(column, "array_has_all", texts, frozenset.issubset, EVERYTHING)


def _compared(
    column: str,
    function: str,
    texts: Sequence[str],
    holds: Callable[[frozenset[str], Iterable[str]], bool],
    without: Clause,
) -> Clause:
    """The engine's function of a list and texts, its equal here, and its value `without` texts."""
    if not texts:
        return without
    wanted = frozenset(texts)
    return Clause(
        f"{function}({quote_identifier(column)}, {_array(texts)})",
        lambda row: holds(wanted, row.get(column) or ()),
    )


def _array(texts: Iterable[str]) -> str:
    return f"make_array({', '.join(map(quote_string, texts))})"
