"""Values that JSON cannot hold, as JSON, and back: what tools return beside their answer."""

import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from langchain_core.documents import Document

from lance_context_core import InvalidRequestError

_TYPE = "lance_context:type"
"""The key that marks a stand-in; mappings that have it themselves are stood in for, too."""
_VALUE = "value"

_SCALARS: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "bytes": (bytes, lambda value: b64encode(value).decode(), b64decode),
    "datetime": (datetime, datetime.isoformat, datetime.fromisoformat),
    "date": (date, date.isoformat, date.fromisoformat),
    "time": (time, time.isoformat, time.fromisoformat),
    "timedelta": (
        timedelta,
        lambda value: [value.days, value.seconds, value.microseconds],
        lambda parts: timedelta(*parts),
    ),
    "decimal": (Decimal, str, Decimal),
    "uuid": (UUID, str, UUID),
}
"""By name: the type, and the ways there and back. A datetime is a date, so that it comes first."""


def encode(value: Any, where: str) -> Any:
    """`value` as JSON that `decode` makes equal to it again.

    Besides what JSON has: any integer and float, tuples, sets, mappings with keys of any kind, bytes,
    times, decimals, UUIDs and documents. Raises InvalidRequestError, which calls it `where`, for
    everything else.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value) if -(2**63) <= value < 2**63 else _stand_in("int", str(int(value)))
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _stand_in("float", repr(float(value)))
    if isinstance(value, Mapping):
        return _encode_mapping(value, where)
    if isinstance(value, list):
        return [encode(one, f"{where}[{index}]") for index, one in enumerate(value)]
    for name, (type_, there, _) in _SCALARS.items():
        if isinstance(value, type_):
            return _stand_in(name, there(value))
    if isinstance(value, tuple | set | frozenset):
        return _stand_in(_name_of(value), encode(list(value), where))
    if isinstance(value, Document):
        fields = {name: getattr(value, name) for name in ("id", "metadata", "page_content")}
        return _stand_in("document", encode(fields, where))
    raise InvalidRequestError(
        f"{where} is a {type(value).__qualname__}, which cannot be stored: make it JSON first"
    )


def decode(value: Any) -> Any:
    """What `encode` made JSON of."""
    if isinstance(value, list):
        return [decode(one) for one in value]
    if not isinstance(value, dict):
        return value
    if _TYPE not in value:
        return {key: decode(one) for key, one in value.items()}
    name, content = value[_TYPE], value[_VALUE]
    if name in _SCALARS:
        return _SCALARS[name][2](content)
    return _DECODERS[name](decode(content))


def _encode_mapping(value: Mapping[Any, Any], where: str) -> Any:
    if all(isinstance(key, str) for key in value) and _TYPE not in value:
        return {str.__str__(key): encode(one, f"{where}[{key!r}]") for key, one in value.items()}
    return _stand_in("mapping", encode([list(pair) for pair in value.items()], where))


def _name_of(value: tuple[Any, ...] | set[Any] | frozenset[Any]) -> str:
    return next(one.__name__ for one in (tuple, set, frozenset) if isinstance(value, one))


def _stand_in(name: str, content: Any) -> dict[str, Any]:
    return {_TYPE: name, _VALUE: content}


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "int": int,
    "float": float,
    "mapping": dict,
    "document": lambda fields: Document(**fields),
}
