"""LangGraph's store on SQLite."""

import sqlite3
from typing import Any

from langgraph.store.sqlite import SqliteStore

from benchmarks.sides.conversations import operations
from benchmarks.sides.langgraph_items import LangGraphItems, index_of
from benchmarks.sides.protocol import serve


class Sqlite(LangGraphItems):
    """Connected as its own `from_conn_string` does it."""

    def _open(self, folder: str) -> None:
        connection = _connect(f"{folder}/items.db", check_same_thread=False, isolation_level=None)
        # It pays no attention to `fields`, and would embed the whole item as JSON.
        index = {**index_of(self._rows), "text_fields": ["text"]}
        self.api = SqliteStore(connection, index=index)
        self.api.setup()


def _connect(path: str, **options: Any) -> Any:
    """A connection of Python's own SQLite, or of another where that loads no extensions."""
    if hasattr(sqlite3.Connection, "enable_load_extension"):
        return sqlite3.connect(path, **options)
    import pysqlite3  # type: ignore[import-not-found]  # only in its environment

    return pysqlite3.connect(path, **options)


if __name__ == "__main__":
    serve(operations(Sqlite, "langgraph-checkpoint-sqlite", "langgraph", "sqlite-vec"))
