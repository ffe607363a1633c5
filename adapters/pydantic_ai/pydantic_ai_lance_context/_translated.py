"""What another framework wrote, as Pydantic AI's messages."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from pydantic_ai import messages as ai

from lance_context_core import Message, TextPart, ToolCallPart, ToolResultPart
from lance_context_core.messages import (
    AudioPart,
    DataPart,
    FilePart,
    ImagePart,
    MediaPart,
    Part,
    ReasoningPart,
    VideoPart,
)

_URLS: dict[type[MediaPart], type[Any]] = {
    ImagePart: ai.ImageUrl,
    AudioPart: ai.AudioUrl,
    VideoPart: ai.VideoUrl,
    FilePart: ai.DocumentUrl,
}


def translated(message: Message, before: Sequence[ai.ModelMessage]) -> Iterator[ai.ModelMessage]:
    """The messages that stand for one; `before` has those whose calls its results may answer.

    Results of tools, and what users and systems say, are requests; what a model says is a
    response. What Pydantic AI has no word for is left out.
    """
    for is_result, parts in groupby(message.parts, key=lambda one: isinstance(one, ToolResultPart)):
        if is_result:
            yield ai.ModelRequest(
                parts=[
                    _returned(part, message, before)
                    for part in parts
                    if isinstance(part, ToolResultPart)
                ],
                timestamp=message.created_at,
            )
        elif message.role == "assistant":
            yield ai.ModelResponse(
                parts=[one for part in parts for one in _response_part(part)],
                **_at(message),
            )
        else:
            yield ai.ModelRequest(
                parts=list(_request_parts(list(parts), message)), timestamp=message.created_at
            )


def _request_parts(parts: Sequence[Part], message: Message) -> Iterator[ai.ModelRequestPart]:
    contents = [one for part in parts for one in _contents(part)]
    if message.role in ("system", "developer"):
        text = "\n".join(one for one in contents if isinstance(one, str))
        yield ai.SystemPromptPart(content=text, **_at(message))
        return
    is_text = len(contents) == 1 and isinstance(contents[0], str)
    yield ai.UserPromptPart(content=contents[0] if is_text else contents, **_at(message))


def _response_part(part: Part) -> Iterator[ai.ModelResponsePart]:
    match part:
        case TextPart():
            yield ai.TextPart(content=part.text)
        case ReasoningPart():
            # A signature is sent back to its own provider alone, which is not known here.
            yield ai.ThinkingPart(content=part.text)
        case ToolCallPart():
            arguments = part.arguments if isinstance(part.arguments, str) else {**part.arguments}
            call = ai.ToolCallPart(tool_name=part.name, args=arguments)
            call.tool_call_id = part.call_id or call.tool_call_id
            yield call
        case MediaPart(data=bytes() as data):
            yield ai.FilePart(content=_binary(data, part))
        case DataPart():
            yield ai.TextPart(content=str(part.data))


def _returned(
    part: ToolResultPart, message: Message, before: Sequence[ai.ModelMessage]
) -> ai.ToolReturnPart:
    contents = [one for inner in part.content for one in _contents(inner)]
    is_text = all(isinstance(one, str) for one in contents)
    made = ai.ToolReturnPart(
        tool_name=part.name or _called(part.call_id, before) or "",
        content="\n".join(contents) if is_text else contents,
        outcome="failed" if part.is_error else "success",
        **_at(message),
    )
    made.tool_call_id = part.call_id or made.tool_call_id
    return made


def _called(call_id: str | None, before: Sequence[ai.ModelMessage]) -> str | None:
    """The tool of the latest call with that id."""
    calls = [
        part
        for message in reversed(before)
        for part in message.parts
        if isinstance(part, ai.ToolCallPart) and part.tool_call_id == call_id
    ]
    return calls[0].tool_name if calls else None


def _contents(part: Part) -> Iterator[Any]:
    match part:
        case TextPart():
            yield part.text
        case DataPart():
            yield str(part.data)
        case MediaPart(data=bytes() as data):
            yield _binary(data, part)
        case MediaPart(url=str() as url):
            yield _URLS[type(part)](url=url, media_type=part.media_type)
        case ToolResultPart():
            for inner in part.content:
                yield from _contents(inner)


def _binary(data: bytes, part: MediaPart) -> ai.BinaryContent:
    media_type = part.media_type or "application/octet-stream"
    return ai.BinaryContent.narrow_type(ai.BinaryContent(data=data, media_type=media_type))


def _at(message: Message) -> dict[str, Any]:
    return {} if message.created_at is None else {"timestamp": message.created_at}
