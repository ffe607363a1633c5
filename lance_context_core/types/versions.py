"""What versions and branches are, and how they differ and are merged."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, Literal

import pyarrow as pa

from lance_context_core._util.checks import dumps
from lance_context_core._util.frozen import frozen_by_name, own_first
from lance_context_core.messages import parts_to_json
from lance_context_core.types.answers import Tried
from lance_context_core.types.graph import Entity, Mention, Relation, Statement
from lance_context_core.types.media import Blob
from lance_context_core.types.records import ContextRecord, Document, Item, Session
from lance_context_core.types.sources import DocumentChunk, SourceDocument

# Records as columns of Arrow, for those who read them with other tools.

_TEXTS = pa.list_(pa.string())
_TIME = pa.timestamp("us", tz="UTC")
_RELATIONSHIPS = pa.list_(
    pa.struct([("target_id", pa.string()), ("relation", pa.string()), ("weight", pa.float64())])
)

_TYPES: Mapping[str, pa.DataType] = {
    **dict.fromkeys(("id", "external_id", "context", "kind", "layer"), pa.string()),
    "source_ids": _TEXTS,
    **dict.fromkeys(
        ("tenant", "user_id", "agent_id", "session_id", "run_id", "author"), pa.string()
    ),
    **dict.fromkeys(("role", "name", "content_type", "text"), pa.string()),
    **dict.fromkeys(("parts", "native"), pa.string()),
    "blob": pa.large_binary(),
    "payload_uri": pa.string(),
    "payload_size": pa.int64(),
    **dict.fromkeys(("payload_checksum", "source"), pa.string()),
    "embedding": pa.list_(pa.float32()),
    **dict.fromkeys(("metadata", "state_metadata"), pa.string()),
    "relationships": _RELATIONSHIPS,
    "tags": _TEXTS,
    "lifecycle_status": pa.string(),
    **dict.fromkeys(("created_at", "updated_at", "expires_at", "retired_at"), _TIME),
    **dict.fromkeys(("retention_policy", "retired_reason"), pa.string()),
    **dict.fromkeys(("supersedes_id", "superseded_by_id"), pa.string()),
}
"""The fields of a record, those first by which it is known."""


def record_columns(records: Sequence[Any]) -> dict[str, pa.Array]:
    """A column for each field of a `ContextRecord`, by its name; JSON is text there."""
    return {
        name: pa.array([_plain(name, getattr(one, name)) for one in records], type_)
        for name, type_ in _TYPES.items()
    }


def _plain(name: str, value: Any) -> Any:
    return _AS_PLAIN[name](value) if value is not None and name in _AS_PLAIN else value


_AS_PLAIN: Mapping[str, Callable[[Any], Any]] = {
    "parts": lambda parts: parts_to_json(parts) if parts else None,
    **dict.fromkeys(("native", "metadata", "state_metadata"), dumps),
    "relationships": lambda edges: [
        {"target_id": one.target_id, "relation": one.relation, "weight": one.weight}
        for one in edges
    ],
}


_INCIDENTAL = ("updated_at", "author", "revision")
"""Fields that differ wherever something else does."""


Stored = (
    ContextRecord
    | Session
    | Document
    | Item
    | SourceDocument
    | DocumentChunk
    | Blob
    | Entity
    | Relation
    | Mention
    | Statement
)
"""What a row of one of the tables is to a user."""


@frozen_by_name
class Version:
    """One version of the store."""

    number: int
    """Grows by at least one with each commit to the records."""
    created_at: datetime
    """When it was committed, by the clock of the machine that wrote it; UTC."""
    tags: tuple[str, ...] = ()
    """The names by which it can be checked out, too."""


@frozen_by_name
class Branch:
    """A branch of the whole store."""

    name: str
    parent: str
    """The branch that it was made from."""
    forked_at: int
    """The version of the parent that it began with."""


@frozen_by_name
class RecordChange:
    """A record that differs between two versions."""

    before: ContextRecord
    after: ContextRecord
    fields: tuple[str, ...]
    """The names of the fields that differ, in the order in which ContextRecord declares them."""


@frozen_by_name
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


@frozen_by_name
class Conflict:
    """What both branches changed since they last had it in common, each in its own way."""

    table: str
    """`records`, `sessions`, or `vectors/` or `key_values/` and what the table is called by."""
    id: str
    """That of the record, session or document; the key of an item."""
    base: Stored | None
    """What both had; None if each has added it."""
    ours: Stored | None
    """What the branch has that is merged into; None if it was deleted there."""
    theirs: Stored | None
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


@frozen_by_name
class Resolution:
    """How a conflict was settled."""

    conflict: Conflict
    outcome: Literal["ours", "theirs", "merged", "deleted"]
    """Whose content was taken; `merged` is a third one, `deleted` none, both from a callback."""
    reason: str
    """Why, in words."""


@frozen_by_name
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


@own_first
@frozen_by_name
class MergeReport(Tried):
    """What a merge did, or, as a dry run, would do."""

    source: str
    target: str
    tables: Mapping[str, TableMerge]
    """By the names that conflicts call the tables by; those in which the source had changed."""
    conflicts: tuple[Resolution, ...]
    """In the order of the tables, and in each in the order of the source, deletions last."""
    version: int
    """The version of the target that is current afterwards."""

    def __bool__(self) -> bool:
        """Whether the target was changed, or would be."""
        return any(one.added or one.updated or one.deleted for one in self.tables.values())
