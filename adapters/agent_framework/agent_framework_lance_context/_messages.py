"""Messages of the framework as canonical ones, one for each, and back.

The message itself is stored with its parts, in its form: what the framework's own serialisation
makes of it. It reads back equal.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from agent_framework import Message

from agent_framework_lance_context._contents import to_parts
from agent_framework_lance_context._errors import RefusedError
from agent_framework_lance_context._translated import translated
from lance_context_core import InvalidRequestError
from lance_context_core import Message as Canonical
from lance_context_core.adapting import encodable

FRAMEWORK = "agent-framework"

Form: TypeAlias = dict[str, Any]
"""The dictionary of a message: its `to_dict`."""


def to_forms(messages: Iterable[Message]) -> list[Form]:
    """Returns the forms of messages. Raises RefusedError for what is no message."""
    return [_form(number, message) for number, message in enumerate(messages)]


def to_canonical(forms: Sequence[Form], ids: Sequence[str | None]) -> list[Canonical]:
    """Returns a canonical message for each form, with its id.

    Raises RefusedError for what is no JSON.
    """
    tools: dict[str, str] = {}
    return [
        _canonical(number, form, id, tools)
        for number, (form, id) in enumerate(zip(forms, ids, strict=True))
    ]


def from_canonical(messages: Iterable[Canonical]) -> list[Message]:
    """Returns the messages that canonical ones stand for, in order; new ones each time."""
    made: list[Message] = []
    for message in messages:
        text = _native(message)
        if text is None:
            made += translated(message)
        else:
            made.append(Message.from_dict(json.loads(text)))
    return made


def forms_of(messages: Iterable[Canonical]) -> list[Form]:
    """Returns the forms of the messages that canonical ones stand for, in order."""
    forms: list[Form] = []
    for message in messages:
        text = _native(message)
        if text is None:
            forms += [one.to_dict() for one in translated(message)]
        else:
            forms.append(json.loads(text))
    return forms


def n_bytes(messages: Sequence[Canonical]) -> int:
    """Returns about how much text `from_canonical` has to read."""
    return sum(len(_native(message) or message.text) for message in messages)


def _native(message: Canonical) -> str | None:
    native = message.native
    return None if native is None or native["framework"] != FRAMEWORK else native["message"]


def _form(number: int, message: Any) -> Form:
    if not isinstance(message, Message):
        raise RefusedError(
            f"messages[{number}] is {message!r:.80}: give an agent_framework.Message"
        )
    try:
        return message.to_dict()
    except (TypeError, ValueError, RecursionError) as error:
        raise _unstorable(number, error) from error


def _canonical(number: int, form: Form, id: str | None, tools: dict[str, str]) -> Canonical:
    try:
        return Canonical(
            role=form["role"],
            parts=tuple(to_parts(encodable(form["contents"]), tools)),
            id=id,
            name=_name(form.get("author_name")),
            # JSON escapes what no store can hold, such as lone surrogates.
            native={"framework": FRAMEWORK, "message": json.dumps(form)},
        )
    except (InvalidRequestError, TypeError, ValueError, RecursionError) as error:
        raise _unstorable(number, error) from error


def _unstorable(number: int, error: Exception) -> RefusedError:
    return RefusedError(
        f"messages[{number}] cannot be stored: {error}. Give it contents that are JSON"
    )


def _name(given: Any) -> str | None:
    """Returns a text that can name a speaker; None for any other."""
    return encodable(given) if isinstance(given, str) and given and "\0" not in given else None
