"""Messages of agentscope 2.x to the canonical ones, and back.

What is written keeps AgentScope's own form beside the canonical one, and is read back equal to what
it was. What another release or another framework wrote is translated.
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
"""Which of AgentScope's messages it is: its releases have several."""
_SAID = ("text", "data")


def to_canonical(data: Mapping[str, Any], *, id: str | None = None) -> Message:
    """The canonical message of what `model_dump` makes of one, by its own id if there is no other.

    Lone surrogates are replaced. Raises InvalidRequestError for what cannot be stored.
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
    """What someone said in a message: texts and media, without how it came about; None if nothing."""
    data = msg.model_dump(mode="json")
    content = [block for block in data["content"] if block["type"] in _SAID]
    message = to_canonical({**data, "content": content})
    return message if says_something(message.parts) else None


def is_own(message: Message) -> bool:
    """Whether this release wrote it."""
    native = message.native
    return native is not None and (native["framework"], native.get("form")) == (_FRAMEWORK, _FORM)


def from_canonical(message: Message) -> Msg:
    """The message that stands for a canonical one, with its id where it has one."""
    if message.native is not None and is_own(message):
        try:
            return Msg.model_validate(message.native["data"])
        except ValueError:
            pass  # A later release may have written what this one does not know.
    role = _ROLES.get(message.role, "user")
    content = [*_blocks(message.parts, role)]
    known = {}
    if message.id is not None and message.created_at is not None:
        # It reads the same each time: a save compares it with what was loaded.
        moment = message.created_at.isoformat()
        known = {"id": message.id, "created_at": moment}
        _name(content, message.id, moment)
    return Msg(name=message.name or role, role=role, content=content, **known)


def _name(blocks: Iterable[Block], id: str, moment: str) -> None:
    """Give the blocks ids and a time that tell of nothing but their message."""
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
    # Results of tools are parts of the answer here.
    "tool": "assistant",
}
"""AgentScope's role for each of the canonical ones; anything else is a user's."""


def _blocks(parts: Iterable[Part], role: str) -> list[Block]:
    """The blocks that stand for parts; what messages of a role cannot hold becomes text."""
    held: tuple[type, ...] = {
        "user": (TextPart, MediaPart),
        "system": (TextPart,),
    }.get(role, (object,))
    return to_blocks_of_2(
        part if isinstance(part, held) else TextPart(text=text_of(part)) for part in parts
    )
