"""Chroma in a directory, through LlamaIndex's integration."""

import chromadb
from llama_index.core.vector_stores.types import BasePydanticVectorStore
from llama_index.vector_stores.chroma import ChromaVectorStore

from benchmarks.sides.llama_index_nodes import VectorStoreSide, serve_vector_store


def _make(uri: str) -> BasePydanticVectorStore:
    collection = chromadb.PersistentClient(uri).create_collection(
        "nodes", metadata={"hnsw:space": "cosine"}
    )
    made: BasePydanticVectorStore = ChromaVectorStore(chroma_collection=collection)
    return made


if __name__ == "__main__":
    serve_vector_store(VectorStoreSide(_make))
