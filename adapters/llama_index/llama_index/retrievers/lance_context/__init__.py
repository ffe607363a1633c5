"""The retrievers of `llama_index_lance_context`, where LlamaIndex's users look for retrievers."""

from llama_index_lance_context.document_retrievers import LanceContextDocumentRetriever
from llama_index_lance_context.retrievers import LanceContextRetriever

__all__ = ["LanceContextDocumentRetriever", "LanceContextRetriever"]
