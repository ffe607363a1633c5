"""The one memory of lance-context, in the classes of Microsoft Agent Framework."""

from agent_framework_lance_context.checkpoints import LanceCheckpointStorage
from agent_framework_lance_context.history import LanceHistoryProvider
from agent_framework_lance_context.recall import LanceContextProvider
from agent_framework_lance_context.sessions import LanceSessionStore

__version__ = "0.1.0"

__all__ = [
    "LanceCheckpointStorage",
    "LanceContextProvider",
    "LanceHistoryProvider",
    "LanceSessionStore",
]
