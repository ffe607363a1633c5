"""Parts of Pydantic AI's messages as canonical parts: what a person or a model said."""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, TypeAlias

from pydantic_ai import messages as ai

from lance_context_core import InvalidRequestError, TextPart, ToolCallPart, ToolResultPart
from lance_context_core.adapting import arguments_of
from lance_context_core.messages import (
    AudioPart,
    FilePart,
    ImagePart,
    Part,
    ReasoningPart,
    VideoPart,
)

FAILED = ("failed", "denied", "retried", "interrupted")
"""The outcomes of a tool call without a result."""

Media: TypeAlias = ImagePart | AudioPart | VideoPart | FilePart

_KINDS: dict[str, type[Media]] = {"image": ImagePart, "audio": AudioPart, "video": VideoPart}
_URLS: dict[type[ai.FileUrl], type[Media]] = {
    ai.ImageUrl: ImagePart,
    ai.AudioUrl: AudioPart,
    ai.VideoUrl: VideoPart,
}


def role_of(part: Any) -> str | None:
    """Who speaks in a part of a request; None for what is no speech, such as a changed setting."""
    match part:
        case ai.ToolReturnPart():
            return "tool"
        case ai.RetryPromptPart():
            return "system" if part.tool_name is None else "tool"
        case ai.UserPromptPart() | ai.SpeechPart():
            return "user"
        case ai.SystemPromptPart() | ai.CompactionPart() | ai.RetryFeedbackPart():
            return "system"
    return None


def said_by(part: Any) -> Iterator[Part]:
    """The canonical parts of a part of a request or response; none for what is no speech."""
    match part:
        case ai.UserPromptPart():
            yield from _contents([part.content] if isinstance(part.content, str) else part.content)
        case ai.SystemPromptPart() | ai.TextPart():
            yield TextPart(text=part.content)
        case ai.ThinkingPart():
            yield ReasoningPart(text=part.content, signature=part.signature)
        case ai.BaseToolCallPart():
            yield _call(part)
        case ai.BaseToolReturnPart():
            yield _result(part, _answer(part), is_error=part.outcome in FAILED)
        case ai.RetryPromptPart():
            text = TextPart(text=part.model_response())
            yield text if part.tool_name is None else _result(part, [text], is_error=True)
        case ai.RetryFeedbackPart():
            yield TextPart(text=part.model_response())
        case ai.CompactionPart():
            if part.content:
                yield TextPart(text=part.content)
        case ai.FilePart():
            yield from _contents([part.content])
        case ai.SpeechPart():
            yield from _contents([one for one in (part.transcript, part.audio) if one is not None])


def _contents(contents: Iterable[Any]) -> Iterator[Part]:
    for one in contents:
        match one:
            case str():
                yield TextPart(text=one)
            case ai.TextContent():
                yield TextPart(text=one.content)
            case ai.BinaryContent():
                yield _media(one.media_type)(data=one.data, media_type=one.media_type)
            case ai.FileUrl():
                yield _at_url(one)
            case ai.UploadedFile():
                yield FilePart(file_id=one.file_id)


def _at_url(file: ai.FileUrl) -> Part:
    media_type = None
    with suppress(ValueError):  # It cannot be told from the URL.
        media_type = file.media_type
    kind = next((ours for theirs, ours in _URLS.items() if isinstance(file, theirs)), FilePart)
    return kind.from_url(file.url, media_type=media_type)


def _media(media_type: str) -> type[Media]:
    return _KINDS.get(media_type.partition("/")[0], FilePart)


def _call(part: ai.BaseToolCallPart) -> ToolCallPart:
    given = {} if part.args is None else part.args
    try:
        return ToolCallPart(
            call_id=_name(part.tool_call_id), name=part.tool_name, arguments=arguments_of(given)
        )
    except InvalidRequestError:  # Such as NaN: the text of the arguments is exact.
        return ToolCallPart(
            call_id=_name(part.tool_call_id), name=part.tool_name, arguments=json.dumps(given)
        )


def _result(part: Any, content: Iterable[Part], *, is_error: bool) -> ToolResultPart:
    return ToolResultPart(
        call_id=_name(part.tool_call_id),
        name=_name(part.tool_name),
        content=tuple(content),
        is_error=is_error,
    )


def _answer(part: ai.BaseToolReturnPart) -> Iterator[Part]:
    """A text as it is; of another result what the model is shown."""
    text = part.content if isinstance(part.content, str) else part.model_response_str()
    if text or not part.files:
        yield TextPart(text=text)
    yield from _contents(part.files)


def _name(text: str | None) -> str | None:
    """A text that can name something; None for the empty one, and for one with NUL."""
    return text if text and "\0" not in text else None
