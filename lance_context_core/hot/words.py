"""Texts to words, as the engine's word index makes them."""

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

from lance_context_core._util.lru import Made
from lance_context_core.storage.lance.indexes import TextIndex
from lance_context_core.text.analysis import stemmer

_WORD = re.compile(r"[^\W_]+")
_UNSURE = re.compile(
    "[^\\x00-\u052f\u060c\u061b\u061f\u0620-\u064a\u1e00-\u20ff\uac00-\ud7a3]"
    "|[²³¹¼-¾\u0345\u0363-\u036f\u2070-\u2079\u2080-\u2089]"
)
"""What the engine may cut otherwise: scripts with marks or quotes within words, and rare signs."""

_CUT_ALIKE = ("icu/split", "simple")
"""The tokenizers that cut at what is neither letter nor digit, where there are spaces between words."""

_MADE_OF_NO_OTHERS = dict(
    zip(
        "ẚđðħıĸŀłŉŋøŧæœßþ",
        ["a", "d", "d", "h", "i", "k", "l", "l", "n", "n", "o", "t", "ae", "oe", "ss", "th"],
        strict=True,
    )
)
"""Latin letters that become others, though these are no part of them."""

Words = Callable[[str], list[str]]
"""The words of a text, in order."""


@lru_cache
def words_of(settings: TextIndex) -> Words | None:
    """How a word index of these settings makes words; None if only the engine can tell."""
    if settings.tokenizer not in _CUT_ALIKE:
        return None
    stem: Callable[[str], str] = str
    if settings.stem:
        import snowballstemmer  # See `languages`.

        if (language := settings.language.lower()) not in snowballstemmer.algorithms():
            return None
        stem = stemmer(language)

    def make(word: str) -> str:
        if word.isascii() and word.isdecimal():
            return word  # Numbers have no endings, and most are said once.
        return _folded(stem(word.replace("Σ", "\u03c3").lower()))

    # What many texts have in common is one string: blocks keep words by the thousand.
    made = Made(make, max_bytes=8 * 1024 * 1024)

    def words(text: str) -> list[str]:
        # Lowered before it is cut, an "İ" would be cut: it becomes a letter and a mark.
        return [made[word] for word in _WORD.findall(text.lower() if text.isascii() else text)]

    return words


def are_sure(text: str) -> bool:
    """Whether the engine cuts the text at the same places."""
    return text.isascii() or _UNSURE.search(text) is None


def _folded(word: str) -> str:
    """The word with plain Latin letters: without accents, `o` for `ø`, `ae` for `æ`."""
    return word if word.isascii() else "".join(map(_plain, word))


@lru_cache(1 << 12)
def _plain(letter: str) -> str:
    if letter in _MADE_OF_NO_OTHERS:
        return _MADE_OF_NO_OTHERS[letter]
    parts = unicodedata.normalize("NFKD", letter)
    plain = "".join(
        _MADE_OF_NO_OTHERS.get(part, part) for part in parts if not unicodedata.combining(part)
    )
    return plain if plain and plain.isascii() else letter
