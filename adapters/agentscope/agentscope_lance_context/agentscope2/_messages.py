"""Converts messages of agentscope 2.x to canonical ones, and back.

A written message keeps AgentScope's own form too, and reads back equal. Messages of other releases
and frameworks are translated.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from agentscope_lance_context._blocks import Block, text_of, to_blocks_of_2, to_parts
from agentscope_lance_context.agentscope2._framework import Msg
from lance_context_core import Message, TextPart
from lance_context_core.adapting import encodable, says_something
from lance_context_core.messages import MediaPart, Part

_FRAMEWORK = "agentscope"
_FORM = "agentscope2"
"""The name of this message format: AgentScope's releases have several."""
_SAID = ("text", "data")


def to_canonical(data: Mapping[str, Any], *, id: str | None = None) -> Message:
    """The canonical message of a dumped one, by its own id if no other is given.

    Lone surrogates are replaced. Raises InvalidRequestError for a message that cannot be stored.
    """
    data = encodable(data)
    return Message(
        role=data["role"],
        parts=to_parts(data["content"]),
        id=data["id"] if id is None else id,
        name=data["name"] or None,
        native={"framework": _FRAMEWORK, "form": _FORM, "data": data},
    )


def said(msg: Msg) -> Message | None:
    """A message with only its texts and media; None if it has none."""
    data = msg.model_dump(mode="json")
    content = [block for block in data["content"] if block["type"] in _SAID]
    message = to_canonical({**data, "content": content})
    return message if says_something(message.parts) else None


def is_own(message: Message) -> bool:
    """Whether this release wrote it."""
    native = message.native
    return native is not None and (native["framework"], native.get("form")) == (_FRAMEWORK, _FORM)


def from_canonical(message: Message) -> Msg:
    """The message of a canonical one, with its id if it has one."""
    if message.native is not None and is_own(message):
        try:
            return Msg.model_validate(message.native["data"])
        except ValueError:
            pass  # A later release may have written what this one does not know.
    role = _ROLES.get(message.role, "user")
    content = [*_blocks(message.parts, role)]
    known = {}
    if message.id is not None and message.created_at is not None:
        # It reads the same each time: a save compares it with the loaded one.
        moment = message.created_at.isoformat()
        known = {"id": message.id, "created_at": moment}
        _name(content, message.id, moment)
    return Msg(name=message.name or role, role=role, content=content, **known)


def _name(blocks: Iterable[Block], id: str, moment: str) -> None:
    """Derives the ids and time of the blocks from their message."""
    for number, block in enumerate(blocks):
        block.setdefault("id", f"{id}-{number}")
        block.setdefault("created_at", moment)
        if isinstance(block.get("output"), list):
            _name(block["output"], block["id"], moment)


_ROLES = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
    # Tool results are parts of the answer here.
    "tool": "assistant",
}
"""AgentScope's role for each canonical role; any other is a user's."""


def _blocks(parts: Iterable[Part], role: str) -> list[Block]:
    """The blocks of parts; parts that the role's messages cannot hold become text."""
    held: tuple[type, ...] = {
        "user": (TextPart, MediaPart),
        "system": (TextPart,),
    }.get(role, (object,))
    return to_blocks_of_2(
        part if isinstance(part, held) else TextPart(text=text_of(part)) for part in parts
    )
