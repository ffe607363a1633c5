"""What the store keeps: records, documents, items and sessions."""

from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from datetime import datetime
from typing import Any

from lance_context_core._util.frozen import frozen_by_name, own_first
from lance_context_core.messages import ImagePart, Message, Part, TextPart

# Whose a thing is, and since when it is so: what the things that are kept have in common.


@frozen_by_name
class Owned:
    """What is somebody's: it is seen where the scope has the same in each part that it names."""

    tenant: str | None = None
    user_id: str | None = None
    agent_id: str | None = None


@own_first
@frozen_by_name
class Written(Owned):
    """What is somebody's, and was written by somebody."""

    author: str | None = None
    """Who wrote it last, if a store was told: `written_by` in filters. Older versions have those before."""


@own_first
@frozen_by_name
class Known(Owned):
    """What is so for a time, and known from something."""

    source_ids: tuple[str, ...] = ()
    """The records, documents and chunks that it is known from."""
    valid_from: datetime | None = None
    """Since when it is so; None means always, and of a statement that its source does not tell."""
    valid_to: datetime | None = None
    """The first moment at which it is so no more; None means never, as above."""
    recorded_at: datetime | None = None
    """Since when it is known; None has the store say it."""


@frozen_by_name
class Relationship:
    """A directed edge from the record that holds it."""

    target_id: str
    """A record id, or any URI that names something outside the store."""
    relation: str
    """What the edge means, such as `cites` or `describes`."""
    weight: float | None = None
    """In [0, 1]; absent means unweighted, which is not the same as 0."""


@own_first
@frozen_by_name
class ContextRecord(Written):
    """One thing that an agent produced or was told: a message, a memory, a chunk, an image."""

    id: str
    """Unique within its scope and context; chosen by the caller, or generated once."""
    kind: str
    """`message`, `memory` or `record`; callers may use words of their own."""
    content_type: str
    """The media type of the content, such as `text/plain` or `image/png`."""
    created_at: datetime
    """When it was made or said: aware, UTC."""
    updated_at: datetime
    """When it was last written: aware, UTC."""
    external_id: str | None = None
    """The caller's own identifier, unique within scope and context among what is visible."""
    context: str = "default"
    """The name of the context that holds it; history and memory write to the default one."""
    layer: str | None = None
    """The information layer, `L0` to `L2`; absent means unlayered."""
    source_ids: tuple[str, ...] = ()
    """The ids of the records that this one was derived from."""
    session_id: str | None = None
    run_id: str | None = None
    """The run of the agent in which it came about, where that is told."""
    role: str | None = None
    """What the speaker is to the conversation, such as `user`; absent if unknown."""
    name: str | None = None
    """Who spoke, where that is known by name."""
    text: str | None = None
    """The original text, exactly as it was given."""
    parts: tuple[Part, ...] = ()
    """The parts of a message; empty for what is not a message."""
    native: Mapping[str, Any] | None = None
    """The writing framework's own serialisation of the message."""
    blob: bytes | None = field(default=None, repr=False)
    """The bytes, for what is no text; absent where they were not asked for."""
    payload_uri: str | None = None
    """Where the bytes are, if not here; kept, never followed. So are size and checksum."""
    payload_size: int | None = None
    payload_checksum: str | None = None
    source: str | None = None
    """Where it comes from, in words of the caller's own."""
    embedding: Sequence[float] | None = field(default=None, repr=False)
    """The vector, where it was asked for."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """JSON by key, the caller's own; filters look into it."""
    state_metadata: Mapping[str, Any] | None = None
    """JSON by key, the caller's own; filters do not look into it."""
    relationships: tuple[Relationship, ...] = ()
    tags: tuple[str, ...] = ()
    """Words of the caller's own, which filters look into."""
    lifecycle_status: str = "active"
    """Reads leave out what is neither `active` nor `contradicted`, unless told otherwise."""
    expires_at: datetime | None = None
    """From then on reads leave it out, unless told otherwise; absent means never."""
    retention_policy: str | None = None
    """The name of a policy of the caller's own; kept, not acted on."""
    retired_at: datetime | None = None
    """From then on reads leave it out, unless told otherwise; absent means never."""
    retired_reason: str | None = None
    supersedes_id: str | None = None
    """The id of the record whose place it takes; that one is marked in the same commit."""
    superseded_by_id: str | None = None
    """The id of what took its place: reads leave it out then, unless told otherwise."""

    @property
    def captions(self) -> tuple[str, ...]:
        """What the images among the parts show, as far as it is said, in order."""
        return tuple(
            part.caption for part in self.parts if isinstance(part, ImagePart) and part.caption
        )

    def to_message(self) -> Message:
        """This record as a message; one without parts has its text as its only part."""
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
    """Those of a record with these, and what is usual in its other fields; in their order.

    There are no others among them. Raises TypeError without those that every record has.
    """
    if not _REQUIRED.issubset(values):
        ContextRecord(**values)
    return {**_USUAL, **values}


def record_of(values: Mapping[str, Any]) -> ContextRecord:
    """The record of `all_values`: as its constructor makes it, in half the time."""
    record = object.__new__(ContextRecord)
    for put, value in zip(_PUT, values.values(), strict=True):
        put(record, value)
    return record


_PUT = [getattr(ContextRecord, one.name).__set__ for one in fields(ContextRecord)]
_USUAL = {one.name: one.default for one in fields(ContextRecord)} | {"metadata": {}}
_REQUIRED = frozenset(("id", "kind", "content_type", "created_at", "updated_at"))


@frozen_by_name
class Document:
    """What a vector collection holds: a text, its vector, and data about it.

    When it is written, `author` is ignored: the store sets it.
    """

    id: str | None = None
    """Unique in its collection and scope; generated where it is absent."""
    text: str | None = None
    """What words are looked up in, and what the vector is made of where none is given."""
    embedding: Sequence[float] | None = field(default=None, repr=False)
    """The vector; made by the store's embedder from `text` where it is absent."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """JSON by key, the caller's own; filters look into it."""
    author: str | None = None
    """As `ContextRecord.author`."""


@frozen_by_name
class ItemVector:
    """One of the vectors by which a key-value item is found."""

    path: str = ""
    """What of the value it was made of, in words of the caller's own; kept, not interpreted."""
    text: str | None = None
    """What the store's embedder makes the vector of, where `vector` is absent; not kept."""
    vector: Sequence[float] | None = field(default=None, repr=False)
    """Made by the store's embedder from `text` where it is absent."""


@own_first
@frozen_by_name
class Item(Written):
    """What a namespace holds under a key.

    When it is written, its times but `expires_at`, its `revision`, its `author` and whose it is are
    ignored: the store sets them.
    """

    key: str
    """Any text without NUL, the empty one too."""
    namespace: tuple[str, ...] = ()
    """The segments of a path, each like `key`; the empty path is a namespace too."""
    expires_at: datetime | None = None
    """From this moment on the item is not there any more; None means never."""
    created_at: datetime | None = None
    """When it was first written; it stays when the item is replaced."""
    updated_at: datetime | None = None
    revision: int | None = None
    """Another number after each write; says nothing else."""
    value: Mapping[str, Any] | None = None
    """A JSON object, which filters look into; its keys come back in alphabetical order."""
    data: bytes | None = field(default=None, repr=False)
    """Bytes of any kind, beside the value or instead of it."""
    data_type: str | None = None
    """What `data` is, in words of the caller's own."""
    vectors: Sequence[ItemVector] = field(default=(), repr=False)
    """Read only where they are asked for."""


@own_first
@frozen_by_name
class Session(Written):
    """A conversation: what is known about it, beside its messages.

    Its `author` is who described it last; one that has only messages has none.
    """

    id: str
    """As the caller calls it; users who call theirs alike have one each."""
    title: str | None = None
    status: str = "active"
    """A word of the caller's own."""
    created_at: datetime
    updated_at: datetime
    """When the session was last described or written to, whichever is later."""
    ended_at: datetime | None = None
    """When it ended, if the caller said so."""
    expires_at: datetime | None = None
    """From then on it is not there any more, nor are its messages; None means never."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """JSON by key, the caller's own."""
    n_messages: int = 0
    """How many messages it has now."""
