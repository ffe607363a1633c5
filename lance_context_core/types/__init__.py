"""Values that the store stores and returns: frozen, and free of the engine.

The values of a graph are in `types.graph`.
"""

from lance_context_core.types.answers import (
    ChannelScore,
    Erasure,
    ItemsAppended,
    ItemsWritten,
    Page,
    Progress,
    SearchHit,
    WriteResult,
)
from lance_context_core.types.media import Blob, ImageRecord
from lance_context_core.types.records import (
    ContextRecord,
    Document,
    Item,
    ItemVector,
    Relationship,
    Session,
)
from lance_context_core.types.sources import (
    DocumentChunk,
    DocumentProgress,
    DocumentsAdded,
    DocumentScope,
    DocumentsSynced,
    FailedDocument,
    Passage,
    SourceDocument,
)
from lance_context_core.types.versions import (
    Branch,
    Conflict,
    Diff,
    MergeReport,
    RecordChange,
    Resolution,
    TableMerge,
    Version,
)

__all__ = [  # noqa: RUF022 - in the order of the files
    # What is kept
    "Relationship",
    "ContextRecord",
    "Document",
    "ItemVector",
    "Item",
    "Session",
    # Files that were read
    "DocumentScope",
    "Passage",
    "SourceDocument",
    "DocumentChunk",
    "FailedDocument",
    "DocumentProgress",
    "DocumentsAdded",
    "DocumentsSynced",
    # Bytes
    "Blob",
    "ImageRecord",
    # What a call answers with
    "Progress",
    "ChannelScore",
    "SearchHit",
    "Page",
    "WriteResult",
    "ItemsAppended",
    "ItemsWritten",
    "Erasure",
    # What versions and branches are
    "Version",
    "Branch",
    "RecordChange",
    "Diff",
    "Conflict",
    "Resolution",
    "TableMerge",
    "MergeReport",
]
