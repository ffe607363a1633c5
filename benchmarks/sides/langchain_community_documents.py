"""The LanceDB store of langchain_community."""

from langchain_community.vectorstores import (
    LanceDB,
)
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore

from benchmarks.sides.langchain_documents import VectorStoreSide, serve_vectorstore


def _make(uri: str, embeddings: Embeddings) -> VectorStore:
    # With its default, each call would put a new table in place of the one before.
    made: VectorStore = LanceDB(uri=uri, embedding=embeddings, mode="append")
    return made


if __name__ == "__main__":
    serve_vectorstore(VectorStoreSide(_make))
