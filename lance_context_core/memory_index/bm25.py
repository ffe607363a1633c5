"""Which of many texts have which words, and how often: BM25 over arrays."""

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
"""So many texts may stand beside the arrays: these are taken into large ones in a millisecond or two."""


_MOST_CELLS = 1 << 18

_NONE = np.empty(0, np.int32)


class _Word(NamedTuple):
    """A word of a question, and where it is."""

    word: str
    times: int
    """How often the question has it."""
    texts: np.ndarray
    frequencies: np.ndarray
    """The texts that have it, and how often each."""


class _Lengths(NamedTuple):
    """How long texts are, of which some count."""

    counts: np.ndarray
    are_all: bool
    """Whether all of them do."""
    n: int
    """How many of those that do have any words."""
    norms: np.ndarray
    """What each has below the line: more, the longer it is beside those that count."""


class _Heard(NamedTuple):
    """As `_Lengths`, of texts with the words of other ones."""

    before: np.ndarray
    share: float
    lengths: _Lengths


class Postings:
    """Texts by number, each as its words.

    Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009, with 1 added in the
    logarithm, as the engine has it.
    """

    def __init__(self, texts: Iterable[Sequence[str]]) -> None:
        """The texts 0, 1 and so on."""
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
        """The texts of each word, one word after the other, and where those of which begin."""
        self._n_settled = len(self._lengths)
        # What the last question had to be known for: the next one may ask among the same.
        self._last: tuple[Iterable[str], np.ndarray, list[_Word]] | None = None
        self._own: _Lengths | None = None
        self._heard: _Heard | None = None

    def __len__(self) -> int:
        return len(self._lengths)

    @property
    def n_bytes(self) -> int:
        """What it takes in memory, about."""
        arrays = int(self._starts.nbytes + self._numbers.nbytes + self._counts.nbytes)
        # A word is a place in a mapping, and shares its text with other blocks.
        return arrays + 160 * len(self._ids) + 4 * len(self._lengths) + 120 * self._n_recent

    def add(self, text: Sequence[str]) -> None:
        """One text more."""
        number = len(self._lengths)
        self._lengths.append(len(text))
        for word, count in Counter(text).items():
            id = self._ids.setdefault(word, len(self._ids))
            self._recent.setdefault(id, []).append((number, count))
            self._n_recent += 1
        if len(self._lengths) - self._n_settled >= _FEW:
            self._take_in()

    def bm25(self, question: Iterable[str], counts: np.ndarray) -> np.ndarray:
        """The score of each text, 0 without a word of the question, which may have one repeatedly.

        Only texts that `counts` are known: to the others the statistics are blind, as to those
        without words. That array is not to be changed: what it says of all texts is remembered.
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
        """As `bm25`; and the scores with the words of another text, each as a `share` of one's own.

        `before` is the number of that text for each, or -1; it is not to be changed either. As in BM25F
        (Robertson, Zaragoza and Taylor, 2004).
        """
        own, words = self.bm25(question, counts), self._asked(question, counts)
        n = len(self._lengths)
        lengths = self._lengths_heard(counts, before, share)
        scores = np.zeros(n)
        # Of many words in many texts so many at a time that the cells are few megabytes.
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
            # A product of matrices would give equal texts different last bits.
            scores += (np.array(weights)[:, None] * (both / (both + lengths.norms))).sum(axis=0)
        return own, scores

    def attainable(self, question: Sequence[str], counts: np.ndarray) -> float:
        """What a text would score that has each word of the question times without end.

        Those that none of the texts has are part of it: they are the rarest. A word counts once for
        all its forms, and is as rare as the commonest of them.
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
        """Which of the texts that `counts` have which of the words that any text has."""
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
        """Those of all texts, each with that share of the one before it."""
        heard = self._heard
        is_known = heard is not None and heard.before is before and heard.share == share
        if heard is None or not is_known or heard.lengths.counts is not counts:
            own = np.frombuffer(self._lengths, np.int32)
            lengths = _lengths(own + share * np.append(own, 0)[before], counts)
            heard = self._heard = _Heard(before, share, lengths)
        return heard.lengths

    def _of(self, id: int) -> tuple[np.ndarray, np.ndarray]:
        """The texts that have a word, and how often."""
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
        """Have all in the arrays, each word's texts behind those that are there already."""
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
    """What a word is worth that a question has so many times, and `there` of `n` texts have."""
    return (_K1 + 1) * times * math.log(1 + (n - there + 0.5) / (there + 0.5))


# Texts to words, as the engine's word index makes them.

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
