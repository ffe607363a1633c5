"""A memory in three tiers: in its own words, as summaries, and as facts; ruled by a policy."""

from lance_context_core.tiers.moving import Summarise
from lance_context_core.tiers.tiers import AsyncTieredMemory
from lance_context_core.tiers.types import (
    Authority,
    Ranking,
    Tier,
    TierConfig,
    TierEntry,
    TierHit,
    TierReport,
    TierStats,
    Weights,
    WriteGrant,
)

__all__ = [  # noqa: RUF022 - in the order in which the reference shows them
    # The memory in tiers, for coroutines
    "AsyncTieredMemory",
    # What is kept
    "Tier",
    "Authority",
    "TierEntry",
    "WriteGrant",
    # The policy
    "TierConfig",
    "Weights",
    "Summarise",
    # What calls return
    "Ranking",
    "TierHit",
    "TierReport",
    "TierStats",
]
