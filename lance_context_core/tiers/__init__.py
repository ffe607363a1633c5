"""Memory in three tiers: verbatim, as summaries, and as facts; governed by a policy."""

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
    # The memory in tiers, asynchronous
    "AsyncTieredMemory",
    # Entries
    "Tier",
    "Authority",
    "TierEntry",
    "WriteGrant",
    # The policy
    "TierConfig",
    "Weights",
    "Summarise",
    # Results
    "Ranking",
    "TierHit",
    "TierReport",
    "TierStats",
]
