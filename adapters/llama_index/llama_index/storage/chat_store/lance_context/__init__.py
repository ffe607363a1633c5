"""The chat stores of `llama_index_lance_context`, where LlamaIndex's users look for chat stores."""

from llama_index_lance_context.chat_stores import LanceContextAsyncChatStore, LanceContextChatStore

__all__ = ["LanceContextAsyncChatStore", "LanceContextChatStore"]
