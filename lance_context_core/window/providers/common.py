"""What the dialects share: what a dialect is, a broken rule, and parts that have no form of their own."""

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
"""What an empty result is sent as: some providers refuse nothing at all."""

BEGINNING = "[The conversation begins here.]"
"""What a user says first where nobody else does: some providers want one to begin."""


@frozen_by_name
class Violation:
    """A rule of a provider that a request breaks: the provider would answer with an error 400."""

    rule: str
    """Its name, such as `result_without_call`."""
    index: int
    """Of the message, item or content that breaks it; -1 for the request as a whole."""
    detail: str = ""
    """What exactly, for people."""


class Dialect(Protocol):
    """How one provider's API is sent messages."""

    @property
    def name(self) -> str:
        """Such as `anthropic`."""

    @property
    def provider(self) -> str | None:
        """Whose opaque items it takes; None if it takes none."""

    def render(
        self, messages: Sequence[Message], *, breakpoints: Iterable[int] = ()
    ) -> dict[str, Any]:
        """The part of the request that holds the messages, in JSON; `breakpoints` as in `Window`."""

    def validate(self, request: Mapping[str, Any]) -> list[Violation]:
        """The rules that such a request breaks; a call that waits for results may stand at its end."""

    def tool_name(self, name: str) -> str:
        """The name under which a tool is sent: the same one, unless the provider refuses it.

        Two tools never have one name. Name your tools so in the request, and find them by it in the
        answer.
        """

    def named_only(self, message: Message) -> tuple[MediaPart, ...]:
        """The pictures, sounds, films and files of a message that are sent as words, not as themselves."""


def speaker(message: Message) -> str:
    """`system`, `assistant`, `tool` or `user`: whatever else there is has said something to the model."""
    if message.role in ("system", "developer"):
        return "system"
    if message.role in ("assistant", "ai", "model"):
        return "assistant"
    if any(isinstance(part, ToolResultPart) for part in message.parts):
        return "tool"
    return "user"


# Who speaks. Where a provider has no field for a name, or refuses this one, it stands before the text.

_ROLES = {
    "system": ("system", "developer"),
    "assistant": ("assistant", "ai", "model"),
    "user": ("user", "human"),
}
"""What says no more than whose side it is."""


def speaker_name(message: Message) -> str | None:
    """Who says a message, where the role does not tell; a role of no provider's is a name, too."""
    if (side := speaker(message)) == "tool":
        return None
    name = " ".join((message.name or message.role).split())
    return None if not name or name.casefold() in _ROLES[side] else name


def spoken(message: Message) -> tuple[Part, ...]:
    """The parts of a message, of which the first that says something begins with who says it."""
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


# The names of tools and the ids of calls, in the letters that a provider takes. Nothing is remembered:
# what a name is sent as depends on the name alone, so that a cached prefix stays the same.

NAMES = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What OpenAI and Anthropic take as the name of a tool."""

_ESCAPED = re.compile(r"_x[0-9a-f]{10}$")
_LIMIT = 40
"""Of what is escaped: no provider takes less."""


def escaped(text: str, fine: re.Pattern[str]) -> str:
    """The text where it is `fine`; else its letters, and a digest by which it differs from all others."""
    if fine.fullmatch(text) and not _ESCAPED.search(text):
        return text
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=5).hexdigest()
    letters = re.sub(r"[^a-zA-Z0-9_-]", "_", text)
    if letters and not letters[0].isalpha():
        letters = f"_{letters}"
    return f"{letters[: _LIMIT - len(digest) - 2]}_x{digest}"


class Named(ABC):
    """What all dialects share: the names of tools, and which media are sent as words."""

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
        """What a picture, sound, film or file is sent as at a place; None if it can only be named."""


def _head(part: MediaPart) -> MediaPart:
    """The part with no more of its bytes than tell of what type they are."""
    return part if part.data is None else replace(part, data=part.data[:64])


class Uncached(Named):
    """A dialect without marks of what is to be cached: the provider finds that by itself."""

    def render(
        self, messages: Sequence[Message], *, breakpoints: Iterable[int] = ()
    ) -> dict[str, Any]:
        """The request; the `breakpoints` say nothing to this provider."""
        del breakpoints
        return self._rendered(messages)

    @abstractmethod
    def _rendered(self, messages: Sequence[Message]) -> dict[str, Any]:
        """What the provider is sent."""


def words(part: Part) -> str | None:
    """What stands for a part as text; None for what is no content: calls, results, reasoning."""
    match part:
        case TextPart():
            return part.text
        case DataPart():
            return dumps(part.data)
        case MediaPart():
            caption = getattr(part, "caption", None)
            told = [caption or part.name or "", part.media_type or "", part.url or ""]
            # The bytes of a data: URL are no words.
            told = [one for one in told if one and not one.startswith("data:")]
            return f"[{part.type}{': ' if told else ''}{', '.join(told)}]"
        case UnknownPart():
            return None if is_opaque(part) else dumps({"type": part.type, **part.payload})
    return None


def told_of(part: MediaPart) -> str:
    """A picture, sound, film or file in a few words, for a report."""
    called = part.name or getattr(part, "caption", None) or part.media_type or ""
    return f"{part.type} {called[:60]}".strip()


def texts(parts: Iterable[Part]) -> str:
    """All content of parts as text, those in results too, a line each."""
    found: list[str] = []
    for part in parts:
        if isinstance(part, ToolResultPart):
            found.append(texts(part.content))
        elif told := words(part):
            found.append(told)
    return "\n".join(one for one in found if one.strip())


def is_opaque(part: Part) -> bool:
    """Whether it is a part of no known kind that only the provider who made it can read."""
    return isinstance(part, UnknownPart) and part.type in (
        "compaction",
        "thinking",
        "redacted_thinking",
        "reasoning",
    )


def calls(message: Message) -> list[ToolCallPart]:
    """The tool calls of a message."""
    return [part for part in message.parts if isinstance(part, ToolCallPart)]


def results(message: Message) -> list[ToolResultPart]:
    """The tool results of a message."""
    return [part for part in message.parts if isinstance(part, ToolResultPart)]


def answers(message: Message) -> list[tuple[str | None, str]]:
    """The results of a message as texts, none of them empty, each with the id of its call."""
    return [(one.call_id, texts(one.content) or ANSWERED) for one in results(message)]


def content(
    parts: Sequence[Part], *, text: str, media: Callable[[MediaPart], dict[str, Any] | None]
) -> str | list[dict[str, Any]]:
    """What is said as a text; where there are media that are sent, as a list.

    In it are what `media` makes of these, and texts under the type `text`.
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
    """What is sent of messages of which nothing is left that the provider takes."""
    return [{"role": "user", "content": BEGINNING}] if messages else []


def arguments_text(call: ToolCallPart) -> str:
    """The arguments as the text of a JSON object."""
    return dumps(arguments(call))


def arguments(call: ToolCallPart) -> dict[str, Any]:
    """The arguments by name; raw text that is no JSON object stands under `input`."""
    if not isinstance(call.arguments, str):
        return dict(call.arguments)
    if not call.arguments.strip():
        return {}
    found = as_object(call.arguments)
    return {"input": call.arguments} if found is None else found


def as_object(text: object) -> dict[str, Any] | None:
    """The JSON object that a text is; None if it is none."""
    try:
        found = json.loads(str(text), parse_constant=_no_json)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _no_json(name: str) -> None:
    raise ValueError(name)


# A role and a text a message, for whatever takes no more: calls and results are told in words.


class Plain(Uncached):
    """Roles and texts alone."""

    name = "plain"
    provider = None

    def _rendered(self, messages: Sequence[Message]) -> dict[str, Any]:
        """The messages: `{"role": …, "content": …}`."""
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
        """The name itself: in words any will do."""
        return name

    def _sent(self, part: MediaPart, place: Place) -> None:
        del part, place

    def validate(self, request: Mapping[str, Any]) -> list[Violation]:
        """No message is empty, and there is one."""
        sent = request.get("messages") or []
        broken = [
            Violation(rule="empty_content", index=index)
            for index, message in enumerate(sent)
            if not str(message.get("content") or "").strip()
        ]
        return broken if sent else [Violation(rule="no_messages", index=-1)]


def _text(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else dumps(arguments)
