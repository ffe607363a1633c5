"""The LanceDB store that LlamaIndex ships."""

from collections.abc import Mapping
from typing import Any

from llama_index.core.vector_stores.types import BasePydanticVectorStore
from llama_index.vector_stores.lancedb import LanceDBVectorStore

from benchmarks.sides.conversations import Wanted, operations
from benchmarks.sides.llama_index_vectors import LlamaIndexVectors, Nodes
from benchmarks.sides.protocol import serve

_TYPES = {"text_search": "fts", "hybrid": "hybrid"}


def _make(uri: str) -> BasePydanticVectorStore:
    # With its default, each store would put a new table in place of the one before.
    made: BasePydanticVectorStore = LanceDBVectorStore(uri=uri, mode="create")
    return made


def _by_words(store: Any) -> Mapping[str, Any]:
    # It pays no attention to the mode of a query: this attribute is what it goes by.
    store.query_type = "fts"
    return {}


class Shipped(LlamaIndexVectors):
    """In the mode `create`, its `query_type` set before each question."""

    def _open(self, folder: str) -> None:
        self.api = _make(folder)

    def _found(self, wanted: Wanted, **query: Any) -> list[str]:
        self.api.query_type = _TYPES.get(query.get("mode", ""), "vector")
        return super()._found(wanted, **query)


if __name__ == "__main__":
    packages = ("llama-index-vector-stores-lancedb", "llama-index-core", "lancedb", "pylance")
    nodes = Nodes(_make, by_words=_by_words)
    serve(operations(Shipped, *packages) | nodes.operations())
