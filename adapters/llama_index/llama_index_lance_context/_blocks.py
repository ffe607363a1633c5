"""LlamaIndex's content blocks to the parts of a canonical message, and back; and as JSON."""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from io import IOBase
from pathlib import Path
from typing import Any

from llama_index.core.base.llms.types import (
    AudioBlock,
    BaseContentBlock,
    CachePoint,
    CitableBlock,
    CitationBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    VideoBlock,
)
from llama_index.core.bridge.pydantic import ValidationError

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
from lance_context_core.adapting import arguments_of
from lance_context_core.messages import MediaPart, Part, UnknownPart
from llama_index_lance_context._values import decode, encode

_CLASSES: dict[str, type[BaseContentBlock]] = {
    "text": TextBlock,
    "image": ImageBlock,
    "audio": AudioBlock,
    "video": VideoBlock,
    "document": DocumentBlock,
    "cache": CachePoint,
    "citable": CitableBlock,
    "citation": CitationBlock,
    "thinking": ThinkingBlock,
    "tool_call": ToolCallBlock,
}

_MEDIA: dict[str, tuple[type[ImagePart | AudioPart | VideoPart | FilePart], str, str]] = {
    "image": (ImagePart, "image", "image_mimetype"),
    "audio": (AudioPart, "audio", "format"),
    "video": (VideoPart, "video", "video_mimetype"),
    "document": (FilePart, "data", "document_mimetype"),
}
"""By type of block: the part, and the names of the fields with its bytes and MIME type."""

_BLOCKS = {"image": "image", "audio": "audio", "video": "video", "file": "document"}
"""The type of block, by type of part."""

_UNTITLED = "input_document"
"""LlamaIndex's title of a document without one."""
_SOUNDS = {"mp3": "mpeg"}
"""The audio subtypes that differ from the file extension."""


# As JSON


def block_to_json(block: BaseContentBlock) -> dict[str, Any]:
    """The block as JSON, from which `block_from_json` makes one equal to it."""
    data = block.model_dump()
    if kind := _MEDIA.get(data["block_type"]):
        content = getattr(block, kind[1])
        if isinstance(content, IOBase):
            # LlamaIndex reads a file on each use; the bytes are stored here.
            data[kind[1]] = b64encode(data[kind[1]]).decode()
        elif content is not None:
            data[kind[1]] = content.decode("ascii")
    encoded: dict[str, Any] = encode(data, f"the block {data['block_type']!r}")
    return encoded


def block_from_json(data: Mapping[str, Any]) -> BaseContentBlock:
    """The stored block, also if a file that it names no longer exists."""
    block_class = _CLASSES[data["block_type"]]
    values = decode(dict(data))
    try:
        return block_class.model_validate(values)
    except ValidationError:
        if values.get("path") is None:
            raise
        block = block_class.model_validate({**values, "path": None})
        object.__setattr__(block, "path", values["path"])
        return block


# To parts


def to_parts(blocks: Iterable[BaseContentBlock]) -> list[Part]:
    """The parts of the blocks, in order; citable content has its own parts."""
    return [part for block in blocks for part in _to_parts(block)]


def call_part(call: Mapping[str, Any]) -> ToolCallPart:
    """A tool call in OpenAI's form, which older LlamaIndex releases kept outside of the blocks."""
    function = call["function"]
    return ToolCallPart(
        call_id=call.get("id") or None,
        name=function.get("name") or "",
        arguments=_arguments(function.get("arguments") or {}),
    )


def _to_parts(block: BaseContentBlock) -> list[Part]:
    data = block_to_json(block)
    kind = data["block_type"]
    try:
        if kind in _READERS:
            return _READERS[kind](block, data)
        if kind in _MEDIA:
            return [_media_part(data)]
    except InvalidRequestError:
        # An empty block, or one with two sources, has no part.
        pass
    return [UnknownPart(type=kind, payload=_rest(data, {"block_type"}))]


def _text(block: Any, data: Mapping[str, Any]) -> list[Part]:
    return [TextPart(text=block.text, extra=_rest(data, {"block_type", "text"}))]


def _thinking(block: Any, data: Mapping[str, Any]) -> list[Part]:
    more = dict(data["additional_information"])
    signature = more.pop("signature", None)
    if not isinstance(signature, str | None):
        more["signature"], signature = signature, None
    extra = _rest(data, {"block_type", "content", "additional_information"})
    if more:
        extra["additional_information"] = more
    return [ReasoningPart(text=block.content or "", signature=signature, extra=extra)]


def _call(block: Any, data: Mapping[str, Any]) -> list[Part]:
    return [
        ToolCallPart(
            call_id=block.tool_call_id or None,
            name=block.tool_name,
            arguments=data["tool_kwargs"],
        )
    ]


def _cited(block: Any, data: Mapping[str, Any]) -> list[Part]:
    """The cited parts, each marked with its source."""
    content = block.nested_blocks
    source = {k: v for k, v in data.items() if k not in ("block_type", "content", "cited_content")}
    marked = []
    for part in to_parts(content):
        if isinstance(part, UnknownPart):
            raise InvalidRequestError("the citable content is empty")
        extra = {**part.extra, data["block_type"]: source}
        marked.append(_with_extra(part, extra))
    return marked


def _media_part(data: Mapping[str, Any]) -> Part:
    part_class, content, type_ = _MEDIA[data["block_type"]]
    values: dict[str, Any] = {"media_type": data[type_] or None}
    if data["block_type"] == "audio":
        values["media_type"] = _sound_type(data["format"])
    if data["block_type"] == "document" and data["title"] != _UNTITLED:
        values["name"] = data["title"]
    known = {"block_type", "title", type_}
    if data[content] is not None:
        values["data"] = b64decode(data[content])
        known.add(content)
    elif data["url"] is not None:
        values["url"] = str(decode(data["url"]))
        known.add("url")
    elif data["path"] is not None:
        path = decode(data["path"])
        values["url"] = (
            path.as_uri() if isinstance(path, Path) and path.is_absolute() else str(path)
        )
        known.add("path")
    return part_class(**values, extra=_rest(data, known))


_READERS: dict[str, Callable[[Any, Mapping[str, Any]], list[Part]]] = {
    "text": _text,
    "thinking": _thinking,
    "tool_call": _call,
    "citable": _cited,
    "citation": _cited,
}


def _rest(data: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
    """The keys of a block that are neither known nor empty."""
    return {key: one for key, one in data.items() if key not in known and one not in (None, {})}


def _with_extra(part: Any, extra: Mapping[str, Any]) -> Part:
    fields = {name: getattr(part, name) for name in part.__dataclass_fields__ if name != "type"}
    made: Part = type(part)(**{**fields, "extra": extra})
    return made


def _sound_type(format: str | None) -> str | None:
    return None if not format else f"audio/{_SOUNDS.get(format, format)}"


def _sound_format(media_type: str | None) -> str | None:
    if not media_type:
        return None
    subtype = media_type.partition("/")[2].partition(";")[0].removeprefix("x-")
    return {name: file for file, name in _SOUNDS.items()}.get(subtype, subtype) or None


# From parts


def to_blocks(parts: Iterable[Part]) -> list[BaseContentBlock]:
    """The blocks of the parts; parts without a block become JSON text."""
    return [_to_block(part) for part in parts]


def _to_block(part: Part) -> BaseContentBlock:
    match part:
        case TextPart():
            return TextBlock(text=part.text)
        case ReasoningPart():
            return _thinking_block(part)
        case MediaPart():
            return _media_block(part)
        case DataPart():
            return _as_text(part.data)
        case ToolCallPart():
            arguments = _arguments(part.arguments)
            return ToolCallBlock(
                tool_call_id=part.call_id, tool_name=part.name, tool_kwargs=arguments
            )
        case ToolResultPart():
            return TextBlock(text=part.text)
        case UnknownPart():
            return _unknown_block(part)


def _thinking_block(part: ReasoningPart) -> ThinkingBlock:
    kept = part.extra.get("additional_information")
    more = decode(dict(kept)) if isinstance(kept, Mapping) else {}
    if part.signature is not None:
        more["signature"] = part.signature
    n_tokens = part.extra.get("num_tokens")
    return ThinkingBlock(
        content=part.text or None,
        num_tokens=n_tokens if isinstance(n_tokens, int) else None,
        additional_information=more,
    )


def _media_block(part: MediaPart) -> BaseContentBlock:
    kind = _BLOCKS[part.type]
    _, content, type_ = _MEDIA[kind]
    values: dict[str, Any] = {type_: part.media_type}
    if kind == "audio":
        values["format"] = _sound_format(part.media_type)
    if kind == "document":
        values["title"] = part.name
    if isinstance(part.extra.get("detail"), str) and kind in ("image", "video"):
        values["detail"] = part.extra["detail"]
    if part.data is not None:
        # Bytes that look like base64 would be decoded.
        values[content] = b64encode(part.data)
    elif part.url is not None:
        values["url"] = part.url
    else:
        return _as_text({"type": part.type, "file_id": part.file_id})
    try:
        return _CLASSES[kind].model_validate(values)
    except ValidationError:
        return _as_text({"type": part.type, "url": part.url})


def _unknown_block(part: UnknownPart) -> BaseContentBlock:
    if part.type in _CLASSES:
        try:
            return block_from_json({**part.payload, "block_type": part.type})
        except (KeyError, TypeError, ValueError):
            pass
    return _as_text({**part.payload, "type": part.type})


def _as_text(value: Any) -> TextBlock:
    return TextBlock(text=json.dumps(value, ensure_ascii=False))


def _arguments(given: Mapping[str, Any] | str) -> dict[str, Any] | str:
    """The original arguments, or the text if it is not an object."""
    return decode(dict(given)) if isinstance(given, Mapping) else arguments_of(given)
