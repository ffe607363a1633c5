"""Events of ADK as canonical messages, one for each, and back.

The event itself is stored with its message as ADK's own JSON, and reads back equal. Messages of
other frameworks are translated, each to one event.
"""

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime

from google.adk.errors.input_validation_error import InputValidationError
from google.adk.events.event import Event
from google.genai import types

from google_adk_lance_context._parts import canonical, gemini_parts
from lance_context_core import InvalidRequestError, Message, ToolResultPart
from lance_context_core.adapting import in_steps
from lance_context_core.messages import Part

FRAMEWORK = "google_adk"
USER, SYSTEM = "user", "system"
"""Authors of events that no agent is."""


def to_message(event: Event) -> Message:
    """The message of an event. Raises InputValidationError for one that cannot be stored."""
    try:
        native = {"framework": FRAMEWORK, "event": event.model_dump_json(exclude_none=True)}
        parts = parts_of(event.content)
        return Message(
            role=_role(event.author, parts),
            parts=parts,
            id=event.id,
            name=None if event.author in (USER, SYSTEM) else event.author or None,
            created_at=datetime.fromtimestamp(event.timestamp, UTC),
            native=native,
        )
    except (InvalidRequestError, ValueError, OverflowError, OSError, RecursionError) as error:
        raise InputValidationError(f"event {event.id!r:.80} cannot be stored: {error}") from error


def parts_of(content: types.Content | None) -> tuple[Part, ...]:
    """The canonical parts of a content; none for an absent one."""
    given = content.parts if content is not None else None
    return tuple(canonical(part) for part in given or ())


def event_json(message: Message) -> str | None:
    """The event that a message was made of, as JSON; None for one of another framework."""
    native = message.native
    if native is None or native["framework"] != FRAMEWORK:
        return None
    made: str | None = native.get("event")
    return made


def fingerprint(message: Message) -> str:
    """What tells the event of a message from others of the same id."""
    return hashlib.sha256((event_json(message) or "").encode()).hexdigest()[:32]


async def to_events(messages: Iterable[Message], app_name: str) -> list[Event]:
    """The events of messages, in order."""
    names: dict[str, str] = {}
    return await in_steps(lambda message: _event(message, app_name, names), messages)


def _event(message: Message, app_name: str, names: dict[str, str]) -> Event:
    made = event_json(message)
    if made is not None:
        return Event.model_validate_json(made)
    is_said_by_model = message.role == "assistant"
    is_answer = message.role == "tool" or _is_answer(message.parts)
    author = SYSTEM if message.role in (SYSTEM, "developer") else USER
    if is_said_by_model or is_answer:
        author = message.name or app_name
    parts = list(gemini_parts(message.parts, names))
    return Event(
        id=message.id or "",
        author=author,
        content=types.Content(role="model" if is_said_by_model else USER, parts=parts),
        timestamp=message.created_at.timestamp() if message.created_at else 0.0,
    )


def _role(author: str, parts: tuple[Part, ...]) -> str:
    if _is_answer(parts):
        return "tool"
    return author if author in (USER, SYSTEM) else "assistant"


def _is_answer(parts: tuple[Part, ...]) -> bool:
    return bool(parts) and all(isinstance(part, ToolResultPart) for part in parts)
