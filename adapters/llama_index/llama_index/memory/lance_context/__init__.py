"""The memory of `llama_index_lance_context`, where LlamaIndex's users look for memories."""

from llama_index_lance_context.knowledge_blocks import LanceContextKnowledgeBlock
from llama_index_lance_context.memory import LanceContextMemory
from llama_index_lance_context.memory_blocks import LanceContextMemoryBlock
from llama_index_lance_context.windows import LanceContextWindowMemory

__all__ = [
    "LanceContextKnowledgeBlock",
    "LanceContextMemory",
    "LanceContextMemoryBlock",
    "LanceContextWindowMemory",
]
