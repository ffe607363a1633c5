"""LlamaIndex over SQLite: its own chat store, and its document store over a table of keys and values.

Nobody ships a document store on SQLite: this is the least that one has to do.
"""

import json
import sqlite3
from pathlib import Path
from typing import Any

from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from llama_index.core.storage.docstore.keyval_docstore import KVDocumentStore
from llama_index.core.storage.docstore.types import BaseDocumentStore
from llama_index.core.storage.kvstore.types import BaseKVStore
from sqlalchemy import event
from sqlalchemy.ext.asyncio import create_async_engine

from benchmarks.sides.llama_index_small import Small
from benchmarks.sides.protocol import serve

_COLLECTION = "data"
_PRAGMAS = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = OFF")


class SqliteKVStore(BaseKVStore):  # type: ignore[misc]  # the framework stands in another environment
    """One table; a call is a transaction."""

    def __init__(self, path: str) -> None:
        """In a file of its own."""
        self._connection = sqlite3.connect(path, isolation_level=None)
        for statement in (
            *_PRAGMAS,
            "CREATE TABLE items (collection, key, value, PRIMARY KEY (collection, key))",
        ):
            self._connection.execute(statement)

    def put(self, key: str, val: dict[str, Any], collection: str = _COLLECTION) -> None:
        """Put one."""
        self.put_all([(key, val)], collection)

    def put_all(
        self,
        kv_pairs: list[tuple[str, dict[str, Any]]],
        collection: str = _COLLECTION,
        batch_size: int = 1,
    ) -> None:
        """Put all in one transaction."""
        del batch_size
        statement = "INSERT OR REPLACE INTO items VALUES (?, ?, ?)"
        with self._connection:
            self._connection.execute("BEGIN")
            self._connection.executemany(
                statement, [(collection, key, json.dumps(value)) for key, value in kv_pairs]
            )

    def get(self, key: str, collection: str = _COLLECTION) -> dict[str, Any] | None:
        """Look one up."""
        statement = "SELECT value FROM items WHERE collection = ? AND key = ?"
        found = self._connection.execute(statement, (collection, key)).fetchone()
        return None if found is None else json.loads(found[0])

    def get_all(self, collection: str = _COLLECTION) -> dict[str, dict[str, Any]]:
        """All of a collection."""
        statement = "SELECT key, value FROM items WHERE collection = ?"
        rows = self._connection.execute(statement, (collection,))
        return {key: json.loads(value) for key, value in rows}

    def delete(self, key: str, collection: str = _COLLECTION) -> bool:
        """Delete one."""
        statement = "DELETE FROM items WHERE collection = ? AND key = ?"
        return self._connection.execute(statement, (collection, key)).rowcount > 0

    async def aput(self, key: str, val: dict[str, Any], collection: str = _COLLECTION) -> None:
        """As `put`."""
        self.put(key, val, collection)

    async def aget(self, key: str, collection: str = _COLLECTION) -> dict[str, Any] | None:
        """As `get`."""
        return self.get(key, collection)

    async def aget_all(self, collection: str = _COLLECTION) -> dict[str, dict[str, Any]]:
        """As `get_all`."""
        return self.get_all(collection)

    async def adelete(self, key: str, collection: str = _COLLECTION) -> bool:
        """As `delete`."""
        return self.delete(key, collection)


def _make(uri: str) -> tuple[BaseDocumentStore, AsyncDBChatStore]:
    Path(uri).mkdir()
    engine = create_async_engine(f"sqlite+aiosqlite:///{uri}/chats.db")

    def make_fast(connection: Any, _: Any) -> None:
        for pragma in _PRAGMAS:
            connection.execute(pragma)

    event.listen(engine.sync_engine, "connect", make_fast)
    chats = SQLAlchemyChatStore(table_name="messages", async_engine=engine)
    return KVDocumentStore(SqliteKVStore(f"{uri}/documents.db")), chats


if __name__ == "__main__":
    serve(Small(_make).operations())
