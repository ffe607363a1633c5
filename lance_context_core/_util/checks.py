"""Checks of arguments: what may be stored, in plain types, and the one JSON text that it becomes.

Every `check_…` takes the value and the name that an error shall call it by, and returns the value in
plain types, so that an enum, a numpy float or a tuple compares equal to what is read back.
"""

import json
import math
import reprlib
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from numbers import Real
from typing import Any, NoReturn, TypeGuard, TypeVar

from lance_context_core.errors import InvalidRequestError

W = TypeVar("W", bound=StrEnum)

MAX_DEPTH = 100
"""How many dicts and lists may stand in each other. Bounds every recursion over stored JSON."""

_LEAST, _MOST = -(2**63), 2**64 - 1
"""The engine's JSON keeps 64 bits, signed or not, and rounds what is larger to a float."""


def check_text(value: object, where: str) -> str:
    """`value` as a plain `str`. Refuses lone surrogates, which UTF-8 cannot hold; may be empty."""
    if not isinstance(value, str):
        raise InvalidRequestError(f"{where} must be a str, not {shown(value)}")
    text = str.__str__(value)
    if not text.isascii() and _has_lone_surrogate(text):
        raise InvalidRequestError(f"{where} is {shown(text)}, {_SURROGATE}")
    return text


def check_name(value: object, where: str) -> str:
    """`value` as a plain `str` that can name something: not empty, no NUL, no lone surrogates."""
    if type(value) is str and value and value.isascii() and "\0" not in value:  # as most are
        return value
    text = check_text(value, where)
    if not text:
        raise InvalidRequestError(f"{where} is empty: give it at least one character")
    if "\0" in text:
        raise InvalidRequestError(f"{where} holds a NUL character: {shown(text)}; remove it")
    return text


def check_names(values: object, where: str) -> list[str]:
    """`values` as a list of names. Refuses one text, which would be taken letter by letter."""
    return [check_name(one, f"{where}[{index}]") for index, one in enumerate(listed(values, where))]


def listed(values: object, where: str) -> list[Any]:
    """`values` as a list, whatever they are. Refuses a text, a mapping, and what is not many."""
    if type(values) is tuple or type(values) is list:  # as most are
        return list(values)
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidRequestError(f"{where} is {shown(values)}: pass a list")
    return list(values)


def check_time(value: object, where: str) -> datetime:
    """`value` as a plain `datetime` in UTC. Refuses a naive one: its instant is anybody's guess."""
    if not isinstance(value, datetime):
        raise InvalidRequestError(f"{where} must be a datetime, not {shown(value)}")
    if value.utcoffset() is None:
        raise InvalidRequestError(
            f"{where} is {value.isoformat()}, without a time zone: add one, such as tzinfo=UTC"
        )
    try:
        moment = value.astimezone(UTC)
    except OverflowError as error:
        raise InvalidRequestError(
            f"{where} is {value.isoformat()}, which falls outside the years 1 to 9999 in UTC: give another time"
        ) from error
    return datetime.combine(moment.date(), moment.time(), tzinfo=UTC)


def check_json(value: object, where: str) -> Any:
    """A deep copy of `value` in plain dicts, lists, strings, numbers, booleans and None.

    Accepts any mapping with string keys, lists and tuples. Refuses what would not read back the
    same: NaN and infinities, integers outside 64 bits (-2**63 to 2**64 - 1), lone surrogates, keys
    that are no strings, more than `MAX_DEPTH` levels, and every other type.
    """
    return _written(value, where)[0]


def check_json_object(value: object, where: str) -> dict[str, Any]:
    """As `check_json`, for a value that must be a mapping."""
    if type(value) is dict and not value:  # as most are
        return {}
    return written_json_object(value, where)[0]


def written_json_object(value: object, where: str) -> tuple[dict[str, Any], str]:
    """As `check_json_object`, with its canonical text, as `dumps` writes it."""
    if not isinstance(value, Mapping):
        raise InvalidRequestError(f"{where} must be a mapping, not {shown(value)}")
    return _written(value, where)


def check_span(*, offset: int, limit: int | None, last: int | None) -> None:
    """Raise InvalidRequestError unless these say which part of a list is wanted."""
    for name, value in (("offset", offset), ("limit", limit), ("last", last)):
        if value is None and name != "offset":
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InvalidRequestError(f"{name}={value!r}: give a whole number, 0 or more")
    if limit is not None and last is not None:
        raise InvalidRequestError(
            f"limit={limit} counts from the start and last={last} from the end: pass one of them"
        )


def check_count(value: object, where: str, *, least: int = 1) -> int:
    """`value` as an int of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidRequestError(f"{where}={shown(value)}: give a whole number, {least} or more")
    return int(value)


def check_word(value: Any, words: type[W], where: str) -> W:
    """Which of the words it is. Raises InvalidRequestError for another one."""
    try:
        return words(value)
    except ValueError:
        raise InvalidRequestError(
            f"{where}={shown(value)}: use one of {', '.join(words)}"
        ) from None


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a real number of whatever type, and neither True nor False."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_seconds(value: object, where: str) -> float:
    """`value` as a duration that can be waited for."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e6:
        raise InvalidRequestError(f"{where}={shown(value)}: give a positive number of seconds")
    return float(value)


dumps: Callable[[Any], str] = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False
).encode
"""The canonical JSON text of a checked value: compact, keys in their order, not escaped."""


def loads(text: str, where: str) -> Any:
    """The value of a JSON text. Malformed text, `NaN` and `Infinity` raise InvalidRequestError.

    What JSON allows and `check_json` refuses (an escaped lone surrogate, a huge integer) passes.
    """
    if not isinstance(text, str):
        raise InvalidRequestError(f"{where} must be JSON text, not {shown(text)}")
    try:
        return _decoded(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRequestError(f"{where} is not JSON: {error}; got {shown(text)}") from error


def _decoded(text: str) -> Any:
    """The value of a text: without a look for spaces around it, a short one takes half the time."""
    try:
        value, end = _SCAN(text, 0)
    except StopIteration:
        end = -1
    return value if end == len(text) else _DECODER.decode(text)


def _written(value: object, where: str) -> tuple[Any, str]:
    """A copy of `value` and its text.

    The text is written and read in C: if what comes back is the same, that is the copy. Both take
    half to four fifths of the time of walking through the value and writing it then. Whatever is in
    doubt `_plain` takes or refuses.
    """
    if type(value) is dict and not value:
        return {}, "{}"
    try:
        text = dumps(value)
        copy = _STRICT_DECODER.decode(text)
        # A key that is no string and a tuple come back as something else.
        is_same = copy == value and text.count("{") + text.count("[") <= MAX_DEPTH
    except (TypeError, ValueError, RecursionError):
        is_same = False
    if is_same and not _has_lone_surrogate(text):
        return copy, text
    try:
        copy = _plain(value, MAX_DEPTH)
    except _RefusedError as refused:
        steps = [f"[{shown(step)}]" for step in reversed(refused.path)]
        path = "".join(steps[:5]) + ("[…]" if steps[5:] else "")
        raise InvalidRequestError(f"{where}{path} is {refused.reason}") from None
    return copy, dumps(copy)


_SURROGATE = "with a lone surrogate: replace it with text.encode(errors='replace').decode()"


class _RefusedError(Exception):
    """Why a value cannot be stored, and the keys and indices that lead to it, innermost first."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: list[str | int] = []


def _plain(value: object, depth: int) -> Any:
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return _plain_text(value)
    if isinstance(value, int):
        return _plain_int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _RefusedError(f"{float(value)}, which JSON cannot hold: use None or a string")
        return float(value)
    if isinstance(value, Mapping | list | tuple):
        if depth == 0:
            raise _RefusedError(f"nested more than {MAX_DEPTH} deep, or holds itself: flatten it")
        return (
            _plain_dict(value, depth) if isinstance(value, Mapping) else _plain_list(value, depth)
        )
    raise _RefusedError(
        f"{shown(value)}, which JSON cannot hold: "
        "make it a dict, list, str, int, float, bool or None first"
    )


def _plain_text(value: str) -> str:
    if _has_lone_surrogate(value):
        raise _RefusedError(f"{shown(value)}, {_SURROGATE}")
    return str.__str__(value)


def _plain_int(value: int) -> int:
    if not _LEAST <= value <= _MOST:
        raise _RefusedError(f"an integer of {value.bit_length()} bits, over 64: use a string")
    return int(value)


def _plain_dict(value: Mapping[object, object], depth: int) -> dict[str, Any]:
    plain = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise _RefusedError(f"a mapping with the key {shown(key)}: keys must be strings")
        name = _plain_text(key)
        try:
            plain[name] = _plain(item, depth - 1)
        except _RefusedError as refused:
            refused.path.append(name)
            raise
    return plain


def _plain_list(value: list[object] | tuple[object, ...], depth: int) -> list[Any]:
    plain = []
    for index, item in enumerate(value):
        try:
            plain.append(_plain(item, depth - 1))
        except _RefusedError as refused:
            refused.path.append(index)
            raise
    return plain


def _has_lone_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def shown(value: object) -> str:
    """What an error message shows of a value: its shortened repr, and its type where that helps."""
    if isinstance(value, str | bool | int | float | None):
        return reprlib.repr(value)
    return f"{reprlib.repr(value)} ({type(value).__name__})"


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _of_64_bits(digits: str) -> int:
    if not _LEAST <= (number := int(digits)) <= _MOST:
        raise ValueError(f"{digits} has more than 64 bits")
    return number


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_SCAN: Callable[[str, int], tuple[Any, int]] = vars(_DECODER)["scan_once"]
_STRICT_DECODER = json.JSONDecoder(parse_int=_of_64_bits)
