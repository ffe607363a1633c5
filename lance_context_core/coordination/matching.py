"""Which texts have most of the words that are asked for."""

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

from lance_context_core._util.checks import check_span, check_text
from lance_context_core.errors import InvalidRequestError

T = TypeVar("T")

_WORD = re.compile(r"\w+")
_SHORTEST_TELLING = 3
"""Letters of a word that says something, where there are longer ones."""

_SHORTEST_BEGINNING = 4
"""Letters that a word must have for a longer one, such as its plural, to be the same."""


def best(
    query: str, candidates: Iterable[T], texts: Callable[[T], list[str]], *, limit: int
) -> list[T]:
    """Those that have words of `query`, most of them first.

    Equals by where the words stand: `texts` gives what is looked into, what counts most first.
    """
    check_span(offset=0, limit=limit, last=None)
    words = _words(check_text(query, "query"))
    if not (wanted := {word for word in words if len(word) >= _SHORTEST_TELLING} or words):
        raise InvalidRequestError("query is blank: say what to look for")
    ranked = []
    for one in candidates:
        found, weight = set[str](), 0.0
        for depth, text in enumerate(texts(one)):
            there = _words(text)
            here = {word for word in wanted if any(_alike(word, other) for other in there)}
            found |= here
            weight += len(here) / 2**depth
        if found:
            ranked.append(((-len(found), -weight), one))
    return [one for _, one in sorted(ranked, key=lambda pair: pair[0])][:limit]


def has_words(query: str) -> bool:
    """Whether there is anything to look for."""
    return bool(_words(query))


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def _alike(one: str, other: str) -> bool:
    """Whether the words are the same, or one is the beginning of the other."""
    shorter, longer = sorted((one, other), key=len)
    return one == other or (len(shorter) >= _SHORTEST_BEGINNING and longer.startswith(shorter))
