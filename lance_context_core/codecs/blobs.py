"""Blobs to rows and back: a row for what is known of one, and for more bytes than few, one a piece."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from lance_context_core._util.checks import shown
from lance_context_core.codecs.records import key_of
from lance_context_core.errors import InvalidRequestError
from lance_context_core.scope import SCOPE_PARTS, Scope
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.storage.names import new_revision, next_revision
from lance_context_core.types.media import SCHEME, Blob

BLOB, PIECE = "blob", "piece"
"""The kinds of rows."""

PIECE_BYTES = 1024 * 1024
"""What a piece holds; the last one of a blob may hold less."""

MOST_INLINE = 64 * 1024
"""A blob of no more bytes is one row."""

COLUMNS = (
    *("id", *SCOPE_PARTS, "created_at", "updated_at", "hash", "size", "content_type"),
    *("is_own", "is_pinned", "kept_until", "n_holds"),
)
"""What a blob is read from, without its bytes."""

REPLACED = (KEY, "revision", *COLUMNS, "data")
"""What is read of a blob that is about to be changed."""

_HASH = re.compile(r"[0-9a-f]{64}")


def checked(ref: object, where: str = "ref") -> str:
    """The hash that a `Blob`, its URI, or the hash itself names."""
    named = ref.hash if isinstance(ref, Blob) else ref
    if isinstance(named, str) and _HASH.fullmatch(hash := named.removeprefix(SCHEME)):
        return hash
    raise InvalidRequestError(
        f"{where}={shown(ref)}: give a Blob, its uri, or the SHA-256 of its bytes in hexadecimal digits"
    )


def key(scope: Scope, hash: str, position: int | None = None) -> str:
    """The key of a blob's row, or of that of one of its pieces."""
    return key_of(scope, "blob", hash, "" if position is None else str(position))


def n_pieces(size: int) -> int:
    """How many rows hold the bytes of a blob of that size, beside its own."""
    return 0 if size <= MOST_INLINE else -(-size // PIECE_BYTES)


def to_row(
    hash: str,
    *,
    scope: Scope,
    now: datetime,
    size: int,
    content_type: str,
    is_own: bool,
    is_pinned: bool,
    kept_until: datetime | None,
    data: bytes | None,
) -> dict[str, Any]:
    """The row of a new blob; with its bytes, if they are few."""
    return {
        **_identity(scope, hash, None, now),
        "kind": BLOB,
        "size": size,
        "content_type": content_type,
        "is_own": is_own,
        "is_pinned": is_pinned,
        "kept_until": kept_until,
        "n_holds": 0,
        "data": data,
    }


def to_piece_row(
    hash: str, position: int, data: bytes, *, scope: Scope, now: datetime
) -> dict[str, Any]:
    """The row of a piece, 0 being the first one."""
    return {
        **_identity(scope, hash, position, now),
        "kind": PIECE,
        "position": position,
        "data": data,
    }


def changed(row: Mapping[str, Any], now: datetime, **changes: Any) -> dict[str, Any]:
    """The row of a blob with these values, which replaces `row`."""
    kept = {name: row[name] for name in REPLACED}
    revision = next_revision(row["revision"])
    return kept | {"kind": BLOB, "updated_at": now, "revision": revision} | changes


def from_row(row: Mapping[str, Any]) -> Blob:
    """The blob of a row; of a piece what is known of that."""
    until = row.get("kept_until")
    return Blob(
        hash=row["hash"],
        size=row.get("size") or 0,
        content_type=row.get("content_type") or "application/octet-stream",
        created_at=row["created_at"].replace(tzinfo=UTC),
        expires_at=None if until is None else until.replace(tzinfo=UTC),
        is_pinned=bool(row.get("is_pinned")),
        **{part: row[part] for part in SCOPE_PARTS},
    )


def scope_of(row: Mapping[str, Any]) -> Scope:
    """Whose a blob is."""
    return Scope(**{part: row[part] for part in SCOPE_PARTS})


def hash_of(id: str) -> str:
    """The hash of what a row of that id is about."""
    return id.partition(":")[0]


def is_whole(id: str) -> bool:
    """Whether it is a blob's, and not that of one of its pieces."""
    return ":" not in id


def _identity(scope: Scope, hash: str, position: int | None, now: datetime) -> dict[str, Any]:
    return {
        KEY: key(scope, hash, position),
        "id": hash if position is None else f"{hash}:{position}",
        "hash": hash,
        "created_at": now,
        "updated_at": now,
        "revision": new_revision(),
        **scope.parts(),
    }
