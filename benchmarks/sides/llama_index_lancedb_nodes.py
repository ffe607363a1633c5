"""The LanceDB store that LlamaIndex ships."""

from collections.abc import Mapping
from typing import Any

from llama_index.core.vector_stores.types import BasePydanticVectorStore
from llama_index.vector_stores.lancedb import LanceDBVectorStore

from benchmarks.sides.llama_index_nodes import VectorStoreSide, serve_vector_store


def _make(uri: str) -> BasePydanticVectorStore:
    # With its default, each store would put a new table in place of the one before.
    made: BasePydanticVectorStore = LanceDBVectorStore(uri=uri, mode="create")
    return made


def _by_words(store: Any) -> Mapping[str, Any]:
    # It pays no attention to the mode of a query.
    store.query_type = "fts"
    return {}


if __name__ == "__main__":
    serve_vector_store(VectorStoreSide(_make, by_words=_by_words))
