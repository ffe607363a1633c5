"""One memory for AI agents in one directory: conversations, memories and vectors on LanceDB."""

from lance_context_core.composition import (
    Composer,
)
from lance_context_core.embedders import (
    AsyncCallableEmbedder,
    AsyncEmbedder,
    CallableEmbedder,
    Embedder,
    LocalEmbedder,
    as_embedder,
)
from lance_context_core.engine.durability import Durability
from lance_context_core.engine.indexes import (
    IndexPolicy,
)
from lance_context_core.engine.retention import VersionRetention
from lance_context_core.engine.text import (
    TextIndex,
)
from lance_context_core.engine.tiers import TierPolicy
from lance_context_core.errors import (
    AlreadyExistsError,
    BlockingCallError,
    CompactionInProgressError,
    ConflictError,
    ContextStoreError,
    DimensionMismatchError,
    EmbeddingError,
    EmbeddingModelMismatchError,
    FilterError,
    InternalError,
    InvalidRequestError,
    MissingExtraError,
    NotFoundError,
    ReadOnlyError,
    StorageError,
    StoreClosedError,
    StoreFormatError,
)
from lance_context_core.filters import (
    Field,
    Filter,
)
from lance_context_core.fusion import (
    ChannelScore,
    Convex,
    Fusion,
    ReciprocalRank,
)
from lance_context_core.messages import (
    AudioPart,
    DataPart,
    FilePart,
    ImagePart,
    Message,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
    VideoPart,
)
from lance_context_core.protocols import (
    Clock,
    HistoryProvider,
    ItemKey,
    ItemOrder,
    KeyValueStore,
    MemoryService,
    Reranker,
    SessionStore,
    VectorStore,
)
from lance_context_core.records import (
    Branch,
    Conflict,
    ContextRecord,
    Diff,
    Document,
    Erasure,
    Item,
    ItemsAppended,
    ItemsWritten,
    ItemVector,
    MergeReport,
    Page,
    RecordChange,
    Relationship,
    Resolution,
    SearchHit,
    Session,
    TableMerge,
    Version,
    WriteResult,
)
from lance_context_core.store import (
    AsyncContextStore,
)
from lance_context_core.stores.context import (
    AsyncContext,
)
from lance_context_core.stores.keyvalues import AsyncKeyValues
from lance_context_core.stores.searching import (
    SearchOptions,
)
from lance_context_core.stores.thinning import Thinned, ThinnedTable
from lance_context_core.stores.upkeep import Maintenance, StoreStats, TableStats, TableUpkeep
from lance_context_core.sync import (
    Context,
    ContextStore,
    KeyValues,
)

__version__ = "0.1.0"

__all__ = [
    "AlreadyExistsError",
    "AsyncCallableEmbedder",
    "AsyncContext",
    "AsyncContextStore",
    "AsyncEmbedder",
    "AsyncKeyValues",
    "AudioPart",
    "BlockingCallError",
    "Branch",
    "CallableEmbedder",
    "ChannelScore",
    "Clock",
    "CompactionInProgressError",
    "Composer",
    "Conflict",
    "ConflictError",
    "Context",
    "ContextRecord",
    "ContextStore",
    "ContextStoreError",
    "Convex",
    "DataPart",
    "Diff",
    "DimensionMismatchError",
    "Document",
    "Durability",
    "Embedder",
    "EmbeddingError",
    "EmbeddingModelMismatchError",
    "Erasure",
    "Field",
    "FilePart",
    "Filter",
    "FilterError",
    "Fusion",
    "HistoryProvider",
    "ImagePart",
    "IndexPolicy",
    "InternalError",
    "InvalidRequestError",
    "Item",
    "ItemKey",
    "ItemOrder",
    "ItemVector",
    "ItemsAppended",
    "ItemsWritten",
    "KeyValueStore",
    "KeyValues",
    "LocalEmbedder",
    "Maintenance",
    "MemoryService",
    "MergeReport",
    "Message",
    "MissingExtraError",
    "NotFoundError",
    "Page",
    "ReadOnlyError",
    "ReasoningPart",
    "ReciprocalRank",
    "RecordChange",
    "Relationship",
    "Reranker",
    "Resolution",
    "SearchHit",
    "SearchOptions",
    "Session",
    "SessionStore",
    "StorageError",
    "StoreClosedError",
    "StoreFormatError",
    "StoreStats",
    "TableMerge",
    "TableStats",
    "TableUpkeep",
    "TextIndex",
    "TextPart",
    "Thinned",
    "ThinnedTable",
    "TierPolicy",
    "ToolCallPart",
    "ToolResultPart",
    "UnknownPart",
    "VectorStore",
    "Version",
    "VersionRetention",
    "VideoPart",
    "WriteResult",
    "as_embedder",
]
