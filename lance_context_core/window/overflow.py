"""Parses a provider's error for an overlong request, and computes a smaller window."""

import re
from collections.abc import Iterator
from contextlib import suppress

_TOO_LONG = re.compile(
    r"context[ _](?:length|window|size|limit)"
    r"|(?:prompt|input) is too long"
    r"|input tokens exceed"
    r"|token count\b.*\bexceeds"
    r"|reduce the length"
    r"|too large for model",
    re.IGNORECASE | re.DOTALL,
)
_OF_A_RATE = re.compile(r"\bper[ -](?:min|minute|day|hour)\b|\brate[ _]limit", re.IGNORECASE)
"""Rate limits on tokens have similar messages."""

_N = r"([0-9][0-9,]*)"
_NUMBERS = [
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        rf"(?P<needed>{_N}) tokens > (?P<limit>{_N})",
        rf"limit: (?P<needed>{_N}) \+ (?P<output>{_N}) > (?P<limit>{_N})",
        rf"count \((?P<needed>{_N})\) exceeds .*?\((?P<limit>{_N})\)",
        rf"(?:length is|limit of) (?P<limit>{_N}) tokens.*?(?:in|requested) (?P<needed>{_N}) tokens",
        rf"contains (?P<needed>{_N}) tokens.*?with (?P<limit>{_N}) maximum",
    )
]
"""Patterns of the token numbers in errors of large providers and self-hosted servers."""

_BLIND = 0.75
"""Share of an overlong window to try next, if the error has no numbers."""
_SPARE = 0.95


def shorter_room(tokens: int, error: BaseException) -> int | None:
    """Return the maximum tokens of the next window after one was refused as too long.

    None for any other error.
    """
    said = "\n".join(_said(error))
    if not _TOO_LONG.search(said) or _OF_A_RATE.search(said):
        return None
    for pattern in _NUMBERS:
        if found := pattern.search(said):
            number = {
                name: int(one.replace(",", "")) for name, one in found.groupdict().items() if one
            }
            needed, limit = number["needed"] + number.get("output", 0), number["limit"]
            if needed > limit > 0:
                # The tools and the answer do not get shorter.
                fitting = min(tokens * limit / needed, tokens - (needed - limit))
                return max(1, int(fitting * _SPARE))
    return max(1, int(tokens * _BLIND))


def _said(error: BaseException) -> Iterator[str]:
    """Yield the messages of an error and of the response that caused it."""
    seen: BaseException | None = error
    for _ in range(3):
        if seen is None:
            return
        yield str(seen)
        for name in ("code", "body", "message"):
            if (value := getattr(seen, name, None)) is not None:
                yield str(value)
        with suppress(RuntimeError):  # A stream that was not read.
            yield str(getattr(getattr(seen, "response", None), "text", ""))
        seen = seen.__cause__
