"""A store in a directory, from synchronous code."""

from core.knowledge.conftest import memory, store

__all__ = ["memory", "store"]
