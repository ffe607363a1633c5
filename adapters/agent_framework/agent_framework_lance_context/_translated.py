"""Messages that another framework wrote, as the framework's messages."""

import json
from collections.abc import Iterable, Iterator
from itertools import groupby

from agent_framework import Content, Message
from agent_framework.exceptions import ContentError

from lance_context_core import (
    DataPart,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from lance_context_core import Message as Canonical
from lance_context_core.messages import MediaPart, Part

_ROLES = {"ai": "assistant", "model": "assistant", "human": "user", "developer": "system"}
_FAILED = "The tool failed."


def translated(message: Canonical) -> Iterator[Message]:
    """Yields the messages of one: results of tools are messages of the role `tool`.

    Captions, and parts that the framework has no content for, are left out.
    """
    role = _ROLES.get(message.role, message.role)
    groups = groupby(message.parts, key=lambda part: isinstance(part, ToolResultPart))
    said = [("tool" if is_result else role, [*parts]) for is_result, parts in groups]
    for number, (speaker, parts) in enumerate(said or [(role, [])]):
        if role == "tool" and speaker == "tool" and number:
            continue
        yield Message(
            speaker,
            [*_contents(parts)],
            author_name=message.name,
            message_id=None if number else message.id,
        )


def _contents(parts: Iterable[Part]) -> Iterator[Content]:
    for part in parts:
        match part:
            case TextPart():
                yield Content.from_text(part.text)
            case ReasoningPart():
                # A signature means nothing to another provider.
                yield Content.from_text_reasoning(text=part.text)
            case ToolCallPart():
                given = part.arguments if isinstance(part.arguments, str) else {**part.arguments}
                yield Content.from_function_call(
                    part.call_id or part.name, part.name, arguments=given
                )
            case ToolResultPart():
                yield Content.from_function_result(
                    part.call_id or part.name or "",
                    result=[*_contents(part.content)],
                    exception=_FAILED if part.is_error else None,
                )
            case DataPart():
                yield Content.from_text(json.dumps(part.data, ensure_ascii=False))
            case MediaPart():
                yield _media(part)


def _media(part: MediaPart) -> Content:
    if part.file_id is not None:
        return Content.from_hosted_file(part.file_id, media_type=part.media_type, name=part.name)
    try:
        return Content.from_uri(part.to_url() or "", media_type=part.media_type, name=part.name)
    except ContentError:  # The framework wants a scheme.
        return Content.from_text(f"[{part.type}: {part.url}]")
