"""Parses connection strings as LangGraph's SqliteSaver and SqliteStore do."""

from lance_context_core import InvalidRequestError

_IN_MEMORY = {":memory:": "memory://"}
"""SQLite's name of an in-memory database, and the store's."""


def place_at(conn_string: str) -> str:
    """The path or URI of a connection string."""
    if not isinstance(conn_string, str):
        raise InvalidRequestError(f"conn_string={conn_string!r:.80}: give a path or a URI")
    return _IN_MEMORY.get(conn_string, conn_string)
