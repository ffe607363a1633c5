"""Messages as the APIs of OpenAI and Anthropic have them, read as they come."""

import json
import mimetypes
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

from lance_context_core._util.checks import check_time, shown
from lance_context_core.errors import InvalidRequestError
from lance_context_core.messages.message import Message
from lance_context_core.messages.parts import (
    AudioPart,
    BasePart,
    FilePart,
    ImagePart,
    MediaPart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
    decode_base64,
)

Json = Mapping[str, Any]

OWN = ("content", "created_at", "id", "metadata", "name", "role", "timestamp")
"""What a message is written with."""

THEIRS = (
    *("tool_calls", "tool_call_id", "function_call", "refusal", "reasoning_content", "is_error"),
    *("annotations", "audio", "type", "model", "stop_reason", "stop_sequence", "usage", "status"),
    *("object", "phase", "container", "stop_details"),
)
"""What the providers' answers have in addition: read, or without meaning for a memory."""

_MILLISECONDS_FROM = 1e11
"""A time that is a number is in seconds, up to the year 5138, and in milliseconds from there."""


def from_wire(said: Json, where: str) -> list[Message]:
    """The messages that a mapping of OpenAI or Anthropic stands for; an error calls it `where`.

    Mostly it is one: tool results that Anthropic has in a turn of the user are a message of their own.
    Raises InvalidRequestError for a mapping of no known form, and for a key that no form has.
    """
    given = {key: value for key, value in said.items() if value is not None}
    if "role" not in given and given.get("type") in _ITEMS:
        return [_ITEMS[given["type"]](given, where)]
    if unknown := sorted(str(key) for key in given if key not in (*OWN, *THEIRS)):
        raise InvalidRequestError(
            f"{where} has the unknown key {shown(unknown[0])}: use one of {', '.join(OWN)}, or "
            "those of messages of OpenAI and Anthropic; anything else goes into metadata"
        )
    role = given.get("role")
    if not isinstance(role, str) or not ("content" in given or _CALLS & given.keys()):
        says_nothing = "content" in said and isinstance(role, str)
        if not says_nothing:
            raise InvalidRequestError(
                f"{where} has no 'role' or no 'content': give both, as in "
                '{"role": "user", "content": "…"}'
            )
    content = wire_parts(given.get("content"), f"{where}['content']")
    if "reasoning_content" in given:
        content.insert(0, ReasoningPart(text=given["reasoning_content"]))
    if "refusal" in given:
        content.append(TextPart(text=given["refusal"]))
    if isinstance(spoken := given.get("audio"), Mapping) and spoken.get("transcript"):
        content.append(TextPart(text=spoken["transcript"]))
    content += _calls(given, where)
    about: dict[str, Any] = {
        name: given[name] for name in ("id", "name", "metadata") if name in given
    }
    moment = given.get("created_at", given.get("timestamp"))
    if moment is not None:
        name = "created_at" if "created_at" in given else "timestamp"
        about["created_at"] = wire_time(moment, f"{where}[{name!r}]")
    if role in ("tool", "function"):
        result = ToolResultPart(
            call_id=given.get("tool_call_id"),
            name=about.pop("name", None),
            content=tuple(content),
            is_error=given.get("is_error", False),
        )
        return [Message(role="tool", parts=(result,), **about)]
    return _apart(str(role), content, about)


def wire_time(value: object, where: str, *, through_the_day: bool = False) -> datetime:
    """A moment: a datetime, seconds or milliseconds since 1970, or a text of ISO 8601 with a zone.

    A text that is a date alone is the beginning of that day in UTC or, if it is meant `through_the_day`,
    its end. Raises InvalidRequestError for anything else.
    """
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1_000 if abs(value) >= _MILLISECONDS_FROM else value
            return datetime.fromtimestamp(seconds, UTC)
        if isinstance(value, str) and len(value) == len("2024-05-01"):
            value = date.fromisoformat(value)
        if isinstance(value, date) and not isinstance(value, datetime):
            day = datetime(value.year, value.month, value.day, tzinfo=UTC)
            return day + timedelta(days=1) if through_the_day else day
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidRequestError(
            f"{where} is {shown(value)}, and no time: give a datetime, a number of seconds, or a text "
            "such as '2024-05-01T09:00:00Z'"
        ) from error
    return check_time(value, where)


def wire_parts(content: Any, where: str) -> list[Part]:
    """The parts of a content: a text, or a list of parts; an error calls it `where`."""
    if content is None:
        return []
    if isinstance(content, str):
        return [TextPart(text=content)]
    if isinstance(content, Mapping | BasePart | UnknownPart):
        content = [content]
    if not isinstance(content, list | tuple):
        raise InvalidRequestError(
            f"{where} is {shown(content)}: give a text, or a list of parts such as "
            '{"type": "text", "text": "…"}'
        )
    return [_part(one, f"{where}[{index}]") for index, one in enumerate(content)]


# Helpers

_CALLS = {"tool_calls", "function_call", "refusal", "audio"}


def _apart(role: str, content: list[Part], about: dict[str, Any]) -> list[Message]:
    """One message; or two, where results of tools stand in the turn of a user."""
    results = [one for one in content if isinstance(one, ToolResultPart)]
    if role != "user" or not results:
        return [Message(role=role, parts=tuple(content), **about)]
    others = [one for one in content if not isinstance(one, ToolResultPart)]
    if not others:
        return [Message(role="tool", parts=tuple(results), **about)]
    first = {**about, "id": f"{about['id']}-results"} if "id" in about else dict(about)
    first.pop("name", None)
    return [
        Message(role="tool", parts=tuple(results), **first),
        Message(role=role, parts=tuple(others), **about),
    ]


def _calls(given: Json, where: str) -> list[Part]:
    found: list[Part] = []
    calls = given.get("tool_calls", ())
    if not isinstance(calls, list | tuple):
        raise InvalidRequestError(f"{where}['tool_calls'] is {shown(calls)}: give a list")
    for index, one in enumerate(calls):
        at = f"{where}['tool_calls'][{index}]"
        function = _mapping(_mapping(one, at).get("function", one.get("custom", one)), at)
        arguments = function.get("arguments", function.get("args", function.get("input")))
        found.append(_call(one.get("id"), function.get("name"), arguments, at))
    if "function_call" in given:
        at = f"{where}['function_call']"
        function = _mapping(given["function_call"], at)
        found.append(_call(None, function.get("name"), function.get("arguments"), at))
    return found


def _call(call_id: Any, name: Any, arguments: Any, where: str) -> ToolCallPart:
    if not isinstance(name, str):
        raise InvalidRequestError(f"{where} names no tool: give its 'name'")
    parsed: Any = {} if arguments is None else arguments
    if isinstance(arguments, str):
        try:
            parsed = json.loads(arguments)
        except ValueError:
            parsed = arguments
        parsed = parsed if isinstance(parsed, dict) else arguments
    return ToolCallPart(call_id=call_id, name=name, arguments=parsed)


def _part(said: Any, where: str) -> Part:
    if isinstance(said, BasePart | UnknownPart):
        return said  # type: ignore[return-value]  # every class of them is a Part
    if isinstance(said, str):
        return TextPart(text=said)
    kind = _mapping(said, where).get("type")
    if not isinstance(kind, str):
        raise InvalidRequestError(f"{where} is {shown(said)}: a part has a 'type'")
    try:
        if kind in _PARTS:
            return _PARTS[kind](said, where)
    except (AttributeError, KeyError, TypeError) as error:
        raise InvalidRequestError(
            f"{where} is {shown(said)}, which is not part of type {kind!r}: {error!r}"
        ) from error
    return UnknownPart(type=kind, payload={k: v for k, v in said.items() if k != "type"})


def _mapping(said: Any, where: str) -> Json:
    if not isinstance(said, Mapping):
        raise InvalidRequestError(f"{where} is {shown(said)}: give a mapping")
    return said


def _extra(said: Json, *but: str) -> dict[str, Any]:
    """What a part has in addition, such as `cache_control` and `citations`."""
    return {k: v for k, v in said.items() if k not in ("type", *but) and v is not None}


def _text(said: Json, _: str) -> Part:
    return TextPart(text=said["text"], extra=_extra(said, "text"))


def _image_url(said: Json, _: str) -> Part:
    image = said.get("image_url")
    if isinstance(image, Mapping):
        return ImagePart.from_url(image["url"])
    return ImagePart.from_url(image) if image else ImagePart(file_id=said["file_id"])


def _input_audio(said: Json, where: str) -> Part:
    sound = said["input_audio"]
    data = decode_base64(sound["data"], f"{where}['input_audio']['data']")
    return AudioPart(data=data, media_type=f"audio/{sound.get('format', 'wav')}")


def _file(said: Json, where: str) -> Part:
    file = said.get("file", said)
    name = file.get("filename")
    if data := file.get("file_data"):
        if data.startswith("data:"):
            return FilePart.from_url(data, name=name)
        media_type, _ = mimetypes.guess_type(name or "")
        found = decode_base64(data, f"{where}['file_data']")
        return FilePart(data=found, media_type=media_type, name=name)
    if url := file.get("file_url"):
        return FilePart(url=url, name=name)
    return FilePart(file_id=file["file_id"], name=name)


def _sourced(kind: type[MediaPart]) -> Callable[[Json, str], Part]:
    """Anthropic's pictures and documents, which have a `source`."""

    def read(said: Json, where: str) -> Part:
        source = said.get("source")
        if not isinstance(source, Mapping):  # Another form of that name, such as ours.
            return UnknownPart(type=said["type"], payload=_extra(said))
        name = {"name": said["title"]} if said.get("title") else {}
        if source["type"] == "base64":
            data = decode_base64(source["data"], f"{where}['source']['data']")
            return _made(kind, data=data, media_type=source.get("media_type"), **name)
        if source["type"] == "url":
            return _made(kind, url=source["url"], **name)
        if source["type"] == "file":
            return _made(kind, file_id=source["file_id"], **name)
        if source["type"] == "text":
            return TextPart(text=source["data"])
        return UnknownPart(type=said["type"], payload=_extra(said))

    return read


def _made(kind: type[MediaPart], **values: Any) -> Part:
    made: Any = kind(**values)
    part: Part = made
    return part


def _tool_use(said: Json, where: str) -> Part:
    return _call(said.get("id"), said.get("name"), said.get("input"), where)


def _tool_result(said: Json, where: str) -> Part:
    return ToolResultPart(
        call_id=said["tool_use_id"],
        content=tuple(wire_parts(said.get("content"), f"{where}['content']")),
        is_error=bool(said.get("is_error")),
    )


def _thinking(said: Json, _: str) -> Part:
    return ReasoningPart(text=said["thinking"], signature=said.get("signature"))


_PARTS: Mapping[str, Callable[[Json, str], Part]] = {
    "text": _text,
    "input_text": _text,
    "output_text": _text,
    "refusal": lambda said, _: TextPart(text=said["refusal"]),
    "image_url": _image_url,
    "input_image": _image_url,
    "input_audio": _input_audio,
    "file": _file,
    "input_file": _file,
    "image": _sourced(ImagePart),
    "document": _sourced(FilePart),
    "tool_use": _tool_use,
    "tool_result": _tool_result,
    "thinking": _thinking,
}


def _called(said: Json, where: str) -> Message:
    call = _call(said.get("call_id"), said.get("name"), said.get("arguments"), where)
    return Message(role="assistant", parts=(call,))


def _answered(said: Json, where: str) -> Message:
    content = wire_parts(said.get("output"), f"{where}['output']")
    result = ToolResultPart(call_id=said.get("call_id"), content=tuple(content))
    return Message(role="tool", parts=(result,))


_ITEMS: Mapping[str, Callable[[Json, str], Message]] = {
    "function_call": _called,
    "function_call_output": _answered,
}
"""What the Responses API of OpenAI has beside messages."""
