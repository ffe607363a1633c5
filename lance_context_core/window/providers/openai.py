"""OpenAI's Chat Completions and Responses APIs, and compatible ones."""

from collections.abc import Mapping, Sequence
from typing import Any

from lance_context_core.messages import (
    AudioPart,
    FilePart,
    ImagePart,
    MediaPart,
    Message,
    Part,
    ReasoningPart,
    ToolCallPart,
    UnknownPart,
)
from lance_context_core.window.providers import rules
from lance_context_core.window.providers.common import (
    ANSWERED,
    NAMES,
    Uncached,
    Violation,
    answers,
    arguments_text,
    begun,
    calls,
    content,
    escaped,
    results,
    speaker,
    speaker_name,
    spoken,
    texts,
    words,
)
from lance_context_core.window.providers.media import PDF, PICTURES, Place, Source, source_of
from lance_context_core.window.providers.rules import OPENAI_IDS, SOUNDS, SPEAKERS


class OpenAIChat(Uncached):
    """Calls in the assistant's message, each followed by a `tool` message per result."""

    name = "openai_chat"
    provider = None

    def _rendered(self, messages: Sequence[Message]) -> dict[str, Any]:
        """The `messages`."""
        rendered: list[dict[str, Any]] = []
        for message in messages:
            rendered += _answers(message) if speaker(message) == "tool" else self._said(message)
        return {"messages": rendered or begun(messages)}

    def _said(self, message: Message) -> list[dict[str, Any]]:
        """Return a message or call as one message; as none if it is empty."""
        one: dict[str, Any] = {"role": speaker(message)}
        name, parts = speaker_name(message), message.parts
        if name and SPEAKERS.fullmatch(name):
            one["name"] = name
        else:
            parts = spoken(message)
        if one["role"] == "user":
            one["content"] = content(
                parts, text="text", media=lambda part: self._sent(part, "user")
            )
        else:
            one["content"] = texts(parts) or None
        if made := calls(message):
            one["tool_calls"] = [
                {
                    "id": _id(call.call_id),
                    "type": "function",
                    "function": {
                        "name": escaped(call.name, NAMES),
                        "arguments": arguments_text(call),
                    },
                }
                for call in made
            ]
        return [one] if one["content"] or made else []

    def _sent(self, part: MediaPart, place: Place) -> dict[str, Any] | None:
        if place != "user":
            return None
        source = source_of(part)
        if isinstance(part, ImagePart):
            url = _picture_url(source)
            return None if url is None else {"type": "image_url", "image_url": {"url": url}}
        if isinstance(part, AudioPart) and source.data and source.media_type in SOUNDS:
            sound = {"data": source.base64, "format": SOUNDS[source.media_type]}
            return {"type": "input_audio", "input_audio": sound}
        if isinstance(part, FilePart) and (file := _file(part, source)):
            return {"type": "file", "file": file}
        return None

    def validate(self, request: Mapping[str, Any]) -> list[Violation]:
        """Check that `tool` messages follow each call, and each result has a call."""
        sent = request.get("messages") or []
        broken: list[Violation] = [] if sent else [Violation(rule="no_messages", index=-1)]
        waiting: list[str] = []
        at = -1
        seen: set[str] = set()
        for index, message in enumerate(sent):
            if message.get("role") == "tool":
                id = message.get("tool_call_id")
                if id in waiting:
                    waiting.remove(id)
                else:
                    rule = "duplicate_result" if id in seen else "result_without_call"
                    broken.append(Violation(rule=rule, index=index, detail=f"{id}"))
                continue
            if waiting:
                broken.append(Violation(rule="call_without_result", index=at, detail=f"{waiting}"))
            waiting, at = [call["id"] for call in message.get("tool_calls") or ()], index
            if len(set(waiting)) < len(waiting) or seen & set(waiting):
                broken.append(Violation(rule="duplicate_call_id", index=index))
            seen |= set(waiting)
            if not message.get("content") and not message.get("tool_calls"):
                broken.append(Violation(rule="empty_content", index=index))
        return broken + rules.openai_chat(request)


def _answers(message: Message) -> list[dict[str, Any]]:
    return [
        {"role": "tool", "tool_call_id": _id(id), "content": text} for id, text in answers(message)
    ]


def _picture_url(source: Source) -> str | None:
    """Return an accepted picture's URL, or its bytes as a URL."""
    if source.media_type not in (PICTURES if source.data else (None, *PICTURES)):
        return None
    if source.data:
        return source.data_url
    return source.url if source.is_at("https", "http") else None


def _file(part: MediaPart, source: Source) -> dict[str, Any] | None:
    """Return a PDF with its bytes, or an uploaded file."""
    if source.data and source.media_type == PDF:
        return {"filename": part.name or "document.pdf", "file_data": source.data_url}
    return {"file_id": source.file_id} if source.is_file_of("file-") else None


def _id(id: str | None) -> str:
    return escaped(id or "", OPENAI_IDS)


# OpenAI's Responses: one list of items, in which ids link calls and results.


class OpenAIResponses(Uncached):
    """Items; reasoning is sent back encrypted, before its item."""

    name = "openai_responses"
    provider = "openai"

    def _rendered(self, messages: Sequence[Message]) -> dict[str, Any]:
        """The `input`."""
        items: list[dict[str, Any]] = []
        for message in messages:
            role = speaker(message)
            if role == "tool":
                items += [
                    {
                        "type": "function_call_output",
                        "call_id": _id(one.call_id),
                        "output": self._content(one.content) or ANSWERED,
                    }
                    for one in results(message)
                ]
            elif role == "assistant":
                items += _said_item(message)
            elif role == "user" and (said := self._content(spoken(message))):
                items.append({"role": "user", "content": said})
            elif role == "system" and (text := texts(spoken(message))):
                items.append({"role": "developer", "content": text})
        return {"input": _followed(items) or begun(messages)}

    def _content(self, parts: Sequence[Part]) -> str | list[dict[str, Any]]:
        return content(parts, text="input_text", media=lambda part: self._sent(part, "user"))

    def _sent(self, part: MediaPart, place: Place) -> dict[str, Any] | None:
        if place in ("assistant", "system"):
            return None
        source = source_of(part)
        if isinstance(part, ImagePart):
            if source.is_file_of("file-"):
                return {"type": "input_image", "file_id": source.file_id}
            url = _picture_url(source)
            return None if url is None else {"type": "input_image", "image_url": url}
        if isinstance(part, FilePart):
            if source.media_type == PDF and source.is_at("https", "http"):
                return {"type": "input_file", "file_url": source.url}
            file = _file(part, source)
            return None if file is None else {"type": "input_file", **file}
        return None

    def validate(self, request: Mapping[str, Any]) -> list[Violation]:
        """Check that calls and outputs are paired, and reasoning precedes its item."""
        items = request.get("input") or []
        broken: list[Violation] = [] if items else [Violation(rule="no_messages", index=-1)]
        made: dict[str, int] = {}
        answered: set[str] = set()
        for index, item in enumerate(items):
            kind, id = item.get("type"), item.get("call_id")
            if kind == "function_call":
                if id in made:
                    broken.append(Violation(rule="duplicate_call_id", index=index, detail=f"{id}"))
                made[str(id)] = index
            elif kind == "function_call_output":
                if id in answered or id not in made:
                    rule = "duplicate_result" if id in answered else "result_without_call"
                    broken.append(Violation(rule=rule, index=index, detail=f"{id}"))
                answered.add(str(id))
            elif kind == "reasoning" and not _is_models(items[index + 1 : index + 2]):
                broken.append(Violation(rule="reasoning_without_item", index=index))
            elif kind is None and not item.get("content"):
                broken.append(Violation(rule="empty_content", index=index))
        end = len(items)
        while end and items[end - 1].get("type") in ("function_call", "function_call_output"):
            end -= 1
        broken += [
            Violation(rule="call_without_result", index=index, detail=id)
            for id, index in made.items()
            if id not in answered and index < end
        ]
        return broken + rules.openai_responses(request)


def _said_item(message: Message) -> list[dict[str, Any]]:
    """Return the items of a model's message, in order."""
    items: list[dict[str, Any]] = []
    for part in spoken(message):
        if isinstance(part, ReasoningPart):
            item: dict[str, Any] = {"type": "reasoning", "summary": []}
            if part.text:
                item["summary"] = [{"type": "summary_text", "text": part.text}]
            for name in ("id", "encrypted_content"):
                if part.extra.get(name):
                    item[name] = part.extra[name]
            if part.signature and "encrypted_content" not in item:
                item["encrypted_content"] = part.signature
            items.append(item)
        elif isinstance(part, UnknownPart) and part.type in ("reasoning", "compaction"):
            items.append({"type": part.type, **part.payload})
        elif isinstance(part, ToolCallPart):
            items.append(
                {
                    "type": "function_call",
                    "call_id": _id(part.call_id),
                    "name": escaped(part.name, NAMES),
                    "arguments": arguments_text(part),
                }
            )
        elif (told := words(part)) and told.strip():
            items.append({"role": "assistant", "content": told})
    return items


def _followed(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the items without reasoning that no item of the model follows."""
    kept: list[dict[str, Any]] = []
    for item in reversed(items):
        if item.get("type") != "reasoning" or _is_models(kept[-1:]):
            kept.append(item)
    return kept[::-1]


def _is_models(items: Sequence[Mapping[str, Any]]) -> bool:
    return any(
        one.get("type") in ("function_call", "reasoning") or one.get("role") == "assistant"
        for one in items
    )
