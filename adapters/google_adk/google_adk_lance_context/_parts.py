"""Parts of Gemini's content as canonical parts, and back."""

import base64
import binascii
import json
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from google.genai import types

from lance_context_core import (
    AudioPart,
    FilePart,
    ImagePart,
    InvalidRequestError,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from lance_context_core.adapting import arguments_of, encodable
from lance_context_core.messages import (
    DataPart,
    MediaPart,
    Part,
    ReasoningPart,
    UnknownPart,
    VideoPart,
)

Media: TypeAlias = ImagePart | AudioPart | VideoPart | FilePart

_KINDS: dict[str, type[Media]] = {"image": ImagePart, "audio": AudioPart, "video": VideoPart}
_FAILED, _ANSWERS = "error", ("output", "result")
"""The keys of a tool's response that have a meaning of their own, if it has no other key."""

# To canonical parts


def canonical(part: types.Part) -> Part:
    """The canonical part of one of Gemini's; an UnknownPart for what has no other."""
    try:
        return _known(part)
    except InvalidRequestError:
        kinds = part.model_fields_set - {"thought", "thought_signature"}
        payload = part.model_dump(mode="json", exclude_none=True)
        return UnknownPart(type=min(kinds, default="empty"), payload=encodable(payload))


def _known(part: types.Part) -> Part:
    if part.text is not None:
        if not part.thought:
            return TextPart(text=part.text)
        return ReasoningPart(text=part.text, signature=_signature(part.thought_signature))
    if (call := part.function_call) is not None and call.name:
        arguments = arguments_of(call.args or {})
        return ToolCallPart(call_id=call.id or None, name=call.name, arguments=arguments)
    if (answer := part.function_response) is not None:
        return _result(answer)
    if (blob := part.inline_data) is not None and blob.data is not None:
        kind = _media(blob.mime_type)
        return kind(data=blob.data, media_type=blob.mime_type or None, name=_name(blob))
    if (file := part.file_data) is not None and file.file_uri:
        kind = _media(file.mime_type)
        return kind(url=file.file_uri, media_type=file.mime_type or None, name=_name(file))
    raise InvalidRequestError("no canonical part")


def _result(answer: types.FunctionResponse) -> ToolResultPart:
    response = answer.response or {}
    content: list[Part] = [_answered(response)] if response else []
    blobs = [one.inline_data for one in answer.parts or () if one.inline_data is not None]
    content += [
        _media(blob.mime_type)(data=blob.data, media_type=blob.mime_type)
        for blob in blobs
        if blob.data is not None
    ]
    return ToolResultPart(
        call_id=answer.id or None,
        name=answer.name or None,
        content=tuple(content),
        is_error=[*response] == [_FAILED],
    )


def _answered(response: dict[str, Any]) -> Part:
    if len(response) == 1:
        ((key, value),) = response.items()
        if key in (_FAILED, *_ANSWERS):
            return TextPart(text=value) if isinstance(value, str) else DataPart(data=value)
    return DataPart(data=response)


def _media(mime_type: str | None) -> type[Media]:
    return _KINDS.get((mime_type or "").partition("/")[0], FilePart)


def _name(file: Any) -> str | None:
    return file.display_name or None


def _signature(signature: bytes | None) -> str | None:
    return base64.b64encode(signature).decode() if signature else None


# From canonical parts


def gemini_parts(parts: Iterable[Part], names: dict[str, str]) -> Iterator[types.Part]:
    """Gemini's parts for canonical ones; what it has no word for is left out.

    `names` has the names of tools by the ids of their calls, and learns those of these parts.
    """
    for part in parts:
        match part:
            case ToolCallPart():
                if part.call_id:
                    names[part.call_id] = part.name
                yield types.Part(function_call=_call(part))
            case ToolResultPart():
                yield types.Part(function_response=_response(part, names))
            case ReasoningPart():
                # A signature means something to its own provider alone, which is not known here.
                yield types.Part(text=part.text, thought=True)
            case UnknownPart():
                if (same := _same(part)) is not None:
                    yield same
            case _:
                yield from _contents(part)


def _call(part: ToolCallPart) -> types.FunctionCall:
    given = part.arguments
    arguments = {"arguments": given} if isinstance(given, str) else {**given}
    return types.FunctionCall(id=part.call_id, name=part.name, args=arguments)


def _response(part: ToolResultPart, names: dict[str, str]) -> types.FunctionResponse:
    made = [one for inner in part.content for one in _contents(inner)]
    texts = [one.text for one in made if one.text is not None]
    answer: Any = "\n".join(texts)
    if len(part.content) == 1 and isinstance(part.content[0], DataPart):
        answer = part.content[0].data
    key = _FAILED if part.is_error else "result"
    response = answer if isinstance(answer, dict) and not part.is_error else {key: answer}
    return types.FunctionResponse(
        id=part.call_id,
        name=part.name or names.get(part.call_id or "") or "tool",
        response=response,
        parts=[
            types.FunctionResponsePart(
                inline_data=types.FunctionResponseBlob(
                    data=one.inline_data.data, mime_type=one.inline_data.mime_type
                )
            )
            for one in made
            if one.inline_data is not None
        ]
        or None,
    )


def _contents(part: Part) -> Iterator[types.Part]:
    match part:
        case TextPart():
            yield types.Part(text=part.text)
        case DataPart():
            yield types.Part(text=json.dumps(part.data, ensure_ascii=False))
        case MediaPart(data=bytes() as data):
            mime_type = part.media_type or "application/octet-stream"
            yield types.Part(
                inline_data=types.Blob(data=data, mime_type=mime_type, display_name=part.name)
            )
        case MediaPart():
            uri = part.url or part.file_id
            yield types.Part(file_data=types.FileData(file_uri=uri, mime_type=part.media_type))


def _same(part: UnknownPart) -> types.Part | None:
    """The part that `canonical` had no word for; None for those of other frameworks."""
    if part.type not in types.Part.model_fields:
        return None
    try:
        return types.Part.model_validate({**part.payload})
    except (ValueError, binascii.Error):
        return None
