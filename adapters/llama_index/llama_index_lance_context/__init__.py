"""LlamaIndex's stores, memory and retrievers over a lance-context store."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llama_index_lance_context.chat_stores import (
        LanceContextAsyncChatStore,
        LanceContextChatStore,
    )
    from llama_index_lance_context.document_retrievers import LanceContextDocumentRetriever
    from llama_index_lance_context.document_stores import LanceContextDocumentStore
    from llama_index_lance_context.index_stores import LanceContextIndexStore
    from llama_index_lance_context.knowledge_blocks import LanceContextKnowledgeBlock
    from llama_index_lance_context.kv_stores import LanceContextKVStore
    from llama_index_lance_context.language_models import language_model
    from llama_index_lance_context.memory import LanceContextMemory
    from llama_index_lance_context.memory_blocks import LanceContextMemoryBlock
    from llama_index_lance_context.prompts import LanceContextPromptTemplate
    from llama_index_lance_context.property_graph import LanceContextPropertyGraphStore
    from llama_index_lance_context.retrievers import LanceContextRetriever
    from llama_index_lance_context.storage import storage_context
    from llama_index_lance_context.vector_stores import LanceContextVectorStore
    from llama_index_lance_context.windows import LanceContextWindowMemory

__version__ = "0.1.0"

__all__ = [
    "LanceContextAsyncChatStore",
    "LanceContextChatStore",
    "LanceContextDocumentRetriever",
    "LanceContextDocumentStore",
    "LanceContextIndexStore",
    "LanceContextKVStore",
    "LanceContextKnowledgeBlock",
    "LanceContextMemory",
    "LanceContextMemoryBlock",
    "LanceContextPromptTemplate",
    "LanceContextPropertyGraphStore",
    "LanceContextRetriever",
    "LanceContextVectorStore",
    "LanceContextWindowMemory",
    "language_model",
    "storage_context",
]

_HOMES = {
    "LanceContextAsyncChatStore": "chat_stores",
    "LanceContextChatStore": "chat_stores",
    "LanceContextDocumentRetriever": "document_retrievers",
    "LanceContextDocumentStore": "document_stores",
    "LanceContextIndexStore": "index_stores",
    "LanceContextKVStore": "kv_stores",
    "LanceContextKnowledgeBlock": "knowledge_blocks",
    "LanceContextMemory": "memory",
    "LanceContextMemoryBlock": "memory_blocks",
    "LanceContextPromptTemplate": "prompts",
    "LanceContextPropertyGraphStore": "property_graph",
    "LanceContextRetriever": "retrievers",
    "LanceContextVectorStore": "vector_stores",
    "LanceContextWindowMemory": "windows",
    "language_model": "language_models",
    "storage_context": "storage",
}
"""The module of each name: LlamaIndex is slow to import, so names are imported on first use."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
