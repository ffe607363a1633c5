"""The formats of the record API: parameters of `add` and `update`, and records as mappings."""

import io
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, replace
from datetime import datetime
from typing import Any, TypedDict

import pyarrow as pa

from lance_context_core._util.checks import check_json, check_name, check_text, dumps, shown
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.codecs.records import checked, new_id, relationships_of
from lance_context_core.errors import InvalidRequestError
from lance_context_core.messages import Message, Part
from lance_context_core.scope import Scope
from lance_context_core.stores.history import CHAT_ROLES
from lance_context_core.stores.records.writes import Draft
from lance_context_core.types import ContextRecord, Relationship, SearchHit

# Content types: texts, bytes, images, tables, JSON, and messages.

TEXT = "text/plain"
BYTES = "application/octet-stream"
JSON = "application/json"
ARROW_STREAM = "application/vnd.apache.arrow.stream"

_FAITHFUL: dict[str, dict[str, Any]] = {"JPEG": {"quality": "keep"}, "WEBP": {"lossless": True}}
"""Options that minimise the loss of lossy formats at each encoding."""


@frozen_by_name
class Content:
    """Content as stored: a text, bytes, or a message's parts."""

    content_type: str
    text: str | None = None
    blob: bytes | None = None
    parts: tuple[Part, ...] = ()


def content_of(value: Any, content_type: str | None) -> Content:
    """Convert `value` to its stored form, with the declared or detected type.

    Texts stay texts. Bytes, images of Pillow (as PNG, or in their own format) and tables (of Arrow,
    pandas, polars, or any object with `to_arrow`; as an Arrow stream) become bytes. Lists and
    mappings become JSON text. Any other type raises InvalidRequestError.
    """
    if isinstance(value, str):
        return Content(content_type=content_type or TEXT, text=check_text(value, "content"))
    if isinstance(value, bytes | bytearray | memoryview):
        return Content(content_type=content_type or BYTES, blob=bytes(value))
    if isinstance(value, Message):
        return Content(
            content_type=content_type or TEXT, text=value.text or None, parts=value.parts
        )
    if (image := _image(value)) is not None:
        blob, shown = image
        return Content(content_type=content_type or shown, blob=blob)
    if (table := _table(value)) is not None:
        return Content(content_type=content_type or ARROW_STREAM, blob=_stream(table))
    if isinstance(value, dict | list | tuple):
        return Content(content_type=content_type or JSON, text=dumps(check_json(value, "content")))
    raise InvalidRequestError(
        f"content is a {type(value).__name__}: pass a str, bytes, a Pillow image, an Arrow table, "
        "a JSON mapping or list, or a Message"
    )


def _image(value: Any) -> tuple[bytes, str] | None:
    """Return the bytes and the media type of a Pillow image; None for other values."""
    # Compared by name: without Pillow no value is a Pillow image.
    if not any(c.__module__ == "PIL.Image" and c.__name__ == "Image" for c in type(value).__mro__):
        return None
    name = value.format or "PNG"
    options = _FAITHFUL.get(name, {}) | {"save_all": getattr(value, "is_animated", False)}
    buffer = io.BytesIO()
    try:
        value.save(buffer, format=name, **options)
    except (OSError, ValueError, KeyError) as error:
        raise InvalidRequestError(
            f"content is an image of mode {value.mode!r}, which cannot be written as {name}: "
            "convert it first, such as with image.convert('RGB')"
        ) from error
    media_type = value.get_format_mimetype() if hasattr(value, "get_format_mimetype") else None
    return buffer.getvalue(), media_type or f"image/{name.lower()}"


def _table(value: Any) -> pa.Table | None:
    """Return the Arrow table of a tabular value; None for other values."""
    if hasattr(value, "to_arrow"):
        value = value.to_arrow()
    elif type(value).__module__.partition(".")[0] == "pandas":
        value = pa.Table.from_pandas(value)
    if isinstance(value, pa.RecordBatch):
        value = pa.Table.from_batches([value])
    return value if isinstance(value, pa.Table) else None


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


RecordDict = dict[str, Any]
"""A record with the keys of the record API.

The keys are the fields of `ContextRecord`, plus `bot_id` (as `agent_id`), `binary` for its bytes,
`content` for its text or bytes, and `relationships` as mappings.
"""


class RecordChanges(TypedDict, total=False):
    """The fields of a record apart from its content."""

    agent_id: str | None
    bot_id: str | None
    """An alias of `agent_id`."""
    user_id: str | None
    session_id: str | None
    run_id: str | None
    tenant: str | None
    source: str | None
    metadata: Mapping[str, Any] | None
    state_metadata: Mapping[str, Any] | None
    relationships: Iterable[Mapping[str, Any] | Relationship] | None
    tags: Iterable[str] | None
    source_ids: Iterable[str] | None
    expires_at: datetime | str | None
    """An aware datetime, or ISO 8601, as for all times here."""
    retention_policy: str | None
    lifecycle_status: str | None
    retired_at: datetime | str | None
    retired_reason: str | None
    supersedes_id: str | None
    superseded_by_id: str | None
    payload_uri: str | None
    payload_size: int | None
    payload_checksum: str | None


class RecordFields(RecordChanges, total=False):
    """The fields of a new record, besides its role and content."""

    id: str | None
    external_id: str | None
    kind: str | None
    name: str | None
    layer: str | None
    created_at: datetime | str | None


_CHANGEABLE = RecordChanges.__annotations__.keys() | {"embedding"}
_KNOWN = (
    _CHANGEABLE
    | RecordFields.__annotations__.keys()
    | {"role", "content", "content_type", "data_type"}
)
_DEFAULTS: dict[str, Any] = {
    field.name: field.default if field.default_factory is MISSING else field.default_factory()
    for field in fields(ContextRecord)
    if field.name in _CHANGEABLE
}


def record_dict(record: ContextRecord) -> RecordDict:
    """Convert a record to the format of the record API.

    The keys are the fields of `ContextRecord`, plus `bot_id` (as `agent_id`), `binary` for the
    bytes, `content` for its text or bytes, and `relationships` as mappings.
    """
    shown = {
        field.name: getattr(record, field.name)
        for field in fields(record)
        if field.name not in {"blob", "parts", "native"}
    }
    shown["bot_id"] = record.agent_id
    shown["binary"] = record.blob
    shown["content"] = record.text if record.text is not None else record.blob
    shown["embedding"] = None if record.embedding is None else list(record.embedding)
    shown["metadata"] = dict(record.metadata)
    shown["tags"] = list(record.tags)
    shown["source_ids"] = list(record.source_ids)
    shown["relationships"] = [
        {"target_id": one.target_id, "relation": one.relation, "weight": one.weight}
        for one in record.relationships
    ]
    return shown


def hit_dict(hit: SearchHit[ContextRecord], *, relationships: bool) -> RecordDict:
    """Convert a hit to the record API's format: the record's keys, and scores.

    Without `relationships` it has none, even if the record does.
    """
    vector, text = hit.channels.get("vector"), hit.channels.get("text")
    distance = None if vector is None else 1.0 - vector.raw
    shown = record_dict(hit.record)
    if not relationships:
        shown["relationships"] = []
    return shown | {
        "score": hit.score,
        "matched_channels": [name for name in ("vector", "text") if name in hit.channels],
        "distance": distance,
        "vector_distance": distance,
        "text_score": None if text is None else text.raw,
    }


def draft_of(given: Mapping[str, Any], *, where: str, now: datetime) -> Draft:
    """Return a record from the parameters of `add`; `where` is its batch place, or ""."""
    what, prefix = where or "the record", f"{where}." if where else ""
    if not isinstance(given, Mapping):
        raise InvalidRequestError(f"{what} is a {type(given).__name__}: pass a mapping")
    if unknown := set(given) - _KNOWN:
        raise InvalidRequestError(
            f"{what} has the unknown field {shown(min(map(str, unknown)))}: "
            f"use one of {', '.join(sorted(_KNOWN))}; anything else goes into metadata"
        )
    for required in ("role", "content"):
        if required not in given:
            raise InvalidRequestError(f"{what} has no {required!r}")
    if given.get("content_type") and given.get("data_type"):
        raise InvalidRequestError(f"{what} has both content_type and data_type: pass one of them")
    if given.get("id") is not None and given.get("external_id") is not None:
        raise InvalidRequestError(f"{what} has both id and external_id: choose one of them")
    content = content_of(given["content"], given.get("content_type") or given.get("data_type"))
    values, said = _values(given), _said_by(given["content"])
    promoted = _promoted(values.get("metadata", said.get("metadata")))
    role = check_name(given["role"], f"{prefix}role")
    values |= {"content_type": content.content_type}
    values = {**said, **checked({**promoted, **values}, prefix)}
    is_turn = role in CHAT_ROLES and given.get("session_id") is not None
    if values.get("external_id"):
        # The caller's name replaces the message's own id.
        values.pop("id", None)
    record = ContextRecord(
        **{
            "id": new_id(),
            "kind": "message" if is_turn else "record",
            "created_at": now,
            **values,
            "updated_at": now,
            "role": role,
            "text": content.text,
            "blob": content.blob,
            "parts": content.parts,
        }
    )
    if record.external_id:
        return Draft(record=record, identity=("external_id", record.external_id))
    return Draft(record=record, identity=("id", record.id) if "id" in values else None)


def patch_of(changes: Mapping[str, Any], clear: Iterable[str]) -> dict[str, Any]:
    """Return the changed fields of a record with their new values.

    A cleared field gets its default. Raises InvalidRequestError without changes.
    """
    if unknown := set(changes) - _CHANGEABLE:
        raise InvalidRequestError(
            f"{shown(min(unknown))} cannot be updated: use one of "
            f"{', '.join(sorted(_CHANGEABLE))}; use upsert to replace the content"
        )
    values = checked(_values(changes), "")
    for name in _cleared(clear):
        if name in values:
            raise InvalidRequestError(f"{name} is both set and in clear: choose one of them")
        values[name] = _DEFAULTS[name]
    if not values:
        raise InvalidRequestError(
            f"nothing to update: name one of {', '.join(sorted(_CHANGEABLE))}"
        )
    return values


def patched(record: ContextRecord, patch: Mapping[str, Any], *, scope: Scope) -> ContextRecord:
    """Return `record` with the changes of `patch_of`.

    Tags from its metadata follow the metadata. A tenant in the metadata is used for a record
    without one; it changes no other. In a tenant's scope it is always used, so that one outside the
    scope is refused. Cleared fields fall back to the scope.
    """
    changes = dict(patch)
    if "metadata" in changes:
        promoted = checked(_promoted(changes["metadata"]), "")
        if record.tags == _promoted(record.metadata).get("tags", ()):
            changes.setdefault("tags", promoted.get("tags", ()))
        if "tenant" in promoted and (record.tenant is None or scope.tenant is not None):
            changes.setdefault("tenant", promoted["tenant"])
    for part, value in scope.parts().items():
        if changes.get(part) in {None, ""}:
            changes[part] = value
    return replace(record, **changes)


def one_agent(agent_id: str | None, bot_id: str | None) -> str | None:
    """Return the agent of two aliases. Raises InvalidRequestError if they differ."""
    if agent_id is not None and bot_id is not None and agent_id != bot_id:
        raise InvalidRequestError(
            f"bot_id={shown(bot_id)} and agent_id={shown(agent_id)} are two names of one thing: give one of them"
        )
    return bot_id if agent_id is None else agent_id


def _said_by(content: Any) -> dict[str, Any]:
    """Return the fields of a message besides its content."""
    if not isinstance(content, Message):
        return {}
    names = ("id", "name", "created_at", "metadata", "native")
    said = {name: getattr(content, name) for name in names}
    return {name: value for name, value in said.items() if value is not None}


def _values(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given fields of a record by their own names, in stored form."""
    left_out = {"role", "content", "content_type", "data_type"}
    values = {k: v for k, v in given.items() if v is not None and k not in left_out}
    agent = one_agent(values.get("agent_id"), values.pop("bot_id", None))
    if agent is not None:
        values["agent_id"] = agent
    for name in values.keys() & {"relationships", "tags", "source_ids"}:
        if isinstance(values[name], str | Mapping) or not isinstance(values[name], Iterable):
            raise InvalidRequestError(f"{name}={shown(values[name])} is not a list: pass one")
        values[name] = (relationships_of if name == "relationships" else tuple)(values[name])
    for name in ("created_at", "expires_at", "retired_at"):
        if isinstance(values.get(name), str):
            values[name] = _moment(values[name], name)
    return values


def _promoted(metadata: Any) -> dict[str, Any]:
    """Return the tenant and the tags in a record's metadata, if any."""
    if not isinstance(metadata, Mapping):
        return {}
    promoted: dict[str, Any] = {}
    tenant, tags = metadata.get("tenant"), metadata.get("tags")
    if isinstance(tenant, str) and tenant:
        promoted["tenant"] = tenant
    if isinstance(tags, list | tuple) and all(isinstance(tag, str) for tag in tags):
        promoted["tags"] = tuple(tags)
    return promoted


def _cleared(clear: Iterable[str]) -> set[str]:
    """Return the fields to clear, by the record's own names."""
    if isinstance(clear, str) or not isinstance(clear, Iterable):
        raise InvalidRequestError(f"clear={shown(clear)} is not a list: pass the names of fields")
    names = [*clear]
    for name in names:
        if not isinstance(name, str) or name not in _CHANGEABLE:
            raise InvalidRequestError(
                f"clear has {shown(name)}: use one of {', '.join(sorted(_CHANGEABLE))}"
            )
    return {"agent_id" if name == "bot_id" else name for name in names}


def _moment(text: str, name: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidRequestError(
            f"{name}={shown(text)} is not an ISO 8601 time: use '2026-05-08T12:00:00+00:00'"
        ) from error
