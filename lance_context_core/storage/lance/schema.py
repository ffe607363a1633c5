"""The tables of the store: columns, keys and format version."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from lance_context_core.errors import StorageError, StoreFormatError
from lance_context_core.storage.names import shown_name

FORMAT_VERSION = 1
"""Incremented when an older release cannot read what this one writes."""

FORMAT_KEY = b"lance_context:format"
MODEL_KEY = b"lance_context:embedding_model"
KEY = "key"
VECTOR = "vector"
SEARCH_TEXT = "search_text"
ACKNOWLEDGED = "acknowledged_at"
"""When a row was written, if before its commit: the log stored it meanwhile."""

TIMESTAMP = pa.timestamp("us", tz="UTC")

IMAGES_COLLECTION = "lance_context.images"
"""The collection of image vectors, which have a vector space of their own."""

OWES = "owes"
"""The job that a record is meant for, while it is no row yet."""

LINK = "previous_key"
"""The key of the previous chunk; turns follow each other in the order of their rows."""

MADE = ("knowledge", "tiers", "summaries")
"""The contexts of rows derived from records of all contexts. Only rows there have a `LINK`."""

ADDED_SINCE_V1 = ("author", OWES)
"""The columns in conditions that versions of an older release lack: there they are null."""


@dataclass(frozen=True)
class TableSpec:
    """The specification of one kind of table.

    If a table lacks a column of its specification, because an older release wrote it, the column is
    added, empty, when the table is opened for writing.
    """

    schema: pa.Schema
    """Without the vector column, whose length is unknown until the first vector."""
    indexed: Mapping[str, str]
    """The columns worth a scalar index once the table is large, and its type."""
    has_many_vectors: bool = False
    """Whether a row has a list of vectors, and is as near as the nearest of them."""
    is_ordered: bool = False
    """Whether the order of additions is visible: the replacement of an expired row comes last."""
    tells_versions: bool = False
    """Whether a write returns a version in which its rows are found forever after."""
    repeats_keys: bool = False
    """Whether several rows may have one key."""
    is_journaled: bool = True
    """Whether small writes go through the log, if the store has one."""

    is_cold: bool = False
    """Whether its rows are never searched: it has no full-text or vector index."""
    serves_the_store: bool = False
    """Whether it is one of the store's own, which no version or branch shows."""
    seldom: frozenset[str] = frozenset()
    """The columns that are seldom named or read: each takes time, even if empty."""

    @cached_property
    def columns(self) -> frozenset[str]:
        """The names of all columns, including the vector column."""
        return frozenset((*self.schema.names, VECTOR))

    @cached_property
    def usual(self) -> frozenset[str]:
        """All of these but the `seldom` ones."""
        return self.columns - self.seldom

    @property
    def is_searchable(self) -> bool:
        """Whether rows have a text for full-text search and may have a vector."""
        return SEARCH_TEXT in self.schema.names and not self.is_cold


def check_format(schema: pa.Schema, name: str) -> None:
    """Raise StoreFormatError unless this release reads tables of that schema."""
    written = (schema.metadata or {}).get(FORMAT_KEY, b"")
    if not written.isdigit():
        raise StoreFormatError(
            f"{shown_name(name)} was not written by lance_context_core: give the store a directory "
            "of its own"
        )
    if int(written) > FORMAT_VERSION:
        raise StoreFormatError(
            f"{shown_name(name)} has format {int(written)}, this release reads up to {FORMAT_VERSION}: "
            "upgrade lance-context-core"
        )


def check_columns(schema: pa.Schema, spec: TableSpec, name: str) -> None:
    """Raise StorageError if a column of the table has a name that was never used.

    An earlier release may lack some columns, and a later one have more.
    """
    lacking = [one for one in spec.schema.names if one not in schema.names]
    strange = [one for one in schema.names if one not in {*spec.schema.names, VECTOR}]
    if lacking and strange:
        raise StorageError(
            f"the newest manifest of {shown_name(name)}, in '{name}.lance/_versions', is damaged: it "
            f"names the column {strange[0]!r}, and lacks {lacking[0]!r}: restore it from a copy"
        )


def vector_field(dimension: int, model: str | None, *, is_many: bool = False) -> pa.Field:
    """The vector column, with the name of its embedding model (empty for callers' vectors)."""
    metadata = {MODEL_KEY: (model or "").encode()}
    one = pa.list_(pa.float32(), dimension)
    return pa.field(VECTOR, pa.list_(one) if is_many else one, metadata=metadata)


def vector_length(field: pa.Field) -> int:
    """The length of the vectors in a vector column."""
    is_many = pa.types.is_list(field.type)
    length: int = (field.type.value_type if is_many else field.type).list_size
    return length


def vector_model(field: pa.Field) -> str | None:
    """The embedding model of a vector column; None if callers bring vectors."""
    return ((field.metadata or {}).get(MODEL_KEY) or b"").decode() or None


def _schema(fields: list[pa.Field]) -> pa.Schema:
    return pa.schema(fields, metadata={FORMAT_KEY: str(FORMAT_VERSION).encode()})


def _text(*names: str) -> list[pa.Field]:
    return [pa.field(name, pa.string()) for name in names]


def _integers(*names: str) -> list[pa.Field]:
    return [pa.field(name, pa.int64()) for name in names]


def _times(*names: str) -> list[pa.Field]:
    return [pa.field(name, TIMESTAMP) for name in names]


def _required(name: str, type_: pa.DataType | None = None) -> pa.Field:
    return pa.field(name, type_ or pa.string(), nullable=False)


def _indexed(*, ranges: Iterable[str] = (), few_values: Iterable[str] = ()) -> dict[str, str]:
    """The index of the key and of other columns, by their number of values."""
    return dict.fromkeys((KEY, *ranges), "btree") | dict.fromkeys(few_values, "bitmap")


_PRIMARY_KEY = pa.field(
    KEY,
    pa.string(),
    nullable=False,
    # Without it, concurrent merges of the same new key leave several rows.
    metadata={b"lance-schema:unenforced-primary-key": b"true"},
)


def upkeep_table(fields: list[pa.Field]) -> TableSpec:
    """A table for the store itself: rows by key, which no version or branch shows."""
    revision = pa.field("revision", pa.int64(), nullable=False)
    return TableSpec(
        schema=_schema([_PRIMARY_KEY, revision, *fields]),
        indexed={},
        is_journaled=False,
        serves_the_store=True,
    )


_IDENTITY = [
    _PRIMARY_KEY,
    _required("id"),
    *_text("tenant", "user_id", "agent_id"),
    _required("created_at", TIMESTAMP),
    _required("updated_at", TIMESTAMP),
    _required("revision", pa.int64()),
]

_LATER = [*_text("author"), pa.field(ACKNOWLEDGED, TIMESTAMP)]

_RELATIONSHIP = pa.struct(
    [("target_id", pa.string()), ("relation", pa.string()), ("weight", pa.float64())]
)

RECORDS = TableSpec(
    schema=_schema(
        [
            *_IDENTITY,
            *_text("external_id"),
            _required("context"),
            _required("kind"),
            *_text("layer"),
            pa.field("source_ids", pa.list_(pa.string())),
            *_text("session_id", "run_id", LINK, "role", "name"),
            _required("content_type"),
            # All but the large values once more, as JSON: reading a row costs per column, and a
            # whole record would be thirty of them. Conditions use the columns.
            *_text("fields"),
            *_text("text", "parts", "native"),
            pa.field("blob", pa.large_binary()),
            *_text("payload_uri", "payload_checksum"),
            *_integers("payload_size"),
            *_text("source", SEARCH_TEXT),
            pa.field("metadata", pa.json_()),
            *_text("state_metadata"),
            pa.field("relationships", pa.list_(_RELATIONSHIP)),
            # Each target, alone and under its relation: `related` looks these up.
            pa.field("edges", pa.list_(pa.string())),
            pa.field("tags", pa.list_(pa.string())),
            _required("lifecycle_status"),
            *_times("expires_at"),
            *_text("retention_policy"),
            *_times("retired_at"),
            *_text("retired_reason", "supersedes_id", "superseded_by_id"),
            *_LATER,
            *_text(OWES),
        ]
    ),
    is_ordered=True,
    tells_versions=True,
    indexed=_indexed(
        ranges=("id", "external_id", "session_id", "created_at", "updated_at"),
        few_values=("tenant", "user_id", "agent_id", "kind"),
    ),
    seldom=frozenset(
        (
            *("updated_at", "external_id", "layer", "source_ids", "run_id"),
            *("content_type", "payload_uri", "payload_checksum", "payload_size", "source"),
            *("state_metadata", "relationships", "edges", "tags", "retention_policy"),
            *("retired_reason", "supersedes_id", "author", ACKNOWLEDGED, OWES),
        )
    ),
)

COLD = replace(RECORDS, indexed=_indexed(ranges=("session_id",)), is_cold=True, is_journaled=False)
"""Archived records, as they were among the others, outside of all searches."""

SESSIONS = TableSpec(
    schema=_schema(
        [
            *_IDENTITY,
            *_text("title"),
            _required("status"),
            *_times("ended_at"),
            pa.field("metadata", pa.json_()),
            *_LATER,
            *_times("expires_at"),
        ]
    ),
    indexed=_indexed(),
)

VECTORS = TableSpec(
    schema=_schema(
        [
            *_IDENTITY,
            *_text("text", SEARCH_TEXT),
            pa.field("metadata", pa.json_()),
            *_LATER,
        ]
    ),
    indexed=_indexed(ranges=("id",), few_values=("tenant", "user_id")),
)

DOCUMENTS = TableSpec(
    schema=_schema(
        [
            *_IDENTITY,
            # A document and its chunks are rows of one table, so that one commit replaces them all.
            _required("kind"),
            _required("document_id"),
            *_text("conversation_id", "project_id"),
            *_text("name", "file_type", "title", "uri", "hash"),
            *_integers(
                "size", "n_pages", "n_chunks", "position", "start_offset", "end_offset", "page"
            ),
            *_text("section", "text", SEARCH_TEXT),
            pa.field("metadata", pa.json_()),
            *_text("properties"),
            # Used by an older release; since then the bytes are a blob, which is named here.
            pa.field("blob", pa.large_binary()),
            *_text("payload_uri"),
        ]
    ),
    indexed=_indexed(
        ranges=("document_id", "hash", "conversation_id", "project_id"),
        few_values=("tenant", "user_id", "file_type"),
    ),
)

BLOBS = TableSpec(
    schema=_schema(
        [
            *_IDENTITY,
            # A blob is one row, with its bytes if they are few, or a row for each piece of more.
            _required("kind"),
            _required("hash"),
            *_integers("position", "size"),
            *_text("content_type"),
            pa.field("is_own", pa.bool_()),
            pa.field("is_pinned", pa.bool_()),
            *_times("kept_until"),
            # The number of references ever added: a caller that deletes the blob sees a new
            # reference.
            *_integers("n_holds"),
            pa.field("data", pa.large_binary()),
            *_LATER,
        ]
    ),
    indexed=_indexed(ranges=("hash",), few_values=("tenant", "user_id", "kind")),
)

GRAPH = TableSpec(
    schema=_schema(
        [
            *_IDENTITY,
            # Entities, relations and statements about them are rows of one table, so that one
            # commit writes all results of one source.
            _required("kind"),
            *_text("type", "name_key"),
            # The first 60 bits of the keys of entities: a traversal looks up hundreds of them at
            # once, and numbers are found in a third of the time of the keys.
            *_integers("node", "source_node", "target_node", "about_node"),
            pa.field("weight", pa.float64()),
            *_times("valid_from", "valid_to", "recorded_at"),
            pa.field("source_ids", pa.list_(pa.string())),
            *_text("session_id", "document_id"),
            # The whole content, as JSON: what a traversal reads of a row besides the nodes.
            _required("content"),
            *_LATER,
        ]
    ),
    indexed=_indexed(
        ranges=(
            *("id", "name_key", "node", "source_node", "target_node", "about_node"),
            *("session_id", "document_id"),
        ),
        few_values=("tenant", "user_id", "kind"),
    ),
)

KEY_VALUES = TableSpec(
    schema=_schema(
        [
            *_IDENTITY,
            # Each segment followed by a NUL, which none can contain: a prefix is then a range, and
            # namespaces sort like their tuples.
            _required("namespace"),
            *_times("expires_at"),
            pa.field("value", pa.json_()),
            pa.field("data", pa.large_binary()),
            *_text("data_type"),
            # The part of the value of each vector, in the order of the vectors.
            pa.field("vector_paths", pa.list_(pa.string())),
            *_LATER,
        ]
    ),
    indexed=_indexed(ranges=("namespace", "id")),
    has_many_vectors=True,
    repeats_keys=True,
)
