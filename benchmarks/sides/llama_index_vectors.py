"""What LlamaIndex's vector stores are asked alike: about conversations, and about nodes."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)
from pyarrow import feather

from benchmarks.sides.conversations import Conversations, Said, Wanted
from benchmarks.sides.measuring import timed, watched
from benchmarks.sides.protocol import Handler

_BATCH = 1_000
_WARM_QUERIES = 3
_PAUSE_SECONDS = 0.01
_RUNNER = asyncio.Runner()


class LlamaIndexVectors(Conversations):
    """Conversations in a vector store; its nodes have numbers, for it has no order."""

    api: BasePydanticVectorStore

    def _turn(self, messages: Sequence[Said]) -> None:
        self.api.add(
            [
                TextNode(
                    text=one.text,
                    embedding=one.vector,
                    metadata={
                        "session": one.session,
                        "role": one.role,
                        "topic": one.topic,
                        "number": one.number,
                    },
                )
                for one in messages
            ]
        )

    def _whole(self, session: str) -> list[str]:
        nodes = self.api.get_nodes(filters=_equal("session", session))
        nodes = sorted(nodes, key=lambda node: node.metadata["number"])
        return [node.get_content() for node in nodes]

    def _vector(self, wanted: Wanted) -> list[str]:
        return self._found(wanted, query_embedding=wanted.vector)

    def _words(self, wanted: Wanted) -> list[str]:
        mode = VectorStoreQueryMode.TEXT_SEARCH
        return self._found(wanted, query_str=wanted.text, mode=mode)

    def _hybrid(self, wanted: Wanted) -> list[str]:
        mode = VectorStoreQueryMode.HYBRID
        return self._found(wanted, query_str=wanted.text, query_embedding=wanted.vector, mode=mode)

    def _filter(self, wanted: Wanted) -> list[str]:
        filters = _equal("topic", wanted.topic)
        return self._found(wanted, query_embedding=wanted.vector, filters=filters)

    def _found(self, wanted: Wanted, **query: Any) -> list[str]:
        found = self.api.query(VectorStoreQuery(similarity_top_k=wanted.limit, **query))
        return [node.get_content() for node in found.nodes or ()]


class Nodes:
    """The records of a corpus as the nodes of a vector store, filled and asked."""

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

    def operations(self) -> dict[str, Handler]:
        """What a side answers about them."""
        return {
            "load": self.load,
            "add": self.add,
            "add_node": self.add_node,
            "query": self.query,
            "after_add": self.after_add,
            "stalls": self.stalls,
            "idle": self.idle,
        }

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

    def add_node(self, *, number: int, text: str, vector: list[float]) -> dict[str, Any]:
        """Add one node, whose like the store has not seen."""
        node = TextNode(
            id_=f"one {number}", text=text, embedding=vector, metadata={"number": number}
        )
        return {"seconds": timed(lambda: self.store.add([node]))[0]}

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


def _equal(key: str, value: str) -> MetadataFilters:
    return MetadataFilters(filters=[MetadataFilter(key=key, value=value)])
