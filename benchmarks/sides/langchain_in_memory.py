"""LangChain's own vector store, which holds a dict and compares with every vector."""

from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from benchmarks.sides.langchain_documents import VectorStoreSide, serve_vectorstore


def _make(_: str, embeddings: Embeddings) -> VectorStore:
    return InMemoryVectorStore(embeddings)


if __name__ == "__main__":
    serve_vectorstore(VectorStoreSide(_make))
