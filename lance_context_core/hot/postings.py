"""Which of many texts have which words, and how often: BM25 over arrays."""

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from lance_context_core.languages import is_form

_K1 = 1.2
_B = 0.75

_FEW = 128
"""So many texts may stand beside the arrays: these are taken into large ones in a millisecond or two."""


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

    def bm25(
        self,
        question: Iterable[str],
        counts: np.ndarray,
        before: np.ndarray | None = None,
        share: float = 1.0,
    ) -> np.ndarray:
        """The score of each text, 0 without a word of the question, which may have one repeatedly.

        Only texts that `counts` are known: to the others the statistics are blind, as to those
        without words.

        With `before`, the number of a text or -1 for each, that one's words are a text's own, too,
        each as a `share` of a word, as in BM25F (Robertson, Zaragoza and Taylor, 2004).
        """
        scores = np.zeros(len(self._lengths))
        lengths = np.frombuffer(self._lengths, np.int32)
        if before is not None:
            lengths = lengths + share * np.append(lengths, 0)[before]
        n = int(np.count_nonzero(lengths[counts]))
        if not n:
            return scores
        mean = float(lengths[counts].sum()) / n
        for word, times in Counter(question).items():
            if (id := self._ids.get(word)) is None:
                continue
            numbers, frequencies = self._of(id)
            there = counts[numbers]
            if not there.all():
                numbers, frequencies = numbers[there], frequencies[there]
            if not len(numbers):
                continue
            if before is not None:
                of_all = np.zeros(len(scores) + 1)
                of_all[numbers] = frequencies
                of_all[:-1] += share * of_all[before]
                numbers = np.flatnonzero(of_all[:-1] * counts)
                frequencies = of_all[numbers]
            rarity = _rarity(n, len(numbers))
            norms = _K1 * (1 - _B + _B * lengths[numbers] / mean)
            scores[numbers] += times * rarity * frequencies * (_K1 + 1) / (frequencies + norms)
        return scores

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

    def _of(self, id: int) -> tuple[np.ndarray, np.ndarray]:
        """The texts that have a word, and how often."""
        numbers = counts = np.empty(0, np.int32)
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


def _rarity(n: int, there: int) -> float:
    """How much a word says that `there` of `n` texts have."""
    return math.log(1 + (n - there + 0.5) / (there + 0.5))
