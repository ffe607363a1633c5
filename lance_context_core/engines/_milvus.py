"""Milvus as a search engine: a cluster, Zilliz Cloud, or Milvus Lite in a file."""

import json
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from lance_context_core._util.checks import check_name, shown
from lance_context_core._util.extras import importing, require
from lance_context_core.engines._protocol import (
    FIELDS,
    EngineChannel,
    EngineHits,
    EngineRow,
    EngineState,
)
from lance_context_core.errors import InvalidRequestError

_STATE = "#state"
"""The key of the row that has the position: no row of a table has such a key."""

_PAGE = 1_000
"""The rows that a listing reads at once."""


class MilvusEngine:
    """A `SearchEngine` in Milvus, from 2.5 on; needs the extra `milvus`.

    Words are ranked by Milvus' BM25 function, with the statistics of the whole table, and vectors
    by their cosine. A table's index is a collection, and its position a row of it.
    """

    max_words_bytes = 32_000

    def __init__(
        self,
        uri: str,
        *,
        token: str = "",
        prefix: str = "lance_context",
        channels: Collection[EngineChannel] = ("text", "vector"),
        vector_index: Mapping[str, Any] | None = None,
        name: str = "milvus",
        **options: Any,
    ) -> None:
        """Connect with the first call.

        - `uri`: "http://host:19530", or the path of a file of Milvus Lite, as "search.db".
        - `token`: "user:password" or a key; no text of ours shows it.
        - `prefix`: the beginning of the collections' names. Stores that share a database need one
          each.
        - `channels`: what is indexed.
        - `vector_index`: the index of the vectors, as `{"index_type": "HNSW", "params": {...}}`;
          by default AUTOINDEX, which a server chooses.
        - `options`: further arguments of `pymilvus.MilvusClient`, such as `db_name`.

        Raises InvalidRequestError for invalid values, and MissingExtraError without the extra.
        """
        require("pymilvus", extra="milvus", by="a search engine in Milvus")
        if not channels or not {*channels} <= {"text", "vector"}:
            raise InvalidRequestError(f"channels={shown(channels)}: give 'text', 'vector' or both")
        if not prefix.isidentifier() or not prefix.isascii():
            raise InvalidRequestError(
                f"prefix={shown(prefix)}: give letters, digits and _, a letter first"
            )
        self.name = check_name(name, "name")
        self.channels = frozenset(channels)
        self._given = {"uri": check_name(uri, "uri"), "token": token, **options}
        self._prefix = prefix
        self._vector_index = {"index_type": "AUTOINDEX", **(vector_index or {})}
        self._lock = threading.Lock()
        self._client: Any = None

    def __repr__(self) -> str:
        return f"MilvusEngine(…, prefix={self._prefix!r}, name={self.name!r})"

    def tables(self) -> list[str]:
        """The tables that have an index."""
        mine = [
            one for one in self._open().list_collections() if one.startswith(f"{self._prefix}_")
        ]
        told = [self._told(one) for one in mine]
        return [one["table"] for one in told if one is not None]

    def state(self, table: str) -> EngineState | None:
        """The state of a table's index; None without one, or while it is being created."""
        client, name = self._open(), self._collection(table)
        if not client.has_collection(name) or (told := self._told(name)) is None:
            return None
        return self._state(name, told)

    def clear(self, table: str, *, dimension: int | None) -> None:
        """Replace a table's index by an empty one."""
        with importing("pymilvus", extra="milvus", by="a search engine in Milvus"):
            from pymilvus import DataType, Function, FunctionType

        client, name = self._open(), self._collection(table)
        self.drop(table)
        schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("key", DataType.VARCHAR, is_primary=True, max_length=1_024)
        schema.add_field("revision", DataType.INT64)
        schema.add_field("told", DataType.VARCHAR, max_length=8_192)
        for field in FIELDS:
            schema.add_field(field, DataType.VARCHAR, max_length=64)
        indexes = client.prepare_index_params()
        if "text" in self.channels:
            schema.add_field(
                "words", DataType.VARCHAR, max_length=65_535, enable_analyzer=True,
                analyzer_params={"tokenizer": "standard"},
            )  # fmt: skip
            schema.add_field("sparse", DataType.SPARSE_FLOAT_VECTOR)
            made = {"input_field_names": ["words"], "output_field_names": ["sparse"]}
            schema.add_function(Function("bm25", function_type=FunctionType.BM25, **made))
            indexes.add_index(
                "sparse", index_type="SPARSE_INVERTED_INDEX", metric_type="BM25",
                params={"bm25_k1": 1.2, "bm25_b": 0.75},
            )  # fmt: skip
        # A collection has at least one field of vectors.
        length = dimension if "vector" in self.channels else None
        if length is not None or "text" not in self.channels:
            schema.add_field("vector", DataType.FLOAT_VECTOR, dim=length or 2)
            schema.add_field("has_vector", DataType.BOOL)
            indexes.add_index("vector", metric_type="COSINE", **self._vector_index)
        client.create_collection(
            name, schema=schema, index_params=indexes, consistency_level="Strong"
        )
        told = {"table": table, "position": "", "n_rows": 0, "dimension": length}
        client.upsert(name, [self._told_row(told)])

    def drop(self, table: str) -> None:
        """Remove the index of a table."""
        self._open().drop_collection(self._collection(table))

    def write(
        self,
        table: str,
        *,
        puts: Sequence[EngineRow] = (),
        removes: Sequence[str] = (),
        position: str | None = None,
    ) -> None:
        """Put and remove rows, then set the position: Milvus has no transactions."""
        client, name = self._open(), self._collection(table)
        told = self._known(table)
        if removes:
            client.delete(name, ids=[*removes])
        if puts:
            client.upsert(name, [self._row(row, told["dimension"]) for row in puts])
        told["n_rows"] = self._count(name)
        if position is not None:
            told["position"] = position
        client.upsert(name, [self._told_row(told)])

    def revisions(self, table: str) -> dict[str, int]:
        """The revision of each row, by key."""
        return dict(self._listed(self._collection(table)))

    def match(
        self, table: str, words: Sequence[str], *, where: Mapping[str, str | None], limit: int
    ) -> EngineHits:
        """The rows that have any of the words, by the BM25 of the whole table."""
        text = " ".join(map(_letters, words))
        return self._best(table, text, "sparse", _condition(where), limit if words else 0)

    def nearest(
        self, table: str, vector: Sequence[float], *, where: Mapping[str, str | None], limit: int
    ) -> EngineHits:
        """The rows with the highest cosine, as the index of the vectors finds them."""
        condition = " and ".join(filter(None, ["has_vector == true", _condition(where)]))
        return self._best(table, [*map(float, vector)], "vector", condition, limit)

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    # Helpers

    def _open(self) -> Any:
        with self._lock:
            if self._client is None:
                from pymilvus import MilvusClient

                self._client = MilvusClient(**self._given)
            return self._client

    def _collection(self, table: str) -> str:
        """The name of a table's collection: Milvus allows letters, digits and _ only."""
        return f"{self._prefix}_{_hashed(table)}"

    def _best(self, table: str, asked: Any, field: str, condition: str, limit: int) -> EngineHits:
        client, name = self._open(), self._collection(table)
        # Before the rows, so that it is not later than these.
        state = self._state(name, self._known(table))
        found: Any = [[]]
        if limit:
            given = {"anns_field": field, "filter": condition, "output_fields": ["key"]}
            found = client.search(name, data=[asked], limit=limit, **given)
        # Milvus Lite gives BM25 as a distance, below 0.
        scores = [
            abs(one["distance"]) if field == "sparse" else one["distance"] for one in found[0]
        ]
        keys = [one["entity"]["key"] for one in found[0]]
        return EngineHits(state=state, keys=keys, scores=scores)

    def _state(self, name: str, told: Mapping[str, Any]) -> EngineState:
        n = self._count(name)
        return EngineState(position=told["position"], n_rows=n, n_lost=told["n_rows"] - n)

    def _count(self, name: str) -> int:
        """The number of rows, without that of the position."""
        found = self._open().query(name, filter="", output_fields=["count(*)"])
        return int(found[0]["count(*)"]) - 1

    def _known(self, table: str) -> dict[str, Any]:
        """As `_told`. Raises LookupError without an index."""
        name = self._collection(table)
        told = self._told(name) if self._open().has_collection(name) else None
        if told is None:
            raise LookupError(f"no index of {table!r}: call clear() first")
        return told

    def _told(self, name: str) -> dict[str, Any] | None:
        """What the row of the position says; None if it is missing."""
        found = self._open().get(name, ids=[_STATE], output_fields=["told"])
        told: dict[str, Any] | None = json.loads(found[0]["told"]) if found else None
        return told

    def _told_row(self, told: Mapping[str, Any]) -> dict[str, Any]:
        row = EngineRow(key=_STATE, revision=0, fields={})
        return {**self._row(row, told["dimension"]), "told": json.dumps(told)}

    def _row(self, row: EngineRow, dimension: int | None) -> dict[str, Any]:
        made: dict[str, Any] = {"key": row.key, "revision": row.revision, "told": ""}
        made |= {name: _field(row.fields.get(name)) for name in FIELDS}
        if "text" in self.channels:
            made["words"] = " ".join(map(_letters, row.words))
        if dimension is not None or "text" not in self.channels:
            made["vector"] = [*map(float, row.vector or [0.0] * (dimension or 2))]
            made["has_vector"] = row.vector is not None
        return made

    def _listed(self, name: str) -> Iterator[tuple[str, int]]:
        pages = self._open().query_iterator(
            name, filter=f'key != "{_STATE}"', output_fields=["key", "revision"], batch_size=_PAGE
        )
        try:
            while page := pages.next():
                yield from ((one["key"], int(one["revision"])) for one in page)
        finally:
            pages.close()


def _condition(where: Mapping[str, str | None]) -> str:
    return " and ".join(f'{name} == "{_field(value)}"' for name, value in where.items())


def _field(value: str | None) -> str:
    """A field's value, of any length and with any letters: as a hash."""
    return "" if value is None else _hashed(value)


def _hashed(text: str) -> str:
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _letters(word: str) -> str:
    """The word in Latin letters: Milvus splits texts of other scripts elsewhere than the store."""
    return word if word.isascii() else f"u{word.encode().hex()}"
