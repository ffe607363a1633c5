"""What the parts of messages become in any framework's words."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from lance_context_core.messages.parts import (
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)


def says_something(parts: Iterable[Part]) -> bool:
    """Whether somebody says something to somebody: what of a turn is to be remembered.

    A text that is not blank does, media do, and data, and what nobody has a word for. Reasoning, tool
    calls and their results do not, whatever is in them: they are how an answer came about.
    """
    return any(
        bool(part.text.strip())
        if isinstance(part, TextPart)
        else not isinstance(part, ReasoningPart | ToolCallPart | ToolResultPart)
        for part in parts
    )


def arguments_of(given: Mapping[str, Any] | str) -> dict[str, Any] | str:
    """The arguments of a tool call by name, also of a JSON text; or the text, where it is no object.

    A model may have written anything: what cannot be read is kept as it is, and never an error.
    """
    if isinstance(given, Mapping):
        return dict(given)
    try:
        parsed = json.loads(given)
    except (ValueError, RecursionError):
        return given
    return parsed if isinstance(parsed, dict) else given


def arguments_text(given: Mapping[str, Any] | str) -> str:
    """The arguments of a tool call as a model writes them: JSON text, with letters as they are."""
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
