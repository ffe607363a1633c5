"""The options and arguments of a search."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Literal, TypedDict

from lance_context_core._util.checks import is_number
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import InvalidRequestError
from lance_context_core.filters import FilterLike
from lance_context_core.protocols import Reranker, SearchMode
from lance_context_core.search.boosts import Boost, Neighbours, Preceding, Questions, Speaker
from lance_context_core.search.fusion import DEFAULT_FUSION, Fusion


@frozen_by_name
class SearchOptions:
    """The ranking options of a search. Raises InvalidRequestError for invalid values."""

    fusion: Fusion = DEFAULT_FUSION
    """Combines the scores of two channels in hybrid search; by default with the embedder's weight."""
    neighbours: float | Sequence[float] | None = None
    """In [0, 1]: the share of neighbouring turns' scores that is added to a hit.

    A sequence has the shares of turns one step away, two steps away, and so on. By default (0.3,
    0.2) in conversations, 0 among memories and documents.
    """
    preceding: float | None = None
    """In [0, 1]: the weight of a short turn's words in the next one.

    Both must be short. By default 1 in conversations, and 0 elsewhere and if `neighbours` is given.
    The engine, which indexes only each turn's own words, adds 0.3 of it of the score by words
    instead.
    """
    coverage: float | None = None
    """In [0, 1]: word scores from this share of their maximum on count in full.

    If the best text by words has a smaller share, the query is mostly answered in other words, and
    the words of hybrid search count less in proportion; 0 always counts them in full. By default
    0.25 in conversations, and 0 elsewhere. The engine cannot compute it: they count in full.
    """
    speaker: float | None = None
    """In [0, 1]: the gain of turns of the one speaker whom the query names.

    By default 0.2 in conversations, and 0 elsewhere.
    """
    questions: float | None = None
    """In [0, 1]: the share of its score that a turn loses if it ends with a question mark.

    Except turns of a user without a name. By default 0.25 in conversations, and 0 elsewhere.
    """
    surroundings: bool | None = None
    """Whether neighbours of found turns may be hits, too, though no channel found them.

    By default in conversations, unless `mode` names one channel alone. A reranker or `mmr_lambda`
    only picks among turns that the channels found.
    """
    without_names: bool | None = None
    """Whether speakers' names are removed from the query before it is embedded.

    By default in conversations: all turns of a speaker are near to the name.
    """
    boosts: Sequence[Boost] = ()
    """More additions to scores: `Role`, `Recency`, `Period`, or your own."""
    n_candidates: int = 50
    """Minimum number of candidates of each channel, 1 or more; 50 is the embedder's own, if any."""
    reranker: Reranker | None = None
    """Ranks the candidates instead of the fusion; scores outside [0, 1] are min-max normalised."""
    on_reranker_error: Literal["raise", "ignore"] = "raise"
    """Whether errors of the reranker are raised.

    "ignore" returns the hits without reranking, with a NotRerankedWarning.
    """
    mmr_lambda: float | None = None
    """In [0, 1]: selects hits by maximal marginal relevance.

    1 ranks by similarity alone, 0 by diversity alone.
    """

    def __post_init__(self) -> None:
        if not callable(self.fusion) or isinstance(self.fusion, type):
            raise InvalidRequestError(
                f"fusion={self.fusion!r:.80}: give Convex(), ReciprocalRank(), or a function of both "
                "channels' scores"
            )
        for name in ("preceding", "coverage", "speaker", "questions", "mmr_lambda"):
            value = getattr(self, name)
            if value is not None and not _is_share(value):
                raise InvalidRequestError(f"{name}={value!r:.80}: give a number from 0 to 1")
        shares = self.neighbours
        steps = shares if isinstance(shares, Sequence) else [] if shares is None else [shares]
        if isinstance(shares, str | bytes) or not all(map(_is_share, steps)):
            raise InvalidRequestError(
                f"neighbours={shares!r:.80}: give a number from 0 to 1, or one for each step"
            )
        for name in ("surroundings", "without_names"):
            if (value := getattr(self, name)) not in (None, True, False):
                raise InvalidRequestError(f"{name}={value!r:.80}: give True or False")
        boosts = self.boosts
        if isinstance(boosts, str) or not isinstance(boosts, Sequence):
            raise InvalidRequestError(f"boosts={boosts!r:.80}: give a list of boosts")
        for one in boosts:
            if not isinstance(one, Boost) or isinstance(one, type):
                raise InvalidRequestError(
                    f"boosts has {one!r:.80}: give Role(...), Recency(...), or an object with a name, "
                    "a largest and a call"
                )
        n = self.n_candidates
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise InvalidRequestError(f"n_candidates={n!r:.80}: give a whole number, 1 or more")
        if self.reranker is not None and (
            not isinstance(self.reranker, Reranker) or isinstance(self.reranker, type)
        ):
            raise InvalidRequestError(
                f"reranker={self.reranker!r:.80}: give one of LanceDB's rerankers, or an object with "
                "the method rerank_hybrid"
            )
        if self.on_reranker_error not in ("raise", "ignore"):
            raise InvalidRequestError(
                f"on_reranker_error={self.on_reranker_error!r:.80}: give 'raise' or 'ignore'"
            )


@frozen_by_name
class Room:
    """The default ranking of one kind of search."""

    neighbours: Sequence[float] = ()
    preceding: float = 0.0
    coverage: float = 0.0
    speaker: float = 0.0
    questions: float = 0.0
    surroundings: bool = False
    without_names: bool = False

    def with_options(self, options: SearchOptions, mode: SearchMode | None) -> "Room":
        """Return the ranking with the options, in a search with this mode, if given."""
        if options is AS_USUAL and mode in (None, "hybrid"):
            return self
        given = {name: getattr(options, name) for name in _ABSENT_IS_USUAL}
        said = {name: one for name, one in given.items() if one is not None}
        if mode not in (None, "hybrid"):
            # A search of one channel returns only the rows that it found.
            said.setdefault("surroundings", False)
        shares = options.neighbours
        if shares is not None:
            # Explicit shares replace all of the defaults.
            steps = tuple(shares) if isinstance(shares, Sequence) else (shares,)
            said = {"preceding": 0.0, **said, "neighbours": steps}
        return replace(self, **said)

    @property
    def is_lending(self) -> bool:
        """Whether turns gain from their neighbours."""
        return any(self.neighbours) or self.preceding > 0

    @lru_cache(64)  # noqa: B019 - rooms are few, and values
    def boosts(self, *, words_are_handed: bool) -> tuple[Boost, ...]:
        """Return its boosts, depending on whether word scores include preceding turns' words."""
        all_of: list[Boost] = [Neighbours(tuple(self.neighbours))] if any(self.neighbours) else []
        if self.preceding and not words_are_handed:
            all_of += [Preceding(_LENT * self.preceding)]
        all_of += [Speaker(self.speaker)] if self.speaker else []
        all_of += [Questions(self.questions)] if self.questions else []
        return tuple(all_of)


CONVERSATION = Room(
    neighbours=(0.3, 0.2),
    preceding=1.0,
    coverage=0.25,
    speaker=0.2,
    questions=0.25,
    surroundings=True,
    without_names=True,
)
"""Turns answer each other. Weights chosen on long chats between people: benchmarks.recall."""

ALONE = Room()
"""Memories and documents do not."""

_LENT = 0.3
_ABSENT_IS_USUAL = (
    *("preceding", "coverage", "speaker", "questions"),
    *("surroundings", "without_names"),
)


class SearchArguments(TypedDict, total=False):
    """The arguments of every search besides its query; see `AsyncContextStore.search`."""

    vector: Sequence[float] | None
    mode: SearchMode | None
    filter: FilterLike | None
    limit: int
    options: SearchOptions | None


def _is_share(value: object) -> bool:
    return is_number(value) and 0 <= value <= 1


AS_USUAL = SearchOptions()
"""The default options."""
