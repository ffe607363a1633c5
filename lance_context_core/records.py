"""What the store keeps and what it answers with: frozen values, without any engine in them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

from lance_context_core.fusion import ChannelScore
from lance_context_core.messages import ImagePart, Message, Part, TextPart

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Relationship:
    """A directed edge from the record that holds it."""

    target_id: str
    """A record id, or any URI that names something outside the store."""
    relation: str
    """What the edge means, such as `cites` or `describes`."""
    weight: float | None = None
    """In [0, 1]; absent means unweighted, which is not the same as 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRecord:
    """One thing that an agent produced or was told: a message, a memory, a chunk, an image."""

    id: str
    """Unique within its scope and context; chosen by the caller, or generated once."""
    kind: str
    """`message`, `memory` or `record`; callers may use words of their own."""
    content_type: str
    """The media type of the content, such as `text/plain` or `image/png`."""
    created_at: datetime
    updated_at: datetime
    external_id: str | None = None
    """The caller's own identifier, unique within scope and context among what is visible."""
    context: str = "default"
    layer: str | None = None
    """The information layer, `L0` to `L2`; absent means unlayered."""
    source_ids: tuple[str, ...] = ()
    """The ids of the records that this one was derived from."""
    tenant: str | None = None
    user_id: str | None = None
    agent_id: str | None = None
    session_id: str | None = None
    run_id: str | None = None
    role: str | None = None
    name: str | None = None
    """Who spoke, where that is known by name."""
    text: str | None = None
    """The original text, exactly as it was given."""
    parts: tuple[Part, ...] = ()
    """The parts of a message; empty for what is not a message."""
    native: Mapping[str, Any] | None = None
    """The writing framework's own serialisation of the message."""
    blob: bytes | None = field(default=None, repr=False)
    payload_uri: str | None = None
    payload_size: int | None = None
    payload_checksum: str | None = None
    source: str | None = None
    embedding: Sequence[float] | None = field(default=None, repr=False)
    """The vector, where it was asked for."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    state_metadata: Mapping[str, Any] | None = None
    relationships: tuple[Relationship, ...] = ()
    tags: tuple[str, ...] = ()
    lifecycle_status: str = "active"
    expires_at: datetime | None = None
    retention_policy: str | None = None
    retired_at: datetime | None = None
    retired_reason: str | None = None
    supersedes_id: str | None = None
    superseded_by_id: str | None = None

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What a vector collection holds: a text, its vector, and data about it."""

    id: str | None = None
    """Unique in its collection and scope; generated where it is absent."""
    text: str | None = None
    embedding: Sequence[float] | None = field(default=None, repr=False)
    """The vector; made by the store's embedder from `text` where it is absent."""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit(Generic[R]):
    """A record that a search found, and why."""

    record: R
    score: float
    """In [0, 1], higher is better; comparable within one search mode."""
    channels: Mapping[str, ChannelScore] = field(default_factory=dict)
    """What each channel that matched said, by its name: `vector`, `text`."""
    neighbour_bonus: float = 0.0
    """The part of `score` that came from the turns before and after."""

    @property
    def matched_channels(self) -> tuple[str, ...]:
        """The names of the channels that matched, in alphabetical order."""
        return tuple(sorted(self.channels))


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A conversation: what is known about it, beside its messages."""

    id: str
    created_at: datetime
    updated_at: datetime
    """When the session was last described or written to, whichever is later."""
    title: str | None = None
    status: str = "active"
    tenant: str | None = None
    user_id: str | None = None
    agent_id: str | None = None
    ended_at: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    n_messages: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[R]):
    """One page of a longer list."""

    items: list[R]
    page: int
    """Counted from 1."""
    page_size: int
    total: int
    """How many items all pages hold together."""

    @property
    def has_more(self) -> bool:
        """Whether a page after this one has items."""
        return self.page * self.page_size < self.total


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """What a write left behind."""

    ids: tuple[str, ...]
    """The ids of the records, in the order in which they were given."""
    version: int
    """The version of the table that holds them; an idempotent repetition does not make one."""

    @property
    def id(self) -> str:
        """The id of the only record. Raises ValueError unless there is exactly one."""
        (only,) = self.ids
        return only


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One version of the store."""

    number: int
    """Grows by at least one with each commit to the records."""
    created_at: datetime
    """When it was committed, by the clock of the machine that wrote it; UTC."""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A line of versions of its own, over the whole store."""

    name: str
    parent: str
    """The branch that it was made from."""
    forked_at: int
    """The version of the parent that it began with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordChange:
    """A record that differs between two versions."""

    before: ContextRecord
    after: ContextRecord
    fields: tuple[str, ...]
    """The names of the fields that differ, in the order in which ContextRecord declares them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """What changed from one version to another; each list in the order of the session."""

    added: list[ContextRecord]
    changed: list[RecordChange]
    removed: list[ContextRecord]

    def __bool__(self) -> bool:
        """Whether anything changed at all."""
        return bool(self.added or self.changed or self.removed)
