"""The blocking API: each object waits for the asynchronous one behind it, on a loop of the store's own.

It may be called from any thread, also from one that runs an event loop, such as a notebook's.
"""

from lance_context_core.sync.context import Context
from lance_context_core.sync.history import History
from lance_context_core.sync.keyvalues import KeyValues
from lance_context_core.sync.knowledge import Jobs, Knowledge
from lance_context_core.sync.memory import Memory
from lance_context_core.sync.sessions import Sessions
from lance_context_core.sync.store import ContextStore
from lance_context_core.sync.vectors import Vectors

__all__ = [
    "Context",
    "ContextStore",
    "History",
    "Jobs",
    "KeyValues",
    "Knowledge",
    "Memory",
    "Sessions",
    "Vectors",
]
