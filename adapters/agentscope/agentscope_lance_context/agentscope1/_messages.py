"""Converts messages of agentscope 1.x to canonical ones, and back.

A written message keeps AgentScope's own form too, and reads back equal. Messages of other releases
and frameworks are translated.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from agentscope_lance_context._blocks import to_blocks_of_1, to_parts
from agentscope_lance_context.agentscope1._framework import Msg
from lance_context_core import Message
from lance_context_core.adapting import encodable

_FRAMEWORK = "agentscope"
_FORM = "agentscope1"
"""The name of this message format: AgentScope's releases have several."""

SUMMARY = {"lance_context": "summary"}
"""The metadata of a message that no participant wrote, such as a summary."""


def messages_of(given: Msg | Sequence[Msg | None] | None, where: str) -> list[Msg]:
    """One message or several, without None. Raises TypeError for a value that is not a message."""
    several: list[Any] = list(given) if isinstance(given, list | tuple) else [given]
    messages = [one for one in several if one is not None]
    for one in messages:
        if not isinstance(one, Msg):
            # AgentScope's own memories do the same.
            raise TypeError(f"{where} has {one!r:.80}: give a Msg, several of them, or None")
    return messages


def to_canonical(msg: Msg) -> Message:
    """The canonical message, with the same id; lone surrogates are replaced.

    Raises InvalidRequestError if it cannot be stored.
    """
    data = msg.to_dict()
    invocation_id = getattr(msg, "invocation_id", None)
    if invocation_id is not None:
        data["invocation_id"] = invocation_id
    blocks = msg.get_content_blocks()
    return Message(
        role=_canonical_role(msg, blocks),
        parts=to_parts(encodable(blocks)),
        id=msg.id,
        name=encodable(msg.name) or None,
        native={"framework": _FRAMEWORK, "form": _FORM, "data": encodable(data)},
    )


def from_canonical(message: Message) -> Msg:
    """The message of a canonical one, with its id if it has one."""
    native = message.native
    if native and (native["framework"], native.get("form")) == (_FRAMEWORK, _FORM):
        return _restored(native["data"])
    role = _ROLES.get(message.role, "user")
    msg = Msg(message.name or role, to_blocks_of_1(message.parts), role)
    if message.id is not None:
        msg.id = message.id
    return msg


async def to_canonicals(messages: Sequence[Msg]) -> list[Message]:
    """The canonical messages, in order; converted in a thread, since images are slow."""
    return await asyncio.to_thread(lambda: [to_canonical(one) for one in messages])


async def from_canonicals(messages: Sequence[Message]) -> list[Msg]:
    """The messages of canonical ones, in order; converted in a thread."""
    return await asyncio.to_thread(lambda: [from_canonical(one) for one in messages])


_ROLES = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
    # Tool results have the role system.
    "tool": "system",
}
"""AgentScope's role for each canonical role; any other is a user's."""


def _canonical_role(msg: Msg, blocks: Sequence[Any]) -> str:
    is_answer = bool(blocks) and all(block.get("type") == "tool_result" for block in blocks)
    return "tool" if is_answer else msg.role


def _restored(data: dict[str, Any]) -> Msg:
    msg = Msg.from_dict(data)
    if "invocation_id" in data:
        msg.invocation_id = data["invocation_id"]
    # None becomes an empty dict in from_dict.
    msg.metadata = data["metadata"]
    return msg
