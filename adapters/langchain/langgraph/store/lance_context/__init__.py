"""The store of `langchain_lance_context`, where LangGraph's users look for stores."""

from langchain_lance_context.stores import LanceContextStore

__all__ = ["LanceContextStore"]
