"""LangGraph's checkpointer over the one memory of lance-context."""

from langchain_lance_context.checkpointers import LanceContextSaver

__all__ = ["LanceContextSaver"]
