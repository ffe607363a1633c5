"""The document store of `llama_index_lance_context`, where LlamaIndex's users look for one."""

from llama_index_lance_context.document_stores import LanceContextDocumentStore

__all__ = ["LanceContextDocumentStore"]
