"""Conditions on what is inside a JSON column, in the functions that the engine has for that."""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from lance_context_core._util.frozen import frozen
from lance_context_core._util.json_tags import LISTS, TYPE, VALUE, has_order, order_of
from lance_context_core.engine.sql.clauses import NOTHING, SIGNS, all_of, any_of, quote_string
from lance_context_core.engine.sql.numbers import compare_double, compare_integer, is_number
from lance_context_core.filters import tree

_EXACT = 2**53
"""Up to here a double is as good as the number that it is made of."""

_LARGEST = sys.float_info.max

_MAX_PATTERN = 20_000
"""Characters of a regular expression; the engine refuses to build very large ones."""

_SPECIAL, _ESCAPED = re.compile(r"[\\.+*?()|\[\]{}^$]"), r"\\\g<0>"
_POSITION = re.compile(r"\+?[0-9]+")


def condition(leaf: tree.Condition, column: str) -> str:
    """The condition on a quoted JSON column. It is NULL for some rows that do not match."""
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
    """A value in the JSON of a column, in the three forms in which the engine hands it out."""

    value: str
    """Binary JSON; NULL where there is no value."""
    text: str
    """Canonical JSON text."""
    string: str
    """The text that a string is; NULL for other values."""

    @property
    def is_list(self) -> str:
        return f"starts_with({self.text}, '[')"

    def order(self, key: str) -> str:
        """Canonical JSON text of what a stand-in sorts by; NULL for what has no order of that key."""
        return f"json_extract(json_get({self.value}, {quote_string(key)}), '$')"

    @property
    def items(self) -> "_Place":
        """What a tuple or a set that is stood in for holds; of other values, the value itself."""
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
            # Reading a string where there is none raises, so that only strings may get there.
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
    # json_get takes any key, while a path of json_extract cannot name the empty one; but it reads
    # numbers as positions when it meets a list, and a path does not.
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
    """The clauses of which one holds where the value is one of some in JSON."""
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
    """That a value which is stood in for comes before or after one of its like."""
    order = order_of(operand)
    if order is None:
        return NOTHING
    return f"{place.order(order.key)} {sign} {quote_string(_canonical(order.text))}"


def _ordered(place: _Place, sign: str, operand: float | Decimal) -> str:
    if -_EXACT < operand < _EXACT:
        return compare_double(f"TRY_CAST({place.text} AS DOUBLE)", sign, operand)
    # Beyond, integers are not what they are as doubles: each sort is compared as itself.
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
    """That the value is a list, tuple or set with `operand`, which is none of these, in it."""
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
    # A path compares integers with doubles as doubles: what it finds is sifted by its spelling.
    path = quote_string(_elements_equal_to(_path_number(operand), operand))
    found = f"json_extract({place.value}, {path})"
    pattern = rf"(^|[\[,]){_pattern(operand)}([\],]|$)"
    return f"{place.is_list} AND regexp_like({found}, {quote_string(pattern)})"


def _elements_equal_to(literal: str, operand: Any) -> str:
    # `@ == literal` holds for lists that contain it, too. For those the second comparison, which
    # is never true, is between two types, and so the whole undefined; of a scalar it is false.
    other = "null" if isinstance(operand, bool) else "false"
    return f"$[*] ? (@ == {literal} || @[0] < {other})"


def _path_number(operand: float | Decimal) -> str:
    """A number as paths can read it: they stop at the point of "1.5", but not at that of ".15e1"."""
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
    """The JSON text as the engine writes it, but for numbers."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _pattern(value: Any) -> str:
    """A regular expression for the texts that the engine writes for what equals a JSON value."""
    if isinstance(value, list):
        return rf"\[{','.join(map(_pattern, value))}\]"
    if isinstance(value, dict):
        entries = (f"{_pattern(key)}:{_pattern(value[key])}" for key in sorted(value))
        return rf"\{{{','.join(entries)}\}}"
    texts = _spellings(value) if is_number(value) else [_canonical(value)]
    return f"(?:{'|'.join(_SPECIAL.sub(_ESCAPED, text) for text in texts)})"


def _spellings(number: float | Decimal) -> list[str]:
    """The texts that the engine may write for the integer and the float that equal a number.

    None for one that JSON cannot hold.
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
