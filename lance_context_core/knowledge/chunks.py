"""Splits long texts into chunks, and texts into sentences, with exact offsets."""

import re
from collections.abc import Iterator

Span = tuple[int, int]

MAX_CHARACTERS = 1_200
"""Maximum length of a chunk: some two hundred words, which an embedder reads whole."""

_BREAKS = (
    re.compile(r"\n\s*\n"),
    re.compile(r"\n"),
    re.compile(r"(?<=[.!?])\s+"),
    re.compile(r"\s+"),
)
"""Where a chunk may end: the first kind that occurs counts."""

_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\u201d\u2019]*\s+|\n+")
_ABBREVIATION = re.compile(r"\b(?:Mr|Mrs|Ms|Dr|Prof|St|vs|etc|e\.g|i\.e)\.\s*$")


def chunks(text: str, *, most: int = MAX_CHARACTERS) -> list[Span]:
    """Split a text into chunks of at most `most` characters, without white space around."""
    found, start = [], 0
    while start < len(text):
        end = len(text) if len(text) - start <= most else _end(text, start, most)
        if (span := _stripped(text, start, end)) is not None:
            found.append(span)
        start = end
    return found


def sentences(text: str) -> Iterator[Span]:
    """Yield the span of each sentence, without the white space around it."""
    start = 0
    for match in _SENTENCE_END.finditer(text):
        if _ABBREVIATION.search(text, start, match.end()) and "\n" not in match[0]:
            continue
        if (span := _stripped(text, start, match.end())) is not None:
            yield span
        start = match.end()
    if (span := _stripped(text, start, len(text))) is not None:
        yield span


def _end(text: str, start: int, most: int) -> int:
    for break_ in _BREAKS:
        ends = [match.end() for match in break_.finditer(text, start, start + most)]
        if ends and ends[-1] > start + most // 3:
            return ends[-1]
    return start + most


def _stripped(text: str, start: int, end: int) -> Span | None:
    piece = text[start:end]
    if not (inner := piece.strip()):
        return None
    begin = start + len(piece) - len(piece.lstrip())
    return begin, begin + len(inner)
