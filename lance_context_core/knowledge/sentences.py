"""What of a model's words may be kept as a sentence, and what is wrong with the rest, in a word."""

import json
import re
from typing import Any

MOST_CHARACTERS = 600
"""Of a sentence that a model may say of turns."""

_ORDERS = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b[^.!?]{0,40}\b(?:instruction|prompt|rule|message)s?\b"
    r"|\b(?:reveal|print|repeat|show|leak)\b[^.!?]{0,40}\bsystem prompt\b"
    r"|\byou (?:are now|must now|must always|must never)\b",
    re.IGNORECASE,
)


def fault_of(text: Any, *, most: int = MOST_CHARACTERS) -> str | None:
    """What a sentence must not be: no text, empty, endless, JSON, a loop, an order; None if it is none."""
    if not isinstance(text, str) or not (said := text.strip()) or "\0" in said:
        return "empty"
    if len(said) > most:
        return "too_long"
    if "```" in said or _is_json(said):
        return "leaked_json"
    if _is_a_loop(said):
        return "repetition"
    return "instruction" if is_order(said) else None


def is_order(text: str) -> bool:
    """Whether a sentence tells its reader, such as a model, what to do: nobody's fact, whoever said it."""
    return _ORDERS.search(text) is not None


def _is_a_loop(said: str) -> bool:
    words = said.split()
    return len(words) >= 12 and len(set(words)) * 3 < len(words)


def _is_json(said: str) -> bool:
    try:
        return isinstance(json.loads(said), dict | list)
    except (ValueError, RecursionError):
        return False
