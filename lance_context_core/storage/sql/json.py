"""Conditions on values in a JSON column, by the engine's JSON functions."""

import json
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from lance_context_core._util.frozen import frozen
from lance_context_core._util.json_tags import LISTS, TYPE, VALUE, has_order, order_of
from lance_context_core._util.lru import Made, remembered
from lance_context_core.filters import tree
from lance_context_core.storage.sql.predicates import (
    COMPARISONS,
    NOTHING,
    SIGNS,
    Test,
    UnsureError,
    all_of,
    any_of,
    compare_double,
    compare_integer,
    is_number,
    quote_string,
)

_EXACT = 2**53
"""Up to here a double represents an integer exactly."""

_LARGEST = sys.float_info.max

_MAX_PATTERN = 20_000
"""The maximum length of a regular expression; the engine refuses very large ones."""

_SPECIAL, _ESCAPED = re.compile(r"[\\.+*?()|\[\]{}^$]"), r"\\\g<0>"
_POSITION = re.compile(r"\+?[0-9]+")


def condition(leaf: tree.Condition, column: str) -> str:
    """The condition on a quoted JSON column; NULL for some rows that do not match."""
    place = _place(leaf.field, column)
    match leaf:
        case tree.Absent():
            return f"{place.text} IS NULL OR {place.text} = 'null'"
        case tree.Comparison(operator="eq", operand=operand):
            return _is_one_of(leaf, place, [operand])
        case tree.Comparison(operator=operator, operand=str(operand)):
            return f"{place.string} {SIGNS[operator]} {quote_string(operand)}"
        case tree.Comparison(operator=operator, operand=operand) if has_order(operand):
            kept = _kept_ordered(place, SIGNS[operator], operand)
            return any_of(
                [_ordered(place, SIGNS[operator], operand), kept] if is_number(operand) else [kept]
            )
        case tree.Membership(operands=operands):
            return _is_one_of(leaf, place, operands)
        case tree.Contains(operand=str(operand)):
            part = f"contains({place.string}, {quote_string(operand)})"
            return any_of([part, _has_element(place, operand)])
        case tree.Contains(operand=operand):
            return _has_element(place, operand)
        case tree.ContainsAny(operands=operands):
            return any_of(_has_element(place, one) for one in operands)
        case tree.ContainsAll(operands=operands):
            return all_of([place.items.is_list, *(_has_element(place, one) for one in operands)])
        case tree.Text(part=part):
            return f"contains(lower({place.string}), lower({quote_string(part)}))"
    return NOTHING


@frozen
class _Place:
    """A value in the JSON of a column, in the engine's three forms."""

    value: str
    """Binary JSON; NULL if the value does not exist."""
    text: str
    """Canonical JSON text."""
    string: str
    """The text of a string; NULL for other values."""

    @property
    def is_list(self) -> str:
        return f"starts_with({self.text}, '[')"

    def order(self, key: str) -> str:
        """Canonical JSON text of a tagged value's sort key; NULL without one of that key."""
        return f"json_extract(json_get({self.value}, {quote_string(key)}), '$')"

    @property
    def items(self) -> "_Place":
        """The content of a tagged tuple or set; of other values, the value itself."""
        type_ = f"json_get({self.value}, '{TYPE}')"
        types = ", ".join(quote_string(_canonical(name)) for name in LISTS)
        held = (
            f"WHEN json_extract({type_}, '$') IN ({types}) THEN json_get({self.value}, '{VALUE}')"
        )
        value = f"CASE WHEN {type_} IS NULL THEN {self.value} {held} ELSE {self.value} END"
        return _Place(value, f"json_extract({value}, '$')", "arrow_cast(NULL, 'Utf8')")


def _place(field: tree.Field, column: str) -> _Place:
    values: list[str] = []
    strings: list[str] = []
    for path in field.paths:
        parent, value = column, column
        for depth, key in enumerate(path):
            parent, value = value, _get(value, key, is_top=depth == 0)
        if path:
            # Reading another value as a string raises, so only strings may get there.
            only = [f"{earlier} IS NULL" for earlier in values]
            only.append(f"starts_with(json_extract({value}, '$'), '\"')")
            case = f"CASE WHEN {' AND '.join(only)} THEN {parent} END"
            strings.append(f"json_get_string({case}, {quote_string(path[-1])})")
        values.append(value)
    value = _first(values)
    # The whole column is an object, never a string.
    string = _first(strings or ["arrow_cast(NULL, 'Utf8')"])
    return _Place(value, f"json_extract({value}, '$')", string)


def _first(expressions: list[str]) -> str:
    """The first of some expressions that is not NULL."""
    several = len(expressions) > 1
    return f"coalesce({', '.join(expressions)})" if several else expressions[0]


def _get(parent: str, key: str, *, is_top: bool) -> str:
    # json_get accepts any key, while a path of json_extract cannot name the empty one; but in a
    # list json_get reads numbers as positions, and a path does not.
    if _POSITION.fullmatch(key) and not is_top:
        path = quote_string(f'$."{key}"')
        return f"get_field(json_extract_with_type({parent}, {path}), 'value')"
    return f"json_get({parent}, {quote_string(key)})"


def _is_one_of(leaf: tree.Condition, place: _Place, operands: Sequence[Any]) -> str:
    lists = [one for one in operands if isinstance(one, list)]
    others = [one for one in operands if not isinstance(one, list)]
    clauses = [
        *_equal_json(leaf, place, [one for one in others if is_number(one) or not has_order(one)]),
        *_equal_json(leaf, place.items, lists),
    ]
    orders = [order for one in others if (order := order_of(one)) is not None]
    for key in sorted({order.key for order in orders}):
        texts = [_canonical(order.text) for order in orders if order.key == key]
        clauses.append(_in(place.order(key), texts))
    return any_of(clauses)


def _equal_json(leaf: tree.Condition, place: _Place, operands: Sequence[Any]) -> Iterator[str]:
    """The clauses of which one holds if the value equals one of some in JSON."""
    texts: list[str] = []
    patterns: list[str] = []
    for operand in operands:
        if is_number(operand):
            texts += _spellings(operand)
        elif _has_number(operand):
            patterns.append(_pattern(operand))
        else:
            texts.append(_canonical(operand))
    if texts:
        yield _in(place.text, texts)
    if patterns:
        pattern = f"^(?:{'|'.join(patterns)})$"
        if len(pattern) > _MAX_PATTERN:
            raise leaf.refused(operands, wanted="lists and objects with fewer numbers in them")
        yield f"regexp_like({place.text}, {quote_string(pattern)})"


def _in(expression: str, texts: Sequence[str]) -> str:
    return f"{expression} IN ({', '.join(map(quote_string, texts))})"


def _kept_ordered(place: _Place, sign: str, operand: Any) -> str:
    """That a tagged value sorts before or after another of its type."""
    order = order_of(operand)
    if order is None:
        return NOTHING
    return f"{place.order(order.key)} {sign} {quote_string(_canonical(order.text))}"


def _ordered(place: _Place, sign: str, operand: float | Decimal) -> str:
    if -_EXACT < operand < _EXACT:
        return compare_double(f"TRY_CAST({place.text} AS DOUBLE)", sign, operand)
    # Larger integers are not exact as doubles: integers and doubles are compared as themselves.
    integer = compare_integer(
        f"TRY_CAST({place.text} AS DECIMAL(20, 0))",
        sign,
        operand,
        least=-(2**63),
        greatest=2**64 - 1,
        literal="CAST('{}' AS DECIMAL(20, 0))".format,
    )
    double = compare_double(f"TRY_CAST({place.text} AS DOUBLE)", sign, operand)
    return any_of(
        [
            f"regexp_like({place.text}, '^-?[0-9]+$') AND {integer}",
            f"regexp_like({place.text}, '^-?[0-9]+[.e]') AND {double}",
        ]
    )


def _has_element(place: _Place, operand: Any) -> str:
    """That the value is a list, tuple or set with `operand`, which is none."""
    items = place.items
    clauses = [] if has_order(operand) and not is_number(operand) else [_is_element(items, operand)]
    if (order := order_of(operand)) is not None:
        path = f'$[*] ? (@."{order.key}" == {_canonical(order.text)})'
        clauses.append(f"{items.is_list} AND json_exists({items.value}, {quote_string(path)})")
    return any_of(clauses)


def _is_element(place: _Place, operand: Any) -> str:
    if isinstance(operand, str):
        # The JSON text of an element must be this, or this between quotes, which none can be.
        return f"json_array_contains({place.value}, '$', {quote_string(_canonical(operand))})"
    if not is_number(operand):
        path = quote_string(_elements_equal_to(_canonical(operand), operand))
        return f"{place.is_list} AND json_exists({place.value}, {path})"
    if not _spellings(operand):
        return NOTHING
    # A path compares integers with doubles as doubles: its results are filtered by their spelling.
    path = quote_string(_elements_equal_to(_path_number(operand), operand))
    found = f"json_extract({place.value}, {path})"
    pattern = rf"(^|[\[,]){_pattern(operand)}([\],]|$)"
    return f"{place.is_list} AND regexp_like({found}, {quote_string(pattern)})"


def _elements_equal_to(literal: str, operand: Any) -> str:
    # `@ == literal` also holds for lists that contain it. For those the second comparison, which is
    # never true, is between two types, and so the whole is undefined; for a scalar it is false.
    other = "null" if isinstance(operand, bool) else "false"
    return f"$[*] ? (@ == {literal} || @[0] < {other})"


def _path_number(operand: float | Decimal) -> str:
    """A number that paths can parse: they fail on "1.5", but not on ".15e1"."""
    if operand == int(operand) and -(2**63) <= operand < 2**64:
        return str(int(operand))
    sign, digits, exponent = Decimal(repr(float(operand))).as_tuple()
    assert isinstance(exponent, int)
    mantissa = "".join(map(str, digits))
    return f"{'-' if sign else ''}.{mantissa}e{len(digits) + exponent}"


def _has_number(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_number, value.values()))
    return any(map(_has_number, value)) if isinstance(value, list) else is_number(value)


def _canonical(value: Any) -> str:
    """The JSON text as the engine writes it, except for numbers."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _pattern(value: Any) -> str:
    """A regular expression for the engine's texts of values that equal a JSON value."""
    if isinstance(value, list):
        return rf"\[{','.join(map(_pattern, value))}\]"
    if isinstance(value, dict):
        entries = (f"{_pattern(key)}:{_pattern(value[key])}" for key in sorted(value))
        return rf"\{{{','.join(entries)}\}}"
    texts = _spellings(value) if is_number(value) else [_canonical(value)]
    return f"(?:{'|'.join(_SPECIAL.sub(_ESCAPED, text) for text in texts)})"


def _spellings(number: float | Decimal) -> list[str]:
    """The engine's possible texts of the integer and the float that equal a number.

    None for a number that JSON cannot contain.
    """
    if number == 0:
        return ["0", "0.0", "-0.0"]
    if not -_LARGEST <= number <= _LARGEST:
        return []
    whole = int(number)
    texts = [f"{whole}", f"{whole}.0"] if number == whole else []
    if number == float(number):
        decimal = Decimal(repr(float(number))).normalize()
        texts += [f"{decimal:e}"] if number == whole else [f"{decimal:f}", f"{decimal:e}"]
    return texts


# Conditions on values in JSON, evaluated in memory; see `json` for the engine's part.

_LEAST, _GREATEST = -(2**63), 2**64 - 1
"""The integers that the engine stores exactly."""

_ABSENT = object()

_FEW = 8
"""The number of texts that are searched in JSON before it is parsed."""


def condition_in_memory(leaf: tree.Condition, column: str) -> Test | None:
    """Whether a row meets the condition; None if the engine must evaluate every row."""
    if (holds := _holds(leaf)) is None:
        return None
    paths, written = leaf.field.paths, _written(leaf)

    def test(row: Mapping[str, Any]) -> bool:
        text = row.get(column)
        return holds(None if text is None else _found(_parsed[text], paths))

    if not written:
        return test

    def looked_for(row: Mapping[str, Any]) -> bool:
        text = row.get(column)
        if text is None or not (any(one in text for one in written) or "\\" in text):
            return False
        return test(row)

    return looked_for


def _written(leaf: tree.Condition) -> list[str]:
    """Texts, one of which occurs in each matching row's JSON, if nothing is escaped.

    Searching them takes a tenth of the time of parsing. Empty if none must occur.
    """
    match leaf:
        case tree.Comparison(operator="eq", operand=str(operand)):
            found = [operand]
        case tree.Membership(operands=operands) if len(operands) <= _FEW:
            found = [one for one in operands if isinstance(one, str)]
            found = found if len(found) == len(operands) else []
        case _:
            return []
    quoted = [f'"{one}"' for one in found]
    return quoted if quoted == [json.dumps(one, ensure_ascii=False) for one in found] else []


def lower(text: str) -> str:
    """In lower case, if the engine agrees. Raises UnsureError."""
    if not text.isascii() and any(unicodedata.category(one) == "Cn" for one in text):
        raise UnsureError  # newer than the Unicode that Python knows
    return text.lower()


lowered = remembered(64 * 1024)(lower)
"""As `lower`, for values that many rows are compared with."""

_parsed: Made[str, Any] = Made(
    json.loads, max_bytes=16 * 1024 * 1024, size_of=lambda text, _: 512 + 8 * len(text)
)
"""By text, values that several conditions read, in one search after the other."""


def _found(value: Any, paths: Sequence[Sequence[str]]) -> Any:
    """The value at the first existing path; None if none exists."""
    for path in paths:
        found = value
        for key in path:
            found = found.get(key, _ABSENT) if isinstance(found, dict) else _ABSENT
        if found is not _ABSENT:
            return found
    return None


def _holds(leaf: tree.Condition) -> Callable[[Any], bool] | None:
    match leaf:
        case tree.Absent():
            return lambda found: found is None
        case tree.Comparison(operator="eq", operand=operand) if _is_plain(operand):
            return lambda found: _same(_sure(found), operand)
        case tree.Comparison(operator=name, operand=operand) if isinstance(
            operand, str
        ) or is_number(operand):
            stands, is_text = COMPARISONS[name], isinstance(operand, str)
            return lambda found: (
                isinstance(found := _sure(found), str) is is_text
                and (is_text or is_number(found))
                and bool(stands(found, operand))
            )
        case tree.Membership(operands=operands) if all(map(_is_plain, operands)):
            return _among(operands)
        case tree.Contains(operand=operand) if _is_plain(operand):
            return lambda found: (
                (isinstance(operand, str) and isinstance(found, str) and operand in found)
                or _has(_sure(found), operand)
            )
        case tree.ContainsAny(operands=operands) if all(map(_is_plain, operands)):
            return lambda found: any(_has(_sure(found), one) for one in operands)
        case tree.ContainsAll(operands=operands) if all(map(_is_plain, operands)):
            return lambda found: (
                isinstance(_sure(found), list) and all(_has(found, one) for one in operands)
            )
        case tree.Text(part=part):
            return lambda found: isinstance(found, str) and lower(part) in lower(found)
    return None


def _among(operands: Sequence[Any]) -> Callable[[Any], bool]:
    """Whether a value is one of many: scalars are looked up, lists and objects compared."""
    # A NaN equals no other: json creates a new one each time, which a lookup does not find.
    scalars = {(_kind(one), one) for one in operands if not isinstance(one, list | dict)}
    others = [one for one in operands if isinstance(one, list | dict)]

    def holds(found: Any) -> bool:
        if not operands:
            return False
        if isinstance(sure := _sure(found), list | dict):
            return any(_same(sure, one) for one in others)
        return (_kind(sure), sure) in scalars

    return holds


def _kind(scalar: Any) -> type:
    """The type that distinguishes equal values: to Python 1 and True are the same."""
    return Decimal if is_number(scalar) else type(scalar)


def _is_plain(operand: Any) -> bool:
    """Whether it is plain JSON, or a number."""
    if isinstance(operand, list):
        return all(map(_is_plain, operand))
    if isinstance(operand, dict):
        return TYPE not in operand and all(map(_is_plain, operand.values()))
    return is_number(operand) or not has_order(operand)


def _sure(found: Any) -> Any:
    """The value itself. Raises UnsureError if it is tagged, or the engine may round it."""
    if isinstance(found, dict):
        if TYPE in found:
            raise UnsureError
        for one in found.values():
            _sure(one)
    elif isinstance(found, list):
        for one in found:
            _sure(one)
    elif (isinstance(found, int) and not _LEAST <= found <= _GREATEST) or (
        isinstance(found, float) and not -_LARGEST_IN_MEMORY <= found <= _LARGEST_IN_MEMORY
    ):
        raise UnsureError
    return found


def _has(found: Any, operand: Any) -> bool:
    return isinstance(found, list) and any(_same(one, operand) for one in found)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(_same(one[key], other[key]) for key in one)
        )
    if isinstance(one, bool) or isinstance(other, bool) or one is None or other is None:
        return one is other
    return isinstance(one, str) is isinstance(other, str) and bool(one == other)


_LARGEST_IN_MEMORY = Decimal(2) ** 1023
"""JSON's numbers beyond this are parsed in more than one way."""
