"""One memory for AI agents in one directory: conversations, memories and vectors on LanceDB."""

from lance_context_core.composition import Composer
from lance_context_core.embedders import (
    AsyncEmbedder,
    CallableEmbedder,
    Embedder,
    LocalEmbedder,
    as_embedder,
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
from lance_context_core.store import AsyncContextStore
from lance_context_core.stores.context import AsyncContext
from lance_context_core.sync import Context, ContextStore
