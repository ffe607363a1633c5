"""LangChain's content blocks to the parts of a canonical message, and back."""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from langchain_core.messages import BaseMessage

from lance_context_core import (
    AudioPart,
    DataPart,
    FilePart,
    ImagePart,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    VideoPart,
)
from lance_context_core.adapting import arguments_of
from lance_context_core.messages import MediaPart, Part, UnknownPart
from langchain_lance_context._values import encode

Block = dict[str, Any]

_MEDIA: dict[str, type[ImagePart | AudioPart | VideoPart | FilePart]] = {
    "image": ImagePart,
    "audio": AudioPart,
    "video": VideoPart,
    "file": FilePart,
}
_UNKNOWN_MEDIA_TYPE = "application/octet-stream"
_MADE_UP = "lc_"
"""The prefix of ids that LangChain generates."""
_ON_SERVER = {"runs_on": "server"}
"""Marks tool calls that the model's provider runs, and their results."""


def to_parts(message: BaseMessage) -> list[Part]:
    """The parts of a message, in order, without tool calls outside of the content."""
    return [_to_part(block) for block in _blocks(message)]


def to_blocks(parts: Iterable[Part]) -> str | list[str | Block]:
    """The content of those parts; a string if it is a single text without metadata."""
    parts = list(parts)
    if not parts:
        return ""
    if len(parts) == 1 and isinstance(parts[0], TextPart) and not parts[0].extra:
        return parts[0].text
    return [_to_block(part) for part in parts]


def call_part(call: Mapping[str, Any]) -> ToolCallPart:
    """A tool call of a message, valid or not."""
    known = {"type", "id", "name", "args"}
    arguments = call.get("args")
    return ToolCallPart(
        call_id=call.get("id") or None,
        name=call.get("name") or "",
        arguments=encode({} if arguments is None else arguments, "args"),
        extra=_rest(call, known),
    )


def call_block(part: ToolCallPart) -> Block:
    """A tool call in LangChain's form; an invalid one if its arguments are not an object."""
    arguments = arguments_of(part.arguments)
    call = {"name": part.name, "args": arguments, "id": part.call_id}
    if isinstance(arguments, dict):
        return {**call, "type": "tool_call"}
    return {**call, "type": "invalid_tool_call", "error": part.extra.get("error")}


def _blocks(message: BaseMessage) -> list[Block]:
    """LangChain's own parse of provider content; the content unchanged if that fails."""
    try:
        return [dict(block) for block in message.content_blocks]
    except (AttributeError, KeyError, TypeError, ValueError):
        content = [message.content] if isinstance(message.content, str) else message.content
        return [
            {"type": "text", "text": one}
            if isinstance(one, str)
            else {"type": "non_standard", "value": one}
            for one in content
        ]


# From blocks


def _to_part(block: Block) -> Part:
    kind = block.get("type")
    try:
        part = _READERS[kind](block) if isinstance(kind, str) and kind in _READERS else None
    except (AttributeError, KeyError, TypeError, ValueError):
        # A foreign block that only has the name of one that we know.
        part = None
    return part or _unknown(block)


def _text(block: Block) -> Part:
    return TextPart(text=block["text"], extra=_rest(block, {"type", "text"}))


def _reasoning(block: Block) -> Part:
    extras = dict(block.get("extras") or {})
    signature = extras.pop("signature", None)
    rest = _rest(block, {"type", "reasoning", "extras"})
    return ReasoningPart(
        text=block.get("reasoning") or "",
        signature=signature,
        extra=rest | ({"extras": encode(extras, "extras")} if extras else {}),
    )


def _media(block: Block) -> Part:
    sources = {name for name in ("base64", "url", "file_id") if block.get(name) is not None}
    (source,) = sources
    extras = dict(block.get("extras") or {})
    made: dict[str, Any] = {"media_type": block.get("mime_type") or None}
    made["name"] = extras.pop("filename", None) or block.get("filename")
    if block["type"] == "image":
        made["caption"] = extras.pop("caption", None)
    if source == "base64":
        made["data"] = b64decode(block["base64"], validate=True)
    else:
        made[source] = block[source]
    known = {"type", "mime_type", "filename", "extras", source}
    made["extra"] = _rest(block, known) | ({"extras": encode(extras, "extras")} if extras else {})
    return _MEDIA[block["type"]](**made)


def _plain_text(block: Block) -> Part:
    if block.get("text") is None:
        return _media({**block, "type": "file"})
    return FilePart(
        data=block["text"].encode(),
        media_type="text/plain",
        name=block.get("title"),
        extra=_rest(block, {"type", "text", "mime_type", "title"}),
    )


def _server_call(block: Block) -> Part:
    part = call_part(block)
    return ToolCallPart(
        call_id=part.call_id,
        name=part.name,
        arguments=part.arguments,
        extra={**part.extra, **_ON_SERVER},
    )


def _server_result(block: Block) -> Part:
    output = block.get("output")
    content: list[Part] = [] if output is None else [DataPart(data=encode(output, "output"))]
    if isinstance(output, str):
        content = [TextPart(text=output)]
    known = {"type", "tool_call_id", "status", "output"}
    return ToolResultPart(
        call_id=block["tool_call_id"] or None,
        content=tuple(content),
        is_error=block.get("status") == "error",
        extra={**_rest(block, known), **_ON_SERVER},
    )


def _non_standard(block: Block) -> Part:
    return _unknown(block["value"])


def _unknown(block: Block) -> Part:
    kind = block.get("type")
    payload = _rest(block, {"type"}) if isinstance(kind, str) else {"value": encode(block, "block")}
    return UnknownPart(type=kind if isinstance(kind, str) else "non_standard", payload=payload)


def _rest(block: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
    """The keys of a block that are neither known nor empty."""
    return {
        str(key): encode(one, str(key))
        for key, one in block.items()
        if key not in known and one is not None and not _is_made_up(key, one)
    }


def _is_made_up(key: Any, value: Any) -> bool:
    """Whether the id was generated while reading the content, and so differs each time."""
    return key == "id" and isinstance(value, str) and value.startswith(_MADE_UP)


_READERS: dict[str, Callable[[Block], Part]] = {
    "text": _text,
    "reasoning": _reasoning,
    **dict.fromkeys(_MEDIA, _media),
    "text-plain": _plain_text,
    "tool_call": call_part,
    "invalid_tool_call": call_part,
    "server_tool_call": _server_call,
    "server_tool_result": _server_result,
    "non_standard": _non_standard,
}


# From parts


def _to_block(part: Part) -> Block:
    match part:
        case TextPart():
            return {**part.extra, "type": "text", "text": part.text}
        case ReasoningPart():
            signed = {} if part.signature is None else {"signature": part.signature}
            return _with_extras(part.extra, signed) | {"type": "reasoning", "reasoning": part.text}
        case MediaPart():
            return _media_block(part)
        case DataPart():
            text = json.dumps(part.data, ensure_ascii=False)
            return {**part.extra, "type": "text", "text": text}
        case ToolCallPart() if _ON_SERVER.items() <= part.extra.items():
            return {**_off_server(part.extra), **call_block(part), "type": "server_tool_call"}
        case ToolCallPart():
            return call_block(part)
        case ToolResultPart():
            return _result_block(part)
        case UnknownPart():
            value = {**part.payload, "type": part.type}
            return {"type": "non_standard", "value": value}


def _media_block(part: MediaPart) -> Block:
    named = {} if part.name is None else {"filename": part.name}
    if isinstance(part, ImagePart) and part.caption is not None:
        named["caption"] = part.caption
    block = _with_extras(part.extra, named) | {"type": part.type}
    if part.media_type is not None:
        block["mime_type"] = part.media_type
    if part.data is not None:
        # LangChain requires a MIME type for bytes.
        block.setdefault("mime_type", _UNKNOWN_MEDIA_TYPE)
        block["base64"] = b64encode(part.data).decode()
    elif part.url is not None:
        block["url"] = part.url
    else:
        block["file_id"] = part.file_id
    return block


def _result_block(part: ToolResultPart) -> Block:
    return {
        **_off_server(part.extra),
        "type": "server_tool_result",
        "tool_call_id": part.call_id or "",
        "status": "error" if part.is_error else "success",
        "output": part.text,
    }


def _with_extras(extra: Mapping[str, Any], more: Mapping[str, Any]) -> Block:
    known = extra.get("extras")
    extras = {**known, **more} if isinstance(known, Mapping) else dict(more)
    return {**extra, "extras": extras} if extras else dict(extra)


def _off_server(extra: Mapping[str, Any]) -> Block:
    return {key: one for key, one in extra.items() if key not in _ON_SERVER}
