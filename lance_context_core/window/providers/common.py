"""What the dialects share: what a dialect is, a broken rule, and parts that have no form of their own."""

import base64
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from lance_context_core._util.checks import dumps
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.messages import (
    DataPart,
    ImagePart,
    MediaPart,
    Message,
    Part,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)

ANSWERED = "[done]"
"""What an empty result is sent as: some providers refuse nothing at all."""


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
        """Whose opaque items it takes; None if nobody's."""

    def render(
        self, messages: Sequence[Message], *, breakpoints: Iterable[int] = ()
    ) -> dict[str, Any]:
        """The part of the request that holds the messages, in JSON; `breakpoints` as in `Window`."""

    def validate(self, request: Mapping[str, Any]) -> list[Violation]:
        """The rules that such a request breaks; a call that waits for results may stand at its end."""


def speaker(message: Message) -> str:
    """`system`, `assistant`, `tool` or `user`: whatever else there is has said something to the model."""
    if message.role in ("system", "developer"):
        return "system"
    if message.role in ("assistant", "ai", "model"):
        return "assistant"
    if any(isinstance(part, ToolResultPart) for part in message.parts):
        return "tool"
    return "user"


class Uncached(ABC):
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
    parts: Sequence[Part], *, text: str, picture: Callable[[str], dict[str, Any]]
) -> str | list[dict[str, Any]]:
    """What is said as a text; where there are pictures, as a list.

    In it are what `picture` makes of a URL, and texts under the type `text`.
    """
    if not any(image_url(part) for part in parts):
        return texts(parts)
    found: list[dict[str, Any]] = []
    for part in parts:
        if url := image_url(part):
            found.append(picture(url))
        elif told := words(part):
            found.append({"type": text, "text": told})
    return found


def arguments_text(call: ToolCallPart) -> str:
    """The arguments as the text of JSON, or as the raw text that they are."""
    return call.arguments if isinstance(call.arguments, str) else dumps(call.arguments)


def arguments(call: ToolCallPart) -> dict[str, Any]:
    """The arguments by name; raw text that is none stands under `input`."""
    if isinstance(call.arguments, str):
        return {"input": call.arguments} if call.arguments else {}
    return dict(call.arguments)


def data_of(part: MediaPart) -> str | None:
    """The bytes in base64, where it has them."""
    return None if part.data is None else base64.b64encode(part.data).decode()


def image_url(part: Part) -> str | None:
    """The URL of a picture, where it has one."""
    return part.to_url() if isinstance(part, ImagePart) else None


# A role and a text a message, for whatever takes no more: calls and results are told in words.


class Plain(Uncached):
    """Roles and texts alone."""

    name = "plain"
    provider = None

    def _rendered(self, messages: Sequence[Message]) -> dict[str, Any]:
        """The messages: `{"role": …, "content": …}`."""
        rendered = []
        for message in messages:
            lines = [texts(part for part in message.parts if part not in results(message))]
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
        return {"messages": rendered}

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
