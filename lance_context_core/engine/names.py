"""Names of collections as names of tables, on file systems that fold or forbid letters."""

import re

from lance_context_core._util.checks import check_name, shown
from lance_context_core._util.lru import remembered
from lance_context_core.errors import InvalidRequestError

_VECTORS, _KEY_VALUES = "vectors.", "kv."
_SAFE = re.compile(r"[a-z0-9_-]")
_MAX_LENGTH = 200
"""File systems allow 255 bytes, and the engine adds an ending."""


@remembered(64 * 1024)
def table_of(collection: str) -> str:
    """The table of a collection: small letters, digits, `_` and `-` stay, other bytes are escaped."""
    return _encoded(_VECTORS, collection, "collection")


def collection_of(table: str) -> str | None:
    """The collection that a table holds; None for a table of another sort."""
    return _decoded(table, _VECTORS)


@remembered(64 * 1024)
def kv_table_of(name: str) -> str:
    """The table of the key-value items called `name`."""
    return _encoded(_KEY_VALUES, name, "name")


def kv_of(table: str) -> str | None:
    """The name of the key-value items that a table holds; None for a table of another sort."""
    return _decoded(table, _KEY_VALUES)


@remembered(64 * 1024)
def shown_name(table: str) -> str:
    """What an error message calls a table: what it holds, or its own name."""
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
