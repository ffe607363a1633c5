"""lance-context from PyPI, through its own synchronous record API."""

from functools import partial
from typing import Any

from lance_context import (  # type: ignore[import-not-found]  # only in its environment
    Context,
)
from pyarrow import feather

from benchmarks.sides.measuring import timed
from benchmarks.sides.protocol import serve

_BATCH = 10_000
_OPEN: dict[str, Any] = {}


def load(*, uri: str, corpus: str, rows: int) -> str:
    """Store the first `rows` records; it builds no index."""
    context = Context.create(uri, embedding_dim=384, distance_metric="cosine")
    table = feather.read_table(corpus).slice(0, rows)
    for start in range(0, rows, _BATCH):
        context.add_many(
            {
                "role": "user",
                "content": row["text"],
                "embedding": row["vector"],
                "external_id": row["external_id"],
                "session_id": row["session_id"],
            }
            for row in table.slice(start, _BATCH).to_pylist()
        )
    _OPEN["records"] = context
    return "no index"


def vector(*, of: str, vector: list[float], text: str, limit: int) -> dict[str, Any]:
    """The nearest records."""
    del of, text
    lean = {"include_binary": False, "include_embedding": False}
    seconds, found = timed(lambda: _OPEN["records"].search(vector, limit, **lean))
    return {"seconds": seconds, "ids": [row["external_id"] for row in found]}


def hybrid(*, of: str, vector: list[float], text: str, limit: int) -> dict[str, Any]:
    """Its own fusion of vectors and words."""
    del of
    search = _OPEN["records"].retrieve
    seconds, found = timed(lambda: search(text=text, vector=vector, limit=limit))
    return {"seconds": seconds, "found": len(found)}


def get(*, by: str, value: str) -> dict[str, Any]:
    """One record by its `external_id`; its ids are its own, so none is known by `id`."""
    seconds, found = timed(lambda: _OPEN["records"].get(**{by: value}))
    return {"seconds": seconds, "found": int(found is not None)}


def last(*, session: str, limit: int) -> dict[str, Any]:
    """The messages of a session; it has no way to ask for the last ones, so all are read."""
    filters = {"session_id": session}
    lean = {"include_binary": False, "include_embedding": False}
    seconds, found = timed(lambda: _OPEN["records"].list(filters=filters, **lean))
    return {"seconds": seconds, "found": len(found[-limit:])}


def conversation(*, uri: str, name: str, texts: str) -> None:
    """Store a conversation's turns, given as a feather file of id, text and vector."""
    turns = feather.read_table(texts).to_pylist()
    context = Context.create(f"{uri}-{name}", embedding_dim=256, distance_metric="cosine")
    context.add_many(
        {
            "role": "user",
            "content": turn["text"],
            "embedding": turn["vector"],
            "external_id": turn["id"],
        }
        for turn in turns
    )
    _OPEN[name] = context


def recall(*, name: str, text: str, vector: list[float], limit: int) -> list[str]:
    """The turns that its own fusion finds."""
    found = _OPEN[name].retrieve(text=text, vector=vector, limit=limit)
    return [row["external_id"] for row in found]


def fill(*, uri: str, corpus: str, rows: int) -> None:
    """Add `rows` turns one after the other: it is their number as commits that slows it down."""
    _OPEN[uri] = Context.create(uri, embedding_dim=384, distance_metric="cosine")
    append(uri=uri, corpus=corpus, start=0, count=rows)


def append(*, uri: str, corpus: str, start: int, count: int) -> list[float]:
    """Add turns one after the other; returns the seconds of each."""
    add = _OPEN[uri].add
    return [timed(partial(add, **row))[0] for row in _turns(corpus, start, count)]


def _turns(corpus: str, start: int, count: int) -> list[dict[str, Any]]:
    table = feather.read_table(corpus, columns=["session_id", "text", "vector"])
    return [
        {
            "role": "user",
            "content": row["text"],
            "embedding": row["vector"],
            "session_id": row["session_id"],
        }
        for row in table.slice(start, count).to_pylist()
    ]


if __name__ == "__main__":
    serve(
        {
            "load": load,
            "vector": vector,
            "hybrid": hybrid,
            "get": get,
            "last": last,
            "conversation": conversation,
            "recall": recall,
            "fill": fill,
            "append": append,
        }
    )
