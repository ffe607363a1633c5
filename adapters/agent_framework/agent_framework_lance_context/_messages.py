"""Messages of the framework as canonical ones, one for each, and back.

The message itself is stored with its parts, by the framework's own serialisation, and reads back
equal.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from agent_framework import Message

from agent_framework_lance_context._contents import to_parts
from agent_framework_lance_context._errors import RefusedException
from agent_framework_lance_context._translated import translated
from lance_context_core import InvalidRequestError
from lance_context_core import Message as Canonical
from lance_context_core.adapting import encodable

FRAMEWORK = "agent-framework"


def to_canonical(messages: Iterable[Message]) -> list[Canonical]:
    """Returns a canonical message for each, without ids.

    Raises RefusedException for what is no message, or cannot be serialised.
    """
    tools: dict[str, str] = {}
    return [_canonical(number, one, tools) for number, one in enumerate(messages)]


def from_canonical(messages: Iterable[Canonical]) -> list[Message]:
    """Returns the messages that canonical ones stand for, in order; new ones each time."""
    made: list[Message] = []
    for message in messages:
        native = message.native
        if native is None or native["framework"] != FRAMEWORK:
            made += translated(message)
        else:
            made.append(Message.from_dict(json.loads(native["message"])))
    return made


def n_bytes(messages: Sequence[Canonical]) -> int:
    """Returns about how much text `from_canonical` has to read."""
    return sum(len((message.native or {}).get("message", message.text)) for message in messages)


def _canonical(number: int, message: Message, tools: dict[str, str]) -> Canonical:
    if not isinstance(message, Message):
        raise RefusedException(
            f"messages[{number}] is {message!r:.80}: give an agent_framework.Message"
        )
    try:
        form = message.to_dict()
        return Canonical(
            role=message.role,
            parts=tuple(to_parts(encodable(form["contents"]), tools)),
            name=_name(message.author_name),
            # JSON escapes what no store can hold, such as lone surrogates.
            native={"framework": FRAMEWORK, "message": json.dumps(form)},
        )
    except (InvalidRequestError, TypeError, ValueError, RecursionError) as error:
        raise RefusedException(
            f"messages[{number}] cannot be stored: {error}. Give it contents that are JSON"
        ) from error


def _name(given: Any) -> str | None:
    """Returns a text that can name a speaker; None for any other."""
    return encodable(given) if isinstance(given, str) and given and "\0" not in given else None
