"""The index store of `llama_index_lance_context`, where LlamaIndex's users look for one."""

from llama_index_lance_context.index_stores import LanceContextIndexStore

__all__ = ["LanceContextIndexStore"]
