"""LangChain's own vector store, which holds a dict and compares with every vector."""

from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from benchmarks.sides.langchain_vectors import Documents
from benchmarks.sides.protocol import serve


def _make(_: str, embeddings: Embeddings) -> VectorStore:
    return InMemoryVectorStore(embeddings)


if __name__ == "__main__":
    serve(Documents(_make).operations())
