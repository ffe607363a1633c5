"""Records to rows and back, and the checks before they are written."""

import hashlib
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from lance_context_core._util.checks import (
    check_json_object,
    check_name,
    check_text,
    check_time,
    dumps,
    loads,
    shown,
)
from lance_context_core._util.lru import remembered
from lance_context_core.errors import InvalidRequestError
from lance_context_core.messages import Part, parts_from_json, parts_to_json
from lance_context_core.messages.parts import text_part
from lance_context_core.scope import Scope
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import KEY, MADE, VECTOR
from lance_context_core.storage.names import new_revision
from lance_context_core.types import ContextRecord, Relationship
from lance_context_core.types.records import all_values, record_of

NO_CONTEXT = ""
"""What is in it is never shown; no context of a caller's can be called so."""

KNOWLEDGE, TIERS, SUMMARIES = MADE
OF_ALL = frozenset(MADE)
"""Contexts of what is made of records of all contexts: what is named there may be in any."""

JOB = "job"
"""The kind of the records that are jobs, in the context of the knowledge."""

MEDIA_PREFIX = "img_"
"""What the ids of pictures, recordings and films begin with."""

COLUMNS = ("fields", "text", "parts", "native", "blob")
"""What a whole record is read from, without its vector."""

_FIELDS = tuple(field.name for field in fields(ContextRecord))
_KNOWN = frozenset(_FIELDS)
_APART = (*COLUMNS, "embedding")
_PACKED = tuple(name for name in _FIELDS if name not in _APART)
_TIMES = ("created_at", "updated_at", "expires_at", "retired_at")
_LISTS = ("source_ids", "relationships", "edges", "tags")


def checked(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Values of fields of a record, by name, in plain types; `where` is what their names begin with.

    Raises InvalidRequestError for what could not be kept faithfully. What is absent stays so, and
    an empty name means absent: frameworks pass "" for users and runs that they do not know.
    """
    plain: dict[str, Any] = {}
    for name, value in values.items():
        if name not in _REQUIRED and (value is None or (name in _NAMES and value == "")):
            plain[name] = None
        else:
            check = _CHECKS.get(name)
            plain[name] = check(value, f"{where}{name}") if check else value
    return plain


def to_row(record: ContextRecord, *, key: str, search_text: str | None) -> dict[str, Any]:
    """The row of a record in plain types."""
    row = {name: getattr(record, name) for name in _FIELDS}
    row["relationships"] = [
        {"target_id": edge.target_id, "relation": edge.relation, "weight": edge.weight}
        for edge in record.relationships
    ]
    row |= {
        "fields": _packed({name: row[name] for name in _PACKED}),
        KEY: key,
        "revision": new_revision(),
        "search_text": search_text,
        "parts": parts_to_json(record.parts) if record.parts else None,
        "native": None if record.native is None else dumps(record.native),
        "metadata": dumps(record.metadata),
        "state_metadata": None if record.state_metadata is None else dumps(record.state_metadata),
        "edges": [edge for one in record.relationships for edge in edges_of(one)],
        VECTOR: record.embedding,
    }
    for name in _LISTS:
        # A column without a value need not be written, and an empty list is none to every condition.
        row[name] = row[name] or None
    return row


def from_row(row: Mapping[str, Any]) -> ContextRecord:
    """The record of a row, whole where `fields` was read; else what was not read is absent."""
    return from_values(values_of(row))


def values_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """What takes most of the time to read of a row: `from_values` makes records of it, any number."""
    if packed := row.get("fields"):
        values = _unpacked(packed)
        values |= {name: row[name] for name in COLUMNS[1:] if name in row}
    else:
        values = {name: row[name] for name in _FIELDS if name in row}
        values |= {name: values[name].replace(tzinfo=UTC) for name in _TIMES if values.get(name)}
        for name in ("metadata", "state_metadata"):
            values[name] = loads(row[name], name) if row.get(name) else None
    for name in _MAY_BE_EMPTY:
        if not values.get(name, True):  # As good as absent.
            del values[name]
    if (vector := row.get(VECTOR)) is not None:
        values["embedding"] = _floats(vector)
    if (text := values.get("text")) and is_text_alone(text, values.get("parts")):
        values["parts"] = text, None  # As most are: there is nothing else to be read.
    return all_values(values)


def is_text_alone(text: str, parts: str | None) -> bool:
    """Whether the JSON of the parts of a message is that of one text, as of most messages."""
    return parts == f'[{{"type":"text","text":{dumps(text)}}}]'


def from_values(values: Mapping[str, Any]) -> ContextRecord:
    """A record that shares nothing with another one of the same values that could be changed in it."""
    own = {**values}
    for name, read in _READ.items():
        if (value := own[name]) is not None and value != ():
            own[name] = read(value)
    return record_of(own)


def seen_from_values(values: Mapping[str, Any]) -> ContextRecord:
    """As `from_values`, whose metadata is that of the values: to be looked at, and handed to nobody."""
    own = {**values}
    for name, read in _READ.items():
        if name != "metadata" and (value := own[name]) is not None and value != ():
            own[name] = read(value)
    return record_of(own)


def apart(record: ContextRecord) -> ContextRecord:
    """A record of `seen_from_values` that shares nothing with another one any more."""
    return replace(record, metadata=_copied(record.metadata))


def with_values(row: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a record once these fields have these values, which are names or lists, or None.

    What depends on them follows: what is packed, and what a relationship is found by.
    """
    changed = {**row, **changes}
    if row.get("fields"):
        packed = {**loads(row["fields"], "fields"), **changes}
        changed["fields"] = dumps({k: value for k, value in packed.items() if value is not None})
    if "relationships" in changes:
        kept = [Relationship(**one) for one in changes["relationships"] or ()]
        changed["edges"] = [edge for one in kept for edge in edges_of(one)] or None
    return changed


def from_rows(table: pa.Table) -> list[ContextRecord]:
    """The records of the rows, in their order."""
    return [from_row(row) for row in table.to_pylist()]


def edges_of(relationship: Relationship) -> tuple[str, str]:
    """What a record is found by from the other end of one of its relationships."""
    return relationship.target_id, edge(relationship.target_id, relationship.relation)


def edge(target_id: str, relation: str | None) -> str:
    """The form in which `edges` holds a target, of any relation or of one."""
    # No name holds a NUL, so that no target can be taken for another one and its relation.
    return target_id if relation is None else f"{relation}\0{target_id}"


def relationships_of(
    values: Iterable[Mapping[str, Any] | Relationship],
) -> tuple[Relationship, ...]:
    """Relationships from mappings with `target_id`, `relation` and, optionally, `weight`.

    Raises InvalidRequestError for what is none, or has a weight outside [0, 1].
    """
    return tuple(
        _relationship(asdict(value) if isinstance(value, Relationship) else value, index)
        for index, value in enumerate(values)
    )


def refuse_duplicates(identities: Iterable[tuple[str, str]]) -> None:
    """Raise InvalidRequestError if a name, such as an `id`, stands twice in one call."""
    seen: set[tuple[str, str]] = set()
    for one in identities:
        if one in seen:
            name, value = one
            raise InvalidRequestError(
                f"{name}={shown(value)} occurs twice in one call: give each once"
            )
        seen.add(one)


def is_media(id: str) -> bool:
    """Whether it is the id of a picture, a recording or a film."""
    return id.startswith(MEDIA_PREFIX)


def new_id() -> str:
    """An id that nobody has used before."""
    return uuid.uuid4().hex


def key_of(scope: Scope, *path: str) -> str:
    """The primary key of what a handle of that scope calls by `path`; 32 hexadecimal digits.

    The scope is part of it: one tenant's ids can neither collide with another's nor reach them.
    """
    return hashlib.blake2b(key_prefix(scope, *path), digest_size=16).hexdigest()


def key_prefix(scope: Scope, *path: str) -> bytes:
    """The text that is hashed for the key of a path, and with which those of longer paths begin."""
    told = _told(scope.tenant, scope.user_id, scope.agent_id)
    for part in path:
        text = part.encode()
        told += b"%d:%b" % (len(text), text)
    return told


@remembered(256 * 1024)
def _told(*parts: str | None) -> bytes:
    """The beginning of what the keys of a scope are made of."""
    return b"".join(
        [
            b"-1:" if part is None else b"%d:%b" % (len(text := part.encode()), text)
            for part in parts
        ]
    )


def _packed(values: dict[str, Any]) -> str:
    """What a record has, save its large values and its vector, as JSON."""
    for name in _TIMES:
        if values[name] is not None:
            values[name] = values[name].isoformat()
    return dumps({k: value for k, value in values.items() if value is not None and value != ()})


def _unpacked(text: str) -> dict[str, Any]:
    values: dict[str, Any] = loads(text, "fields")
    if not _KNOWN.issuperset(values):
        # A later release has packed more than this one knows.
        values = {name: value for name, value in values.items() if name in _KNOWN}
    for name in _TIMES:
        if name in values:
            values[name] = datetime.fromisoformat(values[name])
    return values


def _parts(parts: str | tuple[str, None]) -> tuple[Part, ...]:
    if isinstance(parts, tuple):
        return (text_part(parts[0], "TextPart.text"),)
    return parts_from_json(parts)


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(one) for key, one in value.items()}
    return [*map(_copied, value)] if isinstance(value, list) else value


def _size(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise InvalidRequestError(f"{where} is {shown(value)}: give a number of bytes")
    return value


def _floats(vector: Any) -> tuple[float, ...]:
    return tuple(np.asarray(vector, dtype=np.float32).tolist())


def _relationship(value: Any, index: int) -> Relationship:
    where = f"relationships[{index}]"
    if not isinstance(value, Mapping):
        raise InvalidRequestError(f"{where} is {shown(value)}: give a mapping or a Relationship")
    if unknown := set(value) - {"target_id", "relation", "weight"}:
        raise InvalidRequestError(
            f"{where} has the unknown key {shown(min(map(str, unknown)))}: "
            "use target_id, relation or weight"
        )
    weight = value.get("weight")
    if weight is not None and (
        isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight <= 1
    ):
        raise InvalidRequestError(
            f"{where}['weight'] is {shown(weight)}: give a number from 0 to 1, or leave it out"
        )
    return Relationship(
        target_id=check_name(value.get("target_id"), f"{where}['target_id']"),
        relation=check_name(value.get("relation"), f"{where}['relation']"),
        weight=None if weight is None else float(weight),
    )


_REQUIRED = {"id", "context", "kind", "content_type", "lifecycle_status", "metadata"}
_NAMES = (
    "id", "external_id", "context", "kind", "layer", "tenant", "user_id", "agent_id", "session_id",
    "run_id", "author", "role", "name", "content_type", "payload_uri", "source", "lifecycle_status",
    "retention_policy", "retired_reason", "supersedes_id", "superseded_by_id", "payload_checksum",
)  # fmt: skip
_READ: Mapping[str, Callable[[Any], Any]] = {
    "parts": _parts,
    "native": lambda text: loads(text, "native"),
    "metadata": _copied,
    "state_metadata": _copied,
    "relationships": lambda edges: tuple(Relationship(**one) for one in edges),
    "tags": tuple,
    "source_ids": tuple,
}
"""What becomes of the values of a row that a record has in another form."""

_MAY_BE_EMPTY = ("parts", "native", "metadata", "relationships", "tags", "source_ids")

_CHECKS: Mapping[str, Callable[[Any, str], Any]] = {
    **dict.fromkeys(_NAMES, check_name),
    **dict.fromkeys(_TIMES, check_time),
    "text": check_text,
    "payload_size": _size,
    "metadata": check_json_object,
    "state_metadata": check_json_object,
    "tags": lambda tags, where: tuple(check_text(tag, where) for tag in tags),
    "source_ids": lambda ids, where: tuple(check_name(one, where) for one in ids),
}


# What reads show of the records: nothing that has expired, and nothing that is retired.
#
# Retired is what says so by its status or its time, and what another record supersedes.

VISIBLE_STATUSES = ("active", "contradicted")
"""The life-cycle words of what reads show by default; every other word hides a record."""

SUPERSEDED = "superseded"
"""The life-cycle word of what stays superseded though nothing names what superseded it."""


_HAS_VISIBLE_STATUS = sql.in_list("lifecycle_status", VISIBLE_STATUSES)
_IS_NOT_SUPERSEDED = sql.is_absent("superseded_by_id")


def conditions(
    now: datetime, *, include_expired: bool = False, include_retired: bool = False
) -> list[sql.Clause]:
    """What must hold of a row that is shown at that time."""
    later = moments(now, include_expired=include_expired, include_retired=include_retired)
    shown = standing(include_retired=include_retired)
    return [*shown, *(sql.absent_or_after(column, moment) for column, moment in later)]


def standing(*, include_retired: bool = False) -> list[sql.Clause]:
    """What of `conditions` holds at any time."""
    return [] if include_retired else [_HAS_VISIBLE_STATUS, _IS_NOT_SUPERSEDED]


def moments(
    now: datetime, *, include_expired: bool = False, include_retired: bool = False
) -> list[tuple[str, datetime]]:
    """The rest of them: what has to be null, or later than a moment, by column."""
    later = [] if include_expired else [("expires_at", now)]
    return later if include_retired else [*later, ("retired_at", now)]


def alive(now: datetime) -> sql.Clause:
    """That a row, of whatever table, has not expired."""
    return sql.absent_or_after("expires_at", now)


def is_visible(record: ContextRecord, now: datetime) -> bool:
    """What `conditions` ask of a row, asked of a record."""
    return (
        (record.expires_at is None or record.expires_at > now)
        and (record.retired_at is None or record.retired_at > now)
        and record.superseded_by_id is None
        and record.lifecycle_status in VISIBLE_STATUSES
    )
