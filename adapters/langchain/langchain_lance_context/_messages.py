"""Converts LangChain's messages to canonical ones, and back.

A written message keeps LangChain's own form too, and reads back equal. Messages of other frameworks
are translated.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import groupby
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    message_chunk_to_message,
)

from lance_context_core import InvalidRequestError, Message, ToolCallPart, ToolResultPart
from lance_context_core.adapting import encodable
from lance_context_core.messages import Part
from langchain_lance_context._blocks import call_block, call_part, to_blocks, to_parts
from langchain_lance_context._values import decode, encode

FRAMEWORK = "langchain"

_CLASSES: dict[str, type[BaseMessage]] = {
    "human": HumanMessage,
    "ai": AIMessage,
    "system": SystemMessage,
    "tool": ToolMessage,
    "function": FunctionMessage,
    "chat": ChatMessage,
    "remove": RemoveMessage,
}
_ROLES = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
    "function": "tool",
    "remove": "remove",
}
_KINDS = {"user": "human", "assistant": "ai", "system": "system", "developer": "system"}

_SYSTEM_ROLE = "__openai_role__"
"""LangChain's key for a system message that is a developer's."""


def to_canonical(message: BaseMessage) -> Message:
    """The canonical message, which keeps LangChain's own form.

    A chunk is stored as the complete message, and a subclass of one of LangChain's messages as that
    message; lone surrogates are replaced, as LangGraph's checkpointers do. Raises
    InvalidRequestError for a value that is not a message or cannot be stored.
    """
    if not isinstance(message, BaseMessage):
        raise InvalidRequestError(
            f"{type(message).__name__} is not a message: pass HumanMessage('…') or alike"
        )
    message = message_chunk_to_message(message)
    try:
        return _canonical(message)
    except InvalidRequestError:
        # Lone surrogates are rare, so that messages without one are not walked.
        if (replaced := encodable(message)) is message:
            raise
        return _canonical(replaced)


def _canonical(message: BaseMessage) -> Message:
    kind = _kind(message)
    return Message(
        role=_role(message, kind),
        parts=tuple(_parts(message)),
        # The id of a RemoveMessage is that of another message.
        id=None if kind == "remove" else message.id or None,
        name=None if isinstance(message, ToolMessage | FunctionMessage) else message.name or None,
        native={"framework": FRAMEWORK, "type": kind, "data": _data(message)},
    )


def from_canonical(message: Message) -> list[BaseMessage]:
    """The LangChain messages of a canonical one: one, unless it holds tool results.

    Each result is a ToolMessage in LangChain. Messages after the first have ids made of the
    canonical id and their number.
    """
    native = message.native
    if native is not None and native["framework"] == FRAMEWORK:
        return [_CLASSES[native["type"]](**decode(native["data"]))]
    made = list(_translated(message))
    for number, one in enumerate(made):
        one.id = f"{message.id}:{number}" if number and message.id else message.id
    return made


def _kind(message: BaseMessage) -> str:
    for kind, cls in _CLASSES.items():
        if isinstance(message, cls):
            return kind
    raise InvalidRequestError(
        f"{type(message).__qualname__} is none of LangChain's messages: derive it from one of them"
    )


def _role(message: BaseMessage, kind: str) -> str:
    if isinstance(message, ChatMessage):
        return message.role or "user"
    if kind == "system" and message.additional_kwargs.get(_SYSTEM_ROLE) == "developer":
        return "developer"
    return _ROLES[kind]


def _data(message: BaseMessage) -> dict[str, Any]:
    """The fields of the original message that conversion would not restore."""
    defaults = _defaults(type(message))
    given = {}
    for name, value in message:
        default = defaults.get(name, ...)
        if name != "type" and not (type(value) is type(default) and value == default):
            given[name] = encode(value, f"{type(message).__name__}.{name}")
    if isinstance(message, RemoveMessage):
        given.pop("content", None)
    return given


@cache
def _defaults(cls: type[BaseMessage]) -> Mapping[str, Any]:
    """Default values of fields; for comparison only, since all messages share it."""
    return {
        name: field.get_default(call_default_factory=True)
        for name, field in cls.model_fields.items()
    }


def _parts(message: BaseMessage) -> Iterator[Part]:
    parts = to_parts(message)
    if isinstance(message, ToolMessage):
        yield ToolResultPart(
            call_id=message.tool_call_id or None,
            name=message.name or None,
            content=tuple(parts),
            is_error=message.status == "error",
        )
    elif isinstance(message, FunctionMessage):
        yield ToolResultPart(name=message.name or None, content=tuple(parts))
    else:
        yield from parts
    if isinstance(message, AIMessage):
        yield from _calls_beside(message, parts)


def _calls_beside(message: AIMessage, parts: Iterable[Part]) -> Iterator[Part]:
    """The tool calls outside of the content, where LangChain keeps some of them."""
    seen = [part for part in parts if isinstance(part, ToolCallPart)]
    for call in (*message.tool_calls, *message.invalid_tool_calls):
        part = call_part(call)
        if any(
            (one.call_id, one.name, one.arguments) == (part.call_id, part.name, part.arguments)
            for one in seen
        ):
            continue
        yield part


def _translated(message: Message) -> Iterator[BaseMessage]:
    """One message for the parts between tool results, and one for each result."""
    if not message.parts:
        yield _spoken(message, ())
    for is_result, parts in groupby(message.parts, key=_is_answer):
        if is_result:
            yield from (_answered(part) for part in parts if isinstance(part, ToolResultPart))
        else:
            yield _spoken(message, tuple(parts))


def _is_answer(part: Part) -> bool:
    return isinstance(part, ToolResultPart)


def _answered(part: ToolResultPart) -> ToolMessage:
    return ToolMessage(
        content=to_blocks(part.content),
        tool_call_id=part.call_id or "",
        name=part.name,
        status="error" if part.is_error else "success",
    )


def _spoken(message: Message, parts: tuple[Part, ...]) -> BaseMessage:
    """The parts as a message of the role; metadata is stored where models do not see it."""
    fields: dict[str, Any] = {"name": message.name}
    if message.metadata:
        fields["response_metadata"] = {"metadata": dict(message.metadata)}
    kind = _KINDS.get(message.role)
    if kind == "ai":
        calls = [call_block(part) for part in parts if isinstance(part, ToolCallPart)]
        parts = tuple(part for part in parts if not isinstance(part, ToolCallPart))
        fields["tool_calls"] = [call for call in calls if call["type"] == "tool_call"]
        fields["invalid_tool_calls"] = [call for call in calls if call["type"] != "tool_call"]
    elif message.role == "developer":
        fields["additional_kwargs"] = {_SYSTEM_ROLE: "developer"}
    elif kind is None:
        fields["role"] = message.role
    return _CLASSES[kind or "chat"](content=to_blocks(parts), **fields)
