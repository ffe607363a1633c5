"""What an entry is worth: to a question, and to be kept at hand."""

import math
import re
from datetime import datetime, timedelta

from lance_context_core.memory_index.bm25 import words_of
from lance_context_core.storage.lance.indexes import TextIndex
from lance_context_core.text.analysis import index_words, query_words
from lance_context_core.tiers.values import TierConfig, TierEntry, Weights
from lance_context_core.types import ChannelScore

_TEMPORAL = frozenset(
    "recent recently latest last newest current currently now today yesterday new just ago".split()  # noqa: SIM905
)
_WORD = re.compile(r"\w+")


def recency(last: datetime, now: datetime, half_life: timedelta) -> float:
    """In (0, 1]: half for each half-life since then; 1 for what is to come."""
    return float(0.5 ** (max(timedelta(0), now - last) / half_life))


def retention(entry: TierEntry, now: datetime, half_life: timedelta) -> float:
    """How much an entry is worth keeping at hand; what has least goes first."""
    used = 0.1 * math.log1p(entry.access_count)
    recent = recency(entry.last_accessed_at, now, half_life)
    return 0.5 * entry.importance + 0.3 * recent + 0.2 * used


def weights_for(query: str, config: TierConfig) -> Weights:
    """The weights for a question: one that asks for what is new makes recency weigh more.

    What is left is shared by similarity and importance as five to two.
    """
    hits = sum(word in _TEMPORAL for word in _WORD.findall(query.lower()))
    if not hits or not config.temporal_boost:
        return config.weights
    given = config.weights
    total = given.similarity + given.recency + given.importance
    more = config.temporal_boost * min(hits / 3, 1.0)
    recent = min(1.0, given.recency / total + more)
    rest = 1 - recent
    return Weights(similarity=rest * 5 / 7, recency=recent, importance=rest * 2 / 7)


def combined(weights: Weights, similarity: float, recency: float, importance: float) -> float:
    """The weighted mean of the three, in [0, 1]."""
    total = weights.similarity + weights.recency + weights.importance
    found = (
        weights.similarity * similarity
        + weights.recency * recency
        + weights.importance * importance
    )
    return min(1.0, max(0.0, found / total))


class Similarity:
    """How similar texts are to a question, on one scale whether there are vectors or not."""

    def __init__(self, query: str) -> None:
        """Of this question."""
        self._asked = _terms(query_words(query))

    def of(self, text: str, vector: ChannelScore | None) -> float:
        """The cosine, or the share of the question's words that are in the text: the larger."""
        cosine = 0.0 if vector is None else vector.raw
        found = len(self._asked & _terms(index_words(text)))
        share = found / len(self._asked) if self._asked else 0.0
        return min(1.0, max(0.0, cosine, share))


_USUAL = TextIndex()


def _terms(text: str) -> frozenset[str]:
    """The words of a text; without the stems in other languages, which would be words twice."""
    words = words_of(_USUAL)
    found = words(text) if words is not None else []
    return frozenset(one for one in found if one.isdigit() or not one.startswith("0"))
