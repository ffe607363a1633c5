"""Content of the Responses API to the parts of a canonical message, and back."""

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lance_context_core import (
    AudioPart,
    DataPart,
    FilePart,
    ImagePart,
    InvalidRequestError,
    TextPart,
)
from lance_context_core.messages import MediaPart, Part, UnknownPart

Block = dict[str, Any]

# To parts


def to_parts(content: Any) -> list[Part]:
    """Returns the parts of a text, a block, or a list of blocks; none of an empty text or others.

    A block without a part of its own, or a broken one, is an UnknownPart: no block is refused.
    """
    if isinstance(content, str):
        return [TextPart(text=content)] if content else []
    if isinstance(content, Mapping):
        return [_to_part(content)]
    if not isinstance(content, list | tuple):
        return []
    return [part for block in content for part in to_parts(block)]


def _to_part(block: Mapping[str, Any]) -> Part:
    kind = block.get("type")
    try:
        if kind in _READERS:
            return _READERS[kind](block)
    except (InvalidRequestError, KeyError, TypeError, ValueError):
        pass
    if not isinstance(kind, str):
        return DataPart(data=dict(block))
    return UnknownPart(type=kind, payload=without(block, "type"))


def _text(block: Mapping[str, Any]) -> Part:
    return TextPart(text=block["text"])


def _image(block: Mapping[str, Any]) -> Part:
    if url := block.get("image_url"):
        return ImagePart.from_url(url)
    return ImagePart(file_id=block["file_id"])


def _file(block: Mapping[str, Any]) -> Part:
    name = block.get("filename")
    if url := block.get("file_data") or block.get("file_url"):
        return FilePart.from_url(url, name=name)
    return FilePart(file_id=block["file_id"], name=name)


def _audio(block: Mapping[str, Any]) -> Part:
    sound = block["input_audio"]
    kind = _SOUNDS.get(sound["format"], sound["format"])
    return AudioPart.from_url(f"data:audio/{kind};base64,{sound['data']}")


_SOUNDS = {"mp3": "mpeg"}
"""The subtypes of media types that differ from the name of the format."""

_READERS: dict[Any, Callable[[Mapping[str, Any]], Part]] = {
    **dict.fromkeys(("input_text", "output_text", "text"), _text),
    "refusal": lambda block: TextPart(text=block["refusal"]),
    "input_image": _image,
    "computer_screenshot": _image,
    "input_file": _file,
    "input_audio": _audio,
}


def without(block: Mapping[str, Any], *names: str) -> Block:
    """Returns the block without these keys."""
    return {key: value for key, value in block.items() if key not in names}


# From parts


def to_content(parts: Iterable[Part]) -> str | list[Block]:
    """Returns what a user said or a tool returned: a text, or else a list of blocks.

    What the API has no block for is described as text, and unknown parts are left out.
    """
    blocks = [block for part in parts if (block := _to_block(part)) is not None]
    if not blocks:
        return ""
    if len(blocks) == 1 and blocks[0]["type"] == "input_text":
        return str(blocks[0]["text"])
    return blocks


def spoken(part: Part) -> str | None:
    """Returns a part as text, for roles that speak in text alone; None for an unknown one."""
    match part:
        case TextPart():
            return part.text
        case DataPart():
            return json.dumps(part.data, ensure_ascii=False)
        case MediaPart():
            told = getattr(part, "caption", None) or part.name or part.url or part.media_type
            return f"[{part.type}: {told}]" if told else f"[{part.type}]"
    return None


def _to_block(part: Part) -> Block | None:
    match part:
        case ImagePart(file_id=None):
            return {"type": "input_image", "detail": "auto", "image_url": part.to_url()}
        case ImagePart():
            return {"type": "input_image", "detail": "auto", "file_id": part.file_id}
        case FilePart():
            return _to_file(part)
        case AudioPart(data=bytes() as data) if kind := _format(part.media_type):
            sound = {"data": base64.b64encode(data).decode(), "format": kind}
            return {"type": "input_audio", "input_audio": sound}
    text = spoken(part)
    return None if text is None else {"type": "input_text", "text": text}


def _to_file(part: FilePart) -> Block:
    block: Block = {"type": "input_file"}
    if part.data is not None:
        block |= {"file_data": part.to_url(), "filename": part.name or "file"}
    elif part.url is not None:
        block["file_url"] = part.url
    else:
        block["file_id"] = part.file_id
    return block


def _format(media_type: str | None) -> str | None:
    """Returns the API's name of a sound's format; None if it accepts no such sound."""
    kind = (media_type or "").partition(";")[0].removeprefix("audio/")
    return {"mpeg": "mp3", "mp3": "mp3", "wav": "wav", "x-wav": "wav"}.get(kind)
