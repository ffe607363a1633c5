"""What of the facts is worth keeping: scored by what their evidence says, without a model."""

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any, Literal

from lance_context_core._util.checks import is_number, shown
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import InvalidRequestError
from lance_context_core.knowledge import kept
from lance_context_core.knowledge.tidying import Tidying
from lance_context_core.knowledge.values import Prune
from lance_context_core.storage import sql
from lance_context_core.stores.records.scoped import WITHOUT_BLOB, Records
from lance_context_core.types import ContextRecord

CandidateLevel = Literal["promote", "retain", "prune"]
"""`promote`: it scores high. `prune`: `Prune()` would hide it. `retain`: all others."""


@frozen_by_name
class CandidateWeights:
    """What a fact's score is the mean of; only the shares of the first four in their sum count.

    Raises InvalidRequestError for what cannot be.
    """

    activity: float = 0.1
    """Of how often it was said: 1 - 1 / the number of turns that say so."""
    importance: float = 0.5
    """Of what its extractor gave it."""
    reusability: float = 0.1
    """Of in how many conversations it counted: 1 - 1 / the number of sessions that say so."""
    recency: float = 0.3
    """Of how long ago it was said last: halved by each `half_life`."""
    half_life: timedelta = timedelta(hours=69.3)
    promote_from: float = 0.6
    """In [0, 1]: the score from which on a fact is worth more than to be kept."""

    def __post_init__(self) -> None:
        for name, value in self._shares().items():
            if not is_number(value) or value < 0:
                raise InvalidRequestError(f"{name}={shown(value)}: give a weight of 0 or more")
        if not sum(self._shares().values()):
            raise InvalidRequestError("all weights are 0: give one above 0")
        if not isinstance(self.half_life, timedelta) or self.half_life <= timedelta(0):
            raise InvalidRequestError(
                f"half_life={shown(self.half_life)}: give a timedelta above 0"
            )
        if not is_number(self.promote_from) or not 0 <= self.promote_from <= 1:
            raise InvalidRequestError(
                f"promote_from={shown(self.promote_from)}: give a number from 0 to 1"
            )

    def _shares(self) -> dict[str, float]:
        return {one.name: getattr(self, one.name) for one in fields(self)[:4]}

    def mean(self, parts: dict[str, float]) -> float:
        """The score of a fact of which these are the parts, each in [0, 1]."""
        shares = self._shares()
        return sum(shares[name] * parts[name] for name in shares) / sum(shares.values())


@frozen_by_name
class ScoredFact:
    """A current fact, what it is worth, and why."""

    record: ContextRecord
    level: CandidateLevel
    score: float
    """In [0, 1], as are the parts that it is the mean of."""
    activity: float
    importance: float
    reusability: float
    recency: float


async def candidates(
    made: Records, tidying: Tidying, weights: CandidateWeights | None
) -> list[ScoredFact]:
    """The current facts, those of the highest score first."""
    if weights is None:
        weights = CandidateWeights()
    if not isinstance(weights, CandidateWeights):
        raise InvalidRequestError(f"weights={shown(weights)}: pass CandidateWeights")
    hidden = {*(await tidying.pruning(Prune())).input_ids}
    where = made.where(sql.equals("kind", kept.FACT))
    found = await made.read(where, columns=WITHOUT_BLOB)
    scored = [_scored(one, weights, made.now(), is_dull=one.id in hidden) for one in found]
    return sorted(scored, key=lambda one: -one.score)


def _scored(
    one: ContextRecord, weights: CandidateWeights, now: datetime, *, is_dull: bool
) -> ScoredFact:
    evidence = kept.evidence(one)
    age = max((now - one.created_at) / weights.half_life, 0.0)
    parts = {
        "activity": _beyond_the_first([proof.source_id for proof in evidence]),
        "importance": float(one.metadata["importance"]),
        "reusability": _beyond_the_first([proof.session_id for proof in evidence]),
        "recency": 0.5**age,
    }
    score = weights.mean(parts)
    level: CandidateLevel = "promote" if score >= weights.promote_from else "retain"
    return ScoredFact(record=one, level="prune" if is_dull else level, score=score, **parts)


def _beyond_the_first(named: Sequence[Any]) -> float:
    return 1 - 1 / max(len({*named}), 1)
