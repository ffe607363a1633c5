"""What the parts of messages become in any framework's words."""

import json
from collections.abc import Mapping
from typing import Any


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
