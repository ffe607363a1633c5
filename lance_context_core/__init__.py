"""One memory for AI agents in one directory: conversations, memories and vectors on LanceDB.

Most programs need only this module. `settings` has the options to open, search and maintain a store,
`results` the return types, `arguments` the argument types, `errors` the exceptions; `messages`,
`filters`, `embedders`, `documents`, `graph`, `knowledge`, `tiers`, `window` and `protocols` have the
rest of their subjects, and `adapting` the building blocks of an adapter for a framework.
"""

from lance_context_core.documents.documents import AsyncDocuments
from lance_context_core.embedders import CallableEmbedder, Embedder, LocalEmbedder, as_embedder
from lance_context_core.errors import (
    AlreadyExistsError,
    ConflictError,
    ContextStoreError,
    EmbeddingError,
    InvalidRequestError,
    NotFoundError,
    ReadOnlyError,
    StorageError,
)
from lance_context_core.filters import Field, Filter
from lance_context_core.knowledge.knowledge import AsyncKnowledge
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
    VideoPart,
)
from lance_context_core.store.store import AsyncContextStore
from lance_context_core.stores.history import AsyncHistory
from lance_context_core.stores.key_values import AsyncKeyValues
from lance_context_core.stores.memory import AsyncMemory
from lance_context_core.stores.records.context import AsyncContext
from lance_context_core.stores.sessions import AsyncSessions
from lance_context_core.stores.vectors import AsyncVectors
from lance_context_core.sync import (
    Context,
    ContextStore,
    Documents,
    History,
    KeyValues,
    Knowledge,
    ManagedMemory,
    Memory,
    Sessions,
    Vectors,
)
from lance_context_core.types import (
    ContextRecord,
    Document,
    DocumentScope,
    Item,
    ItemVector,
    Relationship,
    Session,
)

__version__ = "0.1.0"

__all__ = [  # noqa: RUF022 - in the order in which the reference shows them
    # The stores
    "ContextStore",
    "History",
    "Memory",
    "Sessions",
    "Vectors",
    "Documents",
    "KeyValues",
    "Context",
    "Knowledge",
    "ManagedMemory",
    # The stores, for coroutines
    "AsyncContextStore",
    "AsyncHistory",
    "AsyncMemory",
    "AsyncSessions",
    "AsyncVectors",
    "AsyncDocuments",
    "AsyncKeyValues",
    "AsyncContext",
    "AsyncKnowledge",
    # Messages
    "Message",
    "TextPart",
    "ImagePart",
    "AudioPart",
    "VideoPart",
    "FilePart",
    "DataPart",
    "ReasoningPart",
    "ToolCallPart",
    "ToolResultPart",
    # Values
    "ContextRecord",
    "Relationship",
    "Session",
    "Document",
    "DocumentScope",
    "Item",
    "ItemVector",
    # Filters
    "Field",
    "Filter",
    # Embedders
    "Embedder",
    "LocalEmbedder",
    "CallableEmbedder",
    "as_embedder",
    # Errors
    "ContextStoreError",
    "InvalidRequestError",
    "NotFoundError",
    "AlreadyExistsError",
    "ReadOnlyError",
    "ConflictError",
    "EmbeddingError",
    "StorageError",
]
