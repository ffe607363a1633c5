"""How candidates become one ranking that explains itself: the channels' scores, and what boosts add.

All is worked out over arrays, by the numbers of the candidates; values are made of the best ones only.
A candidate that no channel found has 0 of its own, and is a hit if something is added to it.
"""

import asyncio
import math
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_context_core.errors import InvalidRequestError, NotRerankedWarning
from lance_context_core.protocols import Reranker, SearchMode
from lance_context_core.search.boosts import Boost, Candidate, Neighbours, Speaker, lent
from lance_context_core.search.candidates import OURS, Candidates, Channel
from lance_context_core.search.fusion import DEFAULT_FUSION, Fusion, fused, min_max
from lance_context_core.storage.lance.schema import SEARCH_TEXT
from lance_context_core.types import ChannelScore

CHANNELS = "channels"
"""What `why` calls the part of a score that the channels gave."""

PRECEDING = "preceding"
"""What it calls the part of it that is due to words of the turn before."""

Found: TypeAlias = tuple[np.ndarray, np.ndarray]
"""Which candidates a channel found, and the score of each: cosines in [-1, 1], or BM25 above 0."""


class FusedHit(NamedTuple):
    """A candidate with its final score, and where that score came from."""

    id: int
    """That of its row."""
    score: float
    """In [0, 1]; 1 is the largest value that the formula can give, whatever was found."""
    vector: ChannelScore | None
    """None if the vector channel did not find it."""
    text: ChannelScore | None
    """None if the text channel did not find it."""
    own: float
    """What of `score` the channels gave."""
    gains: Mapping[str, float]
    """What the boosts gave that gave anything, by their names, before all was put on one scale."""
    handed: float = 0.0
    """What of `own` is due to words of the turn before."""

    @property
    def channels(self) -> dict[str, ChannelScore]:
        """What the channels that found it said: "vector", "text", or both in this order."""
        said = {} if self.vector is None else {"vector": self.vector}
        if self.text is not None:
            said["text"] = self.text
        return said

    @property
    def why(self) -> dict[str, float]:
        """What of `score` each part gave: `channels`, and each boost that added something."""
        said = {CHANNELS: self.own - self.handed}
        if self.handed:
            said[PRECEDING] = self.handed
        if self.gains:
            total, added = sum(self.gains.values()), self.score - self.own
            # The scale may be bent: what all boosts added is shared among them by what they gave.
            said |= {name: added * (one / total) for name, one in self.gains.items()}
        return said


def fuse(
    candidates: Candidates,
    near: Found,
    matching: Found,
    *,
    question: str | None,
    boosts: Sequence[Boost],
    fusion: Fusion = DEFAULT_FUSION,
    own_words: np.ndarray | None = None,
    words_weigh: float = 1.0,
    limit: int | None = None,
) -> list[FusedHit]:
    """The candidates of both channels in one ranking, best first; with `limit` so many of them.

    `own_words` is what of their score by words all that match owe to their own words, where they have
    those of another turn, too; without any, only those found them. The best by words has
    `words_weigh`, in [0, 1]. To the fused score of a candidate is added what the boosts give, and the
    sum divided by the most that it can be, which leaves the order as it is. Equal scores are ordered
    by cosine, then by BM25, then by number: the order in which a channel found them does not show.

    Raises `InvalidRequestError` for a raw score that is not finite, and for a `fusion` or a boost
    that scores what is no candidate or leaves its bounds.
    """
    vector = Channel(candidates, *near)
    text = Channel(candidates, *matching, highest=words_weigh)
    own, may_be = fused(fusion, vector, text, candidates)
    ranking = _Ranking(candidates, own, may_be, vector, text, boosts, question)

    def scaled(scores: np.ndarray, gain: np.ndarray) -> np.ndarray:
        whole: np.ndarray = (scores + gain) / (1 + ranking.most)
        return whole

    def unaided(words: np.ndarray) -> np.ndarray:
        return scaled(fused(fusion, vector, text.by_own_words(words), candidates)[0], _NOTHING)

    return ranking.hits(lambda gain: scaled(own, gain), limit, own_words, unaided)


def by_vector(
    candidates: Candidates,
    near: Found,
    *,
    question: str | None,
    boosts: Sequence[Boost],
    limit: int | None = None,
) -> list[FusedHit]:
    """The candidates of the vector channel alone, best first, scored by `vector_score`.

    Scored is the cosine and what the boosts add to it, whose 1 is what the highest candidate has
    above the lowest. Not above 0: how near strangers are differs from model to model. What no
    channel found counts as the lowest. Without a boost a hit has (1 + cosine) / 2. Equal scores as in
    `fuse`.
    """
    vector = Channel(candidates, *near)
    low, span = vector.low, vector.high - vector.low
    raw = np.maximum(low, vector.raw)
    own = (raw - low) / span if span else np.zeros(len(raw))
    ranking = _Ranking(
        candidates, own, _all_of(candidates), vector, _none_of(candidates), boosts, question
    )
    return ranking.hits(lambda gain: vector_score(raw + span * gain), limit)


def by_text(
    candidates: Candidates,
    matching: Found,
    *,
    question: str | None,
    boosts: Sequence[Boost],
    own_words: np.ndarray | None = None,
    limit: int | None = None,
) -> list[FusedHit]:
    """The candidates of the text channel alone, best first, scored by `text_score`.

    Scored is the BM25 and what the boosts add to it, whose 1 is the highest candidate's BM25.
    Without a boost a hit has bm25 / (bm25 + 10). Own words and equal scores as in `fuse`.
    """
    text = Channel(candidates, *matching)
    high = text.high
    raw = np.where(text.has, text.raw, 0.0)
    own = raw / high if high > 0 else np.zeros(len(raw))
    ranking = _Ranking(
        candidates, own, _all_of(candidates), _none_of(candidates), text, boosts, question
    )
    return ranking.hits(lambda gain: text_score(raw + high * gain), limit, own_words, text_score)


def vector_score(cosines: np.ndarray) -> np.ndarray:
    """(1 + cosine) / 2: the scores in [0, 1] of hits of the vector channel alone."""
    scores: np.ndarray = np.minimum(1.0, np.maximum(0.0, (1 + cosines) / 2))
    return scores


def text_score(bm25: np.ndarray) -> np.ndarray:
    """bm25 / (bm25 + 10): the scores in [0, 1) of hits of the text channel alone.

    They keep the order and do not depend on what else was found. 10 is about what the best hit has
    for a question to a long conversation. BM25 has no upper bound, it grows with the number and the
    rarity of the words that match: scores of two queries compare only roughly.
    """
    there = np.maximum(0.0, bm25)
    scores: np.ndarray = there / (there + 10)
    return scores


_NOTHING = np.zeros(1)


class _Ranking:
    """What the channels and the boosts say of all candidates."""

    def __init__(
        self,
        candidates: Candidates,
        own: np.ndarray,
        may_be: np.ndarray,
        vector: Channel,
        text: Channel,
        boosts: Sequence[Boost],
        question: str | None,
    ) -> None:
        """`own` is what the channels give each; those that a fusion dropped may not be hits."""
        self._may_be, self._vector, self._text = may_be, vector, text
        self._ids = candidates.ids
        if not may_be.all():
            candidates = candidates.without(~may_be)
        self._given, self.most = _gains(
            boosts, question, candidates, own, lambda: candidates.by_key(own, vector, text, may_be)
        )

    def hits(
        self,
        scaled: Callable[[np.ndarray], np.ndarray],
        limit: int | None,
        own_words: np.ndarray | None = None,
        unaided: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> list[FusedHit]:
        """The hits, best first; `scaled` makes scores of what is added to each.

        `unaided` makes the scores that they have by their own words alone.
        """
        vector, text, ids = self._vector, self._text, self._ids
        more = sum(self._given.values(), _NOTHING)
        # What no channel found is no hit by itself.
        there = (self._may_be & ((more > 0) | vector.has | text.has)).nonzero()[0]
        scores = np.minimum(1.0, scaled(more))
        if limit is not None and len(there) > limit > 0:
            least = np.partition(scores[there], len(there) - limit)[len(there) - limit]
            there = there[scores[there] >= least]
        # They stand in the order of writing, in which equals are left.
        order = np.lexsort((-text.raw[there], -vector.raw[there], -scores[there]))[:limit]
        best = there[order]
        own = np.minimum(scores, scaled(_NOTHING))[best]
        said, handed = text.scores(best), [0.0] * len(best)
        if own_words is not None and unaided is not None and len(best):
            alone = np.where(text.has[best], unaided(own_words)[best], own)
            handed = np.maximum(0.0, own - alone).tolist()
            said = [
                score if words > 0 else None
                for score, words in zip(said, own_words[best].tolist(), strict=True)
            ]
        given = [(name, some[best].tolist()) for name, some in self._given.items()]
        gained = [
            {name: some[place] for name, some in given if some[place]} for place in range(len(best))
        ]
        told = (
            [ids[number] for number in best.tolist()],
            scores[best].tolist(),
            vector.scores(best),
            said,
            own.tolist(),
            gained,
            handed,
        )
        return [*map(FusedHit, *told)]


def _gains(
    boosts: Sequence[Boost],
    question: str | None,
    candidates: Candidates,
    scores: np.ndarray,
    seen: Callable[[], Mapping[str, Candidate]],
) -> tuple[dict[str, np.ndarray], float]:
    """What each boost that says anything gives each candidate, by its name, and the most that they can.

    `scores` are what the channels gave, `seen` makes of the candidates what a boost is shown.
    Raises InvalidRequestError for what is no candidate, or outside [0, largest].
    """
    given: dict[str, np.ndarray] = {}
    most = 0.0
    shown: Mapping[str, Candidate] | None = None
    for boost in boosts:
        if type(boost) is Neighbours:
            found = lent(boost.shares, scores, candidates.previous) if len(candidates) else None
        elif type(boost) is Speaker:
            found = _of_speaker(boost, question, candidates)
        else:
            shown = seen() if shown is None else shown
            found = _of_any(boost, question, candidates, shown)
        if found is not None:
            most += boost.largest
            given[boost.name] = given[boost.name] + found if boost.name in given else found
    return given, most


def _of_speaker(boost: Speaker, question: str | None, candidates: Candidates) -> np.ndarray | None:
    names = candidates.told("name")
    if (whom := boost.whom(question, names)) is None:
        return None
    return np.array([boost.weight if name == whom else 0.0 for name in names])


def _of_any(
    boost: Boost, question: str | None, candidates: Candidates, shown: Mapping[str, Candidate]
) -> np.ndarray | None:
    """What a boost says when it is asked as any is; None if that is nothing at all."""
    if not (told := boost(question, shown)):
        return None
    largest, is_ours = boost.largest, type(boost) in OURS  # Of these it need not be checked.
    bound = largest * (1 + 1e-9)
    found = np.zeros(len(candidates))
    for key, gain in told.items():
        if key not in shown:
            raise InvalidRequestError(
                f"boost {boost.name!r} scored {key!r:.80}: score candidates only"
            )
        if not (is_ours or 0 <= gain <= bound):
            raise InvalidRequestError(
                f"boost {boost.name!r} gave {key!r:.80} {gain!r}: give 0 to {largest}"
            )
        found[candidates.numbers[key]] = gain
    return found


def _all_of(candidates: Candidates) -> np.ndarray:
    return np.ones(len(candidates), bool)


def _none_of(candidates: Candidates) -> Channel:
    return Channel(candidates, np.empty(0, np.int64), np.empty(0))


# The part of a search that a reranker does: what it is given, and what is taken from it.

COLUMNS = ("text", SEARCH_TEXT)
"""What is read of the candidates, beside what each channel says of them."""

_METHODS = {"hybrid": "rerank_hybrid", "vector": "rerank_vector", "text": "rerank_fts"}


def require_method(reranker: Reranker, mode: SearchMode) -> None:
    """Raise InvalidRequestError unless the reranker has the method that a search of `mode` calls."""
    if not callable(getattr(reranker, _METHODS[mode], None)):
        raise _lacking(reranker, mode)


async def rerank(
    reranker: Reranker,
    query: str,
    *,
    mode: SearchMode,
    vector: pa.Table,
    text: pa.Table,
    warned: set[Hashable] | None = None,
) -> dict[int, float] | None:
    """The score in [0, 1] of each row that the reranker kept, by row id.

    Scores outside [0, 1] are min-max normalised. A reranker may be a model: it runs in a worker
    thread. What it raises is raised, or told once for each kind of failure if there is a set `warned`
    of what was: then the answer is None. InvalidRequestError if it does not return what it shall.
    """
    try:
        return await _reranked(reranker, query, mode=mode, vector=vector, text=text)
    except InvalidRequestError:
        raise  # it is no reranker, which will not pass
    except Exception as error:
        if warned is None:
            raise
        about = ("not reranked", type(reranker), type(error))
        if about not in warned:
            warned.add(about)
            warnings.warn(
                f"{reranker!r:.200} failed, so hits are ranked as they would be without it: "
                f"{type(error).__name__}: {error}",
                NotRerankedWarning,
                stacklevel=2,
            )
        return None


async def _reranked(
    reranker: Reranker, query: str, *, mode: SearchMode, vector: pa.Table, text: pa.Table
) -> dict[int, float]:
    method = getattr(reranker, _METHODS[mode])
    given = {"hybrid": (vector, text), "vector": (vector,), "text": (text,)}[mode]
    try:
        ranked = await asyncio.to_thread(method, query, *map(_presentable, given))
    except NotImplementedError as error:  # what LanceDB's base class says for an absent method
        raise _lacking(reranker, mode) from error
    known = {row_id for rows in given for row_id in rows["_rowid"].to_pylist()}
    scores = _scores(ranked, known, f"reranker.{_METHODS[mode]} of {type(reranker).__name__}")
    if all(0 <= score <= 1 for score in scores.values()):
        return scores
    normalised = min_max({str(row_id): score for row_id, score in scores.items()})
    return {row_id: normalised[str(row_id)] for row_id in scores}


def _lacking(reranker: Reranker, mode: SearchMode) -> InvalidRequestError:
    return InvalidRequestError(
        f"mode={mode!r} calls reranker.{_METHODS[mode]}, which {type(reranker).__name__} does not "
        "have: search in another mode, or give a reranker that has it"
    )


def _presentable(rows: pa.Table) -> pa.Table:
    """`rows` as rerankers expect them: every one has a text, be it the caption of an image."""
    text = rows["text"]
    if SEARCH_TEXT in rows.column_names:
        text = pc.coalesce(text, rows[SEARCH_TEXT])
    said = [name for name in ("_rowid", "_distance", "_score") if name in rows.column_names]
    return rows.select(said).add_column(0, "text", pc.fill_null(text, ""))


def _scores(ranked: Any, known: set[int], what: str) -> dict[int, float]:
    names = ranked.column_names if isinstance(ranked, pa.Table) else []
    if not {"_rowid", "_relevance_score"} <= set(names):
        found = f"a table of {names}" if names else f"a {type(ranked).__name__}"
        raise InvalidRequestError(
            f"{what} returned {found}: return a pyarrow.Table with _rowid and _relevance_score"
        )
    scores: dict[int, float] = dict(
        zip(ranked["_rowid"].to_pylist(), ranked["_relevance_score"].to_pylist(), strict=True)
    )
    for row_id, score in scores.items():
        if row_id not in known:
            raise InvalidRequestError(
                f"{what} returned _rowid={row_id!r}, which it was not given: keep those it was given"
            )
        if score is None or not math.isfinite(score):
            raise InvalidRequestError(
                f"{what} returned _relevance_score={score!r}: return finite numbers"
            )
    return scores
