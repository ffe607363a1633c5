"""Converts content blocks of the library agentscope to canonical parts, and back.

Blocks are plain dicts: those of 1.x are dicts, and `model_dump` converts those of 2.x.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

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
from lance_context_core.adapting import arguments_of, arguments_text
from lance_context_core.messages import MediaPart, Part, UnknownPart

Block = dict[str, Any]
_Media = ImagePart | AudioPart | VideoPart | FilePart

_FAILED = ("error", "interrupted", "denied")
"""The final states of a tool call of 2.x without an answer."""


def to_parts(blocks: Iterable[Mapping[str, Any]]) -> tuple[Part, ...]:
    """The parts of blocks of either release; an unknown block becomes an `UnknownPart`."""
    return tuple(_part(block) for block in blocks)


def to_blocks_of_1(parts: Iterable[Part]) -> list[Block]:
    """The blocks of agentscope 1.x for parts."""
    return [_block_of_1(part) for part in parts]


def to_blocks_of_2(parts: Iterable[Part]) -> list[Block]:
    """The data from which blocks of agentscope 2.x are validated."""
    return [_block_of_2(part) for part in parts]


def text_of(part: Part) -> str:
    """The text that replaces a part that a message cannot hold."""
    match part:
        case TextPart() | ReasoningPart():
            return part.text
        case MediaPart():
            return f"[{part.type}: {part.name or part.file_id or part.url or part.media_type}]"
        case DataPart():
            return json.dumps(part.data, ensure_ascii=False)
        case ToolCallPart():
            return f"[{part.type}: {part.name} {arguments_text(part.arguments)}]"
        case ToolResultPart():
            return part.text
        case UnknownPart():
            return json.dumps({"type": part.type, **part.payload}, ensure_ascii=False)
    raise AssertionError(f"{part!r} is not a part")


# Blocks to parts


def _part(block: Mapping[str, Any]) -> Part:
    kind = block.get("type")
    try:
        return _MAKERS[str(kind)](block)
    except (KeyError, TypeError, InvalidRequestError):
        payload = {name: value for name, value in block.items() if name != "type"}
        return UnknownPart(type=str(kind), payload=payload)


def _text(block: Mapping[str, Any]) -> Part:
    return TextPart(text=block["text"])


def _thinking(block: Mapping[str, Any]) -> Part:
    return ReasoningPart(text=block["thinking"], signature=block.get("signature"))


def _call(block: Mapping[str, Any]) -> Part:
    return ToolCallPart(
        call_id=block["id"] or None, name=block["name"], arguments=arguments_of(block["input"])
    )


def _result(block: Mapping[str, Any]) -> Part:
    output = block["output"]
    content = (TextPart(text=output),) if isinstance(output, str) else to_parts(output)
    return ToolResultPart(
        call_id=block["id"] or None,
        name=block["name"] or None,
        content=content,
        is_error=block.get("state") in _FAILED,
    )


def _media(part: type[_Media]) -> Callable[[Mapping[str, Any]], Part]:
    return lambda block: _of_source(part, block["source"], name=None)


def _data(block: Mapping[str, Any]) -> Part:
    source = block["source"]
    part: type[_Media] = _MEDIA.get(source["media_type"].partition("/")[0], FilePart)
    return _of_source(part, source, name=block.get("name") or None)


def _of_source(part: type[_Media], source: Mapping[str, Any], *, name: str | None) -> _Media:
    media_type = source.get("media_type")
    if source["type"] == "url":
        return part.from_url(source["url"], media_type=media_type, name=name)
    # In 1.x the data may be a URL.
    data = source["data"]
    url = data if data.startswith("data:") else f"data:{source['media_type']};base64,{data}"
    return part.from_url(url, media_type=media_type, name=name)


_MEDIA: dict[str, type[_Media]] = {"image": ImagePart, "audio": AudioPart, "video": VideoPart}
_MAKERS: dict[str, Callable[[Mapping[str, Any]], Part]] = {
    "text": _text,
    "thinking": _thinking,
    "tool_use": _call,
    "tool_call": _call,
    "tool_result": _result,
    "data": _data,
    **{kind: _media(part) for kind, part in _MEDIA.items()},
}


# Parts to blocks


def _block_of_1(part: Part) -> Block:
    match part:
        case ReasoningPart():
            return {"type": "thinking", "thinking": part.text}
        case ToolCallPart(arguments=str() as raw):
            return {**_head("tool_use", part), "input": {}, "raw_input": raw}
        case ToolCallPart(arguments=Mapping() as named):
            return {**_head("tool_use", part), "input": dict(named)}
        case ToolResultPart():
            return {**_head("tool_result", part), "output": _output(part, _block_of_1)}
        case ImagePart() | AudioPart() | VideoPart() if part.file_id is None:
            source = _source(part)
            if source["type"] == "url":
                del source["media_type"]
            return {"type": part.type, "source": source}
    return {"type": "text", "text": text_of(part)}


def _block_of_2(part: Part) -> Block:
    match part:
        case ReasoningPart():
            signed = {"signature": part.signature} if part.signature else {}
            return {"type": "thinking", "thinking": part.text, **signed}
        case ToolCallPart():
            call = {**_head("tool_call", part), "input": arguments_text(part.arguments)}
            return {**call, "state": "finished"}
        case ToolResultPart():
            state = "error" if part.is_error else "success"
            result = {**_head("tool_result", part), "state": state}
            return {**result, "output": _output(part, _block_of_2)}
        case MediaPart() if part.file_id is None:
            return {"type": "data", "source": _source(part), "name": part.name}
    return {"type": "text", "text": text_of(part)}


def _head(kind: str, part: ToolCallPart | ToolResultPart) -> Block:
    return {"type": kind, "id": part.call_id or "", "name": part.name or ""}


def _output(part: ToolResultPart, make: Callable[[Part], Block]) -> str | list[Block]:
    """A tool's answer: a text, or blocks without calls and results."""
    if all(isinstance(one, TextPart) for one in part.content):
        return part.text
    shown = (
        one if isinstance(one, MediaPart) else TextPart(text=text_of(one)) for one in part.content
    )
    return [make(one) for one in shown]


def _source(part: MediaPart) -> Block:
    """The source of a part with bytes or a URL."""
    if part.data is None:
        media_type = part.media_type or f"{part.type}/*"
        return {"type": "url", "url": part.url, "media_type": media_type}
    head, _, data = (part.to_url() or "").partition(";base64,")
    return {"type": "base64", "media_type": head.removeprefix("data:"), "data": data}
