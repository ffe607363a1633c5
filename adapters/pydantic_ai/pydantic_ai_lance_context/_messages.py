"""Pydantic AI's messages to the canonical ones, and back.

A request may hold the words of several speakers: it becomes one message for each, and each has its
part of the request beside it in Pydantic AI's own JSON, so that erasing a message erases its words.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from itertools import groupby
from typing import Any, cast

from pydantic import ConfigDict, TypeAdapter
from pydantic_ai import messages as ai

from lance_context_core import Message
from lance_context_core.messages import Part
from pydantic_ai_lance_context._errors import json_of
from pydantic_ai_lance_context._parts import role_of, said_by
from pydantic_ai_lance_context._translated import translated

FRAMEWORK = "pydantic-ai"

MESSAGES: TypeAdapter[list[ai.ModelMessage]] = TypeAdapter(
    list[ai.ModelMessage],
    config=ConfigDict(
        defer_build=True,
        ser_json_bytes="base64",
        val_json_bytes="base64",
        ser_json_inf_nan="constants",
    ),
)
"""As `ModelMessagesTypeAdapter`, but NaN and infinities come back, too."""


def dumped(message: ai.ModelMessage) -> bytes:
    """The JSON of one message, in a list. Raises UserError for what cannot be serialized."""
    return json_of(MESSAGES, [message])


def to_canonical(
    message: ai.ModelMessage,
    *,
    id: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> list[Message]:
    """The canonical messages of a message, one or more, with Pydantic AI's own form beside them.

    The first has the `id`, the others that and their number. Raises InvalidRequestError or
    UserError for what cannot be stored.
    """
    whole = dumped(message)  # First: parts are read only of what can be serialized.
    slices = list(_slices(message))
    return [
        _message(
            message,
            one,
            id=_numbered(id, number),
            metadata=metadata,
            native={
                "framework": FRAMEWORK,
                "message": (
                    whole if len(slices) == 1 else dumped(with_parts(message, one.own))
                ).decode(),
                "part": number,
            },
        )
        for number, one in enumerate(slices)
    ]


def from_canonical(messages: Iterable[Message]) -> list[ai.ModelMessage]:
    """The messages that canonical ones stand for, in order."""
    made: list[ai.ModelMessage] = []
    for message in messages:
        if not is_own(message):
            made += translated(message, made)
            continue
        native = _native(message)
        (one,) = MESSAGES.validate_json(native["message"])
        if native["part"] and made and _goes_on(made[-1], one):
            made[-1] = _joined([made[-1], one])
        else:
            made.append(one)
    return made


def from_slices(groups: Iterable[Sequence[Message]]) -> list[ai.ModelMessage | None]:
    """One message for each group, which has what is left of it in order; None for an empty one.

    All that Pydantic AI wrote is parsed at once. A message that others have rewritten is translated.
    """
    groups = list(groups)
    own = [_native(one)["message"][1:-1] for group in groups for one in group if is_own(one)]
    parsed = iter(MESSAGES.validate_json(f"[{','.join(own)}]"))
    made: list[ai.ModelMessage | None] = []
    for group in groups:
        before = [one for one in made if one is not None] if not all(map(is_own, group)) else []
        some: list[ai.ModelMessage] = []
        for message in group:
            some += [next(parsed)] if is_own(message) else translated(message, before)
        made.append(_joined([one for one in some if one.kind == some[0].kind]) if some else None)
    return made


def is_own(message: Message) -> bool:
    """Whether it has Pydantic AI's own form beside it."""
    return message.native is not None and message.native["framework"] == FRAMEWORK


def _native(message: Message) -> Mapping[str, Any]:
    return message.native or {}


def _joined(messages: Sequence[ai.ModelMessage]) -> ai.ModelMessage:
    if len(messages) == 1:
        return messages[0]
    return with_parts(messages[0], [part for one in messages for part in one.parts])


class _Slice:
    """Consecutive parts of one speaker."""

    def __init__(self, role: str, own: Sequence[Any]) -> None:
        self.role = role
        self.own = own

    @cached_property
    def said(self) -> list[Part]:
        """The canonical parts; read only after the message was found to be serializable."""
        return [one for part in self.own for one in said_by(part)]


def _slices(message: ai.ModelMessage) -> Iterator[_Slice]:
    if not isinstance(message, ai.ModelRequest):
        yield _Slice("assistant", message.parts)
        return
    held: list[Any] = []  # What no one says belongs to the speaker after it, or else to the last.
    found: list[_Slice] = []
    role: str | None = None
    for (role, _), pairs in groupby(_numbered_roles(message.parts), key=lambda pair: pair[0]):
        one = _Slice(role or "system", [part for _, part in pairs])
        if role is None or not one.said:
            held += one.own
        else:
            found.append(_Slice(role, [*held, *one.own]) if held else one)
            held = []
    if held or not found:
        last = found.pop() if found else _Slice(role or "system", ())
        found.append(_Slice(last.role, [*last.own, *held]))
    yield from found


def _numbered_roles(parts: Sequence[Any]) -> Iterator[tuple[tuple[str | None, int], Any]]:
    """Each part with its role; each result of a tool is by itself, as most frameworks have it."""
    for number, part in enumerate(parts):
        role = role_of(part)
        yield (role, number if role == "tool" else 0), part


def _message(
    message: ai.ModelMessage,
    slice: _Slice,
    *,
    id: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    native: Mapping[str, Any] | None = None,
) -> Message:
    return Message(
        role=slice.role,
        parts=tuple(slice.said),
        id=id,
        created_at=_time(message, slice),
        metadata=metadata or {},
        native=native,
    )


def _time(message: ai.ModelMessage, slice: _Slice) -> datetime | None:
    times = [getattr(part, "timestamp", None) for part in slice.own]
    times = [message.timestamp] if isinstance(message, ai.ModelResponse) else times
    known = [one for one in times if one is not None and one.utcoffset() is not None]
    return cast("datetime", known[0]) if known else None


def _goes_on(before: ai.ModelMessage, message: ai.ModelMessage) -> bool:
    """Whether both are parts of one request, which its run and times tell."""
    return (
        isinstance(before, ai.ModelRequest)
        and isinstance(message, ai.ModelRequest)
        and with_parts(before, []) == with_parts(message, [])
    )


def with_parts(message: ai.ModelMessage, parts: Sequence[Any]) -> ai.ModelMessage:
    """The message with these parts in place of its own."""
    return replace(message, parts=parts)  # type: ignore[arg-type]  # of the same kind


def _numbered(id: str | None, number: int) -> str | None:
    return f"{id}:{number}" if id is not None and number else id
