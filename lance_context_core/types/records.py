"""Stored values: records, documents, items and sessions."""

from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from datetime import datetime
from typing import Any

from lance_context_core._util.frozen import frozen_by_name, own_first
from lance_context_core.messages import ImagePart, Message, Part, TextPart

# Whose a thing is, and since when it is so: what the things that are kept have in common.


@frozen_by_name
class Owned:
    """A value with an owner; visible to scopes that match in each part they name."""

    tenant: str | None = None
    user_id: str | None = None
    agent_id: str | None = None


@own_first
@frozen_by_name
class Written(Owned):
    """A value with an owner and an author."""

    author: str | None = None
    """The last author, if the store was opened with one: `written_by` in filters."""


@own_first
@frozen_by_name
class Known(Owned):
    """A value with sources and a time in which it holds."""

    source_ids: tuple[str, ...] = ()
    """The ids of the records, documents and chunks that prove it."""
    valid_from: datetime | None = None
    """The start of validity; None means always, and for a statement unknown."""
    valid_to: datetime | None = None
    """The end of validity, exclusive; None means never."""
    recorded_at: datetime | None = None
    """The time of recording; None lets the store set it."""


@frozen_by_name
class Relationship:
    """A directed edge from the record that holds it."""

    target_id: str
    """A record id, or any URI that names something outside the store."""
    relation: str
    """The meaning, such as `cites` or `describes`."""
    weight: float | None = None
    """In [0, 1]; absent means unweighted, which is not the same as 0."""


@own_first
@frozen_by_name
class ContextRecord(Written):
    """A message, a memory, a chunk, an image or other content of an agent."""

    id: str
    """Unique within its scope and context; chosen by the caller, or generated once."""
    kind: str
    """`message`, `memory` or `record`; callers may use other words."""
    content_type: str
    """The media type of the content, such as `text/plain` or `image/png`."""
    created_at: datetime
    """The time of creation: aware, UTC."""
    updated_at: datetime
    """The time of the last write: aware, UTC."""
    external_id: str | None = None
    """The caller's identifier, unique among visible records of a scope and context."""
    context: str = "default"
    """The name of its context; history and memory use the default one."""
    layer: str | None = None
    """The information layer, `L0` to `L2`; absent means unlayered."""
    source_ids: tuple[str, ...] = ()
    """The ids of the records that this one was derived from."""
    session_id: str | None = None
    run_id: str | None = None
    """The run of the agent that created it, if known."""
    role: str | None = None
    """The role of the speaker, such as `user`; absent if unknown."""
    name: str | None = None
    """The name of the speaker, if known."""
    text: str | None = None
    """The original text, unchanged."""
    parts: tuple[Part, ...] = ()
    """The parts of a message; empty for other records."""
    native: Mapping[str, Any] | None = None
    """The writing framework's own serialisation of the message."""
    blob: bytes | None = field(default=None, repr=False)
    """The bytes of binary content; absent unless requested."""
    payload_uri: str | None = None
    """The location of external bytes; stored, never fetched. So are size and checksum."""
    payload_size: int | None = None
    payload_checksum: str | None = None
    source: str | None = None
    """The origin, in the caller's words."""
    embedding: Sequence[float] | None = field(default=None, repr=False)
    """The vector, if requested."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The caller's metadata, JSON by key; filters can use it."""
    state_metadata: Mapping[str, Any] | None = None
    """The caller's metadata, JSON by key; not available to filters."""
    relationships: tuple[Relationship, ...] = ()
    tags: tuple[str, ...] = ()
    """The caller's labels; filters can use them."""
    lifecycle_status: str = "active"
    """By default reads return only `active` and `contradicted` records."""
    expires_at: datetime | None = None
    """From this time on reads omit it by default; absent means never."""
    retention_policy: str | None = None
    """The name of the caller's policy; stored, not applied."""
    retired_at: datetime | None = None
    """From this time on reads omit it by default; absent means never."""
    retired_reason: str | None = None
    supersedes_id: str | None = None
    """The id of the record it supersedes, which is marked in the same commit."""
    superseded_by_id: str | None = None
    """The id of the record that supersedes it; reads then omit it by default."""

    @property
    def captions(self) -> tuple[str, ...]:
        """The captions of the images among the parts, in order."""
        return tuple(
            part.caption for part in self.parts if isinstance(part, ImagePart) and part.caption
        )

    def to_message(self) -> Message:
        """This record as a message; without parts, its text is the only part."""
        return Message(
            role=self.role or "user",
            parts=self.parts or ((TextPart(text=self.text),) if self.text is not None else ()),
            id=self.id,
            name=self.name,
            created_at=self.created_at,
            metadata=self.metadata,
            native=self.native,
        )


def all_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """The field values of a record: these, and defaults for the others; in field order.

    Raises TypeError for unknown fields and without the required ones.
    """
    if not _REQUIRED.issubset(values):
        ContextRecord(**values)
    return {**_USUAL, **values}


def record_of(values: Mapping[str, Any]) -> ContextRecord:
    """The record of `all_values`; equal to the constructor's, in half the time."""
    record = object.__new__(ContextRecord)
    for put, value in zip(_PUT, values.values(), strict=True):
        put(record, value)
    return record


_PUT = [getattr(ContextRecord, one.name).__set__ for one in fields(ContextRecord)]
_USUAL = {one.name: one.default for one in fields(ContextRecord)} | {"metadata": {}}
_REQUIRED = frozenset(("id", "kind", "content_type", "created_at", "updated_at"))


@frozen_by_name
class Document:
    """A document of a vector collection: a text, its vector and metadata.

    Writes ignore `author`: the store sets it.
    """

    id: str | None = None
    """Unique in its collection and scope; generated if absent."""
    text: str | None = None
    """The text for search by words, and for the vector if none is given."""
    embedding: Sequence[float] | None = field(default=None, repr=False)
    """The vector; computed from `text` by the store's embedder if absent."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The caller's metadata, JSON by key; filters can use it."""
    author: str | None = None
    """As `ContextRecord.author`."""


@frozen_by_name
class ItemVector:
    """A vector of a key-value item, for search."""

    path: str = ""
    """The part of the value it was computed from; stored, not interpreted."""
    text: str | None = None
    """The text to embed if `vector` is absent; not stored."""
    vector: Sequence[float] | None = field(default=None, repr=False)
    """Computed from `text` by the store's embedder if absent."""


@own_first
@frozen_by_name
class Item(Written):
    """A value under a key in a namespace.

    Writes ignore its times except `expires_at`, its `revision`, its `author` and its owner: the
    store sets them.
    """

    key: str
    """Any text without NUL, the empty one too."""
    namespace: tuple[str, ...] = ()
    """The segments of a path, each like `key`; the empty path is a namespace too."""
    expires_at: datetime | None = None
    """From this time on the item no longer exists; None means never."""
    created_at: datetime | None = None
    """The time of the first write; unchanged when the item is replaced."""
    updated_at: datetime | None = None
    revision: int | None = None
    """A number that changes with each write; it has no other meaning."""
    value: Mapping[str, Any] | None = None
    """A JSON object for filters; its keys are returned in alphabetical order."""
    data: bytes | None = field(default=None, repr=False)
    """Bytes of any kind, in addition to the value or instead of it."""
    data_type: str | None = None
    """The type of `data`, in the caller's words."""
    vectors: Sequence[ItemVector] = field(default=(), repr=False)
    """Read only if requested."""


@own_first
@frozen_by_name
class Session(Written):
    """The description of a conversation, without its messages.

    Its `author` is the last writer of the description; without a description there is none.
    """

    id: str
    """The caller's id; unique for each user."""
    title: str | None = None
    status: str = "active"
    """A word chosen by the caller."""
    created_at: datetime
    updated_at: datetime
    """The last change of the description or the messages, whichever is later."""
    ended_at: datetime | None = None
    """The end, if the caller set it."""
    expires_at: datetime | None = None
    """The expiry of the session and its messages; None means never."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The caller's metadata, JSON by key."""
    n_messages: int = 0
    """The current number of messages."""
