"""Boosts: additions to the score of a candidate besides the channels' scores.

Each part is a `Boost`: a name, the most that it adds, and a function of the query and of all
candidates. A search adds the boosts, and lists them in `SearchHit.why`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from lance_context_core._util.checks import check_time, is_number
from lance_context_core._util.frozen import frozen, frozen_by_name
from lance_context_core.errors import InvalidRequestError
from lance_context_core.text.analysis import is_short
from lance_context_core.text.queries import named, periods
from lance_context_core.types import ChannelScore


class Turn(NamedTuple):
    """The fields of a candidate's turn; all None for a document."""

    name: str | None = None
    role: str | None = None
    created_at: datetime | None = None
    text: str | None = None


class Candidate(NamedTuple):
    """A possible hit."""

    score: float
    """In [0, 1], from the channels alone; 0 for a turn that none found."""
    vector: ChannelScore | None
    """None if the vector channel did not find it."""
    text: ChannelScore | None
    """None if the text channel did not find it."""
    turn: Turn
    previous: str | None
    """The key of the previous turn in its session, if that is a candidate, too."""


@runtime_checkable
class Boost(Protocol):
    """An addition to the score, independent of the channels.

    Any object of this shape works in `SearchOptions(boosts=[...])`.
    """

    @property
    def name(self) -> str:
        """Its name in `SearchHit.why`."""

    @property
    def largest(self) -> float:
        """Its maximum: above 0, where 1 is the maximum of the channels."""

    def __call__(
        self, question: str | None, candidates: Mapping[str, Candidate], /
    ) -> Mapping[str, float]:
        """Return the gain of each candidate, in [0, largest], by key; absent keys gain nothing.

        `question` is None if only a vector was given. A boost that returns an empty result does not
        count in the scale of the scores.
        """


@frozen
class Neighbours:
    """Adds shares of the scores of neighbouring turns in the session.

    The first share is for turns one step away, the second for those two steps away, and so on. Of
    several turns that follow the same one, the best counts.
    """

    shares: Sequence[float] = (0.3, 0.2)
    name: str = field(default="neighbours", init=False)

    def __post_init__(self) -> None:
        for share in self.shares:
            if not (is_number(share) and 0 <= share <= 1):
                raise InvalidRequestError(
                    f"neighbours={share!r:.80}: give a number from 0 (off) to 1, or one for each step"
                )

    @property
    def largest(self) -> float:
        """Twice the sum of the shares: before and after."""
        return 2 * sum(self.shares)

    def __call__(
        self, _question: str | None, candidates: Mapping[str, Candidate], /
    ) -> dict[str, float]:
        """Return the shares of the neighbours' channel scores."""
        numbers = {key: number for number, key in enumerate(candidates)}
        every = candidates.values()
        before = [-1 if one.previous is None else numbers.get(one.previous, -1) for one in every]
        scores = np.array([one.score for one in every], float)
        given = lent(self.shares, scores, np.array(before, np.int64))
        return dict(zip(candidates, given.tolist(), strict=True))


@frozen
class Preceding:
    """A short turn passes its matching words on to a short turn after it.

    Adds `share` times the excess of the previous turn's word score over the turn's own. If both
    texts are in memory, their words are counted together, which is better.
    """

    share: float = 0.3
    name: str = field(default="preceding", init=False)

    @property
    def largest(self) -> float:
        """The share: word scores are in [0, 1]."""
        return self.share

    def __call__(
        self, _question: str | None, candidates: Mapping[str, Candidate], /
    ) -> dict[str, float]:
        """Return the gains above 0."""
        gains = {}
        for key, one in candidates.items():
            before = candidates.get(one.previous) if one.previous is not None else None
            if before is None or before.text is None or one.previous == key:
                continue
            more = before.text.normalised - (one.text.normalised if one.text else 0.0)
            if more > 0 and is_short(before.turn.text) and is_short(one.turn.text):
                gains[key] = self.share * more
        return gains


@frozen
class _Weighted:
    weight: float

    @property
    def largest(self) -> float:
        """The weight."""
        return self.weight


@frozen
class Speaker(_Weighted):
    """Turns gain if the query names their speaker, and only that one."""

    weight: float = 0.2
    name: str = field(default="speaker", init=False)

    def __call__(
        self, question: str | None, candidates: Mapping[str, Candidate], /
    ) -> dict[str, float]:
        """Return the weight for each turn of that speaker."""
        whom = self.whom(question, [one.turn.name for one in candidates.values()])
        if whom is None:
            return {}
        return {key: self.weight for key, one in candidates.items() if one.turn.name == whom}

    def whom(self, question: str | None, names: Collection[str | None]) -> str | None:
        """Return the only one of `names` in the query; None if none or several."""
        known = {name for name in names if name}
        meant = named(question, known) if question and known else set()
        return meant.pop() if len(meant) == 1 else None


_MARKS = ("?", "\uff1f", "\u061f")
"""Question marks, of Chinese and Arabic too."""


@frozen
class Questions:
    """Turns that end with a question lose a share of their score: they seldom have the answer.

    What a user without a name asks an assistant keeps its score: it says what it is about.
    """

    share: float = 0.25
    name: str = field(default="questions", init=False)

    @property
    def largest(self) -> float:
        """0: it adds nothing."""
        return 0.0

    def __call__(
        self, _question: str | None, _candidates: Mapping[str, Candidate], /
    ) -> dict[str, float]:
        """Return nothing: see `kept`."""
        return {}

    def kept(self, turns: Iterable[tuple[str | None, str | None, str | None]]) -> np.ndarray:
        """Return the kept share of each turn's score, by its text, role and name."""
        asks = [
            text is not None
            and role is not None
            and (role != "user" or bool(name))
            and text.rstrip().endswith(_MARKS)
            for text, role, name in turns
        ]
        return 1.0 - self.share * np.array(asks, float)


@frozen
class Role:
    """Turns of a role gain its weight: `Role({"user": 0.2})`.

    Useful if the evidence is mostly in one role, for example in users' messages to an assistant.
    """

    weights: Mapping[str, float]
    name: str = field(default="role", init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.weights, Mapping) or not self.weights:
            raise InvalidRequestError(f"weights={self.weights!r:.80}: give weights by role")
        for role, weight in self.weights.items():
            _check_weight(weight, f"weights[{role!r:.40}]")

    @property
    def largest(self) -> float:
        """The largest weight."""
        return max(self.weights.values())

    def __call__(
        self, _question: str | None, candidates: Mapping[str, Candidate], /
    ) -> dict[str, float]:
        """Return the weight of each candidate's role."""
        weights = self.weights
        return {
            key: weights[role]
            for key, one in candidates.items()
            if (role := one.turn.role) in weights and role is not None
        }


@frozen_by_name
class Recency(_Weighted):
    """Younger candidates gain: the youngest `weight`, halved by each `half_life`."""

    weight: float = 0.1
    half_life: timedelta = timedelta(days=30)
    name: str = field(default="recency", init=False)

    def __post_init__(self) -> None:
        _check_weight(self.weight, "weight")
        if not isinstance(self.half_life, timedelta) or self.half_life <= timedelta():
            raise InvalidRequestError(f"half_life={self.half_life!r:.80}: give a timedelta above 0")

    def __call__(
        self, _question: str | None, candidates: Mapping[str, Candidate], /
    ) -> dict[str, float]:
        """Return the gain by age, relative to the youngest candidate."""
        times = {key: one.turn.created_at for key, one in candidates.items()}
        said = {key: moment for key, moment in times.items() if moment is not None}
        newest = max(said.values(), default=None)
        return {
            key: self.weight * 0.5 ** ((newest - moment) / self.half_life)
            for key, moment in said.items()
            if newest is not None
        }


@frozen_by_name
class Period(_Weighted):
    """Turns from a period that an English query names gain `weight`.

    Such as `last week`, `three days ago`, `in May`, `at the end of June 2025`, `on 3 March`. The
    first of several periods counts; of months and seasons without a year the last ones with
    messages.
    """

    weight: float = 0.5
    asked_at: datetime | None = None
    """The moment for `last week`; by default the store's clock. Requires a time zone."""
    name: str = field(default="period", init=False)

    def __post_init__(self) -> None:
        _check_weight(self.weight, "weight")
        if self.asked_at is not None:
            object.__setattr__(self, "asked_at", check_time(self.asked_at, "asked_at"))

    def __call__(
        self, question: str | None, candidates: Mapping[str, Candidate], /
    ) -> dict[str, float]:
        """Return the weight for all turns of that period; nothing without a period."""
        times = {key: one.turn.created_at for key, one in candidates.items()}
        for period in periods(question or "", self.asked_at or datetime.now(UTC)):
            within = [key for key, at in times.items() if at and period.start <= at < period.end]
            if within:
                return dict.fromkeys(within, self.weight)
        return {}


def asked(boost: Boost, now: datetime) -> Boost:
    """Return the boost for a query at this moment."""
    if type(boost) is Period and boost.asked_at is None:
        return replace(boost, asked_at=now)
    return boost


def lent(shares: Sequence[float], scores: np.ndarray, previous: np.ndarray) -> np.ndarray:
    """Return the shares that neighbours add to each turn: see `Neighbours`.

    `scores` are of the turns by number, `previous` is the number of the previous turn, or -1.
    """
    given, itself = np.zeros(len(scores)), np.arange(len(scores))
    before = previous
    for share in shares:
        later = ((before >= 0) & (before != itself)).nonzero()[0]
        earlier = before[later]
        given[later] += share * scores[earlier]
        best = np.zeros(len(scores))
        np.maximum.at(best, earlier, scores[later])
        given += share * best
        before = np.where(before >= 0, previous[before], -1)
    return given


def _check_weight(weight: object, what: str) -> None:
    if not (is_number(weight) and 0 < weight <= 1):
        raise InvalidRequestError(f"{what}={weight!r:.80}: give a number above 0, at most 1")
