"""Records to rows and back, and the checks at the door."""

import hashlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from lance_context_core._checks import (
    check_json_object,
    check_name,
    check_text,
    check_time,
    dumps,
    loads,
    shown,
)
from lance_context_core.engine.revisions import new_revision
from lance_context_core.engine.schema import KEY, VECTOR
from lance_context_core.errors import InvalidRequestError
from lance_context_core.messages import parts_from_json, parts_to_json
from lance_context_core.records import ContextRecord, Relationship
from lance_context_core.scope import Scope

NO_CONTEXT = ""
"""What is in it is never shown; no context of a caller's can be called so."""

_FIELDS = dict.fromkeys(field.name for field in fields(ContextRecord))
_LARGE = ("text", "parts", "native", "blob")

COLUMNS = ("fields", *_LARGE)
"""What a whole record is read from, without its vector."""

_NAMES = (
    "id", "external_id", "context", "kind", "layer", "tenant", "user_id", "agent_id", "session_id",
    "run_id", "role", "name", "content_type", "payload_uri", "source", "lifecycle_status",
    "retention_policy", "retired_reason", "supersedes_id", "superseded_by_id", "payload_checksum",
)  # fmt: skip
_TIMES = ("created_at", "updated_at", "expires_at", "retired_at")
_REQUIRED = {"id", "context", "kind", "content_type", "lifecycle_status"}
_LISTS = ("source_ids", "relationships", "edges", "tags")


def new_id() -> str:
    """An id that nobody has used before."""
    return uuid.uuid4().hex


def key_of(scope: Scope, *path: str) -> str:
    """The primary key of what a handle of that scope calls by `path`; 32 hexadecimal digits.

    The scope is part of it: one tenant's ids can neither collide with another's nor reach them.
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in (scope.tenant, scope.user_id, scope.agent_id, *path):
        text = b"" if part is None else part.encode()
        digest.update(b"%d:%b" % (-1 if part is None else len(text), text))
    return digest.hexdigest()


def checked(record: ContextRecord, where: str) -> ContextRecord:
    """`record` in plain types. Raises InvalidRequestError for what could not be kept faithfully."""
    plain: dict[str, Any] = {}
    for name in _NAMES:
        value = getattr(record, name)
        # An empty name means absent: frameworks pass "" for users and runs that they do not know.
        if name in _REQUIRED or value not in (None, ""):
            plain[name] = check_name(value, f"{where}{name}")
        else:
            plain[name] = None
    for name in _TIMES:
        value = getattr(record, name)
        plain[name] = None if value is None else check_time(value, f"{where}{name}")
    if record.text is not None:
        plain["text"] = check_text(record.text, f"{where}text")
    if record.payload_size is not None and not _is_size(record.payload_size):
        raise InvalidRequestError(
            f"{where}payload_size is {shown(record.payload_size)}: give a number of bytes"
        )
    plain["metadata"] = check_json_object(record.metadata, f"{where}metadata")
    if record.state_metadata is not None:
        plain["state_metadata"] = check_json_object(record.state_metadata, f"{where}state_metadata")
    plain["tags"] = tuple(check_text(tag, f"{where}tags") for tag in record.tags)
    plain["source_ids"] = tuple(check_name(one, f"{where}source_ids") for one in record.source_ids)
    return replace(record, **plain)


def to_row(record: ContextRecord, *, key: str, search_text: str | None) -> dict[str, Any]:
    """The row of a checked record."""
    row = {name: getattr(record, name) for name in _FIELDS}
    relationships = [
        {"target_id": edge.target_id, "relation": edge.relation, "weight": edge.weight}
        for edge in record.relationships
    ]
    row |= {
        KEY: key,
        "revision": new_revision(),
        "search_text": search_text,
        "fields": _packed(row | {"relationships": relationships}),
        "parts": parts_to_json(record.parts) if record.parts else None,
        "native": None if record.native is None else dumps(record.native),
        "metadata": dumps(record.metadata),
        "state_metadata": None if record.state_metadata is None else dumps(record.state_metadata),
        "relationships": relationships,
        "edges": [edge for one in record.relationships for edge in edges_of(one)],
        VECTOR: record.embedding,
    }
    # A column without a value need not be written, and an empty list is none to every condition.
    return row | {name: row[name] or None for name in _LISTS}


def from_row(row: Mapping[str, Any]) -> ContextRecord:
    """The record of a row, whole where `fields` was read; else what was not read is absent."""
    if row.get("fields"):
        values = _unpacked(row["fields"])
        values |= {name: row[name] for name in _LARGE if name in row}
    else:
        values = {name: row[name] for name in _FIELDS if name in row}
        values |= {name: values[name].replace(tzinfo=UTC) for name in _TIMES if values.get(name)}
        for name in ("metadata", "state_metadata"):
            values[name] = loads(row[name], name) if row.get(name) else None
    values |= {
        "parts": parts_from_json(row["parts"]) if row.get("parts") else (),
        "native": loads(row["native"], "native") if row.get("native") else None,
        "metadata": values.get("metadata") or {},
        "relationships": tuple(Relationship(**one) for one in values.get("relationships") or ()),
        "tags": tuple(values.get("tags") or ()),
        "source_ids": tuple(values.get("source_ids") or ()),
        "embedding": _floats(row.get(VECTOR)),
    }
    return ContextRecord(**values)


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


def refuse_duplicates(ids: Sequence[str], what: str) -> None:
    """Raise InvalidRequestError if an id stands twice in one call."""
    seen: set[str] = set()
    for one in ids:
        if one in seen:
            raise InvalidRequestError(
                f"{what}={shown(one)} stands twice in one call: give each once"
            )
        seen.add(one)


def _packed(values: Mapping[str, Any]) -> str:
    """What a record has, save its large values and its vector, as JSON."""
    packed = {}
    for name, value in values.items():
        if name in _LARGE or name == "embedding" or value is None or value == ():
            continue
        packed[name] = value.isoformat() if name in _TIMES else value
    return dumps(packed)


def _unpacked(text: str) -> dict[str, Any]:
    # A later release may have packed more than this one knows.
    known = {name: value for name, value in loads(text, "fields").items() if name in _FIELDS}
    return known | {name: datetime.fromisoformat(known[name]) for name in _TIMES if name in known}


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _floats(vector: Any) -> tuple[float, ...] | None:
    return None if vector is None else tuple(np.asarray(vector, dtype=np.float32).tolist())


def _relationship(value: Any, index: int) -> Relationship:
    where = f"relationships[{index}]"
    if not isinstance(value, Mapping):
        raise InvalidRequestError(f"{where} is {shown(value)}: give a mapping or a Relationship")
    if unknown := set(value) - {"target_id", "relation", "weight"}:
        raise InvalidRequestError(
            f"{where} has the unknown key {shown(min(map(str, unknown)))}: "
            "there are target_id, relation and weight"
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
