"""What the store promises, and what its callers bring.

The promises (`HistoryProvider`, `SessionStore`, `VectorStore`, `MemoryService`, `KeyValueStore`, `BlobStore`,
`GraphStore`) are asynchronous; the blocking counterparts have the same names and parameters. `lance_context_testing`
has for each of them a class of tests that is written against the protocol alone.
"""

from lance_context_core.protocols.blobs import BlobStore
from lance_context_core.protocols.brought import Clock, Reranker
from lance_context_core.protocols.conversations import HistoryProvider, SessionStore
from lance_context_core.protocols.graph import CypherCapable, GraphStore
from lance_context_core.protocols.keyvalues import (
    ItemConditions,
    ItemKey,
    ItemListing,
    ItemOrder,
    KeyValueStore,
)
from lance_context_core.protocols.searched import MemoryService, SearchMode, VectorStore

__all__ = [  # noqa: RUF022 - in the order in which the reference shows them
    # What you may bring
    "Clock",
    "Reranker",
    # What the stores promise
    "HistoryProvider",
    "MemoryService",
    "SessionStore",
    "VectorStore",
    "KeyValueStore",
    "BlobStore",
    "GraphStore",
    "CypherCapable",
    # Words of theirs
    "SearchMode",
    "ItemKey",
    "ItemConditions",
    "ItemListing",
    "ItemOrder",
]
