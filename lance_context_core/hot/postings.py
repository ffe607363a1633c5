"""Which of many texts have which words, and how often: BM25 over arrays."""

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from lance_context_core.languages import is_form

_K1 = 1.2
_B = 0.75

_FEW = 128
"""So many texts may stand beside the arrays: these are taken into large ones in a millisecond or two."""


_MOST_CELLS = 1 << 18

_NONE = np.empty(0, np.int32)


class _Asked(NamedTuple):
    """Where the words of a question are."""

    times: np.ndarray
    """How often it has each word."""
    words: np.ndarray
    """The word by its number, the text, and how often that has it; the words rise."""
    texts: np.ndarray
    frequencies: np.ndarray


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
        without words.
        """
        return self._scored(self._asked(question, counts), self._own_lengths, counts)

    def bm25_with_before(
        self, question: Iterable[str], counts: np.ndarray, before: np.ndarray, share: float = 1.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `bm25`; and the scores with the words of another text, each as a `share` of one's own.

        `before` is the number of that text for each, or -1. As in BM25F (Robertson, Zaragoza and
        Taylor, 2004).
        """
        asked, n = self._asked(question, counts), len(self._lengths)
        own = self._scored(asked, self._own_lengths, counts)
        lengths = self._own_lengths + share * np.append(self._own_lengths, 0)[before]
        norms = _norms(lengths, lengths, counts)
        n_known = int(np.count_nonzero(lengths[counts]))
        scores = np.zeros(n)
        # Of many words in many texts so many at a time that the cells are few megabytes.
        step = max(1, _MOST_CELLS // (n + 1))
        for start in range(0, len(asked.times), step):
            there = slice(*np.searchsorted(asked.words, [start, start + step]))
            times = asked.times[start : start + step]
            cells = np.zeros((len(times), n + 1))
            cells[asked.words[there] - start, asked.texts[there]] = asked.frequencies[there]
            both = (cells[:, :n] + share * cells[:, before]) * counts
            rarity = _rarities(n_known, np.count_nonzero(both, axis=1))
            # A product of matrices would give equal texts different last bits.
            scores += ((times * rarity)[:, None] * (both * (_K1 + 1) / (both + norms))).sum(axis=0)
        return own, scores

    def attainable(self, question: Iterable[str], counts: np.ndarray) -> float:
        """What a text would score that has each word of the question times without end.

        Those that none of the texts has are part of it: they are the rarest. A word counts once for
        all its forms, and is as rare as the commonest of them.
        """
        n = int(np.count_nonzero(np.frombuffer(self._lengths, np.int32)[counts]))
        most_often: list[int] = []
        for word in question:
            id = self._ids.get(word)
            there = 0 if id is None else int(np.count_nonzero(counts[self._of(id)[0]]))
            if most_often and is_form(word):
                most_often[-1] = max(most_often[-1], there)
            else:
                most_often.append(there)
        return sum((_K1 + 1) * _rarity(n, there) for there in most_often)

    # Helpers

    @property
    def _own_lengths(self) -> np.ndarray:
        return np.frombuffer(self._lengths, np.int32)

    def _asked(self, question: Iterable[str], counts: np.ndarray) -> "_Asked":
        """Which of the texts that `counts` have which of the words that any text has."""
        times, numbers, frequencies = [], [_NONE], [_NONE]
        for word, n_times in Counter(question).items():
            if (id := self._ids.get(word)) is not None:
                texts, often = self._of(id)
                times.append(n_times)
                numbers.append(texts)
                frequencies.append(often)
        words = np.repeat(np.arange(len(times)), [len(texts) for texts in numbers[1:]])
        asked = _Asked(
            np.array(times, float), words, np.concatenate(numbers), np.concatenate(frequencies)
        )
        there = counts[asked.texts]
        if there.all():
            return asked
        return asked._replace(
            words=words[there], texts=asked.texts[there], frequencies=asked.frequencies[there]
        )

    def _scored(self, asked: "_Asked", lengths: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """The score of each text, of that length."""
        times, words, texts, frequencies = asked
        if not len(words):
            return np.zeros(len(lengths))
        there = np.bincount(words, minlength=len(times))
        rarity = _rarities(int(np.count_nonzero(lengths[counts])), there)
        norms = _norms(lengths, lengths[texts], counts)
        said = (times * rarity)[words] * frequencies * (_K1 + 1) / (frequencies + norms)
        return np.bincount(texts, weights=said, minlength=len(lengths))

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


def _norms(every: np.ndarray, lengths: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """What texts of these lengths have below the line: more, the longer they are beside those that count."""
    known = every[counts]
    mean = float(known.sum()) / max(1, int(np.count_nonzero(known)))
    norms: np.ndarray = _K1 * (1 - _B + _B * lengths / (mean or 1.0))
    return norms


def _rarities(n: int, there: np.ndarray) -> np.ndarray:
    """How much words say of which each is in so many of `n` texts."""
    rarities: np.ndarray = np.log(1 + (n - there + 0.5) / (there + 0.5))
    return rarities


def _rarity(n: int, there: int) -> float:
    """How much a word says that `there` of `n` texts have."""
    return math.log(1 + (n - there + 0.5) / (there + 0.5))
