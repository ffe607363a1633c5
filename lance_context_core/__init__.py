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
from lance_context_core.engine.indexes import (
    IndexPolicy,
)
from lance_context_core.engine.text import (
    TextIndex,
)
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
    MemoryService,
    Reranker,
    SessionStore,
    VectorStore,
)
from lance_context_core.records import (
    Branch,
    ContextRecord,
    Diff,
    Document,
    Page,
    RecordChange,
    Relationship,
    SearchHit,
    Session,
    Version,
    WriteResult,
)
from lance_context_core.store import (
    AsyncContextStore,
    TableUpkeep,
)
from lance_context_core.stores.context import (
    AsyncContext,
)
from lance_context_core.stores.searching import (
    SearchOptions,
)
from lance_context_core.sync import (
    Context,
    ContextStore,
)

__version__ = "0.1.0"

__all__ = [
    "AlreadyExistsError",
    "AsyncCallableEmbedder",
    "AsyncContext",
    "AsyncContextStore",
    "AsyncEmbedder",
    "AudioPart",
    "BlockingCallError",
    "Branch",
    "CallableEmbedder",
    "ChannelScore",
    "Clock",
    "CompactionInProgressError",
    "Composer",
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
    "Embedder",
    "EmbeddingError",
    "EmbeddingModelMismatchError",
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
    "LocalEmbedder",
    "MemoryService",
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
    "SearchHit",
    "SearchOptions",
    "Session",
    "SessionStore",
    "StorageError",
    "StoreClosedError",
    "StoreFormatError",
    "TableUpkeep",
    "TextIndex",
    "TextPart",
    "ToolCallPart",
    "ToolResultPart",
    "UnknownPart",
    "VectorStore",
    "Version",
    "VideoPart",
    "WriteResult",
    "as_embedder",
]
