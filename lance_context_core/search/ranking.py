"""Ranking of candidates: the channels' scores plus boosts, with an explanation.

Computed over arrays, by the numbers of the candidates; objects are created for the best ones only.
A candidate that no channel found has a score of 0, and is a hit if a boost adds something.
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
from lance_context_core.search.boosts import Boost, Candidate, Neighbours, Questions, Speaker, lent
from lance_context_core.search.candidates import OURS, Candidates, Channel
from lance_context_core.search.fusion import DEFAULT_FUSION, Fusion, fused, min_max
from lance_context_core.storage.lance.schema import SEARCH_TEXT
from lance_context_core.types import ChannelScore

CHANNELS = "channels"
"""The name in `why` of the channels' part of a score."""

PRECEDING = "preceding"
"""The name of the part due to words of the previous turn."""

Found: TypeAlias = tuple[np.ndarray, np.ndarray]
"""A channel's candidates and scores: cosines in [-1, 1], or BM25 above 0."""


class FusedHit(NamedTuple):
    """A candidate with its final score, and the parts of that score."""

    id: int
    """The id of its row."""
    score: float
    """In [0, 1]; 1 is the maximum of the formula, independent of the results."""
    vector: ChannelScore | None
    """None if the vector channel did not find it."""
    text: ChannelScore | None
    """None if the text channel did not find it."""
    own: float
    """The channels' part of `score`."""
    gains: Mapping[str, float]
    """The boosts above 0, by name, before scaling."""
    handed: float = 0.0
    """The part of `own` due to words of the previous turn."""

    @property
    def channels(self) -> dict[str, ChannelScore]:
        """The scores of the channels that found it: "vector", "text", or both in this order."""
        said = {} if self.vector is None else {"vector": self.vector}
        if self.text is not None:
            said["text"] = self.text
        return said

    @property
    def why(self) -> dict[str, float]:
        """The parts of `score`: `channels`, and each boost above 0."""
        said = {CHANNELS: self.own - self.handed}
        if self.handed:
            said[PRECEDING] = self.handed
        if self.gains:
            total, added = sum(self.gains.values()), self.score - self.own
            # The scale may be nonlinear: the boosts' total is split in proportion to them.
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
    is_explained: bool = True,
) -> list[FusedHit]:
    """Return the candidates of both channels in one ranking, best first; at most `limit`.

    `own_words` is the part of their word scores due to their own words, if they include another
    turn's; candidates without it were found by others' words only. The best by words has
    `words_weigh`, in [0, 1]. The boosts are added to the fused score of a candidate, and the sum is
    divided by its maximum, which preserves the order. Equal scores are ordered by cosine, then by
    BM25, then by number, independent of the channels' order. Unless `is_explained`, the hits have
    no parts.

    Raises `InvalidRequestError` for a raw score that is not finite, and for a `fusion` or a boost
    that scores an unknown candidate or exceeds its bounds.
    """
    vector = Channel(candidates, *near)
    text = Channel(candidates, *matching, highest=words_weigh)
    own, may_be = fused(fusion, vector, text, candidates)
    ranking = _Ranking(candidates, own, may_be, vector, text, boosts, question)

    def scaled(scores: np.ndarray, gain: np.ndarray) -> np.ndarray:
        whole: np.ndarray = ranking.kept * (scores + gain) / (1 + ranking.most)
        return whole

    def unaided(words: np.ndarray) -> np.ndarray:
        return scaled(fused(fusion, vector, text.by_own_words(words), candidates)[0], _NOTHING)

    if not is_explained:
        return ranking.scored(lambda gain: scaled(own, gain), limit)
    return ranking.hits(lambda gain: scaled(own, gain), limit, own_words, unaided)


def by_vector(
    candidates: Candidates,
    near: Found,
    *,
    question: str | None,
    boosts: Sequence[Boost],
    limit: int | None = None,
    is_explained: bool = True,
) -> list[FusedHit]:
    """Return the candidates of the vector channel alone, best first, scored by `vector_score`.

    The score is that of the cosine plus the boosts, whose 1 is the difference of the highest and
    the lowest candidate: not the distance to 0, since the similarity of unrelated texts differs by
    model. Candidates that no channel found count as the lowest. Without a boost a hit has
    (1 + cosine) / 2. Equal scores as in `fuse`.
    """
    vector = Channel(candidates, *near)
    low, span = vector.low, vector.high - vector.low
    raw = np.maximum(low, vector.raw)
    own = (raw - low) / span if span else np.zeros(len(raw))
    ranking = _Ranking(
        candidates, own, _all_of(candidates), vector, _none_of(candidates), boosts, question
    )

    def scaled(gain: np.ndarray) -> np.ndarray:
        if not ranking.has_demoted:
            return vector_score(raw + span * gain)
        return vector_score(low + ranking.kept * (raw - low + span * gain))

    scored = ranking.hits if is_explained else ranking.scored
    return scored(scaled, limit)


def by_text(
    candidates: Candidates,
    matching: Found,
    *,
    question: str | None,
    boosts: Sequence[Boost],
    own_words: np.ndarray | None = None,
    limit: int | None = None,
    is_explained: bool = True,
) -> list[FusedHit]:
    """Return the candidates of the text channel alone, best first, scored by `text_score`.

    The score is that of the BM25 plus the boosts, whose 1 is the highest candidate's BM25. Without
    a boost a hit has bm25 / (bm25 + 10). Own words and equal scores as in `fuse`.
    """
    text = Channel(candidates, *matching)
    high = text.high
    raw = np.where(text.has, text.raw, 0.0)
    own = raw / high if high > 0 else np.zeros(len(raw))
    ranking = _Ranking(
        candidates, own, _all_of(candidates), _none_of(candidates), text, boosts, question
    )

    def scaled(gain: np.ndarray) -> np.ndarray:
        return text_score(ranking.kept * (raw + high * gain))

    def unaided(words: np.ndarray) -> np.ndarray:
        return text_score(ranking.kept * words)

    if not is_explained:
        return ranking.scored(scaled, limit)
    return ranking.hits(scaled, limit, own_words, unaided)


def vector_score(cosines: np.ndarray) -> np.ndarray:
    """(1 + cosine) / 2: scores in [0, 1] for the vector channel alone."""
    scores: np.ndarray = np.minimum(1.0, np.maximum(0.0, (1 + cosines) / 2))
    return scores


def text_score(bm25: np.ndarray) -> np.ndarray:
    """bm25 / (bm25 + 10): scores in [0, 1) for the text channel alone.

    They preserve the order and do not depend on the other results. 10 is about the score of the
    best hit for a question to a long conversation. BM25 has no upper bound and grows with the
    number and the rarity of matching words: scores of two queries compare only roughly.
    """
    there = np.maximum(0.0, bm25)
    scores: np.ndarray = there / (there + 10)
    return scores


_NOTHING = np.zeros(1)


class _Ranking:
    """The scores of all candidates from channels and boosts."""

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
        """`own` has the channels' scores; candidates that a fusion dropped may not be hits."""
        self._may_be, self._vector, self._text = may_be, vector, text
        self._ids = candidates.ids
        self.kept, boosts = _kept(boosts, candidates)
        """The share of its score that each candidate keeps."""
        if not may_be.all():
            candidates = candidates.without(~may_be)
        self._given, self.most = _gains(
            boosts, question, candidates, own, lambda: candidates.by_key(own, vector, text, may_be)
        )

    @property
    def has_demoted(self) -> bool:
        """Whether a candidate loses a part of its score."""
        return bool((self.kept < 1).any())

    def hits(
        self,
        scaled: Callable[[np.ndarray], np.ndarray],
        limit: int | None,
        own_words: np.ndarray | None = None,
        unaided: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> list[FusedHit]:
        """Return the hits, best first; `scaled` converts the sums to scores.

        `unaided` computes the scores from their own words alone.
        """
        vector, text, ids = self._vector, self._text, self._ids
        best, scores = self._best(scaled, limit)
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

    def scored(
        self, scaled: Callable[[np.ndarray], np.ndarray], limit: int | None
    ) -> list[FusedHit]:
        """As `hits`, with the scores alone."""
        best, scores = self._best(scaled, limit)
        told = zip(best.tolist(), scores[best].tolist(), strict=True)
        return [FusedHit(self._ids[number], one, None, None, one, {}) for number, one in told]

    def _best(
        self, scaled: Callable[[np.ndarray], np.ndarray], limit: int | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of the hits, best first, and the scores of all candidates."""
        vector, text = self._vector, self._text
        more = sum(self._given.values(), _NOTHING)
        # A candidate that no channel found needs a boost to be a hit.
        there = (self._may_be & ((more > 0) | vector.has | text.has)).nonzero()[0]
        scores = np.minimum(1.0, scaled(more))
        if limit is not None and len(there) > limit > 0:
            least = np.partition(scores[there], len(there) - limit)[len(there) - limit]
            there = there[scores[there] >= least]
        # They are in the order of writing, which equal ones keep.
        order = np.lexsort((-text.raw[there], -vector.raw[there], -scores[there]))[:limit]
        best: np.ndarray = there[order]
        return best, scores


def _gains(
    boosts: Sequence[Boost],
    question: str | None,
    candidates: Candidates,
    scores: np.ndarray,
    seen: Callable[[], Mapping[str, Candidate]],
) -> tuple[dict[str, np.ndarray], float]:
    """Return the nonempty boosts of each candidate by name, and their maximum sum.

    `scores` are the channels' scores, `seen` makes the boosts' view of the candidates. Raises
    InvalidRequestError for an unknown candidate, or a gain outside [0, largest].
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


def _kept(boosts: Sequence[Boost], candidates: Candidates) -> tuple[np.ndarray, Sequence[Boost]]:
    """Return the share of its score that each candidate keeps, and the boosts that add to it."""
    kept, adding = np.ones(len(candidates)), []
    for boost in boosts:
        if type(boost) is Questions:
            kept *= boost.kept(zip(*map(candidates.told, ("text", "role", "name")), strict=True))
        else:
            adding.append(boost)
    return kept, adding


def _of_speaker(boost: Speaker, question: str | None, candidates: Candidates) -> np.ndarray | None:
    names = candidates.told("name")
    if (whom := boost.whom(question, names)) is None:
        return None
    return np.array([boost.weight if name == whom else 0.0 for name in names])


def _of_any(
    boost: Boost, question: str | None, candidates: Candidates, shown: Mapping[str, Candidate]
) -> np.ndarray | None:
    """Return the gains of a custom boost; None if it returns nothing."""
    if not (told := boost(question, shown)):
        return None
    largest, is_ours = boost.largest, type(boost) in OURS  # These need no check.
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


# Reranking: the input of a reranker, and its result.

COLUMNS = ("text", SEARCH_TEXT)
"""The columns of the candidates, besides the channels' scores."""

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
    """Return the scores in [0, 1] of the rows that the reranker kept.

    The keys are row ids. Scores outside [0, 1] are min-max normalised. It runs in a worker thread,
    since a reranker may be a model. Its errors are raised, or, with a set `warned` of earlier
    failures, warned about once for each kind: then returns None. Raises InvalidRequestError for an
    invalid result.
    """
    try:
        return await _reranked(reranker, query, mode=mode, vector=vector, text=text)
    except InvalidRequestError:
        raise  # the reranker is invalid, which a retry will not change
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
    except NotImplementedError as error:  # raised by LanceDB's base class for an absent method
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
    """Return `rows` for rerankers: each has a text, such as the caption of an image."""
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
                f"{what} returned _rowid={row_id!r}, which is not among its candidates: return only their ids"
            )
        if score is None or not math.isfinite(score):
            raise InvalidRequestError(
                f"{what} returned _relevance_score={score!r}: return finite numbers"
            )
    return scores
