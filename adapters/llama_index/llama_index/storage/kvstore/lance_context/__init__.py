"""The key-value store of `llama_index_lance_context`, where LlamaIndex's users look for one."""

from llama_index_lance_context.kv_stores import LanceContextKVStore

__all__ = ["LanceContextKVStore"]
