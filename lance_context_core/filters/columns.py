"""Names in filters: the columns of each table; every other name is a key in a JSON column."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import FilterError

METADATA = "metadata"
"""The JSON column of every key that is not the name of a column."""

VALUE = "value"
"""The same for key-value items."""

WRITTEN_BY = "written_by"
"""The filter name of a row's author: metadata often has an `author` of its own."""

_AUTHOR = {WRITTEN_BY: "author"}


class ColumnType(StrEnum):
    """The type of a column in filters."""

    TEXT = "text"
    INTEGER = "integer"
    """Signed, 64 bits."""
    TIMESTAMP = "timestamp"
    TEXT_LIST = "list of texts"
    TARGETS = "relationships"
    """Also a list of texts, but only `contains` applies: the ids of related records."""
    JSON = "JSON"
    OPAQUE = "opaque"
    """Bytes, vectors and the like: filters cannot read it."""


@frozen_by_name
class Columns:
    """The columns of a table, by public name; other names are metadata keys."""

    types: Mapping[str, ColumnType]
    stored_as: Mapping[str, str] = field(default_factory=dict)
    """The names in the table of columns with a different public name."""
    json: str = METADATA
    """The JSON column of every key that is not the name of a column."""

    def check(self, name: str) -> ColumnType:
        """Returns the type of the column `name`; raises FilterError if filters cannot use it."""
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
"""The filterable columns of records."""

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
"""The filterable columns of the documents in a vector collection."""

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
"""The filterable columns of source documents."""

CHUNK_FIELDS = Columns(
    types={
        **_OF_DOCUMENTS,
        **dict.fromkeys(("document_id", "section", "text"), ColumnType.TEXT),
        **dict.fromkeys(("page", "position", "start", "end"), ColumnType.INTEGER),
        "embedding": ColumnType.OPAQUE,
    },
    stored_as={"type": "file_type", "start": "start_offset", "end": "end_offset"},
)
"""The filterable columns of their chunks."""

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
"""The filterable columns of key-value items."""
