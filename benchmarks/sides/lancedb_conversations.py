"""LanceDB by hand: one table, an index for each way of asking."""

from collections.abc import Sequence
from typing import Any

import lancedb
import pyarrow as pa
from lancedb.index import FTS, BTree, IvfFlat

from benchmarks.sides.conversations import Conversations, Said, Vector, Wanted, operations
from benchmarks.sides.protocol import serve

_SCHEMA = pa.schema(
    [
        ("number", pa.int64()),
        ("session", pa.string()),
        ("role", pa.string()),
        ("topic", pa.string()),
        ("text", pa.string()),
        ("vector", pa.list_(pa.float32(), 384)),
    ]
)


class RawLanceDB(Conversations):
    """Rows with a number that the application counts, because a table has no order."""

    def _open(self, folder: str) -> None:
        database = lancedb.connect(folder)
        self._table: Any = database.create_table("messages", schema=_SCHEMA, exist_ok=True)

    def _settle(self) -> None:
        self._table.create_index("session", config=BTree())
        self._table.create_index("topic", config=BTree())
        self._table.create_index("text", config=FTS())
        near = IvfFlat(distance_type="cosine", num_partitions=1)
        self._table.create_index("vector", config=near)
        self._table.optimize()

    def _tidy(self) -> None:
        self._table.optimize()

    def _turn(self, messages: Sequence[Said]) -> None:
        self._table.add([_row(one) for one in messages])

    def _whole(self, session: str) -> list[str]:
        query = self._table.search().where(f"session = '{session}'").select(["number", "text"])
        rows = sorted(query.to_list(), key=lambda row: int(row["number"]))
        return [row["text"] for row in rows]

    def _vector(self, wanted: Wanted) -> list[str]:
        return _texts(self._near(wanted.vector).limit(wanted.limit))

    def _words(self, wanted: Wanted) -> list[str]:
        return _texts(self._table.search(wanted.text, query_type="fts").limit(wanted.limit))

    def _hybrid(self, wanted: Wanted) -> list[str]:
        query = self._table.search(query_type="hybrid").vector(wanted.vector).text(wanted.text)
        return _texts(query.distance_type("cosine").limit(wanted.limit))

    def _filter(self, wanted: Wanted) -> list[str]:
        near = self._near(wanted.vector).where(f"topic = '{wanted.topic}'")
        return _texts(near.limit(wanted.limit))

    def _near(self, vector: Vector) -> Any:
        return self._table.search(vector).distance_type("cosine")


def _row(said: Said) -> dict[str, Any]:
    return {name: getattr(said, name) for name in _SCHEMA.names}


def _texts(query: Any) -> list[str]:
    return [row["text"] for row in query.to_list()]


if __name__ == "__main__":
    serve(operations(RawLanceDB, "lancedb"))
