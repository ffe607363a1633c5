"""Converts messages of agentscope-runtime to canonical ones, and back.

A written message keeps AgentScope's own form too, and reads back equal. Messages of other
frameworks are translated.
"""

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from agentscope_lance_context import _contents
from agentscope_lance_context._runtime import Message, TextContent
from lance_context_core import (
    DataPart,
    InvalidRequestError,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from lance_context_core import Message as CanonicalMessage
from lance_context_core.adapting import encodable
from lance_context_core.messages import Part

FRAMEWORK = "agentscope"
_FORM = "runtime"
"""The name of this message format: AgentScope's libraries have several."""

_FEW = 100
"""Number of messages that may be converted without blocking an event loop for long."""

_RECALLED = "long_term_memory"
"""The name of messages in which AgentScope's agents show recalled memories."""

_ROLES = ("assistant", "system", "user", "tool")


class StoredMessage(Message):
    """A message that can also be read as a mapping.

    It equals any message with the same content, and a dict from which such a message would be made;
    fields that the dict lacks, such as the id, are ignored.
    """

    def __getitem__(self, name: str) -> Any:
        """The field of that name; raises KeyError if there is none."""
        if name not in self.__dict__:
            raise KeyError(name)
        return getattr(self, name)

    def get(self, name: str, default: Any = None) -> Any:
        """The field of that name, or `default`."""
        return self.__dict__.get(name, default)

    def keys(self) -> list[str]:
        """The names of the fields."""
        return list(self.__dict__)

    def __eq__(self, other: object) -> bool:
        """Whether all fields are equal, or all fields of a dict."""
        if isinstance(other, Message):
            return self.__dict__ == other.__dict__
        if not isinstance(other, Mapping) or not other.keys() <= self.__dict__.keys():
            return NotImplemented
        try:
            made = _normalized(other, "other")
        except InvalidRequestError:
            return NotImplemented
        return all(made[name] == self[name] for name in other)

    __hash__ = None  # type: ignore[assignment]  # as in the base, because it can be changed


def normalized(messages: object, where: str) -> list[StoredMessage]:
    """One message or several, each a `Message` or a dict; None becomes an empty list.

    The content of a dict may be a string. Raises InvalidRequestError for a value that is not a message.
    """
    several = messages if isinstance(messages, list | tuple) else [messages]
    return [
        _normalized(one, f"{where}[{index}]")
        for index, one in enumerate(several)
        if one is not None
    ]


def to_canonical(message: Message, *, id: str | None = None) -> CanonicalMessage:
    """The canonical message, which keeps AgentScope's own form.

    Its id is not AgentScope's, which may occur repeatedly. Lone surrogates are replaced. Raises
    InvalidRequestError for a message that cannot be stored.
    """
    try:
        return _canonical(message, id)
    except InvalidRequestError:
        # Lone surrogates are rare, so that messages without one are not walked.
        if (replaced := encodable(message)) is message:
            raise
        return _canonical(replaced, id)


def _canonical(message: Message, id: str | None) -> CanonicalMessage:
    try:
        # Otherwise it would turn NaN into null.
        json.dumps(message.model_dump(), default=str, allow_nan=False)
        data = message.model_dump(mode="json")
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidRequestError(
            f"message {message.id!r:.80} holds something that JSON cannot: {error}"
        ) from error
    return CanonicalMessage(
        role=_canonical_role(message),
        parts=tuple(_contents.to_parts(message.type, data.get("content") or ())),
        id=id,
        name=_name(data),
        native={"framework": FRAMEWORK, "form": _FORM, "data": data},
    )


def as_memory(message: CanonicalMessage) -> CanonicalMessage:
    """The message in a form that the store's memory stores, even if it is blank.

    AgentScope's runtime lists every added message, tool calls and blank ones too.
    """
    if message.text.strip() or any(not isinstance(part, TextPart) for part in message.parts):
        return message
    return replace(message, parts=(*message.parts, DataPart(data=None)))


def from_canonical(message: CanonicalMessage) -> list[Message]:
    """The AgentScope messages of a canonical one.

    One, unless another framework wrote a message with calls, results or reasoning and other parts:
    each of these is its own message here, with the same `original_id`.
    """
    native = message.native
    if native and native.get("framework") == FRAMEWORK and native.get("form") == _FORM:
        return [_restored(native["data"])]
    return list(_translated(message))


async def read(stored: Sequence[CanonicalMessage]) -> list[Message]:
    """The messages of canonical ones, in order; large numbers are converted in a thread."""
    if len(stored) <= _FEW:
        return _read(stored)
    return await asyncio.to_thread(_read, stored)


def first_text(message: Message) -> str:
    """The text that AgentScope searches for and in: the first text of a message."""
    if message.type != _contents.MESSAGE:
        return ""
    texts = (one.text for one in message.content or () if getattr(one, "type", None) == "text")
    return next(texts, None) or ""


def question(messages: object) -> str:
    """The query: the first text of the last message; empty without one."""
    if not isinstance(messages, list) or not messages:
        return ""
    last = normalized(messages[-1:], "messages")
    return first_text(last[0]) if last else ""


def distinct(messages: Sequence[Message]) -> list[tuple[str, Message]]:
    """Each message with its identity; the first of equal ones.

    AgentScope 1.0 makes several messages of one of its agents' messages, with new ids each time:
    the identity is the original's id and the position among its messages. Recalled messages are
    left out, since they were stored before.
    """
    found: dict[str, Message] = {}
    for original, group in groupby(messages, key=_original):
        run = list(group)
        if original is None:
            for one in run:
                found.setdefault(one.id, one)
        elif original.name != _RECALLED:
            length = _period([_said(one) for one in run])
            for number, one in enumerate(run):
                found.setdefault(f"{original.id}:{number % length}", one)
    return list(found.items())


class _Original(NamedTuple):
    """The agent's message that a message was made from."""

    id: str
    name: str | None


def _original(message: Message) -> _Original | None:
    metadata = getattr(message, "metadata", None) or {}
    original = metadata.get("original_id")
    return _Original(original, metadata.get("original_name")) if original else None


def _said(message: Message) -> tuple[str, list[dict[str, Any]]]:
    """The fields that stay equal when a message is made twice."""
    return message.type, [_contents.said(one.model_dump()) for one in message.content or ()]


def _period(run: Sequence[object]) -> int:
    """The period of a repeated sequence; an agent may record a message twice."""
    lengths = (n for n in range(1, len(run)) if len(run) % n == 0)
    return next((n for n in lengths if run[n:] == run[:-n]), len(run))


def _read(stored: Sequence[CanonicalMessage]) -> list[Message]:
    return [message for one in stored for message in from_canonical(one)]


def _normalized(given: object, where: str) -> StoredMessage:
    if isinstance(given, StoredMessage):
        return given
    if isinstance(given, Message):
        # The contents are shared, as in AgentScope's own services.
        return StoredMessage.model_construct(set(given.model_fields_set), **_fields(given))
    if not isinstance(given, Mapping):
        raise InvalidRequestError(f"{where} is {given!r:.80}: give a Message, or a dict of one")
    fields = dict(given)
    if isinstance(fields.get("content"), str):
        fields["content"] = [{"type": "text", "text": fields["content"]}]
    try:
        return StoredMessage.model_validate(fields)
    except ValueError as error:
        raise InvalidRequestError(f"{where} is not a message: {error}") from error


def _fields(message: Message) -> dict[str, Any]:
    """The fields of every message, without those of a subclass."""
    return {name: value for name, value in message.__dict__.items() if name in _known_fields()}


def _known_fields() -> Mapping[str, Any]:
    fields: Mapping[str, Any] = StoredMessage.model_fields  # type: ignore[attr-defined]  # pydantic's
    return fields


def _canonical_role(message: Message) -> str:
    if _contents.is_output(message.type):
        return "tool"
    is_answer = _contents.is_call(message.type) or message.type == _contents.REASONING
    return message.role or ("assistant" if is_answer else "user")


def _name(data: Mapping[str, Any]) -> str | None:
    metadata = data.get("metadata")
    name = metadata.get("original_name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) and name and "\0" not in name else None


def _restored(data: Mapping[str, Any]) -> Message:
    """The stored message; contents that this release lacks become texts."""
    try:
        return StoredMessage.model_validate(data)
    except ValueError:
        shown = [_shown(content) for content in data.get("content") or ()]
        role = data["role"] if data.get("role") in _ROLES else None
        return StoredMessage.model_validate({**data, "role": role, "content": shown})


def _shown(content: Mapping[str, Any]) -> Any:
    """The content, or a text if this release lacks it."""
    try:
        StoredMessage.model_validate({"content": [content]})
    except ValueError:
        return TextContent(text=_contents.as_text(content))
    return content


def _translated(message: CanonicalMessage) -> Iterator[Message]:
    groups = [(kind, list(parts)) for kind, parts in groupby(message.parts, key=_kind)]
    for number, (kind, parts) in enumerate(_split(groups) or [(_contents.MESSAGE, [])]):
        fields: dict[str, Any] = {
            "type": kind,
            "role": _role(message.role),
            "status": "completed",
            "content": [_content(part) for part in parts],
            "metadata": {
                "original_id": message.id,
                "original_name": message.name or message.role,
                "metadata": dict(message.metadata) or None,
            },
        }
        if message.id:
            fields["id"] = f"{message.id}:{number}" if number else message.id
        yield _restored(fields)


def _split(groups: Iterable[tuple[str, list[Part]]]) -> list[tuple[str, list[Part]]]:
    """Each call, result and reasoning separately."""
    return [
        (kind, one)
        for kind, parts in groups
        for one in ([parts] if kind == _contents.MESSAGE else [[part] for part in parts])
    ]


def _kind(part: Part) -> str:
    match part:
        case ToolCallPart():
            return _contents.CALL
        case ToolResultPart():
            return _contents.CALL_OUTPUT
        case ReasoningPart():
            return _contents.REASONING
    return _contents.MESSAGE


def _content(part: Part) -> dict[str, Any]:
    match part:
        case ToolCallPart() | ToolResultPart():
            return {"type": "data", "data": _contents.to_data(part)}
        case ReasoningPart():
            return {"type": "text", "text": part.text}
    return _contents.to_content(part)


def _role(role: str) -> str:
    if role == "developer":
        return "system"
    return role if role in _ROLES else "user"
