"""What the tiers are, how they are ruled, and what their verbs answer with."""

from collections.abc import Mapping
from dataclasses import field, fields
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal

from lance_context_core._util.checks import is_number, shown
from lance_context_core._util.frozen import frozen_by_name, own_first
from lance_context_core.errors import InvalidRequestError
from lance_context_core.scope import Scope
from lance_context_core.types.answers import Tried
from lance_context_core.types.records import Owned


class Tier(StrEnum):
    """How near at hand a thing is kept: in its own words, as a summary, or as one fact."""

    HOT = "hot"
    """Found by its own words."""
    WARM = "warm"
    """Found by a summary, which stands in for it."""
    COLD = "cold"
    """Found by one fact, which stands in for it."""

    def demote(self) -> "Tier | None":
        """The next colder tier; None below the coldest."""
        return _COLDER.get(self)

    def promote(self) -> "Tier | None":
        """The next hotter tier; None above the hottest."""
        return next((hotter for hotter, one in _COLDER.items() if one is self), None)


_COLDER = {Tier.HOT: Tier.WARM, Tier.WARM: Tier.COLD}


class Authority(StrEnum):
    """How much a thing counts: what has less never takes the place of what has more."""

    EPHEMERAL = "ephemeral"
    """Goes colder by its age alone, however important it is."""
    SESSION = "session"
    """As the policy says."""
    CANONICAL = "canonical"
    """Stays hot, is given no end, and is written by who has a `WriteGrant`."""

    @property
    def rank(self) -> int:
        """0, 1 or 2: how much it counts."""
        return list(Authority).index(self)


@frozen_by_name
class WriteGrant:
    """The permission to write, change and remove what is canonical: made by `tiers.grant()`.

    It records the intention; it does not protect the store's files.
    """

    scope: Scope
    """Within which it counts."""


@frozen_by_name
class Weights:
    """What a score is the mean of; only their shares of the sum count."""

    similarity: float = 0.5
    recency: float = 0.3
    importance: float = 0.2

    def __post_init__(self) -> None:
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        for name, value in given.items():
            if not is_number(value) or value < 0:
                raise InvalidRequestError(f"{name}={shown(value)}: give a weight of 0 or more")
        if not sum(given.values()):
            raise InvalidRequestError("all weights are 0: give one above 0")


@frozen_by_name
class TierConfig:
    """When things go colder, and how they are ranked. Raises InvalidRequestError for what cannot be.

    What is hot goes warm when it is older than `hot_retention` and less important than
    `hot_importance`, or, the least worth keeping first, while there are more than `max_hot`, or they
    have more than `max_hot_tokens`. What is warm goes cold alike. Never what is canonical, and never
    the last `keep_recent` hot ones of a session.
    """

    hot_retention: timedelta = timedelta(hours=24)
    warm_retention: timedelta = timedelta(hours=168)
    hot_importance: float = 0.3
    """In [0, 1]: what is as important, or more, does not go warm by its age."""
    warm_importance: float = 0.1
    """In [0, 1]: what is as important, or more, does not go cold by its age."""
    max_hot: int | None = 1_000
    max_warm: int | None = 5_000
    max_hot_tokens: int | None = None
    """Of the hot texts together, a token for each four characters; None is without a bound."""
    keep_recent: int = 4
    """So many of each session stay hot whatever their age, and however many there are."""
    session_ttl: timedelta | None = None
    """After which what is not canonical ends, with all that stands in for it; None is never."""
    half_life: timedelta = timedelta(hours=69.3)
    """In which the recency of an unused record becomes half."""
    weights: Weights = field(default_factory=Weights)
    temporal_boost: float = 0.0
    """In [0, 1]: what recency weighs more where a question has words such as `latest` or `today`."""
    least_similar: Mapping[Tier, float] = field(
        default_factory=lambda: {Tier.HOT: 2 / 3, Tier.WARM: 0.5, Tier.COLD: 0.25}
    )
    """What is less similar is no hit: 1/(1+d) of .6, .5 and .4, said as cosines."""
    enough: float = 0.912
    """An adaptive search whose best hot hit is more similar than this looks no further."""
    enough_warm: float = 0.786
    """And one whose best hit so far is as similar as this looks at nothing cold."""
    access_interval: timedelta = timedelta(seconds=60)
    """Accesses are written in one commit, at most once in so long."""

    def __post_init__(self) -> None:
        for name in ("hot_retention", "warm_retention", "session_ttl", "access_interval"):
            value = getattr(self, name)
            if name == "session_ttl" and value is None:
                continue
            if not isinstance(value, timedelta) or value < timedelta(0):
                raise InvalidRequestError(f"{name}={shown(value)}: give a timedelta of 0 or more")
        if not isinstance(self.half_life, timedelta) or self.half_life <= timedelta(0):
            raise InvalidRequestError(f"half_life={shown(self.half_life)}: give one above 0")
        shares = ("hot_importance", "warm_importance", "temporal_boost", "enough", "enough_warm")
        for name in shares:
            check_share(getattr(self, name), name)
        for name in ("max_hot", "max_warm", "max_hot_tokens", "keep_recent"):
            most = getattr(self, name)
            if most is None and name != "keep_recent":
                continue
            if isinstance(most, bool) or not isinstance(most, int) or most < 0:
                raise InvalidRequestError(f"{name}={shown(most)}: give a count of 0 or more")
        if not isinstance(self.weights, Weights):
            raise InvalidRequestError(f"weights={shown(self.weights)}: give Weights(...)")
        given = self.least_similar
        if not isinstance(given, Mapping) or set(given) != set(Tier):
            raise InvalidRequestError(
                f"least_similar={shown(given)}: give a number for each of hot, warm and cold"
            )
        for tier, least in given.items():
            check_share(least, f"least_similar[{tier!s}]")


@own_first
@frozen_by_name
class TierEntry(Owned):
    """A thing that is kept in a tier, and what is known of it."""

    id: str
    text: str
    """In its own words, whatever its tier."""
    tier: Tier
    importance: float
    authority: Authority
    created_at: datetime
    last_accessed_at: datetime
    """When it was added, if no search has found it since."""
    access_count: int = 0
    session_id: str | None = None
    role: str | None = None
    name: str | None = None
    expires_at: datetime | None = None
    source_ids: tuple[str, ...] = ()
    """The records that it was made of: who erases these, erases it."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The caller's own."""


@frozen_by_name
class TierHit:
    """What a search found."""

    entry: TierEntry
    """As it was before this search."""
    text: str
    """What was found: its own words, or what stands in for it."""
    score: float
    """In [0, 1]: the mean of the following and of the entry's importance, by the weights of the
    `TierConfig`; or, where the search is `adaptive`, the similarity alone."""
    similarity: float
    """In [0, 1]: the cosine to the question, or the share of its words, whichever is more."""
    recency: float
    """In (0, 1]: 1 for what was accessed just now, half for each half-life since."""

    @property
    def tier(self) -> Tier:
        """Where it was found."""
        return self.entry.tier


@own_first
@frozen_by_name
class TierReport(Tried):
    """What one round of maintenance did, or in a dry run would do."""

    expired: tuple[str, ...] = ()
    """The ids of those that had come to their end: they are gone, with what stood in for them."""
    warm: tuple[str, ...] = ()
    """The ids of those that went warm, and stayed so."""
    cold: tuple[str, ...] = ()
    """The ids of those that went cold, some of them straight from hot."""


@frozen_by_name
class TierStats:
    """How many there are of each tier, of what has not come to its end."""

    hot: int = 0
    warm: int = 0
    cold: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.hot + self.warm + self.cold


Ranking = Literal["multi_factor", "adaptive"]
"""`multi_factor` asks all tiers, and ranks by similarity, recency and importance; `adaptive` asks a
colder tier where the hotter ones have nothing similar enough, and ranks by similarity alone."""


def check_share(value: object, where: str) -> float:
    """`value` as a number from 0 to 1. Raises InvalidRequestError for another."""
    if not is_number(value) or not 0 <= value <= 1:
        raise InvalidRequestError(f"{where}={shown(value)}: give a number from 0 to 1")
    return float(value)
