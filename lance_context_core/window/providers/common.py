"""The base of the dialects, broken rules, and parts without a form of their own."""

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from lance_context_core._util.checks import dumps
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.messages import (
    DataPart,
    MediaPart,
    Message,
    Part,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)
from lance_context_core.messages.parts import iter_parts
from lance_context_core.window.providers.media import Place, placed

ANSWERED = "[done]"
"""Replaces an empty result, which some providers refuse."""

BEGINNING = "[The conversation begins here.]"
"""The first user message if there is none: some providers require one."""


@frozen_by_name
class Violation:
    """A broken rule of a provider, which would answer with an error 400."""

    rule: str
    """Its name, such as `result_without_call`."""
    index: int
    """The index of the message, item or content; -1 for the whole request."""
    detail: str = ""
    """The details, for people."""


class Dialect(Protocol):
    """The message format of one provider's API."""

    @property
    def name(self) -> str:
        """Such as `anthropic`."""

    @property
    def provider(self) -> str | None:
        """The provider whose opaque items it accepts; None without any."""

    def render(
        self, messages: Sequence[Message], *, breakpoints: Iterable[int] = ()
    ) -> dict[str, Any]:
        """Return the messages part of a request, in JSON; `breakpoints` as in `Window`."""

    def validate(self, request: Mapping[str, Any]) -> list[Violation]:
        """Return the rules that a request breaks; its last call may still wait for results."""

    def tool_name(self, name: str) -> str:
        """Return the sent name of a tool: the same, unless the provider refuses it.

        Different tools have different names. Use it for your tools in the request, and to find them
        in the answer.
        """

    def named_only(self, message: Message) -> tuple[MediaPart, ...]:
        """Return the media of a message that are sent as text instead of themselves."""


def speaker(message: Message) -> str:
    """Return `system`, `assistant`, `tool` or `user`; any other role counts as a user."""
    if message.role in ("system", "developer"):
        return "system"
    if message.role in ("assistant", "ai", "model"):
        return "assistant"
    if any(isinstance(part, ToolResultPart) for part in message.parts):
        return "tool"
    return "user"


# Speakers. If a provider has no field for a name, or refuses this one, it precedes the text.

_ROLES = {
    "system": ("system", "developer"),
    "assistant": ("assistant", "ai", "model"),
    "user": ("user", "human"),
}
"""Roles that name only a side."""


def speaker_name(message: Message) -> str | None:
    """Return the speaker's name, unless the role is sufficient; unknown roles are names."""
    if (side := speaker(message)) == "tool":
        return None
    name = " ".join((message.name or message.role).split())
    return None if not name or name.casefold() in _ROLES[side] else name


def spoken(message: Message) -> tuple[Part, ...]:
    """Return the parts of a message, with the speaker's name before the first content."""
    name = speaker_name(message)
    if name is None:
        return message.parts
    for index, part in enumerate(message.parts):
        if isinstance(part, ToolResultPart) or not (words(part) or "").strip():
            continue
        if isinstance(part, TextPart):
            told: tuple[Part, ...] = (TextPart(text=f"{name}: {part.text}", extra=part.extra),)
        else:
            told = (TextPart(text=f"{name}:"), part)
        return (*message.parts[:index], *told, *message.parts[index + 1 :])
    return message.parts


# Names of tools and ids of calls, in the letters that a provider accepts. No state: the sent name
# depends on the name alone, so that a cached prefix stays the same.

NAMES = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""Valid tool names of OpenAI and Anthropic."""

_ESCAPED = re.compile(r"_x[0-9a-f]{10}$")
_LIMIT = 40
"""Maximum length of an escaped name: every provider accepts it."""


def escaped(text: str, fine: re.Pattern[str]) -> str:
    """Return the text if it is `fine`; else its letters and a unique digest."""
    if fine.fullmatch(text) and not _ESCAPED.search(text):
        return text
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=5).hexdigest()
    letters = re.sub(r"[^a-zA-Z0-9_-]", "_", text)
    if letters and not letters[0].isalpha():
        letters = f"_{letters}"
    return f"{letters[: _LIMIT - len(digest) - 2]}_x{digest}"


class Named(ABC):
    """The base of all dialects: tool names, and media that are sent as text."""

    def tool_name(self, name: str) -> str:
        """See `Dialect.tool_name`."""
        return escaped(name, NAMES)

    def named_only(self, message: Message) -> tuple[MediaPart, ...]:
        """See `Dialect.named_only`."""
        side = speaker(message)
        turn: Place = "assistant" if side == "assistant" else "user"
        return tuple(
            part
            for part, place in placed(message, "system" if side == "system" else turn)
            if isinstance(part, MediaPart) and self._sent(_head(part), place) is None
        )

    @abstractmethod
    def _sent(self, part: MediaPart, place: Place) -> dict[str, Any] | None:
        """Return the sent form of a medium at a place; None if only named."""


def _head(part: MediaPart) -> MediaPart:
    """Return the part with only the bytes that determine the type."""
    return part if part.data is None else replace(part, data=part.data[:64])


class Uncached(Named):
    """A dialect without cache marks: the provider caches automatically."""

    def render(
        self, messages: Sequence[Message], *, breakpoints: Iterable[int] = ()
    ) -> dict[str, Any]:
        """Return the request; the `breakpoints` are ignored."""
        del breakpoints
        return self._rendered(messages)

    @abstractmethod
    def _rendered(self, messages: Sequence[Message]) -> dict[str, Any]:
        """Return the provider's request."""


def words(part: Part) -> str | None:
    """Return the text form of a part; None for calls, results and reasoning."""
    match part:
        case TextPart():
            return part.text
        case DataPart():
            return dumps(part.data)
        case MediaPart():
            caption = getattr(part, "caption", None)
            told = [caption or part.name or "", part.media_type or "", part.url or ""]
            # The bytes of a data: URL are no text.
            told = [one for one in told if one and not one.startswith("data:")]
            return f"[{part.type}{': ' if told else ''}{', '.join(told)}]"
        case UnknownPart():
            return None if is_opaque(part) else dumps({"type": part.type, **part.payload})
    return None


def told_of(part: MediaPart) -> str:
    """Return a short description of a medium, for a report."""
    called = part.name or getattr(part, "caption", None) or part.media_type or ""
    return f"{part.type} {called[:60]}".strip()


def texts(parts: Iterable[Part]) -> str:
    """Return all content of parts as text, including results, one line each."""
    found: list[str] = []
    for part in parts:
        if isinstance(part, ToolResultPart):
            found.append(texts(part.content))
        elif told := words(part):
            found.append(told)
    return "\n".join(one for one in found if one.strip())


def is_opaque(part: Part) -> bool:
    """Whether it is an unknown part that only its provider can read."""
    return isinstance(part, UnknownPart) and part.type in (
        "compaction",
        "thinking",
        "redacted_thinking",
        "reasoning",
    )


def calls(message: Message) -> list[ToolCallPart]:
    """Return the tool calls of a message."""
    return [part for part in message.parts if isinstance(part, ToolCallPart)]


def results(message: Message) -> list[ToolResultPart]:
    """Return the tool results of a message."""
    return [part for part in message.parts if isinstance(part, ToolResultPart)]


def answers(message: Message) -> list[tuple[str | None, str]]:
    """Return the results of a message as nonempty texts, with their calls' ids."""
    return [(one.call_id, texts(one.content) or ANSWERED) for one in results(message)]


def content(
    parts: Sequence[Part], *, text: str, media: Callable[[MediaPart], dict[str, Any] | None]
) -> str | list[dict[str, Any]]:
    """Return the content as a text; with sent media, as a list.

    The list has the results of `media`, and texts under the type `text`.
    """
    told = [part for part in iter_parts(parts) if not isinstance(part, ToolResultPart)]
    sent = [media(part) if isinstance(part, MediaPart) else None for part in told]
    if not any(sent):
        return texts(told)
    found: list[dict[str, Any]] = []
    for part, block in zip(told, sent, strict=True):
        if block is not None:
            found.append(block)
        elif (said := words(part)) and said.strip():
            found.append({"type": text, "text": said})
    return found


def begun(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the request for messages without acceptable content."""
    return [{"role": "user", "content": BEGINNING}] if messages else []


def arguments_text(call: ToolCallPart) -> str:
    """Return the arguments as the text of a JSON object."""
    return dumps(arguments(call))


def arguments(call: ToolCallPart) -> dict[str, Any]:
    """Return the arguments by name; raw text that is no JSON object is under `input`."""
    if not isinstance(call.arguments, str):
        return dict(call.arguments)
    if not call.arguments.strip():
        return {}
    found = as_object(call.arguments)
    return {"input": call.arguments} if found is None else found


def as_object(text: object) -> dict[str, Any] | None:
    """Parse a text as a JSON object; None if it is none."""
    try:
        found = json.loads(str(text), parse_constant=_no_json)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _no_json(name: str) -> None:
    raise ValueError(name)


# A role and a text per message, for minimal APIs: calls and results are described in text.


class Plain(Uncached):
    """Roles and texts only."""

    name = "plain"
    provider = None

    def _rendered(self, messages: Sequence[Message]) -> dict[str, Any]:
        """Return the messages: `{"role": …, "content": …}`."""
        rendered = []
        for message in messages:
            lines = [
                texts(part for part in spoken(message) if not isinstance(part, ToolResultPart))
            ]
            lines += [
                f"[call {call.call_id}] {call.name}({_text(call.arguments)})"
                for call in calls(message)
            ]
            lines += [
                f"[result {result.call_id}] {texts(result.content)}" for result in results(message)
            ]
            text = "\n".join(line for line in lines if line)
            if text:
                rendered.append({"role": speaker(message), "content": text})
        return {"messages": rendered or begun(messages)}

    def tool_name(self, name: str) -> str:
        """Return the name itself: text allows any."""
        return name

    def _sent(self, part: MediaPart, place: Place) -> None:
        del part, place

    def validate(self, request: Mapping[str, Any]) -> list[Violation]:
        """Check that there is a message, and none is empty."""
        sent = request.get("messages") or []
        broken = [
            Violation(rule="empty_content", index=index)
            for index, message in enumerate(sent)
            if not str(message.get("content") or "").strip()
        ]
        return broken if sent else [Violation(rule="no_messages", index=-1)]


def _text(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else dumps(arguments)
