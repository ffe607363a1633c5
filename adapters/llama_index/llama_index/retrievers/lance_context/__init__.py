"""The retriever of `llama_index_lance_context`, where LlamaIndex's users look for retrievers."""

from llama_index_lance_context.retrievers import LanceContextRetriever

__all__ = ["LanceContextRetriever"]
