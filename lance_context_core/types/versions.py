"""Versions, branches, diffs, merges and conflicts."""

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
"""The fields of a record, identifying ones first."""


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
"""Fields that change with every other field."""


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
"""The kind of a row."""


@frozen_by_name
class Version:
    """One version of the store."""

    number: int
    """Grows by at least one with each commit to the records."""
    created_at: datetime
    """When it was committed, by the clock of the machine that wrote it; UTC."""
    tags: tuple[str, ...] = ()
    """Names that can also be checked out."""


@frozen_by_name
class Branch:
    """A branch of the whole store."""

    name: str
    parent: str
    """The parent branch."""
    forked_at: int
    """The version of the parent at which it starts."""


@frozen_by_name
class RecordChange:
    """A record that differs between two versions."""

    before: ContextRecord
    after: ContextRecord
    fields: tuple[str, ...]
    """The names of the fields that differ, in the order in which ContextRecord declares them."""


@frozen_by_name
class Diff:
    """The changes between two versions; each list in the order of the session."""

    added: list[ContextRecord]
    changed: list[RecordChange]
    removed: list[ContextRecord]

    def __bool__(self) -> bool:
        """Whether anything changed at all."""
        return bool(self.added or self.changed or self.removed)

    def to_arrow(self) -> pa.Table:
        """The diff as one table, for DuckDB, pandas or a file.

        The first columns are `change` ("added", "changed" or "removed"), `side` ("before" or
        "after") and `changed_fields`; then come the fields of a record, JSON as text. An added
        record has one row, `after`; a removed one `before`; a changed one both, and only these
        have `changed_fields`.
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
    """A row that both branches changed differently since their common version."""

    table: str
    """`records`, `sessions`, or `vectors/` or `key_values/` and the table's name."""
    id: str
    """The id of the record, session or document; the key of an item."""
    base: Stored | None
    """The common value; None if both branches added it."""
    ours: Stored | None
    """The value on the target branch; None if deleted there."""
    theirs: Stored | None
    """The value on the source branch; None if deleted there."""
    ours_updated_at: datetime | None
    theirs_updated_at: datetime | None

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the differing fields; none if one side was deleted."""
        if self.ours is None or self.theirs is None:
            return ()
        names = [one.name for one in fields(self.ours) if one.name not in _INCIDENTAL]
        return tuple(n for n in names if getattr(self.ours, n) != getattr(self.theirs, n))


@frozen_by_name
class Resolution:
    """The resolution of a conflict."""

    conflict: Conflict
    outcome: Literal["ours", "theirs", "merged", "deleted"]
    """The chosen side; a callback may also return `merged`, a third value, or `deleted`."""
    reason: str
    """The reason."""


@frozen_by_name
class TableMerge:
    """The effects of a merge on one table."""

    added: int = 0
    """Rows added to the target."""
    updated: int = 0
    """Rows changed in the target."""
    deleted: int = 0
    """Rows deleted from the target."""
    kept: int = 0
    """Rows changed in the source that the target kept unchanged."""


@own_first
@frozen_by_name
class MergeReport(Tried):
    """The effects of a merge, or of a dry run."""

    source: str
    target: str
    tables: Mapping[str, TableMerge]
    """By the table names used in conflicts; only tables changed in the source."""
    conflicts: tuple[Resolution, ...]
    """Ordered by table, then by the source, deletions last."""
    version: int
    """The version of the target after the merge."""

    def __bool__(self) -> bool:
        """Whether the target changed, or would change."""
        return any(one.added or one.updated or one.deleted for one in self.tables.values())
