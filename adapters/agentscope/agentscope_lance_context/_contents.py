"""Converts the contents of a message of agentscope-runtime to canonical parts, and back.

Contents are plain dicts, as `model_dump` makes them.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from agentscope_lance_context._blocks import to_blocks_of_1
from agentscope_lance_context._blocks import to_parts as to_parts_of_blocks
from lance_context_core import (
    AudioPart,
    DataPart,
    FilePart,
    ImagePart,
    InvalidRequestError,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    VideoPart,
)
from lance_context_core.adapting import arguments_text
from lance_context_core.messages import Part, UnknownPart

CALL = "plugin_call"
CALL_OUTPUT = "plugin_call_output"
REASONING = "reasoning"
MESSAGE = "message"

_CALLS = (CALL, "function_call", "component_call", "mcp_call")
_EVENT = ("object", "status", "error", "sequence_number", "index", "delta", "msg_id")
"""The fields of every content that carry no information."""


def is_call(kind: str) -> bool:
    """Whether messages of that type are tool calls."""
    return kind in _CALLS


def is_output(kind: str) -> bool:
    """Whether messages of that type are tool results."""
    return kind.removesuffix("_output") in _CALLS and kind.endswith("_output")


def to_parts(kind: str, contents: Iterable[Mapping[str, Any]]) -> list[Part]:
    """The parts of a message of that type; an unknown content becomes an `UnknownPart`."""
    return [_part(kind, content) for content in contents]


def to_content(part: Part) -> dict[str, Any]:
    """The content for a part other than a call, its result, or reasoning."""
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case ImagePart():
            return {"type": "image", "image_url": part.to_url() or part.file_id}
        case AudioPart():
            return {"type": "audio", "data": part.to_url(), "format": part.media_type}
        case VideoPart():
            return {"type": "video", "video_url": part.to_url() or part.file_id}
        case FilePart():
            place = {"file_id": part.file_id} if part.file_id else {"file_url": part.to_url()}
            return {"type": "file", "filename": part.name, **place}
        case DataPart():
            data = part.data if isinstance(part.data, dict) else {"data": part.data}
            return {"type": "data", "data": data}
        case UnknownPart():
            return {"type": "data", "data": {"type": part.type, **part.payload}}
    raise AssertionError(f"{part!r} is a message of its own")


def to_data(part: ToolCallPart | ToolResultPart) -> dict[str, Any]:
    """The content of a call's message, or of its result's."""
    if isinstance(part, ToolCallPart):
        arguments = arguments_text(part.arguments)
        return {"call_id": part.call_id or "", "name": part.name, "arguments": arguments}
    data = {"call_id": part.call_id or "", "output": _output(part.content)}
    return {**data, "name": part.name} if part.name else data


def said(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content without fields that carry no information."""
    return {key: value for key, value in content.items() if key not in _EVENT}


def as_text(content: Mapping[str, Any]) -> str:
    """The text that replaces a content that cannot be shown."""
    if isinstance(content.get("refusal"), str):
        return str(content["refusal"])
    names = ("filename", "file_url", "video_url", "image_url", "data", "file_id", "format")
    found = (content.get(name) for name in names)
    label = next((one for one in found if isinstance(one, str) and _is_short(one)), None)
    kind = content.get("type")
    return f"[{kind}: {label}]" if label else f"[{kind}]"


def _is_short(label: str) -> bool:
    """Whether it is a reference instead of data."""
    return bool(label) and not label.startswith("data:") and len(label) <= 2_000


def _part(kind: str, content: Mapping[str, Any]) -> Part:
    try:
        part = _known_part(kind, content)
    except InvalidRequestError:
        part = None
    return _unknown(content) if part is None else part


def _known_part(kind: str, content: Mapping[str, Any]) -> Part | None:
    """The part of a content; None for an unknown one. Raises for an invalid one."""
    what = content.get("type")
    if what == "text" and kind == REASONING:
        return ReasoningPart(text=content.get("text") or "")
    if what == "data" and isinstance(content.get("data"), Mapping):
        return _data_part(kind, content["data"])
    make = _MAKERS.get(str(what))
    return None if make is None else make(content)


def _data_part(kind: str, data: Mapping[str, Any]) -> Part:
    call_id = data.get("call_id") or None
    if is_call(kind) and isinstance(data.get("name"), str):
        return ToolCallPart(
            call_id=call_id, name=data["name"], arguments=_arguments(data.get("arguments"))
        )
    if is_output(kind):
        return ToolResultPart(
            call_id=call_id, name=data.get("name") or None, content=_result(data.get("output"))
        )
    return DataPart(data=data)


def _arguments(given: Any) -> Mapping[str, Any] | str:
    """As a reference, or as a text if it is not one."""
    value = _parsed(given)
    if isinstance(value, Mapping):
        return value
    return given if isinstance(given, str) else json.dumps(given)


def _result(output: Any) -> tuple[Part, ...]:
    """A tool's answer: a text, or AgentScope's blocks, as objects or JSON text."""
    value = _parsed(output)
    blocks = value if isinstance(value, list) else [value]
    if blocks and all(_is_block(one) for one in blocks):
        return to_parts_of_blocks(blocks)
    if isinstance(output, str):
        return (TextPart(text=output),)
    return () if output is None else (DataPart(data=output),)


def _is_block(value: object) -> bool:
    return isinstance(value, Mapping) and value.get("type") in _BLOCKS


def _output(parts: Iterable[Part]) -> str:
    """A tool's answer in AgentScope's form: text, or blocks as JSON text."""
    parts = list(parts)
    if all(isinstance(part, TextPart) for part in parts):
        return "\n".join(part.text for part in parts if isinstance(part, TextPart))
    return json.dumps([_as_block(part) for part in parts], ensure_ascii=False)


def _as_block(part: Part) -> dict[str, Any]:
    has_source = isinstance(part, ImagePart | AudioPart | VideoPart) and part.file_id is None
    if has_source or isinstance(part, TextPart):
        return to_blocks_of_1([part])[0]
    content = to_data(part) if isinstance(part, ToolCallPart | ToolResultPart) else _shown(part)
    return {"type": "text", "text": json.dumps(content, ensure_ascii=False)}


def _shown(part: Part) -> Any:
    return {"text": part.text} if isinstance(part, ReasoningPart) else to_content(part)


def _audio(content: Mapping[str, Any]) -> Part | None:
    """The data is a URL, or base64 with the format in another field."""
    data, media_type = content.get("data"), content.get("format") or None
    if not isinstance(data, str):
        return None
    if media_type and "/" not in media_type:
        media_type = f"audio/{media_type}"
    if "://" in data or data.startswith("data:"):
        return AudioPart.from_url(data, media_type=media_type)
    return AudioPart.from_url(f"data:{media_type or 'audio/wav'};base64,{data}")


def _file(content: Mapping[str, Any]) -> Part | None:
    name = content.get("filename") or None
    if url := content.get("file_url"):
        return FilePart.from_url(url, name=name)
    if file_id := content.get("file_id"):
        return FilePart(file_id=file_id, name=name)
    if data := content.get("file_data"):
        is_url = isinstance(data, str) and data.startswith("data:")
        return FilePart.from_url(data if is_url else f"data:;base64,{data}", name=name)
    return None


def _text(content: Mapping[str, Any]) -> Part:
    return TextPart(text=content.get("text") or "")


def _refusal(content: Mapping[str, Any]) -> Part:
    return TextPart(text=content.get("refusal") or "", extra={"refusal": True})


def _image(content: Mapping[str, Any]) -> Part:
    return ImagePart.from_url(content.get("image_url") or "")


def _video(content: Mapping[str, Any]) -> Part:
    return VideoPart.from_url(content.get("video_url") or "")


def _unknown(content: Mapping[str, Any]) -> Part:
    payload = {key: value for key, value in said(content).items() if key != "type"}
    return UnknownPart(type=str(content.get("type")), payload=payload)


def _parsed(value: Any) -> Any:
    """The value of a JSON text, or the text itself if it is not JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


_MAKERS: dict[str, Callable[[Mapping[str, Any]], Part | None]] = {
    "text": _text,
    "refusal": _refusal,
    "image": _image,
    "audio": _audio,
    "video": _video,
    "file": _file,
}
_BLOCKS = ("text", "image", "audio", "video")
"""The blocks of a tool's answer in agentscope 1.x."""
