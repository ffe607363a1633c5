"""Names of collections as names of tables, on file systems that fold or forbid letters."""

import re

from lance_context_core._json import check_name, shown
from lance_context_core.errors import InvalidRequestError

_PREFIX = "vectors."
_SAFE = re.compile(r"[a-z0-9_-]")
_MAX_LENGTH = 200
"""File systems allow 255 bytes, and the engine adds an ending."""


def table_of(collection: str) -> str:
    """The table of a collection: small letters, digits, `_` and `-` stay, other bytes are escaped."""
    encoded = "".join(
        chr(byte) if _SAFE.match(chr(byte)) else f".{byte:02x}"
        for byte in check_name(collection, "collection").encode()
    )
    if len(encoded) > _MAX_LENGTH:
        raise InvalidRequestError(
            f"collection={collection!r} is too long: {len(encoded)} bytes once encoded, "
            f"at most {_MAX_LENGTH} fit into a file name"
        )
    return _PREFIX + encoded


def collection_of(table: str) -> str | None:
    """The collection that a table holds; None for a table of another sort."""
    if not table.startswith(_PREFIX):
        return None
    escaped = table.removeprefix(_PREFIX).encode()
    return re.sub(rb"\.([0-9a-f]{2})", lambda m: bytes([int(m[1], 16)]), escaped).decode()


def shown_name(table: str) -> str:
    """What an error message calls a table: the collection that it holds, or its own name."""
    collection = collection_of(table)
    return f"table {table!r}" if collection is None else f"collection {shown(collection)}"
