"""Pipelines that suit most: by what a model takes, and by how much of it a conversation may fill."""

from lance_context_core.window.compaction.plans import CompactionStrategy
from lance_context_core.window.compaction.strategies import (
    SelectiveToolCallCompactionStrategy,
    SummarizationCompaction,
    TokenBudgetComposedStrategy,
    ToolResultCompactionStrategy,
)
from lance_context_core.window.compaction.summarising import Summariser


def for_context_window(
    context_window: int,
    *,
    reserve_output: int = 0,
    trigger: float = 0.8,
    target: float = 0.6,
    summariser: Summariser | None = None,
) -> TokenBudgetComposedStrategy:
    """Old results are cut, old calls dropped, the rest summarised if there is a summariser.

    It acts once a conversation exceeds `trigger` of what the model takes beside its answer, and goes on
    down to `target` of that.
    """
    room = context_window - reserve_output
    strategies: list[CompactionStrategy] = [
        ToolResultCompactionStrategy(1_500),
        SelectiveToolCallCompactionStrategy(5),
    ]
    if summariser is not None:
        recent = int(room * target / 2)
        strategies.append(SummarizationCompaction(summariser, recent_token_budget=recent))
    return TokenBudgetComposedStrategy(
        strategies, max(1, int(room * trigger)), target_ratio=min(1.0, target / trigger)
    )
