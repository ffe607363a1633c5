"""Key-value items to rows and back."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from lance_context_core._util.checks import (
    check_text,
    check_time,
    listed,
    loads,
    shown,
    written_json_object,
)
from lance_context_core.codecs.records import key_of
from lance_context_core.errors import InvalidRequestError
from lance_context_core.protocols import ItemKey
from lance_context_core.scope import SCOPE_PARTS, Scope
from lance_context_core.storage.lance.schema import KEY, VECTOR
from lance_context_core.types import Item, ItemVector

COLUMNS = (KEY, "id", "namespace", "value", "data_type", "created_at", "updated_at", "expires_at", "revision", "author", *SCOPE_PARTS)  # fmt: skip
"""What an item is read from, without its data and its vectors."""

_DATA = ("data",)
_VECTORS = ("vector_paths", VECTOR)


class Checked(NamedTuple):
    """What is written of an item, in plain types."""

    namespace: tuple[str, ...]
    key: str
    value: str | None
    """As JSON."""
    data: bytes | None
    data_type: str | None
    expires_at: datetime | None
    vectors: tuple[ItemVector, ...]


def checked(item: Any, where: str) -> Checked:
    """What is written of `item`. Raises InvalidRequestError for what could not be kept faithfully."""
    if not isinstance(item, Item):
        raise InvalidRequestError(f"{where} is {shown(item)}: pass Item(key=…)")
    data = item.data
    if data is not None and not isinstance(data, bytes | bytearray | memoryview):
        raise InvalidRequestError(f"{where}.data is {shown(data)}: give bytes")
    value, data_type, expires_at = item.value, item.data_type, item.expires_at
    vectors = listed(item.vectors, f"{where}.vectors") if item.vectors != () else ()
    return Checked(
        namespace=checked_namespace(item.namespace, f"{where}.namespace"),
        key=check_segment(item.key, f"{where}.key"),
        value=None if value is None else written_json_object(value, f"{where}.value")[1],
        data=None if data is None else bytes(data),
        data_type=None if data_type is None else check_text(data_type, f"{where}.data_type"),
        expires_at=None if expires_at is None else check_time(expires_at, f"{where}.expires_at"),
        vectors=tuple(
            _vector(one, f"{where}.vectors[{index}]") for index, one in enumerate(vectors)
        ),
    )


def to_row(
    item: Checked, *, scope: Scope, now: datetime, author: str | None = None
) -> dict[str, Any]:
    """The row of a checked item, without its vectors; see `with_vectors`."""
    return {
        KEY: row_key(scope, (item.namespace, item.key)),
        "id": item.key,
        "namespace": encoded(item.namespace),
        "value": item.value,
        "data": item.data,
        "data_type": item.data_type,
        "expires_at": item.expires_at,
        "created_at": now,
        "updated_at": now,
        "vector_paths": None,
        "author": author,
        VECTOR: None,
        **scope.parts(),
    }


def with_vectors(
    row: dict[str, Any], item: Checked, vectors: Sequence[np.ndarray | None]
) -> dict[str, Any]:
    """The row of an item with its vectors in their order; those that are None are not kept."""
    # Cosine is undefined for zeros, and one of them would take its item out of every search.
    found = [
        (one.path, vector)
        for one, vector in zip(item.vectors, vectors, strict=True)
        if vector is not None and vector.any()
    ]
    paths, kept = [path for path, _ in found], [vector for _, vector in found]
    return row | {"vector_paths": paths or None, VECTOR: kept or None}


def from_row(row: Mapping[str, Any]) -> Item:
    """The item of a row; what was not read is absent."""
    values = {
        name: row[name]
        for name in ("data_type", *_DATA, *SCOPE_PARTS, "author", "revision")
        if name in row
    }
    for name in ("created_at", "updated_at", "expires_at"):
        values[name] = _in_utc(row[name])
    return Item(
        key=row["id"],
        namespace=decoded(row["namespace"]),
        value=None if row["value"] is None else loads(row["value"], "value"),
        vectors=tuple(
            ItemVector(path=path, vector=tuple(vector))
            for path, vector in zip(
                row.get("vector_paths") or (), row.get(VECTOR) or (), strict=True
            )
        ),
        **values,
    )


def from_known(row: Mapping[str, Any], *, include_data: bool) -> Item:
    """The item, without its vectors, of a row that lacks what is null, and was read with all else."""
    known, value = row.get, row.get("value")
    return Item(
        key=row["id"],
        namespace=decoded(row["namespace"]),
        value=None if value is None else loads(value, "value"),
        data=known("data") if include_data else None,
        data_type=known("data_type"),
        expires_at=_in_utc(known("expires_at")),
        created_at=_in_utc(known("created_at")),
        updated_at=_in_utc(known("updated_at")),
        revision=known("revision"),
        tenant=known("tenant"),
        user_id=known("user_id"),
        agent_id=known("agent_id"),
        author=known("author"),
    )


def columns(*, include_data: bool, include_vectors: bool = False) -> list[str]:
    """What `from_row` reads an item from."""
    return [
        *COLUMNS,
        *(_DATA if include_data else ()),
        *(_VECTORS if include_vectors else ()),
    ]


def checked_key(key: Any, where: str) -> ItemKey:
    """A namespace and a key in plain types."""
    is_pair = type(key) is tuple or (isinstance(key, Sequence) and not isinstance(key, str))
    if not is_pair or len(key) != 2:
        raise InvalidRequestError(f"{where} is {shown(key)}: give a namespace and a key")
    return checked_namespace(key[0], f"{where}.namespace"), check_segment(key[1], f"{where}.key")


def checked_namespace(segments: Any, where: str) -> tuple[str, ...]:
    """The segments of a namespace in plain types."""
    if type(segments) is tuple and all(map(_is_segment, segments)):  # as most are
        return segments
    return tuple(
        check_segment(one, f"{where}[{n}]") for n, one in enumerate(listed(segments, where))
    )


def row_key(scope: Scope, key: ItemKey) -> str:
    """The primary key of an item."""
    return key_of(scope, "item", *key[0], key[1])


def decoded(namespace: str) -> tuple[str, ...]:
    """The segments of a namespace as it stands in a row."""
    return tuple(namespace.split("\0")[:-1])


def encoded(namespace: Sequence[str]) -> str:
    """A namespace as it stands in a row."""
    return "".join(f"{segment}\0" for segment in namespace)


def check_segment(value: Any, where: str) -> str:
    """A key, or a segment of a namespace, in plain types: any text without NUL."""
    if _is_segment(value):
        return value
    text = check_text(value, where)
    if "\0" in text:
        raise InvalidRequestError(f"{where} holds a NUL character: {shown(text)}; remove it")
    return text


def _in_utc(moment: datetime | None) -> datetime | None:
    # Arrow has a UTC of its own.
    return moment if moment is None or moment.tzinfo is UTC else moment.replace(tzinfo=UTC)


def _is_segment(value: object) -> TypeGuard[str]:
    """Whether it surely is one that is in plain types."""
    return type(value) is str and value.isascii() and "\0" not in value


def _vector(one: Any, where: str) -> ItemVector:
    if not isinstance(one, ItemVector):
        raise InvalidRequestError(f"{where} is {shown(one)}: pass ItemVector(…)")
    if (one.text is None) is (one.vector is None):
        raise InvalidRequestError(f"{where} needs a text or a vector, one of the two")
    return ItemVector(
        path=check_text(one.path, f"{where}.path"),
        text=None if one.text is None else check_text(one.text, f"{where}.text"),
        vector=one.vector,  # checked where vectors are made of the texts, too
    )
