"""The tiers, their policy, and the results of calls."""

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
    """The form in which an entry is found: verbatim, summary, or fact."""

    HOT = "hot"
    """Found by its own words."""
    WARM = "warm"
    """Found by a summary, its stand-in."""
    COLD = "cold"
    """Found by one fact, its stand-in."""

    def demote(self) -> "Tier | None":
        """The next colder tier; None below the coldest."""
        return _COLDER.get(self)

    def promote(self) -> "Tier | None":
        """The next hotter tier; None above the hottest."""
        return next((hotter for hotter, one in _COLDER.items() if one is self), None)


_COLDER = {Tier.HOT: Tier.WARM, Tier.WARM: Tier.COLD}


class Authority(StrEnum):
    """The authority of an entry: one with less never replaces one with more."""

    EPHEMERAL = "ephemeral"
    """Moves colder by its age alone, regardless of importance."""
    SESSION = "session"
    """Governed by the policy."""
    CANONICAL = "canonical"
    """Stays hot, has no expiry, and requires a `WriteGrant` to write."""

    @property
    def rank(self) -> int:
        """The rank: 0, 1 or 2, higher for more authority."""
        return list(Authority).index(self)


@frozen_by_name
class WriteGrant:
    """The permission to write, change and delete canonical entries: made by `tiers.grant()`.

    It documents an intention; it does not protect the store's files.
    """

    scope: Scope
    """The scope in which it is valid."""


@frozen_by_name
class Weights:
    """The weights of a score's parts; only their shares of the sum count."""

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
    """When entries move colder, and how they are ranked. Raises InvalidRequestError if invalid.

    A hot entry becomes warm if it is older than `hot_retention` and less important than
    `hot_importance`, or, lowest score first, while more than `max_hot` exist, or they
    have more than `max_hot_tokens`. A warm one becomes cold likewise. Never canonical entries, and
    never the last `keep_recent` hot ones of a session.
    """

    hot_retention: timedelta = timedelta(hours=24)
    warm_retention: timedelta = timedelta(hours=168)
    hot_importance: float = 0.3
    """In [0, 1]: entries of this importance, or more, do not become warm by age."""
    warm_importance: float = 0.1
    """In [0, 1]: entries of this importance, or more, do not become cold by age."""
    max_hot: int | None = 1_000
    max_warm: int | None = 5_000
    max_hot_tokens: int | None = None
    """Of all hot texts together, a token for each four characters; None is unbounded."""
    keep_recent: int = 4
    """How many of each session stay hot regardless of their age and number."""
    session_ttl: timedelta | None = None
    """The lifetime of entries that are not canonical, and of their stand-ins; None is forever."""
    half_life: timedelta = timedelta(hours=69.3)
    """The time in which the recency of an unused record halves."""
    weights: Weights = field(default_factory=Weights)
    temporal_boost: float = 0.0
    """In [0, 1]: the extra weight of recency for queries with words such as `latest` or `today`."""
    least_similar: Mapping[Tier, float] = field(
        default_factory=lambda: {Tier.HOT: 2 / 3, Tier.WARM: 0.5, Tier.COLD: 0.25}
    )
    """The least similarity of a hit: 1/(1+d) of .6, .5 and .4, as cosines."""
    enough: float = 0.912
    """An adaptive search stops after a hot hit of more than this similarity."""
    enough_warm: float = 0.786
    """It skips the cold tier after a hit of this similarity."""
    access_interval: timedelta = timedelta(seconds=60)
    """The minimum time between two commits of accesses."""

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
    """An entry of a tier, with its state."""

    id: str
    text: str
    """Verbatim, in every tier."""
    tier: Tier
    importance: float
    authority: Authority
    created_at: datetime
    last_accessed_at: datetime
    """The time of adding, if no search has found it since."""
    access_count: int = 0
    session_id: str | None = None
    role: str | None = None
    name: str | None = None
    expires_at: datetime | None = None
    source_ids: tuple[str, ...] = ()
    """The records that it was made from: erasing these erases it."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The caller's metadata."""


@frozen_by_name
class TierHit:
    """A hit of a search."""

    entry: TierEntry
    """As it was before this search."""
    text: str
    """The found text: its own, or its stand-in."""
    score: float
    """In [0, 1]: the mean of the following and of the entry's importance, by the weights of the
    `TierConfig`; or, if the search is `adaptive`, the similarity alone."""
    similarity: float
    """In [0, 1]: the cosine to the query, or the share of its words, whichever is larger."""
    recency: float
    """In (0, 1]: 1 for an entry accessed just now, half for each half-life since."""

    @property
    def tier(self) -> Tier:
        """The tier of the hit."""
        return self.entry.tier


@own_first
@frozen_by_name
class TierReport(Tried):
    """The changes of one maintenance round, done or planned."""

    expired: tuple[str, ...] = ()
    """The ids of the expired entries: they are deleted, with their stand-ins."""
    warm: tuple[str, ...] = ()
    """The ids of those that became warm, and stayed so."""
    cold: tuple[str, ...] = ()
    """The ids of those that became cold, some of them straight from hot."""


@frozen_by_name
class TierStats:
    """The number of entries of each tier, without expired ones."""

    hot: int = 0
    warm: int = 0
    cold: int = 0

    @property
    def total(self) -> int:
        """The total."""
        return self.hot + self.warm + self.cold


Ranking = Literal["multi_factor", "adaptive"]
"""`multi_factor` searches all tiers, and ranks by similarity, recency and importance; `adaptive`
searches a colder tier if the hotter ones have nothing similar enough, and ranks by similarity alone."""


def check_share(value: object, where: str) -> float:
    """Returns `value` as a number from 0 to 1. Raises InvalidRequestError for another."""
    if not is_number(value) or not 0 <= value <= 1:
        raise InvalidRequestError(f"{where}={shown(value)}: give a number from 0 to 1")
    return float(value)
