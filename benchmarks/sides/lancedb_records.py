"""LanceDB by hand: one table, one index of each kind, one query for each work."""

import asyncio
from typing import Any

import lancedb
import pyarrow as pa
from lancedb.index import FTS, BTree, IvfFlat
from pyarrow import feather

from benchmarks.sides.measuring import timed_async
from benchmarks.sides.protocol import serve

_COLUMNS = ["id", "external_id", "session_id", "text"]
_RUNNER = asyncio.Runner()
_TABLES: dict[str, Any] = {}
_INDEX = IvfFlat(distance_type="cosine", num_partitions=1)
_WORDS = FTS(base_tokenizer="icu", remove_stop_words=False, stem=True)


def load(*, uri: str, corpus: str, rows: int) -> str:
    """Store the first `rows` records and index them; returns what the vectors' index is."""
    table = feather.read_table(corpus).slice(0, rows)
    ids = pa.array([f"r{number}" for number in range(rows)])

    async def run() -> str:
        database = await lancedb.connect_async(uri)
        made = await database.create_table("records", table.append_column("id", ids))
        for column in ("id", "external_id", "session_id"):
            await made.create_index(column, config=BTree())
        await made.create_index("text", config=_WORDS)
        await made.create_index("vector", config=_INDEX)
        _TABLES["records"] = made
        return "IVF_FLAT, one partition"

    return _RUNNER.run(run())


def vector(*, of: str, vector: list[float], text: str, limit: int) -> dict[str, Any]:
    """The nearest records."""
    del of, text

    async def run() -> dict[str, Any]:
        query = _nearest("records", vector).select([*_COLUMNS, "_distance"]).limit(limit)
        seconds, found = await timed_async(query.to_list())
        return {"seconds": seconds, "ids": [row["external_id"] for row in found]}

    return _RUNNER.run(run())


def channels(*, of: str, vector: list[float], text: str, limit: int) -> dict[str, Any]:
    """The two queries that a hybrid search consists of, one after the other."""
    del of

    async def run() -> dict[str, Any]:
        near = _nearest("records", vector).select([*_COLUMNS, "_distance"]).limit(limit)
        words = _matching("records", text).select([*_COLUMNS, "_score"]).limit(limit)
        by_vector, _ = await timed_async(near.to_list())
        by_text, _ = await timed_async(words.to_list())
        return {"seconds": by_vector + by_text}

    return _RUNNER.run(run())


def get(*, by: str, value: str) -> dict[str, Any]:
    """One record by its `id` or `external_id`, with its vector, as the other sides read it."""

    async def run() -> dict[str, Any]:
        columns = [*_COLUMNS, "vector"]
        query = _TABLES["records"].query().where(f"{by} = '{value}'").select(columns).limit(1)
        seconds, found = await timed_async(query.to_list())
        return {"seconds": seconds, "found": len(found)}

    return _RUNNER.run(run())


def last(*, session: str, limit: int) -> dict[str, Any]:
    """The last messages of a session."""

    async def run() -> dict[str, Any]:
        table = _TABLES["records"]
        query = table.query().where(f"session_id = '{session}'").select(_COLUMNS).with_row_id()
        seconds, found = await timed_async(query.to_list())
        kept = sorted(found, key=lambda row: int(row["_rowid"]))[-limit:]
        return {"seconds": seconds, "found": len(kept)}

    return _RUNNER.run(run())


def conversation(*, uri: str, name: str, texts: str) -> None:
    """Store a conversation's turns, given as a feather file of id, text and vector."""

    async def run() -> None:
        database = await lancedb.connect_async(uri)
        made = await database.create_table(name, feather.read_table(texts))
        await made.create_index("text", config=_WORDS)
        _TABLES[name] = made

    _RUNNER.run(run())


def recall(*, name: str, text: str, vector: list[float], limit: int) -> list[str]:
    """The turns that the engine's hybrid search finds, with its default fusion."""

    async def run() -> list[str]:
        near = _nearest(name, vector).nearest_to_text(text, columns="text")
        found = await near.limit(limit).to_list()
        return [row["id"] for row in found]

    return _RUNNER.run(run())


def fill(*, uri: str, corpus: str, rows: int) -> None:
    """Write `rows` turns in one call, for `append`."""

    async def run() -> None:
        database = await lancedb.connect_async(uri)
        _TABLES[uri] = await database.create_table("turns", _turns(corpus, 0, rows))

    _RUNNER.run(run())


def append(*, uri: str, corpus: str, start: int, count: int) -> list[float]:
    """Add turns one after the other to a compacted table; returns the seconds of each."""
    rows = [_turns(corpus, number, 1).to_pylist() for number in range(start, start + count)]

    async def run() -> list[float]:
        await _TABLES[uri].optimize()
        return [(await timed_async(_TABLES[uri].add(row)))[0] for row in rows]

    return _RUNNER.run(run())


def _turns(corpus: str, start: int, count: int) -> pa.Table:
    table = feather.read_table(corpus, columns=["session_id", "text", "vector"])
    return table.take([number % table.num_rows for number in range(start, start + count)])


def _nearest(table: str, vector: list[float]) -> Any:
    return _TABLES[table].query().nearest_to(vector).distance_type("cosine")


def _matching(table: str, text: str) -> Any:
    return _TABLES[table].query().nearest_to_text(text, columns="text")


if __name__ == "__main__":
    serve(
        {
            "load": load,
            "vector": vector,
            "hybrid": channels,
            "get": get,
            "last": last,
            "conversation": conversation,
            "recall": recall,
            "fill": fill,
            "append": append,
        }
    )
