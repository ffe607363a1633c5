"""What the store keeps and what it answers with: frozen values, without any engine in them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

import pyarrow as pa

from lance_context_core._record_arrow import record_columns
from lance_context_core.messages import ImagePart, Message, Part, TextPart

R = TypeVar("R")

_INCIDENTAL = ("updated_at", "revision")
"""Fields that differ wherever something else does."""


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
    tenant: str | None = None
    user_id: str | None = None
    agent_id: str | None = None
    session_id: str | None = None
    run_id: str | None = None
    """The run of the agent in which it came about, where that is told."""
    role: str | None = None
    """What the speaker is to the conversation, such as `user`; absent for what nobody said."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What a vector collection holds: a text, its vector, and data about it."""

    id: str | None = None
    """Unique in its collection and scope; generated where it is absent."""
    text: str | None = None
    """What words are looked up in, and what the vector is made of where none is given."""
    embedding: Sequence[float] | None = field(default=None, repr=False)
    """The vector; made by the store's embedder from `text` where it is absent."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """JSON by key, the caller's own; filters look into it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemVector:
    """One of the vectors by which a key-value item is found."""

    path: str = ""
    """What of the value it was made of, in words of the caller's own; kept, not interpreted."""
    text: str | None = None
    """What the store's embedder makes the vector of, where `vector` is absent; not kept."""
    vector: Sequence[float] | None = field(default=None, repr=False)
    """Made by the store's embedder from `text` where it is absent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """What a namespace holds under a key.

    When it is written, the fields from `created_at` on are ignored: the store sets them.
    """

    key: str
    """Any text without NUL, the empty one too."""
    namespace: tuple[str, ...] = ()
    """The segments of a path, each like `key`; the empty path is a namespace too."""
    value: Mapping[str, Any] | None = None
    """A JSON object, which filters look into; its keys come back in alphabetical order."""
    data: bytes | None = field(default=None, repr=False)
    """Bytes of any kind, beside the value or instead of it."""
    data_type: str | None = None
    """What `data` is, in words of the caller's own."""
    expires_at: datetime | None = None
    """From this moment on the item is not there any more; None means never."""
    vectors: Sequence[ItemVector] = field(default=(), repr=False)
    """Read only where they are asked for."""
    created_at: datetime | None = None
    """When it was first written; it stays when the item is replaced."""
    updated_at: datetime | None = None
    revision: int | None = None
    """Another number after each write; says nothing else."""
    tenant: str | None = None
    user_id: str | None = None
    agent_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemsAppended:
    """The commit in which key-value items were appended."""

    version: int
    """A version of the items that shows them: the one it made, or a later one."""
    n_items: int | None
    """How many items that version added to the one before, those that others appended at the same
    moment among them. None if it is not known: other processes were writing."""
    grows_since: int
    """A version since which, until that one, items were appended and nothing else was done: what was
    there then is there. It is `version` itself if more is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemsWritten:
    """What a write of key-value items found."""

    deleted: list[bool]
    """Whether there was an item for each of the keys to be deleted, in the order of these."""
    version: int
    """A version of the items that shows the write: the one it made, or a later one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelScore:
    """What one channel said about one candidate."""

    raw: float
    """Cosine similarity in [-1, 1], or BM25 above 0."""
    normalised: float
    """In [0, 1] over the channel's candidates: 1 is its best, 0 its worst, and all 1 if all are equal."""
    rank: int
    """1 + the number of candidates that score higher: equals share a rank, whatever their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit(Generic[R]):
    """A record that a search found, and why."""

    record: R
    """What was found: a `ContextRecord`, a `Document` or an `Item`, by where it was searched."""
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
    """As the caller calls it; users who call theirs alike have one each."""
    created_at: datetime
    updated_at: datetime
    """When the session was last described or written to, whichever is later."""
    title: str | None = None
    status: str = "active"
    """A word of the caller's own."""
    tenant: str | None = None
    user_id: str | None = None
    agent_id: str | None = None
    ended_at: datetime | None = None
    """When it ended, if the caller said so."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """JSON by key, the caller's own."""
    n_messages: int = 0
    """How many messages it has now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[R]):
    """One page of a longer list."""

    items: list[R]
    page: int
    """Counted from 1."""
    page_size: int
    """How many items were asked for; the last page may have fewer."""
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
    """The names by which it can be checked out, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A branch of the whole store."""

    name: str
    parent: str
    """The branch that it was made from."""
    forked_at: int
    """The version of the parent that it began with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """What was erased, or in a dry run would be; whatever is erased twice counts once."""

    records: int = 0
    """Those that were meant, by what they are now or were in any version that is kept."""
    derived: int = 0
    """Further ones, which were made from these."""
    documents: int = 0
    items: int = 0
    """Key-value items."""
    sessions: int = 0
    """Descriptions of sessions."""
    mentions: int = 0
    """Records that stay, of which the ids of erased ones were taken out."""
    versions_removed: int = 0
    """The older versions of all tables, with what is on their branches and under their tags."""
    branches: tuple[str, ...] = ()
    """The branches that were cleaned, `main` included, in alphabetical order."""
    tags: tuple[str, ...] = ()
    """The tags that were cleaned, in alphabetical order."""
    bytes_removed: int = 0
    """The size of the files that went; what had to stay of them was written anew. 0 in a dry run."""
    may_linger: bool = False
    """Whether something may be left for up to seven days: files of writes that were never finished."""

    def __bool__(self) -> bool:
        """Whether anything was found."""
        found = (self.records, self.derived, self.documents, self.items, self.sessions)
        return any(found)


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

    def to_arrow(self) -> pa.Table:
        """All of it as one table, for DuckDB, pandas or a file.

        It begins with `change` ("added", "changed" or "removed"), `side` ("before" or "after") and
        `changed_fields`; then come the fields of a record by their names, JSON as text. What was
        added has one row, its `after`; what was removed one, its `before`; what changed has both,
        one below the other, and only these name `changed_fields`.
        """
        rows: list[tuple[str, str, ContextRecord, tuple[str, ...]]] = []
        rows += [("added", "after", one, ()) for one in self.added]
        for change in self.changed:
            rows.append(("changed", "before", change.before, change.fields))
            rows.append(("changed", "after", change.after, change.fields))
        rows += [("removed", "before", one, ()) for one in self.removed]
        changes, sides, records, names = zip(*rows, strict=True) if rows else ((), (), (), ())
        columns: dict[str, pa.Array] = {
            "change": pa.array(changes, pa.string()),
            "side": pa.array(sides, pa.string()),
            "changed_fields": pa.array(names, pa.list_(pa.string())),
        }
        return pa.table(columns | record_columns(records))


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """What both branches changed since they last had it in common, each in its own way."""

    table: str
    """`records`, `sessions`, or `vectors/` or `key_values/` and what the table is called by."""
    id: str
    """That of the record, session or document; the key of an item."""
    base: ContextRecord | Session | Document | Item | None
    """What both had; None if each has added it."""
    ours: ContextRecord | Session | Document | Item | None
    """What the branch has that is merged into; None if it was deleted there."""
    theirs: ContextRecord | Session | Document | Item | None
    """What the branch has that is merged; None if it was deleted there."""
    ours_updated_at: datetime | None
    theirs_updated_at: datetime | None

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields in which the two differ; none if one of them was deleted."""
        if self.ours is None or self.theirs is None:
            return ()
        names = [one.name for one in fields(self.ours) if one.name not in _INCIDENTAL]
        return tuple(n for n in names if getattr(self.ours, n) != getattr(self.theirs, n))


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """How a conflict was settled."""

    conflict: Conflict
    outcome: Literal["ours", "theirs", "merged", "deleted"]
    """Whose content was taken; `merged` is a third one, `deleted` none, both from a callback."""
    reason: str
    """Why, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMerge:
    """What a merge did to one table."""

    added: int = 0
    """What the target did not have."""
    updated: int = 0
    """What it had, and now has otherwise."""
    deleted: int = 0
    """What it had, and has no more."""
    kept: int = 0
    """Those which the source had changed, and which stayed as the target has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeReport:
    """What a merge did, or, as a dry run, would do."""

    source: str
    target: str
    tables: Mapping[str, TableMerge]
    """By the names that conflicts call the tables by; those in which the source had changed."""
    conflicts: tuple[Resolution, ...]
    """In the order of the tables, and in each in the order of the source, deletions last."""
    is_dry_run: bool
    version: int
    """The version of the target that is current afterwards."""

    def __bool__(self) -> bool:
        """Whether the target was changed, or would be."""
        return any(one.added or one.updated or one.deleted for one in self.tables.values())
