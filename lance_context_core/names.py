"""Names of other memory systems, as aliases of classes of this package.

`docs/migration.md` lists the replacement for each call. Aliases are the same classes: their arguments
and results are those of this package.
"""

from lance_context_core.blobs.blobs import AsyncBlobs as InMemoryFileStore
from lance_context_core.coordination.checkpoints import Checkpoint as AgentStateMetadata
from lance_context_core.coordination.checkpoints import FileContext as FileContextManager
from lance_context_core.coordination.locks import LockInfo as LockRecord
from lance_context_core.coordination.locks import LockStats
from lance_context_core.coordination.plan_types import AgentPlan as PlanMetadata
from lance_context_core.coordination.task_types import Task
from lance_context_core.coordination.templates import Template as PlanTemplate
from lance_context_core.documents import Reader as DocumentProcessor
from lance_context_core.documents import TextChunker as ChunkerConfig
from lance_context_core.documents import TextChunker as DocumentChunker
from lance_context_core.embedders import Embedder as EmbeddingClient
from lance_context_core.embedders import LocalEmbedder as EmbeddingProvider
from lance_context_core.graph.graph import AsyncGraph as InMemoryGraphStore
from lance_context_core.messages import Message as ChatMessage
from lance_context_core.protocols import CypherCapable, HistoryProvider, MemoryService, VectorStore
from lance_context_core.stores.history import AsyncHistory as InMemoryHistoryProvider
from lance_context_core.stores.vectors import AsyncVectors as InMemoryVectorStore
from lance_context_core.sync import Checkpoints as AgentStateStore
from lance_context_core.sync import Context, ContextStore, TaskStore, TieredMemory
from lance_context_core.sync import ContextStore as LanceClient
from lance_context_core.sync import Documents as DocumentMetadataStore
from lance_context_core.sync import Documents as DocumentStore
from lance_context_core.sync import History as MessageStore
from lance_context_core.sync import Knowledge as FactStore
from lance_context_core.sync import Knowledge as SummaryStore
from lance_context_core.sync import Locks as LockStore
from lance_context_core.sync import Plans as PlanStore
from lance_context_core.sync import Sessions as ConversationStore
from lance_context_core.sync import ShortTermState as ShortTermMemory
from lance_context_core.sync import TaskBoard as PersistentTaskManager
from lance_context_core.sync import TaskBoard as TaskList
from lance_context_core.sync import TaskStore as GlobalTaskStore
from lance_context_core.sync import Templates as TemplateStore
from lance_context_core.sync import TieredMemory as TierMetadataStore
from lance_context_core.sync.stores import Blobs as BlobStore
from lance_context_core.sync.stores import Graph as EntityStore
from lance_context_core.sync.stores import Graph as GraphStore
from lance_context_core.sync.stores import Graph as RelationshipGraph
from lance_context_core.sync.stores import Images as ImageStore
from lance_context_core.tiers import Authority as MemoryAuthority
from lance_context_core.tiers import Tier as MemoryTier
from lance_context_core.tiers import TierConfig as TieredMemoryConfig
from lance_context_core.tiers import TierEntry as TierMetadata
from lance_context_core.tiers import TierHit as TieredSearchResult
from lance_context_core.tiers import Weights as ScoringWeights
from lance_context_core.tiers import WriteGrant as CanonicalWriteToken
from lance_context_core.types import ContextRecord as MessageMetadata
from lance_context_core.types import DocumentScope, Relationship
from lance_context_core.types import SearchHit as SearchResult
from lance_context_core.types import Session as ConversationMetadata
from lance_context_core.types import SourceDocument as DocumentMetadata
from lance_context_core.window import (
    AgentContext,
    CompactionPipeline,
    CompactionStrategy,
    ContextConfig,
    HistoryRetention,
    SelectiveToolCallCompactionStrategy,
    SlidingWindowCompaction,
    SummarizationCompaction,
    TokenBudgetComposedStrategy,
    ToolResultCompactionStrategy,
    TruncationStrategy,
)

__all__ = [
    "AgentContext",
    "AgentStateMetadata",
    "AgentStateStore",
    "BlobStore",
    "CanonicalWriteToken",
    "ChatMessage",
    "ChunkerConfig",
    "CompactionPipeline",
    "CompactionStrategy",
    "Context",
    "ContextConfig",
    "ContextStore",
    "ConversationMetadata",
    "ConversationStore",
    "CypherCapable",
    "DocumentChunker",
    "DocumentMetadata",
    "DocumentMetadataStore",
    "DocumentProcessor",
    "DocumentScope",
    "DocumentStore",
    "EmbeddingClient",
    "EmbeddingProvider",
    "EntityStore",
    "FactStore",
    "FileContextManager",
    "GlobalTaskStore",
    "GraphStore",
    "HistoryProvider",
    "HistoryRetention",
    "ImageStore",
    "InMemoryFileStore",
    "InMemoryGraphStore",
    "InMemoryHistoryProvider",
    "InMemoryVectorStore",
    "LanceClient",
    "LockRecord",
    "LockStats",
    "LockStore",
    "MemoryAuthority",
    "MemoryService",
    "MemoryTier",
    "MessageMetadata",
    "MessageStore",
    "PersistentTaskManager",
    "PlanMetadata",
    "PlanStore",
    "PlanTemplate",
    "Relationship",
    "RelationshipGraph",
    "ScoringWeights",
    "SearchResult",
    "SelectiveToolCallCompactionStrategy",
    "ShortTermMemory",
    "SlidingWindowCompaction",
    "SummarizationCompaction",
    "SummaryStore",
    "Task",
    "TaskList",
    "TaskStore",
    "TemplateStore",
    "TierMetadata",
    "TierMetadataStore",
    "TieredMemory",
    "TieredMemoryConfig",
    "TieredSearchResult",
    "TokenBudgetComposedStrategy",
    "ToolResultCompactionStrategy",
    "TruncationStrategy",
    "VectorStore",
]
