"""Conditions on what is inside JSON, asked of a text in memory; see `json` for the engine's part."""

import json
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from lance_context_core._util.json_tags import TYPE, has_order
from lance_context_core._util.lru import Made, remembered
from lance_context_core.engine.sql.clauses import COMPARISONS, Test, UnsureError
from lance_context_core.engine.sql.numbers import is_number
from lance_context_core.filters import tree

_LEAST, _GREATEST = -(2**63), 2**64 - 1
"""What the engine keeps of integers as they are."""

_ABSENT = object()


def condition(leaf: tree.Condition, column: str) -> Test | None:
    """Whether a row meets the condition; None if only the engine can tell of any."""
    if (holds := _holds(leaf)) is None:
        return None
    paths = leaf.field.paths

    def test(row: Mapping[str, Any]) -> bool:
        text = row.get(column)
        return holds(None if text is None else _found(_parsed[text], paths))

    return test


def lower(text: str) -> str:
    """In lower case, if that is what the engine takes for it. Raises UnsureError."""
    if not text.isascii() and any(unicodedata.category(one) == "Cn" for one in text):
        raise UnsureError  # Newer than the Unicode that Python knows.
    return text.lower()


lowered = remembered(64 * 1024)(lower)
"""As `lower`, of what many rows are asked for."""

_parsed: Made[str, Any] = Made(
    json.loads, max_bytes=4 * 1024 * 1024, size_of=lambda text, _: 512 + 8 * len(text)
)
"""By their texts, values that several conditions ask for, in one search after the other."""


def _found(value: Any, paths: Sequence[Sequence[str]]) -> Any:
    """The value at the first of the paths that there is; None if there is none."""
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
    # A NaN is no other's equal: json reads a new one each time, which is not found by the first.
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
    """What only its like equals: to Python 1 and True are the same."""
    return Decimal if is_number(scalar) else type(scalar)


def _is_plain(operand: Any) -> bool:
    """Whether it is as JSON has it, or a number."""
    if isinstance(operand, list):
        return all(map(_is_plain, operand))
    if isinstance(operand, dict):
        return TYPE not in operand and all(map(_is_plain, operand.values()))
    return is_number(operand) or not has_order(operand)


def _sure(found: Any) -> Any:
    """The value as it is. Raises UnsureError if it stands for another, or the engine may round it."""
    if isinstance(found, dict):
        if TYPE in found:
            raise UnsureError
        for one in found.values():
            _sure(one)
    elif isinstance(found, list):
        for one in found:
            _sure(one)
    elif (isinstance(found, int) and not _LEAST <= found <= _GREATEST) or (
        isinstance(found, float) and not -_LARGEST <= found <= _LARGEST
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


_LARGEST = Decimal(2) ** 1023
"""Beyond, JSON's numbers are read in more than one way."""
