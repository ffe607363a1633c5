"""Rules of providers for one block: names, ids, arguments, pictures, and their places."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lance_context_core.window.providers.common import NAMES, Violation, as_object
from lance_context_core.window.providers.media import PDF, PICTURES

Json = Mapping[str, Any]

SPEAKERS = re.compile(r"[^\s<|\\/>]{1,64}")
"""Valid speaker names of OpenAI."""
OPENAI_IDS = re.compile(r"[!-~]{1,40}")
"""Valid call ids of OpenAI; some servers have their own form, with dots and colons."""
ANTHROPIC_IDS = re.compile(r"[a-zA-Z0-9_-]{1,64}")
GEMINI_NAMES = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
SOUNDS = {"audio/wav": "wav", "audio/mpeg": "mp3"}
"""Sound types that OpenAI accepts, with its names."""
GEMINI_MEDIA = frozenset(
    [
        *(f"image/{one}" for one in ("png", "jpeg", "webp", "heic", "heif")),
        *(f"audio/{one}" for one in ("wav", "mpeg", "aiff", "aac", "ogg", "flac")),
        *(f"video/{one}" for one in ("mp4", "mpeg", "mov", "avi", "x-flv", "mpg", "webm", "wmv")),
        *("video/quicktime", "video/3gpp", PDF, "text/plain"),
    ]
)

_DATA = re.compile(r"data:([a-z0-9.+/-]+);base64,([A-Za-z0-9+/]+={0,2})")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def openai_chat(request: Json) -> list[Violation]:
    """Check names, ids and arguments of calls; media only in users' turns."""
    broken: list[Violation] = []
    for index, message in enumerate(request.get("messages") or ()):
        found = [
            *_calls(
                (one.get("id"), one["function"].get("name"), one["function"].get("arguments"))
                for one in message.get("tool_calls") or ()
            )
        ]
        if message.get("role") == "tool":
            found += _unless(OPENAI_IDS, message.get("tool_call_id"), "bad_call_id")
        if message.get("name") is not None:
            found += _unless(SPEAKERS, message["name"], "bad_speaker_name")
        for block in _list(message.get("content")):
            found += _openai_block(block, "", is_user=message.get("role") == "user")
        broken += [Violation(rule=rule, index=index, detail=detail) for rule, detail in found]
    return broken


def openai_responses(request: Json) -> list[Violation]:
    """Check names, ids and arguments of calls; media only of users and tools."""
    broken: list[Violation] = []
    for index, item in enumerate(request.get("input") or ()):
        found: list[tuple[str, str]] = []
        if item.get("type") == "function_call":
            found += _calls([(item.get("call_id"), item.get("name"), item.get("arguments"))])
        elif item.get("type") == "function_call_output":
            found += _unless(OPENAI_IDS, item.get("call_id"), "bad_call_id")
            if not item.get("output"):
                found.append(("empty_content", ""))
        elif "name" in item:
            found.append(("bad_speaker_name", "items have none"))
        for block in _list(item.get("output") or item.get("content")):
            is_user = item.get("role") in (None, "user")
            found += _openai_block(block, "input_", is_user=is_user)
        broken += [Violation(rule=rule, index=index, detail=detail) for rule, detail in found]
    return broken


def anthropic(request: Json) -> list[Violation]:
    """Check names, ids and inputs of calls; pictures and documents at allowed places."""
    broken: list[Violation] = []
    for index, message in enumerate(request.get("messages") or ()):
        found: list[tuple[str, str]] = []
        is_user = message.get("role") == "user"
        for block in _list(message.get("content")):
            kind = block.get("type")
            if kind == "tool_use":
                found += _unless(NAMES, block.get("name"), "bad_tool_name")
                found += _unless(ANTHROPIC_IDS, block.get("id"), "bad_call_id")
                if not isinstance(block.get("input"), dict):
                    found.append(("arguments_are_no_object", repr(block.get("input"))))
            elif kind == "tool_result":
                found += _unless(ANTHROPIC_IDS, block.get("tool_use_id"), "bad_call_id")
                for inner in _list(block.get("content")):
                    found += _anthropic_block(inner, is_taken=not block.get("is_error"))
            else:
                found += _anthropic_block(block, is_taken=is_user)
        broken += [Violation(rule=rule, index=index, detail=detail) for rule, detail in found]
    last = (request.get("messages") or [{}])[-1]
    ends = _list(last.get("content"))[-1:]
    if last.get("role") == "assistant" and ends and ends[0].get("type") == "text":
        text = str(ends[0].get("text"))
        if text != text.rstrip():
            broken.append(Violation(rule="ends_in_spaces", index=len(request["messages"]) - 1))
    return broken


def gemini(request: Json) -> list[Violation]:
    """Check names and arguments of calls; media of accepted types and addresses."""
    broken: list[Violation] = []
    for index, content in enumerate(request.get("contents") or ()):
        found: list[tuple[str, str]] = []
        for part in content.get("parts") or ():
            if call := part.get("functionCall"):
                found += _unless(GEMINI_NAMES, call.get("name"), "bad_tool_name")
                if not isinstance(call.get("args", {}), dict):
                    found.append(("arguments_are_no_object", repr(call["args"])))
            if response := part.get("functionResponse"):
                found += _unless(GEMINI_NAMES, response.get("name"), "bad_tool_name")
            if "text" in part and not part["text"].strip() and not part.get("thought"):
                found.append(("empty_text", ""))
            found += _gemini_media(part, is_user=content.get("role") == "user")
        broken += [Violation(rule=rule, index=index, detail=detail) for rule, detail in found]
    return broken


Found = Iterator[tuple[str, str]]
"""Broken rules, each with its cause."""


def _list(content: object) -> Sequence[Json]:
    return content if isinstance(content, list) else ()


def _unless(fine: re.Pattern[str], value: object, rule: str) -> Found:
    if not isinstance(value, str) or not fine.fullmatch(value):
        yield rule, repr(value)


def _calls(made: Any) -> Found:
    for id, name, arguments in made:
        yield from _unless(OPENAI_IDS, id, "bad_call_id")
        yield from _unless(NAMES, name, "bad_tool_name")
        if not isinstance(arguments, str) or as_object(arguments) is None:
            yield "arguments_are_no_object", repr(arguments)


def _openai_block(block: Json, prefix: str, *, is_user: bool) -> Found:
    """`prefix` begins the types of the Responses API."""
    kind = str(block.get("type"))
    picture = "input_image" if prefix else "image_url"
    if kind in ("text", "input_text", "output_text"):
        if not str(block.get("text")).strip():
            yield "empty_text", ""
        return
    if not is_user or kind not in (picture, f"{prefix}file", *(() if prefix else ["input_audio"])):
        yield "media_out_of_place", kind
    elif kind == picture and "file_id" not in block:
        given = block.get("image_url")
        url = given.get("url") if isinstance(given, Mapping) else given
        if not _is_web(url, "https", "http") and _type_of(url) not in PICTURES:
            yield "bad_picture", str(url)[:60]
    elif kind == "input_audio":
        if block["input_audio"].get("format") not in SOUNDS.values():
            yield "bad_sound", str(block["input_audio"].get("format"))
    elif kind == f"{prefix}file":
        file = block if prefix else block.get("file", {})
        is_whole = _type_of(file.get("file_data")) == PDF and bool(file.get("filename"))
        if not (is_whole or file.get("file_id") or _is_web(file.get("file_url"), "https", "http")):
            yield "bad_file", str(file.get("file_data"))[:60]


def _anthropic_block(block: Json, *, is_taken: bool) -> Found:
    kind, source = block.get("type"), block.get("source") or {}
    if kind == "text" and not str(block.get("text")).strip():
        yield "empty_text", ""
    if kind not in ("image", "document"):
        return
    if not is_taken:
        yield "media_out_of_place", str(kind)
    if source.get("type") == "url" and not _is_web(source.get("url"), "https"):
        yield "bad_address", str(source.get("url"))[:60]
    if source.get("type") == "base64":
        if source.get("media_type") not in (PICTURES if kind == "image" else (PDF,)):
            yield f"bad_{kind}_type", str(source.get("media_type"))
        if not _BASE64.fullmatch(str(source.get("data") or "")):
            yield "bad_base64", ""


def _gemini_media(part: Json, *, is_user: bool) -> Found:
    given = part.get("inlineData") or part.get("fileData")
    if given is None:
        return
    if not is_user:
        yield "media_out_of_place", str(given.get("mimeType"))
    if given.get("mimeType") not in GEMINI_MEDIA:
        yield "bad_media_type", str(given.get("mimeType"))
    if "inlineData" in part and not _BASE64.fullmatch(str(given.get("data") or "")):
        yield "bad_base64", ""
    if "fileData" in part and not _is_web(given.get("fileUri"), "https", "gs"):
        yield "bad_address", str(given.get("fileUri"))[:60]


def _is_web(url: object, *schemes: str) -> bool:
    found = re.fullmatch(r"([a-z]+)://[^\s/][^\s]*", str(url), re.IGNORECASE)
    return found is not None and found[1].lower() in schemes


def _type_of(url: object) -> str | None:
    """Return the type of the bytes in a `data:` URL; None for other values."""
    found = _DATA.fullmatch(str(url))
    return found[1] if found else None
