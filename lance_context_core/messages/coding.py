"""The JSON form of a message's parts: it loses nothing, not even what a newer release wrote.

An object is named by its `type`. What is absent is left out, bytes are base64, keys that a known
type does not have are its `extra`, and an unknown type is kept as it is.
"""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Any, cast, get_args

from lance_context_core._checks import (
    dumps,
    loads,
    shown,
)
from lance_context_core.errors import InvalidRequestError
from lance_context_core.messages.parts import (
    MAX_NESTING,
    TOO_NESTED,
    BasePart,
    MediaPart,
    Part,
    ToolResultPart,
    UnknownPart,
    decode_base64,
)


def parts_to_json(parts: Iterable[Part]) -> str:
    """The parts as the compact text of a JSON array."""
    return dumps(encode_parts(parts))


def parts_from_json(text: str) -> tuple[Part, ...]:
    """The parts that `parts_to_json` wrote, equal to them.

    Raises InvalidRequestError for what is no array of objects with a `type`, and for a part of a
    known kind whose fields are wrong.
    """
    return decode_parts(loads(text, "parts"), "parts")


def encode_parts(parts: Iterable[Part]) -> list[dict[str, Any]]:
    """The JSON form. It shares values with the parts: to be written or copied, not changed."""
    return [_encode_part(part) for part in parts]


def decode_parts(data: object, where: str, *, nesting: int = 0) -> tuple[Part, ...]:
    """The inverse of `encode_parts`; `nesting` counts the tool results around `data`."""
    if not isinstance(data, list | tuple):
        raise InvalidRequestError(f"{where} must be an array, not {shown(data)}")
    if nesting > MAX_NESTING:
        raise InvalidRequestError(TOO_NESTED)
    return tuple(
        _decode_part(item, f"{where}[{index}]", nesting=nesting) for index, item in enumerate(data)
    )


_KINDS: dict[str, type[BasePart]] = {
    kind.type: kind for kind in get_args(Part) if issubclass(kind, BasePart)
}
_FIELDS = {
    name: tuple(f.name for f in fields(kind) if f.name != "extra") for name, kind in _KINDS.items()
}
_REQUIRED = {
    name: {f.name for f in fields(kind) if f.default is f.default_factory is MISSING}
    for name, kind in _KINDS.items()
}


def _encode_part(part: Part) -> dict[str, Any]:
    if isinstance(part, UnknownPart):
        flat = {"type": part.type, **part.payload}
        # Flat it would be read back as the part of ours that bears its name.
        return {"type": "unknown", "part": flat} if _innermost_type(flat) in _KINDS else flat
    encoded: dict[str, Any] = {"type": part.type}
    for name in _FIELDS[part.type]:
        value = getattr(part, name)
        if isinstance(value, bytes):
            value = base64.b64encode(value).decode()
        elif isinstance(value, tuple):
            value = encode_parts(value)
        if value is not None:
            encoded[name] = value
    return {**encoded, **part.extra}


def _decode_part(data: object, where: str, *, nesting: int) -> Part:
    if not isinstance(data, Mapping) or not isinstance(data.get("type"), str):
        raise InvalidRequestError(f"{where} must be an object with a `type`, not {shown(data)}")
    try:
        kind = data["type"]
        return _decode_known(data, nesting) if kind in _KINDS else _decode_unknown(data)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"{where}: {error}") from error


def _decode_known(data: Mapping[str, Any], nesting: int) -> Part:
    name, kind = data["type"], _KINDS[data["type"]]
    given = {key: data[key] for key in _FIELDS[name] if data.get(key) is not None}
    if missing := sorted(_REQUIRED[name] - given.keys()):
        raise InvalidRequestError(f"a part of type {name!r} must have {missing}: {shown(data)}")
    if kind is ToolResultPart and "content" in given:
        given["content"] = decode_parts(given["content"], "content", nesting=nesting + 1)
    if issubclass(kind, MediaPart) and "data" in given:
        given["data"] = decode_base64(given["data"], f"{kind.__name__}.data")
    extra = {key: data[key] for key in data if key != "type" and key not in _FIELDS[name]}
    return cast("Part", kind(**given, extra=extra))


def _decode_unknown(data: Mapping[str, Any]) -> UnknownPart:
    flat = data["part"] if _innermost_type(data) in _KINDS else data
    payload = {key: value for key, value in flat.items() if key != "type"}
    return UnknownPart(type=flat["type"], payload=payload)


def _innermost_type(data: Mapping[str, Any]) -> str:
    """The type that is left when every wrapper `{"type": "unknown", "part": …}` is taken off."""
    kind: str = data["type"]
    while kind == "unknown" and data.keys() == {"type", "part"}:
        inner: object = data["part"]
        if not isinstance(inner, Mapping) or not isinstance(inner.get("type"), str):
            break
        data, kind = inner, inner["type"]
    return kind
