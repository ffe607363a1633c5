"""The graph store of `llama_index_lance_context`, where LlamaIndex's users look for graph stores."""

from llama_index_lance_context.property_graph import LanceContextPropertyGraphStore

__all__ = ["LanceContextPropertyGraphStore"]
