"""Windows: the messages sent to a model, within a token budget.

`store.assemble` makes one from `Section`s. A dialect has a provider's rules; `groups_of` splits a
conversation into groups that are kept or dropped as one.
"""

from lance_context_core.window.compaction.context import (
    AgentContext,
    AgentRun,
    ContextConfig,
    HistoryRetention,
    for_context_window,
)
from lance_context_core.window.compaction.plans import (
    Action,
    CompactionStrategy,
    Entry,
    Plan,
    Summariser,
)
from lance_context_core.window.compaction.strategies import (
    CompactionPipeline,
    SelectiveToolCallCompactionStrategy,
    SlidingWindowCompaction,
    SummarizationCompaction,
    TokenBudgetComposedStrategy,
    ToolResultCompactionStrategy,
    TruncationStrategy,
)
from lance_context_core.window.counting import (
    Budget,
    CallableTokenCounter,
    HeuristicTokenCounter,
    Measure,
    TiktokenCounter,
    TokenCounter,
)
from lance_context_core.window.groups import Group, Grouped, GroupKind, groups_of
from lance_context_core.window.params import KeptWindow, Seen
from lance_context_core.window.providers import DIALECTS, DialectName, dialect
from lance_context_core.window.providers.common import Dialect, Violation
from lance_context_core.window.sections import (
    DocumentsSection,
    FactsSection,
    HistorySection,
    Offer,
    PinnedSection,
    Placement,
    ProfileSection,
    RecallSection,
    Section,
    Snippet,
    SystemSection,
)
from lance_context_core.window.sources import Place, Sources
from lance_context_core.window.summaries import SummarySection
from lance_context_core.window.window import (
    Citation,
    Cited,
    Outcome,
    Report,
    Verdict,
    Window,
    WindowDiff,
)
from lance_context_core.window.window_builder import AssembleArguments

__all__ = [  # noqa: RUF022 - in the order in which the reference shows them
    # Parts of a window
    "Budget",
    "Section",
    "SystemSection",
    "PinnedSection",
    "ProfileSection",
    "SummarySection",
    "HistorySection",
    "RecallSection",
    "FactsSection",
    "DocumentsSection",
    # Custom sections
    "Offer",
    "Snippet",
    "Sources",
    "Place",
    "Placement",
    # The window
    "Window",
    "Report",
    "Outcome",
    "Verdict",
    "Citation",
    "Cited",
    "WindowDiff",
    # Stored windows
    "KeptWindow",
    "Seen",
    # Compaction
    "CompactionStrategy",
    "CompactionPipeline",
    "SlidingWindowCompaction",
    "ToolResultCompactionStrategy",
    "SelectiveToolCallCompactionStrategy",
    "SummarizationCompaction",
    "Summariser",
    "TruncationStrategy",
    "TokenBudgetComposedStrategy",
    "for_context_window",
    "Plan",
    "Entry",
    "Action",
    # Agent context
    "AgentContext",
    "ContextConfig",
    "AgentRun",
    "HistoryRetention",
    # Dialects
    "DIALECTS",
    "Dialect",
    "DialectName",
    "dialect",
    "Violation",
    # Groups
    "Group",
    "GroupKind",
    "Grouped",
    "groups_of",
    # Tokens
    "TokenCounter",
    "HeuristicTokenCounter",
    "TiktokenCounter",
    "CallableTokenCounter",
    "Measure",
    # Arguments
    "AssembleArguments",
]
