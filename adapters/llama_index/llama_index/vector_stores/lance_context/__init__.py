"""The vector store of `llama_index_lance_context`, where LlamaIndex's users look for vector stores."""

from llama_index_lance_context.vector_stores import LanceContextVectorStore

__all__ = ["LanceContextVectorStore"]
