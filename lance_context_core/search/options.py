"""What a caller may say about a search."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Literal, TypedDict

from lance_context_core._util.checks import is_number
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import InvalidRequestError
from lance_context_core.filters import FilterLike
from lance_context_core.protocols import Reranker, SearchMode
from lance_context_core.search.boosts import Boost, Neighbours, Preceding, Speaker
from lance_context_core.search.fusion import DEFAULT_FUSION, Fusion


@frozen_by_name
class SearchOptions:
    """How a search ranks. Raises InvalidRequestError for what is out of range or of a wrong type."""

    fusion: Fusion = DEFAULT_FUSION
    """How hybrid search makes one score of two channels."""
    neighbours: float | Sequence[float] | None = None
    """In [0, 1]: the share of their scores that the turns before and after lend to a hit.

    Several numbers are the shares of the turns one step away, two steps away, and so on. Absent, it
    is what suits the room: (0.3, 0.2) in conversations, 0 among memories and documents.
    """
    preceding: float | None = None
    """In [0, 1]: how much the words of a short turn count in a short one after it, beside its own.

    Absent, it is 1 in conversations, and 0 elsewhere and where `neighbours` is given. The engine,
    which knows each turn's own words only, lends 0.3 of it of the score by words instead.
    """
    coverage: float | None = None
    """In [0, 1]: the share of what the question's words could score from which on they count in full.

    If the best text by words has a smaller share of it, most of what is asked for was said in other
    words, and the words of hybrid search count less in proportion; 0 counts them always in full.
    Absent, it is 0.25 in conversations, and 0 elsewhere. The engine cannot tell: they count in full.
    """
    speaker: float | None = None
    """In [0, 1]: what the turns of the one speaker gain whom the question names.

    Absent, it is 0.2 in conversations, and 0 elsewhere.
    """
    surroundings: bool | None = None
    """Whether the turns beside what a channel found may be hits, too, though none found them.

    Absent, they are in conversations, unless `mode` names one channel alone. Where a reranker or
    `mmr_lambda` picks, it picks among what the channels found.
    """
    without_names: bool | None = None
    """Whether the speakers whom the question names are left out of what is embedded.

    Absent, they are in conversations: what a speaker said is all near to the name.
    """
    boosts: Sequence[Boost] = ()
    """What else is added to scores: `Role`, `Recency`, `Period`, or your own."""
    n_candidates: int = 50
    """How many candidates each channel contributes at least, 1 or more."""
    reranker: Reranker | None = None
    """Orders the candidates instead of the fusion; scores outside [0, 1] are min-max normalised."""
    on_reranker_error: Literal["raise", "ignore"] = "raise"
    """Whether what the reranker raises is raised, or the search answers as it would without one,
    with a NotRerankedWarning."""
    mmr_lambda: float | None = None
    """In [0, 1]: pick by maximal marginal relevance; 1 is nearness alone, 0 diversity alone."""

    def __post_init__(self) -> None:
        if not callable(self.fusion) or isinstance(self.fusion, type):
            raise InvalidRequestError(
                f"fusion={self.fusion!r:.80}: give Convex(), ReciprocalRank(), or a function of both "
                "channels' scores"
            )
        for name in ("preceding", "coverage", "speaker", "mmr_lambda"):
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
    """What ranks where the options of a search do not say."""

    neighbours: Sequence[float] = ()
    preceding: float = 0.0
    coverage: float = 0.0
    speaker: float = 0.0
    surroundings: bool = False
    without_names: bool = False

    def with_options(self, options: SearchOptions, mode: SearchMode | None) -> "Room":
        """What ranks where they do say, in a search of a mode that was named, or not."""
        if options is AS_USUAL and mode in (None, "hybrid"):
            return self
        given = {name: getattr(options, name) for name in _ABSENT_IS_USUAL}
        said = {name: one for name, one in given.items() if one is not None}
        if mode not in (None, "hybrid"):
            # Who asks for what one channel finds gets what it found.
            said.setdefault("surroundings", False)
        shares = options.neighbours
        if shares is not None:
            # Who says what is lent by the turns around a hit, says all of it.
            steps = tuple(shares) if isinstance(shares, Sequence) else (shares,)
            said = {"preceding": 0.0, **said, "neighbours": steps}
        return replace(self, **said)

    @property
    def is_lending(self) -> bool:
        """Whether turns gain by those around them."""
        return any(self.neighbours) or self.preceding > 0

    @lru_cache(64)  # noqa: B019 - rooms are few, and values
    def boosts(self, *, words_are_handed: bool) -> tuple[Boost, ...]:
        """The boosts of it, where the words of preceding turns are in the word scores, or not."""
        all_of: list[Boost] = [Neighbours(tuple(self.neighbours))] if any(self.neighbours) else []
        if self.preceding and not words_are_handed:
            all_of += [Preceding(_LENT * self.preceding)]
        all_of += [Speaker(self.speaker)] if self.speaker else []
        return tuple(all_of)


CONVERSATION = Room(
    neighbours=(0.3, 0.2),
    preceding=1.0,
    coverage=0.25,
    speaker=0.2,
    surroundings=True,
    without_names=True,
)
"""Turns answer each other. The weights were chosen on long chats between people: benchmarks.recall."""

ALONE = Room()
"""Memories and documents do not."""

_LENT = 0.3
_ABSENT_IS_USUAL = ("preceding", "coverage", "speaker", "surroundings", "without_names")


class SearchArguments(TypedDict, total=False):
    """What every search takes beside its query: `AsyncContextStore.search` says what they mean."""

    vector: Sequence[float] | None
    mode: SearchMode | None
    filter: FilterLike | None
    limit: int
    options: SearchOptions | None


def _is_share(value: object) -> bool:
    return is_number(value) and 0 <= value <= 1


AS_USUAL = SearchOptions()
"""Where none are given."""
