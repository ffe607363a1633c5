"""BM25 over arrays: the words of many texts and their frequencies."""

import math
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from lance_context_core._util.lru import Made
from lance_context_core.storage.lance.indexes import TextIndex
from lance_context_core.text.analysis import is_form, stemmer

_K1 = 1.2
_B = 0.75

_FEW = 128
"""Texts outside the arrays: merging these into large arrays takes a millisecond or two."""


_MOST_CELLS = 1 << 18

_NONE = np.empty(0, np.int32)


class _Word(NamedTuple):
    """A word of a query with its texts."""

    word: str
    times: int
    """Its frequency in the query."""
    texts: np.ndarray
    frequencies: np.ndarray
    """The texts with it, and its frequency in each."""


class _Lengths(NamedTuple):
    """The lengths of texts, some of which count."""

    counts: np.ndarray
    are_all: bool
    """Whether all texts count."""
    n: int
    """Number of counting texts with words."""
    norms: np.ndarray
    """The denominator of each text: larger for longer texts, relative to the counting ones."""


class _Heard(NamedTuple):
    """As `_Lengths`, with the words of preceding texts."""

    before: np.ndarray
    share: float
    lengths: _Lengths


class Postings:
    """Texts by number, each as its words.

    Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009, with 1 added in the
    logarithm, as in the engine.
    """

    def __init__(self, texts: Iterable[Sequence[str]]) -> None:
        """Create it from the texts 0, 1 and so on."""
        self._ids: dict[str, int] = {}
        self._lengths = array("i")
        self._recent: dict[int, list[tuple[int, int]]] = {}
        self._n_recent = 0
        words = array("i")
        ids = self._ids
        for text in texts:
            self._lengths.append(len(text))
            words.extend([ids.setdefault(word, len(ids)) for word in text])
        numbers = np.repeat(np.arange(len(self._lengths)), self._lengths)
        n = max(len(self._lengths), 1)
        keys, counts = np.unique(
            np.frombuffer(words, np.int32).astype(np.int64) * n + numbers, return_counts=True
        )
        self._counts = counts.astype(np.int32)
        self._numbers = (keys % n).astype(np.int32)
        self._starts = np.searchsorted(keys // n, np.arange(len(ids) + 1))
        """The texts of each word, word by word, and the start of each word's texts."""
        self._n_settled = len(self._lengths)
        # The words of the last query, which the next one may share.
        self._last: tuple[Iterable[str], np.ndarray, list[_Word]] | None = None
        self._own: _Lengths | None = None
        self._heard: _Heard | None = None

    def __len__(self) -> int:
        return len(self._lengths)

    @property
    def n_bytes(self) -> int:
        """Approximate memory in bytes."""
        arrays = int(self._starts.nbytes + self._numbers.nbytes + self._counts.nbytes)
        # A word is an entry of a mapping, and shares its text with other blocks.
        return arrays + 160 * len(self._ids) + 4 * len(self._lengths) + 120 * self._n_recent

    def add(self, text: Sequence[str]) -> None:
        """Add a text."""
        number = len(self._lengths)
        self._lengths.append(len(text))
        for word, count in Counter(text).items():
            id = self._ids.setdefault(word, len(self._ids))
            self._recent.setdefault(id, []).append((number, count))
            self._n_recent += 1
        if len(self._lengths) - self._n_settled >= _FEW:
            self._take_in()

    def bm25(self, question: Iterable[str], counts: np.ndarray) -> np.ndarray:
        """Return the score of each text, 0 without a word of the query.

        Words of the query may repeat. Only texts in `counts` count: the statistics ignore the
        others, and texts without words. Do not change that array: its statistics are cached.
        """
        words, lengths = self._asked(question, counts), self._lengths_of(counts)
        if not words:
            return np.zeros(len(self._lengths))
        texts = np.concatenate([one.texts for one in words])
        frequencies = np.concatenate([one.frequencies for one in words])
        weights = [_weight(lengths.n, one.times, len(one.texts)) for one in words]
        said = np.repeat(weights, [len(one.texts) for one in words]) * frequencies
        said /= frequencies + lengths.norms[texts]
        return np.bincount(texts, weights=said, minlength=len(self._lengths))

    def bm25_with_before(
        self, question: Iterable[str], counts: np.ndarray, before: np.ndarray, share: float = 1.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `bm25`; also returns scores that include another text's words, weighted by `share`.

        `before` has the number of that text for each, or -1; do not change it either. As in BM25F
        (Robertson, Zaragoza and Taylor, 2004).
        """
        own, words = self.bm25(question, counts), self._asked(question, counts)
        n = len(self._lengths)
        lengths = self._lengths_heard(counts, before, share)
        scores = np.zeros(n)
        # Many words in many texts are processed in steps of a few megabytes.
        step = max(1, _MOST_CELLS // (n + 1))
        for start in range(0, len(words), step):
            some = words[start : start + step]
            cells = np.zeros((len(some), n + 1))
            for row, one in zip(cells, some, strict=True):
                row[one.texts] = one.frequencies
            both = cells[:, :n] + share * cells[:, before]
            if not lengths.are_all:
                both *= counts
            there = (both > 0).sum(axis=1).tolist()
            weights = [
                _weight(lengths.n, word.times, n_texts)
                for word, n_texts in zip(some, there, strict=True)
            ]
            # A matrix product would give equal texts different last bits.
            scores += (np.array(weights)[:, None] * (both / (both + lengths.norms))).sum(axis=0)
        return own, scores

    def attainable(self, question: Sequence[str], counts: np.ndarray) -> float:
        """Return the score of a text with infinite repetitions of each word of the query.

        It includes words that no text has: they are the rarest. A word counts once for all its
        forms, and is as rare as the commonest of them.
        """
        n, known = self._lengths_of(counts).n, self._asked(question, counts)
        n_texts = {one.word: len(one.texts) for one in known}
        most_often: list[int] = []
        for word in question:
            there = n_texts.get(word, 0)
            if most_often and is_form(word):
                most_often[-1] = max(most_often[-1], there)
            else:
                most_often.append(there)
        return sum(_weight(n, 1, there) for there in most_often)

    # Helpers

    def _asked(self, question: Iterable[str], counts: np.ndarray) -> list[_Word]:
        """Return the query's words that occur in any text, with their texts in `counts`."""
        if self._last is not None and self._last[0] is question and self._last[1] is counts:
            return self._last[2]
        times: dict[str, int] = {}
        for word in question:
            times[word] = times.get(word, 0) + 1
        are_all = self._lengths_of(counts).are_all
        asked = []
        for word, n_times in times.items():
            if (id := self._ids.get(word)) is None:
                continue
            texts, frequencies = self._of(id)
            if not are_all:
                there = counts[texts]
                texts, frequencies = texts[there], frequencies[there]
            if len(texts):
                asked.append(_Word(word, n_times, texts, frequencies))
        self._last = question, counts, asked
        return asked

    def _lengths_of(self, counts: np.ndarray) -> _Lengths:
        if self._own is None or self._own.counts is not counts:
            self._own = _lengths(np.frombuffer(self._lengths, np.int32), counts)
        return self._own

    def _lengths_heard(self, counts: np.ndarray, before: np.ndarray, share: float) -> _Lengths:
        """Return the lengths of all texts, each with a share of the preceding one."""
        heard = self._heard
        is_known = heard is not None and heard.before is before and heard.share == share
        if heard is None or not is_known or heard.lengths.counts is not counts:
            own = np.frombuffer(self._lengths, np.int32)
            lengths = _lengths(own + share * np.append(own, 0)[before], counts)
            heard = self._heard = _Heard(before, share, lengths)
        return heard.lengths

    def _of(self, id: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the texts with a word, and its frequency in each."""
        numbers = counts = _NONE
        if id < len(self._starts) - 1:
            span = slice(self._starts[id], self._starts[id + 1])
            numbers, counts = self._numbers[span], self._counts[span]
        if recent := self._recent.get(id):
            more = np.array(recent, np.int32)
            numbers = np.concatenate([numbers, more[:, 0]])
            counts = np.concatenate([counts, more[:, 1]])
        return numbers, counts

    def _take_in(self) -> None:
        """Merge recent texts into the arrays, behind each word's earlier texts."""
        recent = [(id, *pair) for id in sorted(self._recent) for pair in self._recent[id]]
        ids, numbers, counts = np.array(recent, np.int64).reshape(-1, 3).T
        ends = np.full(len(self._ids) + 1, len(self._numbers))
        ends[: len(self._starts)] = self._starts
        places = ends[ids + 1]
        self._numbers = np.insert(self._numbers, places, numbers.astype(np.int32))
        self._counts = np.insert(self._counts, places, counts.astype(np.int32))
        more = np.cumsum(np.bincount(ids, minlength=len(self._ids)))
        self._starts = ends + np.concatenate([[0], more])
        self._n_settled = len(self._lengths)
        self._recent, self._n_recent = {}, 0


def _lengths(lengths: np.ndarray, counts: np.ndarray) -> _Lengths:
    known = lengths[counts]
    n = int(np.count_nonzero(known))
    mean = float(known.sum()) / max(1, n)
    norms = _K1 * (1 - _B + _B * lengths / (mean or 1.0))
    return _Lengths(counts, bool(counts.all()), n, norms)


def _weight(n: int, times: int, there: int) -> float:
    """Return the weight of a word in the query and in `there` texts."""
    return (_K1 + 1) * times * math.log(1 + (n - there + 0.5) / (there + 0.5))


# Splits texts into words as the engine's word index does.

_WORD = re.compile(r"[^\W_]+")
_UNSURE = re.compile(
    "[^\\x00-\u052f\u060c\u061b\u061f\u0620-\u064a\u1e00-\u20ff\uac00-\ud7a3]"
    "|[²³¹¼-¾\u0345\u0363-\u036f\u2070-\u2079\u2080-\u2089]"
)
"""Texts that the engine may split differently.

Scripts with marks or quotes within words, and rare signs.
"""

_CUT_ALIKE = ("icu/split", "simple")
"""Tokenizers that split at all but letters and digits, for scripts with spaces."""

_MADE_OF_NO_OTHERS = dict(
    zip(
        "ẚđðħıĸŀłŉŋøŧæœßþ",
        ["a", "d", "d", "h", "i", "k", "l", "l", "n", "n", "o", "t", "ae", "oe", "ss", "th"],
        strict=True,
    )
)
"""Latin letters with replacements that are not their decomposition."""

Words = Callable[[str], list[str]]
"""Returns the words of a text, in order."""


@lru_cache
def words_of(settings: TextIndex) -> Words | None:
    """Return the tokenizer of a word index; None if only the engine can split."""
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
            return word  # Numbers have no endings, and most occur once.
        return _folded(stem(word.replace("Σ", "\u03c3").lower()))

    # Texts share the string of a common word: blocks keep words by the thousand.
    made = Made(make, max_bytes=8 * 1024 * 1024)

    def words(text: str) -> list[str]:
        # In lower case an "İ" would be split: it becomes a letter and a mark.
        return [made[word] for word in _WORD.findall(text.lower() if text.isascii() else text)]

    return words


def are_sure(text: str) -> bool:
    """Whether the engine splits the text at the same places."""
    return text.isascii() or _UNSURE.search(text) is None


def _folded(word: str) -> str:
    """Return the word in plain Latin letters: without accents, `o` for `ø`, `ae` for `æ`."""
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
