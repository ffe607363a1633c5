"""How the candidates of the vector and of the text channel become one ranking that explains itself.

A channel hands over its candidates as a mapping from key to raw score: cosine similarity in [-1, 1]
for vectors, BM25 above 0 for text. `fuse` gives each of them one score in [0, 1] in three steps:

1. each channel's raw scores are min-max normalised over the channel's own candidates;
2. a `Fusion` makes one score of the two (`Convex`, unless the caller brings another);
3. the turns before and after a candidate in its session lend it a part of their own score.

Where one channel is asked alone, `by_vector` and `by_text` rank its candidates on its own scale.
"""

import math
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from lance_context_core.errors import InvalidRequestError
from lance_context_core.records import ChannelScore


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedHit:
    """A candidate with its final score, and where that score came from."""

    key: str
    score: float
    """In [0, 1]; 1 is the largest value that the formula can give, whatever was found."""
    vector: ChannelScore | None
    """None if the vector channel did not find it."""
    text: ChannelScore | None
    """None if the text channel did not find it."""
    neighbour_bonus: float
    """The part of `score` that was lent by the turns before and after it, at most `score`."""

    @property
    def channels(self) -> dict[str, ChannelScore]:
        """What the channels that found it said: "vector", "text", or both in this order."""
        said = {"vector": self.vector, "text": self.text}
        return {name: score for name, score in said.items() if score is not None}


class Fusion(Protocol):
    """How the scores of two channels become one; any function of this shape will do.

    It gets the candidates of the vector and of the text channel by key, and returns a score in
    [0, 1] for each key that shall stay a hit; a candidate that it leaves out is dropped.
    """

    def __call__(
        self, vector: Mapping[str, ChannelScore], text: Mapping[str, ChannelScore], /
    ) -> Mapping[str, float]:
        """Fused scores by key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Convex:
    """The weighted mean of the normalised scores; a channel that missed a candidate counts as 0.

    Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", TOIS 2023.
    """

    vector_weight: float = 0.4
    """In [0, 1]: 0 ranks by words alone, 1 by vectors alone. Half suits a strong embedding model."""

    def __post_init__(self) -> None:
        if not 0 <= self.vector_weight <= 1:
            raise InvalidRequestError(
                f"vector_weight={self.vector_weight!r}: give a number from 0 (words) to 1 (vectors)"
            )

    def __call__(
        self, vector: Mapping[str, ChannelScore], text: Mapping[str, ChannelScore], /
    ) -> dict[str, float]:
        """vector_weight * vector + (1 - vector_weight) * text, by key."""
        text_weight = 1 - self.vector_weight
        return {
            key: self.vector_weight * (vector[key].normalised if key in vector else 0)
            + text_weight * (text[key].normalised if key in text else 0)
            for key in dict.fromkeys((*vector, *text))
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ReciprocalRank:
    """The sum of 1 / (k + rank) over the channels, divided by the sum for rank 1 in both.

    Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion", SIGIR 2009. It forgets how much better
    one hit is than the next one; use it where raw scores cannot be trusted.
    """

    k: float = 60
    """0 or more: the larger, the less the first ranks stand out."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.k) and self.k >= 0):
            raise InvalidRequestError(f"k={self.k!r}: give a finite number, 0 or more")

    def __call__(
        self, vector: Mapping[str, ChannelScore], text: Mapping[str, ChannelScore], /
    ) -> dict[str, float]:
        """The scaled sum of reciprocal ranks, by key."""
        return {
            key: sum(
                (self.k + 1) / (self.k + channel[key].rank) / 2
                for channel in (vector, text)
                if key in channel
            )
            for key in dict.fromkeys((*vector, *text))
        }


DEFAULT_FUSION: Fusion = Convex()
"""Words a little ahead of vectors: measured on long chats with the local embedder."""

DEFAULT_NEIGHBOURS = 0.3
"""Right for conversations; 0 suits documents, whose chunks do not answer each other."""

_NO_LINKS: Mapping[str, str] = MappingProxyType({})


def fuse(
    vector: Mapping[str, float],
    text: Mapping[str, float],
    *,
    previous: Mapping[str, str] = _NO_LINKS,
    fusion: Fusion = DEFAULT_FUSION,
    neighbours: float = DEFAULT_NEIGHBOURS,
) -> list[FusedHit]:
    """The candidates of both channels in one ranking, best first.

    `previous` names for a key the key of the turn before it in its session; links to keys that are
    no candidates are harmless. A hit gains `neighbours` (in [0, 1]) times the fused score of its
    previous turn and of its next one, as far as these are hits themselves; of several next turns the
    best one counts. The sum is divided by 1 + 2 * `neighbours`, which leaves the order as it is.
    Equal scores are ordered by cosine, then by BM25, then by key: neither the order of the mappings
    nor that of the engine shows.

    Raises `InvalidRequestError` for a raw score that is not finite, and for a `fusion` that scores
    what is no candidate or leaves [0, 1].
    """
    said_vector, said_text = channel_scores(vector), channel_scores(text)
    fused = _sound(fusion(said_vector, said_text), candidates=said_vector.keys() | said_text.keys())
    largest = 1 + 2 * neighbours
    lent = _lent(fused, previous, neighbours)
    scores = {key: min(1.0, (score + lent[key]) / largest) for key, score in fused.items()}
    bonuses = {key: min(1.0, bonus / largest) for key, bonus in lent.items()}
    return _hits(scores, bonuses, vector=said_vector, text=said_text)


def by_vector(
    cosines: Mapping[str, float],
    *,
    previous: Mapping[str, str] = _NO_LINKS,
    neighbours: float = DEFAULT_NEIGHBOURS,
) -> list[FusedHit]:
    """The candidates of the vector channel alone, best first, scored by `vector_score`.

    Scored is the cosine and what is lent to it: `neighbours` times what the cosine of the previous
    turn, and the best of the next ones, has above the lowest candidate's. Not above 0: how near
    strangers are differs from model to model. Without the bonus a hit has (1 + cosine) / 2. Links
    and equal scores as in `fuse`.
    """
    low = min(cosines.values(), default=0.0)
    lent = _lent({key: raw - low for key, raw in cosines.items()}, previous, neighbours)
    scores, bonuses = _on_scale(vector_score, cosines, lent)
    return _hits(scores, bonuses, vector=channel_scores(cosines), text={})


def by_text(
    bm25: Mapping[str, float],
    *,
    previous: Mapping[str, str] = _NO_LINKS,
    neighbours: float = DEFAULT_NEIGHBOURS,
) -> list[FusedHit]:
    """The candidates of the text channel alone, best first, scored by `text_score`.

    Scored is the BM25 and what is lent to it: `neighbours` times the BM25 of the previous turn, and
    of the best of the next ones. Without the bonus a hit has bm25 / (bm25 + 10). Links and equal
    scores as in `fuse`.
    """
    scores, bonuses = _on_scale(text_score, bm25, _lent(bm25, previous, neighbours))
    return _hits(scores, bonuses, vector={}, text=channel_scores(bm25))


def channel_scores(raw: Mapping[str, float]) -> dict[str, ChannelScore]:
    """The candidates of one channel with their normalised scores and ranks, in the order of `raw`."""
    normalised = min_max(raw)
    ranks: dict[float, int] = {}
    for position, score in enumerate(sorted(raw.values(), reverse=True), start=1):
        ranks.setdefault(score, position)
    return {
        key: ChannelScore(raw=score, normalised=normalised[key], rank=ranks[score])
        for key, score in raw.items()
    }


def min_max(raw: Mapping[str, float]) -> dict[str, float]:
    """(score - lowest) / (highest - lowest) for each key; 1 for all where all are equal.

    Raises `InvalidRequestError` for a score that is not finite.
    """
    for key, score in raw.items():
        if not math.isfinite(score):
            raise InvalidRequestError(
                f"the raw score of {key!r:.80} is {score!r}: it must be finite"
            )
    low, high = min(raw.values(), default=0), max(raw.values(), default=0)
    if low == high:
        return dict.fromkeys(raw, 1.0)
    return {key: (score - low) / (high - low) for key, score in raw.items()}


def vector_score(cosine: float) -> float:
    """(1 + cosine) / 2: the score in [0, 1] of a hit of the vector channel alone."""
    return min(1.0, max(0.0, (1 + cosine) / 2))


def text_score(bm25: float) -> float:
    """bm25 / (bm25 + 10): the score in [0, 1) of a hit of the text channel alone.

    It keeps the order and does not depend on what else was found. 10 is about what the best hit has
    for a question to a long conversation. BM25 has no upper bound, it grows with the number and the
    rarity of the words that match: scores of two queries compare only roughly.
    """
    bm25 = max(0.0, bm25)
    return bm25 / (bm25 + 10)


def _lent(
    scores: Mapping[str, float], previous: Mapping[str, str], neighbours: float
) -> dict[str, float]:
    """For each key `neighbours` times: the score of its previous turn and the best of its next ones."""
    if not 0 <= neighbours <= 1:
        raise InvalidRequestError(f"neighbours={neighbours!r}: give a number from 0 (off) to 1")
    before = dict.fromkeys(scores, 0.0)
    after = dict.fromkeys(scores, 0.0)
    for key, score in scores.items():
        earlier = previous.get(key)
        if earlier is not None and earlier in scores and earlier != key:
            before[key] = scores[earlier]
            after[earlier] = max(after[earlier], score)
    return {key: neighbours * (before[key] + after[key]) for key in scores}


def _on_scale(
    scale: Callable[[float], float], raw: Mapping[str, float], lent: Mapping[str, float]
) -> tuple[dict[str, float], dict[str, float]]:
    """The scores of one channel's candidates, and what of them was lent."""
    scores = {key: scale(own + lent[key]) for key, own in raw.items()}
    return scores, {key: scores[key] - scale(own) for key, own in raw.items()}


def _hits(
    scores: Mapping[str, float],
    bonuses: Mapping[str, float],
    *,
    vector: Mapping[str, ChannelScore],
    text: Mapping[str, ChannelScore],
) -> list[FusedHit]:
    """The hits with these scores, best first."""
    missed = ChannelScore(raw=-math.inf, normalised=0, rank=0)
    order = sorted(
        (-score, -vector.get(key, missed).raw, -text.get(key, missed).raw, key)
        for key, score in scores.items()
    )
    return [
        FusedHit(
            key=key,
            score=scores[key],
            vector=vector.get(key),
            text=text.get(key),
            neighbour_bonus=bonuses[key],
        )
        for *_, key in order
    ]


def _sound(fused: Mapping[str, float], *, candidates: AbstractSet[str]) -> Mapping[str, float]:
    """What a fusion returned; raises unless it scores candidates, and within [0, 1]."""
    for key, score in fused.items():
        if key not in candidates:
            raise InvalidRequestError(
                f"fusion scored {key!r:.80}, which neither channel found: score candidates only"
            )
        if not 0 <= score <= 1:
            raise InvalidRequestError(
                f"fusion scored {key!r:.80} with {score!r}: return scores in [0, 1]"
            )
    return fused
