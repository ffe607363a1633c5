"""What boosts add to the scores of all candidates: the usual ones over arrays, others one by one."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from lance_context_core.errors import InvalidRequestError
from lance_context_core.search.boosts import Boost, Candidate, Neighbours, Speaker, lent
from lance_context_core.search.candidates import Candidates
from lance_context_core.search.placed import OURS


def gains(
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
