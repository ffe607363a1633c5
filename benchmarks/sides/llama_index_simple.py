"""LlamaIndex's own vector store, which holds a dict and compares with every vector."""

from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore

from benchmarks.sides.llama_index_vectors import Nodes
from benchmarks.sides.protocol import serve


def _make(_: str) -> BasePydanticVectorStore:
    made: BasePydanticVectorStore = SimpleVectorStore()
    return made


if __name__ == "__main__":
    serve(Nodes(_make).operations())
