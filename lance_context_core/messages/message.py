"""The message, and the JSON form of it and of its parts: it loses nothing, not even what is newer.

An object is named by its `type`. What is absent is left out, bytes are base64, keys that a known
type does not have are its `extra`, and an unknown type is kept as it is.
"""

import base64
import copy
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, field, fields
from datetime import datetime
from typing import Any, Self, TypedDict, Unpack, cast, get_args

from lance_context_core._util.checks import (
    check_json_object,
    check_name,
    check_time,
    dumps,
    loads,
    shown,
)
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import InvalidRequestError
from lance_context_core.messages.parts import (
    MAX_NESTING,
    TOO_NESTED,
    BasePart,
    Content,
    MediaPart,
    Part,
    TextPart,
    ToolResultPart,
    UnknownPart,
    as_parts,
    decode_base64,
    parts_text,
    text_part,
)


class MessageFields(TypedDict, total=False):
    """What every constructor of `Message` takes besides the role and the content."""

    id: str | None
    """Unique in its session; generated when it is stored, where it is absent."""
    name: str | None
    """The speaker, where several share a role."""
    created_at: datetime | None
    """Aware; when it is stored, where it is absent."""
    metadata: Mapping[str, Any]
    """JSON by key."""
    native: Mapping[str, Any] | None
    """The writing framework's own serialisation, kept verbatim."""


@frozen_by_name
class Message:
    """One message of a conversation.

    It converts its arguments to plain types and copies: two messages that say the same are equal,
    and remain so after the JSON form was read back. What cannot be stored raises
    InvalidRequestError here already.
    """

    role: str
    """Who speaks: `user`, `assistant`, `system`, `tool`, or a framework's own word."""
    parts: tuple[Part, ...]
    """In order; may be empty. Any `Content` is accepted and converted to a tuple."""
    id: str | None = None
    """Unique in its session; generated when it is stored, where it is absent."""
    name: str | None = None
    """The speaker, where several share a role."""
    created_at: datetime | None = None
    """Any aware time is accepted and kept in UTC."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """JSON by key."""
    native: Mapping[str, Any] | None = None
    """The writing framework's own serialisation, `{"framework": "…", …}`, kept verbatim.

    It lets the same framework read back exactly what it wrote.
    """

    def __post_init__(self) -> None:
        plain: dict[str, object] = {
            "role": check_name(self.role, "Message.role"),
            "parts": as_parts(self.parts, "Message.parts"),
            "metadata": check_json_object(self.metadata, "Message.metadata"),
        }
        if self.id is not None:
            plain["id"] = check_name(self.id, "Message.id")
        if self.name is not None:
            plain["name"] = check_name(self.name, "Message.name")
        if self.created_at is not None:
            plain["created_at"] = check_time(self.created_at, "Message.created_at")
        if self.native is not None:
            native = check_json_object(self.native, "Message.native")
            check_name(native.get("framework"), "Message.native['framework']")
            plain["native"] = native
        for name, value in plain.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, role: str, content: Content, **rest: Unpack[MessageFields]) -> Self:
        """A message of any role."""
        return cls(role=role, parts=as_parts(content, "content"), **rest)

    @classmethod
    def user(cls, content: Content, **rest: Unpack[MessageFields]) -> Self:
        """What a user said."""
        return cls.of("user", content, **rest)

    @classmethod
    def assistant(cls, content: Content, **rest: Unpack[MessageFields]) -> Self:
        """What a model said: text, reasoning, tool calls."""
        return cls.of("assistant", content, **rest)

    @classmethod
    def system(cls, content: Content, **rest: Unpack[MessageFields]) -> Self:
        """An instruction to the model."""
        return cls.of("system", content, **rest)

    @classmethod
    def tool(
        cls,
        content: Content,
        *,
        call_id: str | None,
        tool_name: str | None = None,
        is_error: bool = False,
        **rest: Unpack[MessageFields],
    ) -> Self:
        """The result of one tool call: its only part is a `ToolResultPart` that holds `content`."""
        result = ToolResultPart(
            call_id=call_id,
            name=tool_name,
            content=as_parts(content, "content"),
            is_error=is_error,
        )
        return cls.of("tool", result, **rest)

    @property
    def text(self) -> str:
        """What a person would read: the text parts, those in tool results too, joined by newlines.

        Empty if there are none; reasoning, tool calls and captions are not among them.
        """
        return parts_text(self.parts)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, as a copy: what is absent and empty metadata are left out."""
        return copy.deepcopy(self._encode())

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The message that `to_dict` wrote, equal to it.

        Raises InvalidRequestError for what is no message. A key that a message does not have is an
        error as well, because there is no place to keep it.
        """
        if not isinstance(data, Mapping):
            raise InvalidRequestError(f"message must be an object, not {shown(data)}")
        known = {f.name for f in fields(cls)}
        if unknown := [key for key in data if key not in known]:
            raise InvalidRequestError(
                f"message has the unknown keys {shown(unknown)}: put them into its metadata"
            )
        given = {key: value for key, value in data.items() if value is not None}
        if missing := sorted({"role", "parts"} - given.keys()):
            raise InvalidRequestError(f"message must have {missing}: {shown(data)}")
        given["parts"] = decode_parts(given["parts"], "parts")
        if "created_at" in given:
            given["created_at"] = _decode_time(given["created_at"])
        return cls(**given)

    def to_json(self) -> str:
        """The JSON form as compact text."""
        return dumps(self._encode())

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The message that `to_json` wrote, equal to it. Raises as `from_dict` does."""
        return cls.from_dict(loads(text, "message"))

    def _encode(self) -> dict[str, Any]:
        encoded = {
            "role": self.role,
            "parts": encode_parts(self.parts),
            "id": self.id,
            "name": self.name,
            "created_at": self.created_at.isoformat() if self.created_at else None,
            "metadata": self.metadata or None,
            "native": self.native,
        }
        return {key: value for key, value in encoded.items() if value is not None}


_set_role, _set_parts, _set_id, _set_name, _set_created_at, _set_metadata, _set_native = (
    vars(Message)[one.name].__set__ for one in fields(Message)
)
"""What sets the fields of a frozen message, in a third of the time that `object.__setattr__` takes."""


def stored_message(
    *,
    role: str,
    parts: tuple[Part, ...],
    id: str | None,
    name: str | None,
    created_at: datetime | None,
    metadata: Mapping[str, Any],
    native: Mapping[str, Any] | None,
) -> Message:
    """The message whose values the store has kept, all of them: they are not checked or copied again.

    That would take two thirds of the time of reading a message.
    """
    message = object.__new__(Message)
    _set_role(message, role)
    _set_parts(message, parts)
    _set_id(message, id)
    _set_name(message, name)
    _set_created_at(message, created_at)
    _set_metadata(message, metadata)
    _set_native(message, native)
    return message


def text_message(text: object, where: str) -> Message:
    """`Message.user(text)`, checked under the name that the caller knows it by, and not once more."""
    return stored_message(
        role="user",
        parts=(text_part(text, where),),
        id=None,
        name=None,
        created_at=None,
        metadata={},
        native=None,
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


def _decode_time(text: object) -> datetime:
    try:
        return datetime.fromisoformat(cast("str", text))  # Of another type it is a TypeError.
    except (TypeError, ValueError) as error:
        raise InvalidRequestError(
            f"created_at must be an ISO 8601 time with a zone, not {shown(text)}"
        ) from error


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
    if kind is TextPart and len(data) == 2 and data.get("text") is not None:
        return text_part(data["text"], "TextPart.text")  # What most messages are of.
    given = {key: data[key] for key in _FIELDS[name] if data.get(key) is not None}
    if missing := _REQUIRED[name] - given.keys():
        raise InvalidRequestError(
            f"a part of type {name!r} must have {sorted(missing)}: {shown(data)}"
        )
    if kind is ToolResultPart and "content" in given:
        given["content"] = decode_parts(given["content"], "content", nesting=nesting + 1)
    if issubclass(kind, MediaPart) and "data" in given:
        given["data"] = decode_base64(given["data"], f"{kind.__name__}.data")
    extra: dict[str, Any] = {}
    if len(data) > 1 + len(given):
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
