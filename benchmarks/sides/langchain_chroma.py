"""Chroma in a directory, through langchain-chroma."""

from langchain_chroma import Chroma
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore

from benchmarks.sides.langchain_vectors import Documents
from benchmarks.sides.protocol import serve


def _make(uri: str, embeddings: Embeddings) -> VectorStore:
    made: VectorStore = Chroma(embedding_function=embeddings, persist_directory=uri)
    return made


if __name__ == "__main__":
    serve(Documents(_make).operations())
