"""How candidates become one ranking that explains itself: the channels' scores, and what boosts add.

The keys of `turns` are all that may become hits: what a channel found and, with them, turns that none
found, whose own score is 0 and which are hits if something is added to it.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from lance_context_core.records import ChannelScore
from lance_context_core.search.boosts import Boost, Candidate, Neighbours, Turn, gains
from lance_context_core.search.fusion import (
    BY_CANDIDATE,
    DEFAULT_FUSION,
    Fusion,
    channel_scores,
    fused_scores,
)

CHANNELS = "channels"
"""What `why` calls the part of a score that the channels gave."""

PRECEDING = "preceding"
"""What it calls the part of it that is due to words of the turn before."""


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
    own: float
    """What of `score` the channels gave."""
    handed: float = 0.0
    """What of `own` is due to words of the turn before."""
    gains: Mapping[str, Mapping[str, float]]
    """What each boost gave each candidate, before all was put on one scale."""

    @property
    def channels(self) -> dict[str, ChannelScore]:
        """What the channels that found it said: "vector", "text", or both in this order."""
        said = {"vector": self.vector, "text": self.text}
        return {name: score for name, score in said.items() if score is not None}

    @property
    def why(self) -> dict[str, float]:
        """What of `score` each part gave: `channels`, and each boost that added something."""
        given = {name: some[self.key] for name, some in self.gains.items() if some.get(self.key)}
        total, added = sum(given.values()), self.score - self.own
        said = {CHANNELS: self.own - self.handed}
        if self.handed:
            said[PRECEDING] = self.handed
        # The scale may be bent: what all boosts added is shared among them by what they gave.
        return said | {name: added * (one / total) for name, one in given.items()}


_NO_LINKS: Mapping[str, str] = MappingProxyType({})
_NO_SCORES: Mapping[str, float] = MappingProxyType({})
_NO_TURNS: Mapping[str, Turn] = MappingProxyType({})
_LENDING = (Neighbours((0.3,)),)
_UNKNOWN = Turn()


def fuse(
    vector: Mapping[str, float],
    text: Mapping[str, float],
    *,
    previous: Mapping[str, str] = _NO_LINKS,
    turns: Mapping[str, Turn] = _NO_TURNS,
    question: str | None = None,
    fusion: Fusion = DEFAULT_FUSION,
    boosts: Sequence[Boost] = _LENDING,
    own_words: Mapping[str, float] = _NO_SCORES,
    words_weigh: float = 1.0,
    limit: int | None = None,
) -> list[FusedHit]:
    """The candidates of both channels in one ranking, best first; with `limit` so many of them.

    `previous` names for a key the key of the turn before it in its session; links to keys that are
    no candidates are harmless. `own_words` is what of its score in `text` a key owes to its own words,
    where it has those of another turn, too; without any, only those found it. The best by words has `words_weigh`, in [0, 1]. To the fused score of a candidate is added what the boosts give, and
    the sum divided by the most that it can be, which leaves the order as it is. Equal scores are
    ordered by cosine, then by BM25, then by key: neither the order of the mappings nor that of the
    engine shows.

    Raises `InvalidRequestError` for a raw score that is not finite, and for a `fusion` or a boost
    that scores what is no candidate or leaves its bounds.
    """
    said_vector, said_text = channel_scores(vector), channel_scores(text, highest=words_weigh)
    fused = fused_scores(fusion, said_vector, said_text)
    dropped = (said_vector.keys() | said_text.keys()) - fused.keys()
    own = {key: 0.0 for key in turns if key not in dropped} | dict(fused)
    said = _Said(own, said_vector, said_text)
    given, most = said.gains(boosts, question, previous, turns)

    def unaided(keys: Collection[str]) -> dict[str, float]:
        vector: Mapping[str, ChannelScore] = said_vector
        among: Collection[str] = said_text
        if isinstance(fusion, BY_CANDIDATE):
            vector, among = {key: vector[key] for key in keys if key in vector}, keys
        text = _scaled(own_words, said_text, among, highest=words_weigh)
        alone = fused_scores(fusion, vector, text)
        return {key: alone.get(key, 0.0) / (1 + most) for key in keys}

    whole = 1 + most
    return _hits(
        said,
        given,
        lambda more: {key: (own[key] + gain) / whole for key, gain in more.items()},
        limit,
        own_words,
        unaided,
    )


def by_vector(
    cosines: Mapping[str, float],
    *,
    previous: Mapping[str, str] = _NO_LINKS,
    turns: Mapping[str, Turn] = _NO_TURNS,
    question: str | None = None,
    boosts: Sequence[Boost] = _LENDING,
    limit: int | None = None,
) -> list[FusedHit]:
    """The candidates of the vector channel alone, best first, scored by `vector_score`.

    Scored is the cosine and what the boosts add to it, whose 1 is what the highest candidate has
    above the lowest. Not above 0: how near strangers are differs from model to model. What no
    channel found counts as the lowest. Without a boost a hit has (1 + cosine) / 2. Links and equal
    scores as in `fuse`.
    """
    low, high = min(cosines.values(), default=0.0), max(cosines.values(), default=0.0)
    span = high - low
    raw = dict.fromkeys(turns, low) | dict(cosines)
    own = {key: (cosine - low) / span if span else 0.0 for key, cosine in raw.items()}
    said = _Said(own, channel_scores(cosines), {})
    given, _ = said.gains(boosts, question, previous, turns)
    return _hits(
        said,
        given,
        lambda more: {key: vector_score(raw[key] + span * gain) for key, gain in more.items()},
        limit,
    )


def by_text(
    bm25: Mapping[str, float],
    *,
    previous: Mapping[str, str] = _NO_LINKS,
    turns: Mapping[str, Turn] = _NO_TURNS,
    question: str | None = None,
    boosts: Sequence[Boost] = _LENDING,
    own_words: Mapping[str, float] = _NO_SCORES,
    limit: int | None = None,
) -> list[FusedHit]:
    """The candidates of the text channel alone, best first, scored by `text_score`.

    Scored is the BM25 and what the boosts add to it, whose 1 is the highest candidate's BM25.
    Without a boost a hit has bm25 / (bm25 + 10). Links, own words and equal scores as in `fuse`.
    """
    high = max(bm25.values(), default=0.0)
    raw = dict.fromkeys(turns, 0.0) | dict(bm25)
    own = {key: score / high if high > 0 else 0.0 for key, score in raw.items()}
    said = _Said(own, {}, channel_scores(bm25))
    given, _ = said.gains(boosts, question, previous, turns)
    return _hits(
        said,
        given,
        lambda more: {key: text_score(raw[key] + high * gain) for key, gain in more.items()},
        limit,
        own_words,
        lambda keys: {key: text_score(own_words[key]) for key in keys},
    )


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


class _Said(NamedTuple):
    """What the channels say of all that may become hits."""

    own: Mapping[str, float]
    """The score in [0, 1] that they give each."""
    vector: Mapping[str, ChannelScore]
    text: Mapping[str, ChannelScore]

    def gains(
        self,
        boosts: Sequence[Boost],
        question: str | None,
        previous: Mapping[str, str],
        turns: Mapping[str, Turn],
    ) -> tuple[Mapping[str, Mapping[str, float]], float]:
        """What the boosts give to whom, and the most that they can give."""
        if not boosts:
            return {}, 0.0
        own, vector, text = self
        candidates = {
            key: Candidate(
                score,
                vector.get(key),
                text.get(key),
                turns.get(key, _UNKNOWN),
                earlier if (earlier := previous.get(key)) in own else None,
            )
            for key, score in own.items()
        }
        return gains(boosts, question, candidates)


def _hits(
    said: _Said,
    given: Mapping[str, Mapping[str, float]],
    scaled: Callable[[Mapping[str, float]], Mapping[str, float]],
    limit: int | None,
    own_words: Mapping[str, float] = _NO_SCORES,
    unaided: Callable[[Collection[str]], Mapping[str, float]] = lambda _: _NO_SCORES,
) -> list[FusedHit]:
    """The hits, best first; `scaled` makes scores of what is added to each key.

    `unaided` makes the scores that some keys of `own_words` have by these alone.
    """
    _, vector, text = said
    more = dict.fromkeys(said.own, 0.0)
    for some in given.values():
        for key, gain in some.items():
            more[key] += gain
    # What no channel found is no hit by itself.
    may_be = {k: gain for k, gain in more.items() if gain > 0 or k in vector or k in text}
    scores = {key: min(1.0, score) for key, score in scaled(may_be).items()}
    least = -math.inf
    if limit is not None and len(scores) > limit > 0:
        least = sorted(scores.values(), reverse=True)[limit - 1]
    order = sorted(
        (-score, -_raw(vector.get(key)), -_raw(text.get(key)), key)
        for key, score in scores.items()
        if score >= least
    )
    best = [key for *_, key in order[:limit]]
    alone = unaided([key for key in best if key in own_words]) if own_words else _NO_SCORES
    unraised = scaled(dict.fromkeys(best, 0.0))
    hits = []
    for key in best:
        own = min(scores[key], unraised[key])
        hits.append(
            FusedHit(
                key=key,
                score=scores[key],
                vector=vector.get(key),
                text=text.get(key) if own_words.get(key, 1.0) > 0 else None,
                own=own,
                handed=max(0.0, own - alone[key]) if key in alone else 0.0,
                gains=given,
            )
        )
    return hits


def _scaled(
    own_words: Mapping[str, float],
    text: Mapping[str, ChannelScore],
    among: Collection[str],
    *,
    highest: float,
) -> dict[str, ChannelScore]:
    """What the own words of some have on the scale of `text`."""
    low, high = (pick((one.raw for one in text.values()), default=0.0) for pick in (min, max))
    scaled = {}
    for key in among:
        if (own := own_words.get(key, 0.0)) > 0 and (one := text.get(key)) is not None:
            share = (own - low) / (high - low) if high > low else 1.0
            normalised = min(one.normalised, highest * max(0.0, share))
            scaled[key] = ChannelScore(raw=one.raw, normalised=normalised, rank=one.rank)
    return scaled


def _raw(said: ChannelScore | None) -> float:
    return -math.inf if said is None else said.raw
