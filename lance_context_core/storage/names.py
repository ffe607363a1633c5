"""Table names of collections, and the revisions of rows."""

import os
import re
import secrets

import numpy as np

from lance_context_core._util.checks import check_name, shown
from lance_context_core._util.lru import remembered
from lance_context_core.errors import InvalidRequestError

_VECTORS, _KEY_VALUES = "vectors.", "kv."
_SAFE = re.compile(r"[a-z0-9_-]")
_MAX_LENGTH = 200
"""File systems allow 255 bytes, and the engine adds an extension."""


@remembered(64 * 1024)
def table_of(collection: str) -> str:
    """The table of a collection: `a-z`, digits, `_` and `-` stay, other bytes are escaped."""
    return _encoded(_VECTORS, collection, "collection")


def collection_of(table: str) -> str | None:
    """The collection in a table; None for a table of another kind."""
    return _decoded(table, _VECTORS)


@remembered(64 * 1024)
def kv_table_of(name: str) -> str:
    """The table of the key-value items called `name`."""
    return _encoded(_KEY_VALUES, name, "name")


def kv_of(table: str) -> str | None:
    """The name of a table's key-value items; None for a table of another kind."""
    return _decoded(table, _KEY_VALUES)


@remembered(64 * 1024)
def shown_name(table: str) -> str:
    """The name of a table in error messages: that of its content, or its own."""
    if (collection := collection_of(table)) is not None:
        return f"collection {shown(collection)}"
    if (name := kv_of(table)) is not None:
        return f"key-value items {shown(name)}"
    return f"table {table!r}"


def _encoded(prefix: str, name: str, what: str) -> str:
    encoded = _escaped(check_name(name, what))
    if len(encoded) > _MAX_LENGTH:
        raise InvalidRequestError(
            f"{what}={name!r} is too long: {len(encoded)} bytes once encoded, "
            f"at most {_MAX_LENGTH} fit into a file name"
        )
    return prefix + encoded


def _escaped(name: str) -> str:
    return "".join(
        chr(byte) if _SAFE.match(chr(byte)) else f".{byte:02x}" for byte in name.encode()
    )


@remembered(64 * 1024)
def _decoded(table: str, prefix: str) -> str | None:
    if not table.startswith(prefix):
        return None
    escaped = table.removeprefix(prefix).encode()
    return re.sub(rb"\.([0-9a-f]{2})", lambda m: bytes([int(m[1], 16)]), escaped).decode()


# Revisions distinguish one content of a row from every other, on whatever branch it was written.
#
# A revision has 62 bits. The upper half is random; the lower half repeats the upper half of the
# revision that it replaces. So two changes of one row, made on two branches or before and after a
# restore, differ; and a write proves that it was made on top of another.

_HALF = 31
_BASE = 1 << _HALF

SUCCEEDS = f"target.revision / {_BASE} = source.revision % {_BASE}"
"""The merge condition that a row was written on top of the row that it replaces."""


def new_revision() -> int:
    """The revision of a row that replaces none."""
    return int.from_bytes(os.urandom(8)) >> 64 - 2 * _HALF


def new_revisions(n: int) -> np.ndarray:
    """The revisions of `n` rows that replace none: int64."""
    return (np.frombuffer(os.urandom(8 * n), np.uint64) >> np.uint64(64 - 2 * _HALF)).astype(
        np.int64
    )


def next_revision(revision: int) -> int:
    """The revision of a row that replaces the row with `revision`."""
    return secrets.randbits(_HALF) << _HALF | revision >> _HALF


def succeeds(revision: int, other: int) -> bool:
    """Whether a row was written on top of the `other` one."""
    return revision % _BASE == other >> _HALF
