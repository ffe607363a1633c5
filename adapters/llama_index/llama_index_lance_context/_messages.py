"""Converts LlamaIndex's chat messages to canonical ones, and back.

A written message keeps LlamaIndex's own form too, and reads back equal. Messages of other
frameworks are translated.
"""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole

from lance_context_core import InvalidRequestError, Message, ToolCallPart, ToolResultPart
from lance_context_core.adapting import encodable
from lance_context_core.messages import Part
from llama_index_lance_context._blocks import (
    block_from_json,
    block_to_json,
    call_part,
    to_blocks,
    to_parts,
)
from llama_index_lance_context._values import decode, encode

FRAMEWORK = "llama_index"

_ROLES = {
    MessageRole.FUNCTION: "tool",
    MessageRole.CHATBOT: "assistant",
    MessageRole.MODEL: "assistant",
}
"""The roles that have another name in a canonical message."""

_RESULTS = (MessageRole.TOOL, MessageRole.FUNCTION)
_CALL_ID = "tool_call_id"


def to_canonical(
    message: ChatMessage, *, metadata: Mapping[str, Any] | None = None, id: str | None = None
) -> Message:
    """The canonical message, which keeps LlamaIndex's own form.

    A subclass is stored as a ChatMessage, and lone surrogates are replaced. Raises
    InvalidRequestError for a value that is not a message or cannot be stored.
    """
    if not isinstance(message, ChatMessage):
        raise InvalidRequestError(
            f"{type(message).__name__} is not a message: pass ChatMessage(role='user', content='…')"
        )
    try:
        return _canonical(message, metadata, id)
    except InvalidRequestError:
        # Lone surrogates are rare, so that messages without one are not walked.
        if (replaced := encodable(message)) is message:
            raise
        return _canonical(replaced, metadata, id)


def _canonical(message: ChatMessage, metadata: Mapping[str, Any] | None, id: str | None) -> Message:
    more = message.additional_kwargs
    name = more.get("name")
    return Message(
        role=_ROLES.get(message.role, message.role.value),
        parts=tuple(_parts(message)),
        name=name if isinstance(name, str) and name and message.role not in _RESULTS else None,
        id=id,
        metadata=metadata or {},
        native={
            "framework": FRAMEWORK,
            "role": message.role.value,
            "additional_kwargs": encode(more, "ChatMessage.additional_kwargs"),
            "blocks": [block_to_json(block) for block in message.blocks],
        },
    )


def from_canonical(message: Message) -> list[ChatMessage]:
    """The LlamaIndex messages of a canonical one: one, unless it holds several tool results.

    Each result is its own message in LlamaIndex, with the id of its call.
    """
    native = message.native
    if native is None or native["framework"] != FRAMEWORK:
        return list(_translated(message))
    # Validating a message again would read its images from the disk again.
    return [
        ChatMessage.model_construct(
            role=MessageRole(native["role"]),
            additional_kwargs=decode(native["additional_kwargs"]),
            blocks=[block_from_json(block) for block in native["blocks"]],
        )
    ]


def _parts(message: ChatMessage) -> list[Part]:
    parts = to_parts(message.blocks)
    more = message.additional_kwargs
    if message.role in _RESULTS:
        call_id, name = (_text_or_none(more.get(key)) for key in (_CALL_ID, "name"))
        return [ToolResultPart(call_id=call_id, name=name, content=tuple(parts))]
    return [*parts, *_calls_beside(more, parts)]


def _calls_beside(more: Mapping[str, Any], parts: list[Part]) -> Iterator[Part]:
    """The tool calls in OpenAI's form that the blocks lack."""
    known = {part.call_id for part in parts if isinstance(part, ToolCallPart)}
    calls = encode(more.get("tool_calls"), "tool_calls")
    for call in calls if isinstance(calls, list) else []:
        try:
            part = call_part(call)
        except (AttributeError, KeyError, TypeError, InvalidRequestError):
            continue
        if part.call_id is None or part.call_id not in known:
            yield part


def _translated(message: Message) -> Iterator[ChatMessage]:
    """One message for the parts between tool results, and one for each result."""
    if not message.parts:
        yield _spoken(message, ())
    for is_result, parts in groupby(message.parts, key=_is_result):
        if is_result:
            yield from (_answered(part) for part in parts if isinstance(part, ToolResultPart))
        else:
            yield _spoken(message, tuple(parts))


def _is_result(part: Part) -> bool:
    return isinstance(part, ToolResultPart)


def _answered(part: ToolResultPart) -> ChatMessage:
    said = {_CALL_ID: part.call_id, "name": part.name}
    return ChatMessage(
        role=MessageRole.TOOL,
        blocks=to_blocks(part.content),
        additional_kwargs={key: one for key, one in said.items() if one is not None},
    )


def _spoken(message: Message, parts: tuple[Part, ...]) -> ChatMessage:
    """The parts as a message of the role; a role that LlamaIndex lacks becomes a user's."""
    known = {role.value: role for role in MessageRole}
    return ChatMessage(
        role=known.get(message.role, MessageRole.USER),
        blocks=to_blocks(parts),
        additional_kwargs={} if message.name is None else {"name": message.name},
    )


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
