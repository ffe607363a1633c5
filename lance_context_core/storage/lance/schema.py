"""The tables of the store: their columns, their keys, and the format that they are written in."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from lance_context_core.errors import StorageError, StoreFormatError
from lance_context_core.storage.names import shown_name

FORMAT_VERSION = 1
"""Raised when a release writes what an older one cannot read."""

FORMAT_KEY = b"lance_context:format"
MODEL_KEY = b"lance_context:embedding_model"
KEY = "key"
VECTOR = "vector"
SEARCH_TEXT = "search_text"
ACKNOWLEDGED = "acknowledged_at"
"""When a row was written, if that was before the commit that brought it: the journal had it meanwhile."""

TIMESTAMP = pa.timestamp("us", tz="UTC")

IMAGES_COLLECTION = "lance_context.images"
"""The collection of the vectors of pictures, which are in a space of their own."""

OWES = "owes"
"""What job a record is to be about, while that is no row yet."""

LINK = "previous_key"
"""Where a chunk names the chunk before it, by its key; turns follow each other in the order of their rows."""

MADE = ("knowledge", "tiers", "summaries")
"""The contexts of what is made of records of all contexts. There alone rows have a `LINK`."""

ADDED_SINCE_V1 = ("author", OWES)
"""What conditions name, and what the versions that an older release wrote lack: there it is null."""


@dataclass(frozen=True)
class TableSpec:
    """What a table of one sort looks like.

    A table that lacks a column of its specification, because an older release wrote it, is given
    that column, empty, when it is opened for writing.
    """

    schema: pa.Schema
    """Without the vector column, whose length is known only when the first vector arrives."""
    indexed: Mapping[str, str]
    """The columns worth a scalar index once the table is large, and its type."""
    has_many_vectors: bool = False
    """Whether a row has a list of vectors, and is as near as the nearest of them."""
    is_ordered: bool = False
    """Whether the order in which rows were added is shown: what replaces an expired row is last."""
    tells_versions: bool = False
    """Whether a write answers with a version, in which what it wrote is found for ever after."""
    repeats_keys: bool = False
    """Whether there may be several rows of one key."""
    is_journaled: bool = True
    """Whether small writes go through the journal, where the store has one."""

    is_cold: bool = False
    """Whether its rows are kept and never searched: no index of words or vectors is made of them."""
    serves_the_store: bool = False
    """Whether it is one of the store's own, which no version or branch shows."""
    seldom: frozenset[str] = frozenset()
    """The columns that few conditions name, and few reads: each takes time, though it may be empty."""

    @cached_property
    def columns(self) -> frozenset[str]:
        """The names of all columns, that of the vectors among them."""
        return frozenset((*self.schema.names, VECTOR))

    @cached_property
    def usual(self) -> frozenset[str]:
        """All of these but the `seldom` ones."""
        return self.columns - self.seldom

    @property
    def is_searchable(self) -> bool:
        """Whether rows carry a text for full-text search and may carry a vector."""
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
    """Raise StorageError if a column of the table has a name that none ever had, in the place of one's own.

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
    """The vector column, which remembers the model that fills it (empty: the callers' own)."""
    metadata = {MODEL_KEY: (model or "").encode()}
    one = pa.list_(pa.float32(), dimension)
    return pa.field(VECTOR, pa.list_(one) if is_many else one, metadata=metadata)


def vector_length(field: pa.Field) -> int:
    """The length of the vectors in a vector column."""
    is_many = pa.types.is_list(field.type)
    length: int = (field.type.value_type if is_many else field.type).list_size
    return length


def vector_model(field: pa.Field) -> str | None:
    """The embedding model that a vector column was built with; None if callers bring vectors."""
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
    """The index of the key and of each other column, by how many values it has."""
    return dict.fromkeys((KEY, *ranges), "btree") | dict.fromkeys(few_values, "bitmap")


_PRIMARY_KEY = pa.field(
    KEY,
    pa.string(),
    nullable=False,
    # Without it, concurrent merges of the same new key leave several rows.
    metadata={b"lance-schema:unenforced-primary-key": b"true"},
)


def upkeep_table(fields: list[pa.Field]) -> TableSpec:
    """A table that serves the store itself: rows by key, which no version or branch shows."""
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
            # All but the large values once more, as JSON: reading a row costs by the column, and a
            # whole record would be thirty of them. Conditions look at the columns.
            *_text("fields"),
            *_text("text", "parts", "native"),
            pa.field("blob", pa.large_binary()),
            *_text("payload_uri", "payload_checksum"),
            *_integers("payload_size"),
            *_text("source", SEARCH_TEXT),
            pa.field("metadata", pa.json_()),
            *_text("state_metadata"),
            pa.field("relationships", pa.list_(_RELATIONSHIP)),
            # Each target, alone and under its relation: what `related` looks up.
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
"""Records that no search shall go over, as they were among the others."""

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
            # Of what an older release kept; since then the bytes are a blob, which is named here.
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
            # A blob is one row, with its bytes if they are few, and a row for each piece of more.
            _required("kind"),
            _required("hash"),
            *_integers("position", "size"),
            *_text("content_type"),
            pa.field("is_own", pa.bool_()),
            pa.field("is_pinned", pa.bool_()),
            *_times("kept_until"),
            # How often something came to name it: whoever lets go of it sees that somebody took hold.
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
            # Entities, relations and what is said of them are rows of one table, so that one commit
            # writes all that was found in one source.
            _required("kind"),
            *_text("type", "name_key"),
            # The first 60 bits of the keys of entities: a walk looks up hundreds of them at once,
            # and numbers are found in a third of the time that the keys take.
            *_integers("node", "source_node", "target_node", "about_node"),
            pa.field("weight", pa.float64()),
            *_times("valid_from", "valid_to", "recorded_at"),
            pa.field("source_ids", pa.list_(pa.string())),
            *_text("session_id", "document_id"),
            # All that the thing says, as JSON: what a walk reads of a row beside the nodes.
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
            # Each segment with a NUL after it, which none can hold: a prefix is a range then, and
            # namespaces sort as the tuples that they are.
            _required("namespace"),
            *_times("expires_at"),
            pa.field("value", pa.json_()),
            pa.field("data", pa.large_binary()),
            *_text("data_type"),
            # What of the value each vector was made of, in the order of the vectors.
            pa.field("vector_paths", pa.list_(pa.string())),
            *_LATER,
        ]
    ),
    indexed=_indexed(ranges=("namespace", "id")),
    has_many_vectors=True,
    repeats_keys=True,
)
