"""The one memory of lance-context, as what AgentScope keeps sessions, memories and states in."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentscope_lance_context.backends import register_backends
    from agentscope_lance_context.memory import LanceContextMemoryService
    from agentscope_lance_context.rag import LanceContextRAGService
    from agentscope_lance_context.session_history import LanceContextSessionHistoryService
    from agentscope_lance_context.state import LanceContextStateService

__version__ = "0.1.0"

__all__ = [
    "LanceContextMemoryService",
    "LanceContextRAGService",
    "LanceContextSessionHistoryService",
    "LanceContextStateService",
    "register_backends",
]

# Importing AgentScope takes seconds, and no environment has all lines of it.
_LATER = {
    "LanceContextMemoryService": "memory",
    "LanceContextRAGService": "rag",
    "LanceContextSessionHistoryService": "session_history",
    "LanceContextStateService": "state",
    "register_backends": "backends",
}
"""What is imported when it is asked for, and from where."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
