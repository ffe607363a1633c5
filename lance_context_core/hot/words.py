"""Texts to words, as the engine's word index makes them."""

import re
from collections.abc import Callable
from functools import lru_cache

import snowballstemmer

_WORD = re.compile(r"[^\W_]+")
_UNSURE = re.compile("[^\\x00-\u052f\u1e00-\u20ff\uac00-\ud7a3]")
"""What the engine may cut otherwise: scripts that put no spaces between words, and rare signs."""

Words = Callable[[str], list[str]]
"""The words of a text, in order."""


def words_of(language: str, *, is_stemmed: bool) -> Words | None:
    """How a word index of that language makes words; None if only the engine can tell."""
    stem: Callable[[str], str] = str
    if is_stemmed:
        if language.lower() not in snowballstemmer.algorithms():
            return None
        # What many texts have in common is one string: blocks keep words by the thousand.
        stem = lru_cache(1 << 16)(snowballstemmer.stemmer(language.lower()).stemWord)

    def words(text: str) -> list[str]:
        return [stem(word) for word in _WORD.findall(text.lower())]

    return words


def are_sure(text: str) -> bool:
    """Whether the engine cuts the text at the same places."""
    return text.isascii() or _UNSURE.search(text) is None
