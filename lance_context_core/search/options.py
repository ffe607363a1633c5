"""What a caller may say about a search."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TypedDict

from lance_context_core.errors import InvalidRequestError
from lance_context_core.filters import FilterLike
from lance_context_core.protocols import Reranker, SearchMode
from lance_context_core.search.fusion import DEFAULT_FUSION, Fusion


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """How a search ranks. Raises InvalidRequestError for what is out of range or of a wrong type."""

    fusion: Fusion = DEFAULT_FUSION
    """How hybrid search makes one score of two channels."""
    neighbours: float | None = None
    """In [0, 1]: the share of their scores that the turns before and after lend to a hit.

    Absent, it is what suits the room: 0.3 in conversations, 0 among memories and documents.
    """
    n_candidates: int = 50
    """How many candidates each channel contributes at least, 1 or more."""
    reranker: Reranker | None = None
    """Orders the candidates instead of the fusion; scores outside [0, 1] are min-max normalised."""
    mmr_lambda: float | None = None
    """In [0, 1]: pick by maximal marginal relevance; 1 is nearness alone, 0 diversity alone."""

    def __post_init__(self) -> None:
        if not callable(self.fusion) or isinstance(self.fusion, type):
            raise InvalidRequestError(
                f"fusion={self.fusion!r:.80}: give Convex(), ReciprocalRank(), or a function of both "
                "channels' scores"
            )
        for name in ("neighbours", "mmr_lambda"):
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and 0 <= value <= 1):
                raise InvalidRequestError(f"{name}={value!r:.80}: give a number from 0 to 1")
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


class SearchArguments(TypedDict, total=False):
    """What every search takes beside its query: `AsyncContextStore.search` says what they mean."""

    vector: Sequence[float] | None
    mode: SearchMode | None
    filter: FilterLike | None
    limit: int
    options: SearchOptions | None


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
