"""What the sides of LlamaIndex's vector stores share: the nodes, the questions, the clock."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    VectorStoreQuery,
    VectorStoreQueryMode,
)
from pyarrow import feather

from benchmarks.sides.protocol import Handler, serve, timed
from benchmarks.sides.stalls import watched

_BATCH = 1_000
_WARM_QUERIES = 3
_PAUSE_SECONDS = 0.01
_RUNNER = asyncio.Runner()


class VectorStoreSide:
    """One vector store of LlamaIndex, filled and asked."""

    def __init__(
        self,
        make: Callable[[str], BasePydanticVectorStore],
        *,
        by_words: Callable[[BasePydanticVectorStore], Mapping[str, Any]] = lambda _: {},
    ) -> None:
        """`make` is called with a directory of its own.

        `by_words` makes the store ready for questions by words, and says what such a query has.
        """
        self._make = make
        self._by_words = by_words
        self.store: BasePydanticVectorStore

    def load(self, *, uri: str, corpus: str, rows: int) -> None:
        """Add the first `rows` records, some at a time."""
        self.store = self._make(uri)
        for start in range(0, rows, _BATCH):
            self.store.add(_nodes(corpus, start, min(_BATCH, rows - start)))

    def add(self, *, uri: str, corpus: str, rows: int) -> dict[str, Any]:
        """Add `rows` records in one call to a new store."""
        made, nodes = self._make(uri), _nodes(corpus, 0, rows)
        seconds, ids = timed(lambda: made.add(nodes))
        return {"seconds": seconds, "found": len(ids)}

    def query(self, *, text: str, vector: list[float], limit: int) -> dict[str, Any]:
        """The nearest nodes."""
        del text
        return self._answered(VectorStoreQuery(query_embedding=vector, similarity_top_k=limit))

    def after_add(
        self, *, number: int, text: str, vector: list[float], limit: int, by_words: bool
    ) -> dict[str, Any]:
        """The time of a query right after a node was added, and of the same once more."""
        words = self._by_words(self.store) if by_words else {}
        mode = VectorStoreQueryMode(words.get("mode", "default"))
        query = VectorStoreQuery(
            query_embedding=vector, query_str=text, similarity_top_k=limit, mode=mode
        )
        self.store.add([TextNode(id_=f"late {number}", text=text, embedding=vector)])
        fresh = self._answered(query)["seconds"]
        warm = median(self._answered(query)["seconds"] for _ in range(_WARM_QUERIES))
        return {"seconds": fresh, "warm": warm}

    def stalls(self, *, vectors: list[list[float]], limit: int) -> float:
        """The seconds by which the loop was late at most while all were asked at once."""
        return _RUNNER.run(self._longest_stall(vectors, limit))

    def idle(self, *, seconds: float) -> float:
        """As `stalls`, while nothing is asked."""
        return _RUNNER.run(_longest_idle_stall(seconds))

    async def _longest_stall(self, vectors: Sequence[Sequence[float]], limit: int) -> float:
        queries = [
            VectorStoreQuery(query_embedding=list(vector), similarity_top_k=limit)
            for vector in vectors
        ]
        await self.store.aquery(queries[0])
        async with watched() as lateness:
            # The clock must be going before, and what never let go of the loop is seen after.
            await asyncio.sleep(_PAUSE_SECONDS)
            await asyncio.gather(*(self.store.aquery(query) for query in queries))
            await asyncio.sleep(_PAUSE_SECONDS)
        return max(lateness)

    def _answered(self, query: VectorStoreQuery) -> dict[str, Any]:
        seconds, found = timed(lambda: self.store.query(query))
        return {"seconds": seconds, "ids": list(found.ids or ())}


async def _longest_idle_stall(seconds: float) -> float:
    async with watched() as lateness:
        await asyncio.sleep(seconds)
    return max(lateness)


def _nodes(corpus: str, start: int, count: int) -> list[TextNode]:
    rows = feather.read_table(corpus).slice(start, count).to_pylist()
    return [
        TextNode(
            id_=row["external_id"],
            text=row["text"],
            embedding=row["vector"],
            metadata={"session_id": row["session_id"], "number": start + number},
        )
        for number, row in enumerate(rows)
    ]


def serve_vector_store(side: VectorStoreSide, more: Mapping[str, Handler] | None = None) -> None:
    """Answer the questions about nodes, and `more`."""
    own: dict[str, Handler] = {
        "load": side.load,
        "add": side.add,
        "query": side.query,
        "after_add": side.after_add,
        "stalls": side.stalls,
        "idle": side.idle,
    }
    serve({**own, **(more or {})})
