"""Chroma in a directory, through LlamaIndex's integration."""

import chromadb
from llama_index.core.vector_stores.types import BasePydanticVectorStore
from llama_index.vector_stores.chroma import ChromaVectorStore

from benchmarks.sides.llama_index_vectors import Nodes
from benchmarks.sides.protocol import serve


def _make(uri: str) -> BasePydanticVectorStore:
    collection = chromadb.PersistentClient(uri).create_collection(
        "nodes", metadata={"hnsw:space": "cosine"}
    )
    made: BasePydanticVectorStore = ChromaVectorStore(chroma_collection=collection)
    return made


if __name__ == "__main__":
    serve(Nodes(_make).operations())
