"""Texts to words, as the engine's word index makes them."""

import re
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import snowballstemmer

from lance_context_core.engine.table.text import TextIndex

_WORD = re.compile(r"[^\W_]+")
_UNSURE = re.compile("[^\\x00-\u052f\u1e00-\u20ff\uac00-\ud7a3]")
"""What the engine may cut otherwise: scripts that put no spaces between words, and rare signs."""

_CUT_ALIKE = ("icu/split", "simple")
"""The tokenizers that cut at what is neither letter nor digit, where there are spaces between words."""

Words = Callable[[str], list[str]]
"""The words of a text, in order."""


@lru_cache
def words_of(settings: TextIndex) -> Words | None:
    """How a word index of these settings makes words; None if only the engine can tell."""
    if settings.tokenizer not in _CUT_ALIKE:
        return None
    stem: Callable[[str], str] = str
    if settings.stem:
        if (language := settings.language.lower()) not in snowballstemmer.algorithms():
            return None
        # What many texts have in common is one string: blocks keep words by the thousand.
        stem = lru_cache(1 << 16)(_Stemming(language).stem)

    def words(text: str) -> list[str]:
        return [stem(word) for word in _WORD.findall(text.lower())]

    return words


class _Stemming(threading.local):
    """A stemmer of each thread's own: it keeps the word that it is at in itself."""

    def __init__(self, language: str) -> None:
        self._stemmer: Any = snowballstemmer.stemmer(language)

    def stem(self, word: str) -> str:
        """The word without its endings."""
        stemmed: str = self._stemmer.stemWord(word)
        return stemmed


def are_sure(text: str) -> bool:
    """Whether the engine cuts the text at the same places."""
    return text.isascii() or _UNSURE.search(text) is None
