"""Fusion of the scores of the vector and the text channel.

A channel passes its candidates as a mapping from key to raw score: cosine similarity in [-1, 1] for
vectors, BM25 above 0 for text. Each is min-max normalised over the channel's own candidates, and a
`Fusion` combines the two: `Convex` by default.
"""

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Protocol

import numpy as np

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import InvalidRequestError
from lance_context_core.search.candidates import Candidates, Channel
from lance_context_core.types import ChannelScore


class Fusion(Protocol):
    """Combines the scores of two channels; any function of this shape works.

    It gets the candidates of the vector and of the text channel by key, and returns a score in [0,
    1] for each key to keep; omitted candidates are dropped.
    """

    def __call__(
        self, vector: Mapping[str, ChannelScore], text: Mapping[str, ChannelScore], /
    ) -> Mapping[str, float]:
        """Fused scores by key."""


@frozen_by_name
class Convex:
    """The weighted mean of normalised scores; a channel that missed a candidate counts as 0.

    Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", TOIS 2023.
    """

    vector_weight: float = 0.4
    """In [0, 1]: 0 ranks by words alone, 1 by vectors alone.

    0.5 suits a strong embedding model.
    """

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


@frozen_by_name
class ReciprocalRank:
    """Reciprocal rank fusion: the sum of 1 / (k + rank) over the channels, normalised.

    The sum is divided by that for rank 1 in both. Cormack, Clarke and Büttcher, "Reciprocal Rank
    Fusion", SIGIR 2009. It ignores the differences between scores; use it if raw scores are
    unreliable.
    """

    k: float = 60
    """0 or more: a larger value reduces the weight of the first ranks."""

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
"""Words count slightly more than vectors: measured on long chats with the local embedder."""


def fused(
    fusion: Fusion, vector: Channel, text: Channel, candidates: Candidates
) -> tuple[np.ndarray, np.ndarray]:
    """Return each candidate's fused score, else 0, and whether it may be a hit.

    Candidates that no channel found may be hits. Raises InvalidRequestError if a fusion scores an
    unknown candidate, or not within [0, 1].
    """
    if type(fusion) is Convex:
        weight = fusion.vector_weight
        scores = weight * vector.normalised + (1 - weight) * text.normalised
        return scores, np.ones(len(candidates), bool)
    found = vector.has | text.has
    if type(fusion) is ReciprocalRank:
        scores = np.zeros(len(candidates))
        for one in (vector, text):
            scores += np.where(one.has, (fusion.k + 1) / (fusion.k + one.ranks) / 2, 0.0)
        return scores, np.ones(len(candidates), bool)
    said = (vector.by_key(candidates.keys), text.by_key(candidates.keys))
    given = _sound(fusion(*said), candidates=said[0].keys() | said[1].keys())
    scores = np.zeros(len(candidates))
    for key, score in given.items():
        scores[candidates.numbers[key]] = score
        found[candidates.numbers[key]] = False
    return scores, ~found


def min_max(raw: Mapping[str, float]) -> dict[str, float]:
    """Scale scores to (score - lowest) / (highest - lowest); 1 if all are equal.

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


def _sound(fused: Mapping[str, float], *, candidates: AbstractSet[str]) -> Mapping[str, float]:
    """Return the result of a fusion; raises unless it scores candidates within [0, 1]."""
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
