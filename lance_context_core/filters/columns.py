"""What filters can name: the columns of each table, and the JSON in which every other name is a key."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import FilterError

METADATA = "metadata"
"""The JSON column in which every key is looked up that is not the name of a column."""

VALUE = "value"
"""The same of key-value items."""

WRITTEN_BY = "written_by"
"""What filters call the author of a row: an `author` is what much metadata has of its own."""

_AUTHOR = {WRITTEN_BY: "author"}


class ColumnType(StrEnum):
    """What a column holds, as far as filters care."""

    TEXT = "text"
    INTEGER = "integer"
    """Signed, 64 bits."""
    TIMESTAMP = "timestamp"
    TEXT_LIST = "list of texts"
    TARGETS = "relationships"
    """A list of texts too, but only what it contains means something: the ids that are pointed at."""
    JSON = "JSON"
    OPAQUE = "opaque"
    """Bytes, vectors and the like: no filter can look into it."""


@frozen_by_name
class Columns:
    """The columns of a table, by their public names; every other name is a metadata key."""

    types: Mapping[str, ColumnType]
    stored_as: Mapping[str, str] = field(default_factory=dict)
    """The names in the table of those columns that have another name there."""
    json: str = METADATA
    """The column that every name means a key of which is not the name of a column."""

    def check(self, name: str) -> ColumnType:
        """The type of the column called `name`; FilterError if a filter cannot name it."""
        type_ = self.types.get(name)
        if type_ is None or type_ is ColumnType.OPAQUE:
            known = sorted(one for one in self.types if self.types[one] is not ColumnType.OPAQUE)
            problem = "is not a column" if type_ is None else "cannot be filtered"
            detour = f"; '{self.json}.{name}' means the {self.json} key"
            detour = detour if self.json in known else ""
            raise FilterError(f"{name!r} {problem}; filter by {', '.join(known)}{detour}")
        return type_


RECORD_FIELDS = Columns(
    types={
        **dict.fromkeys(
            (
                *("id", "external_id", "context", "kind", "layer", "role", "name", "content_type"),
                WRITTEN_BY,
                *("text", "tenant", "user_id", "agent_id", "bot_id", "session_id", "run_id"),
                *("payload_uri", "payload_checksum", "source", "lifecycle_status"),
                *("retention_policy", "retired_reason", "supersedes_id", "superseded_by_id"),
            ),
            ColumnType.TEXT,
        ),
        **dict.fromkeys(
            ("created_at", "updated_at", "expires_at", "retired_at"), ColumnType.TIMESTAMP
        ),
        **dict.fromkeys(("tags", "source_ids"), ColumnType.TEXT_LIST),
        "payload_size": ColumnType.INTEGER,
        "relationships": ColumnType.TARGETS,
        METADATA: ColumnType.JSON,
        **dict.fromkeys(
            ("embedding", "vector", "blob", "parts", "native", "state_metadata"), ColumnType.OPAQUE
        ),
    },
    stored_as={"bot_id": "agent_id", "relationships": "edges", **_AUTHOR},
)
"""What a filter of records can name."""

DOCUMENT_FIELDS = Columns(
    types={
        "id": ColumnType.TEXT,
        "text": ColumnType.TEXT,
        WRITTEN_BY: ColumnType.TEXT,
        "embedding": ColumnType.OPAQUE,
        METADATA: ColumnType.JSON,
    },
    stored_as=_AUTHOR,
)
"""What a filter of the documents in a vector collection can name."""

_OF_DOCUMENTS = {
    **dict.fromkeys(
        ("id", "name", "type", "title", "uri", "conversation_id", "project_id"), ColumnType.TEXT
    ),
    **dict.fromkeys(("created_at", "updated_at"), ColumnType.TIMESTAMP),
    METADATA: ColumnType.JSON,
}

SOURCE_FIELDS = Columns(
    types={
        **_OF_DOCUMENTS,
        "hash": ColumnType.TEXT,
        **dict.fromkeys(("size", "n_pages", "n_chunks"), ColumnType.INTEGER),
        **dict.fromkeys(("properties", "blob"), ColumnType.OPAQUE),
    },
    stored_as={"type": "file_type"},
)
"""What a filter of files that were read can name."""

CHUNK_FIELDS = Columns(
    types={
        **_OF_DOCUMENTS,
        **dict.fromkeys(("document_id", "section", "text"), ColumnType.TEXT),
        **dict.fromkeys(("page", "position", "start", "end"), ColumnType.INTEGER),
        "embedding": ColumnType.OPAQUE,
    },
    stored_as={"type": "file_type", "start": "start_offset", "end": "end_offset"},
)
"""What a filter of their chunks can name."""

ITEM_FIELDS = Columns(
    types={
        **dict.fromkeys(("key", "data_type", WRITTEN_BY), ColumnType.TEXT),
        **dict.fromkeys(("created_at", "updated_at", "expires_at"), ColumnType.TIMESTAMP),
        **dict.fromkeys(("namespace", "data", "vectors"), ColumnType.OPAQUE),
        VALUE: ColumnType.JSON,
    },
    stored_as={"key": "id", **_AUTHOR},
    json=VALUE,
)
"""What a filter of key-value items can name."""
