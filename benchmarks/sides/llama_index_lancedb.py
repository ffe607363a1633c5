"""The LanceDB store that LlamaIndex ships."""

from typing import Any

from llama_index.vector_stores.lancedb import LanceDBVectorStore

from benchmarks.sides.conversations import Wanted, serve_peer
from benchmarks.sides.llama_index_vectors import LlamaIndexVectors

_TYPES = {"text_search": "fts", "hybrid": "hybrid"}


class Shipped(LlamaIndexVectors):
    """In the mode `create`: with its default, each store would replace the table of the one before."""

    def _open(self, folder: str) -> None:
        self.api = LanceDBVectorStore(uri=folder, mode="create")

    def _found(self, wanted: Wanted, **query: Any) -> list[str]:
        # It pays no attention to the mode of a query: this attribute is what it goes by.
        self.api.query_type = _TYPES.get(query.get("mode", ""), "vector")
        return super()._found(wanted, **query)


if __name__ == "__main__":
    serve_peer(
        Shipped, "llama-index-vector-stores-lancedb", "llama-index-core", "lancedb", "pylance"
    )
