"""AgentScope's sessions, memories, states and documents over a lance-context store."""

import sys
from importlib import import_module
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentscope_lance_context.agentscope1.document_knowledge import (
        LanceContextDocumentKnowledge,
    )
    from agentscope_lance_context.agentscope1.knowledge_memory import LanceContextKnowledgeMemory
    from agentscope_lance_context.agentscope1.long_term_memory import LanceContextLongTermMemory
    from agentscope_lance_context.agentscope1.memory import LanceContextMemory
    from agentscope_lance_context.agentscope1.session import LanceContextSession
    from agentscope_lance_context.agentscope1.vdb_store import LanceContextVDBStore
    from agentscope_lance_context.agentscope1.windows import LanceContextWindowFormatter
    from agentscope_lance_context.agentscope2.app_storage import LanceContextStorage
    from agentscope_lance_context.agentscope2.blob_store import LanceContextBlobStore
    from agentscope_lance_context.agentscope2.document_knowledge import (
        LanceContextDocumentKnowledgeBase,
    )
    from agentscope_lance_context.agentscope2.knowledge_base_manager import (
        LanceContextKnowledgeBaseManager,
    )
    from agentscope_lance_context.agentscope2.message_bus import LanceContextMessageBus
    from agentscope_lance_context.agentscope2.middleware import LanceContextMemoryMiddleware
    from agentscope_lance_context.agentscope2.states import LanceContextAgentStateStore
    from agentscope_lance_context.agentscope2.vector_store import LanceContextVectorStore
    from agentscope_lance_context.agentscope2.windows import LanceContextWindowMiddleware
    from agentscope_lance_context.backends import register_backends
    from agentscope_lance_context.knowledge import LanceContextKnowledgeService
    from agentscope_lance_context.language_models import language_model
    from agentscope_lance_context.memory import LanceContextMemoryService
    from agentscope_lance_context.rag import LanceContextRAGService
    from agentscope_lance_context.session_history import LanceContextSessionHistoryService
    from agentscope_lance_context.state import LanceContextStateService

    # At runtime it names what can be imported: see `__getattr__`.
    __all__ = [
        "LanceContextAgentStateStore",
        "LanceContextBlobStore",
        "LanceContextDocumentKnowledge",
        "LanceContextDocumentKnowledgeBase",
        "LanceContextKnowledgeBaseManager",
        "LanceContextKnowledgeMemory",
        "LanceContextKnowledgeService",
        "LanceContextLongTermMemory",
        "LanceContextMemory",
        "LanceContextMemoryMiddleware",
        "LanceContextMemoryService",
        "LanceContextMessageBus",
        "LanceContextRAGService",
        "LanceContextSession",
        "LanceContextSessionHistoryService",
        "LanceContextStateService",
        "LanceContextStorage",
        "LanceContextVDBStore",
        "LanceContextVectorStore",
        "LanceContextWindowFormatter",
        "LanceContextWindowMiddleware",
        "language_model",
        "register_backends",
    ]

__version__ = "0.1.0"

# Importing AgentScope takes seconds, and no environment has all of its release lines.
_LATER = {
    "LanceContextAgentStateStore": "agentscope2.states",
    "LanceContextBlobStore": "agentscope2.blob_store",
    "LanceContextDocumentKnowledge": "agentscope1.document_knowledge",
    "LanceContextDocumentKnowledgeBase": "agentscope2.document_knowledge",
    "LanceContextKnowledgeBaseManager": "agentscope2.knowledge_base_manager",
    "LanceContextKnowledgeMemory": "agentscope1.knowledge_memory",
    "LanceContextKnowledgeService": "knowledge",
    "LanceContextLongTermMemory": "agentscope1.long_term_memory",
    "LanceContextMemory": "agentscope1.memory",
    "LanceContextMemoryMiddleware": "agentscope2.middleware",
    "LanceContextMemoryService": "memory",
    "LanceContextMessageBus": "agentscope2.message_bus",
    "LanceContextRAGService": "rag",
    "LanceContextSession": "agentscope1.session",
    "LanceContextSessionHistoryService": "session_history",
    "LanceContextStateService": "state",
    "LanceContextStorage": "agentscope2.app_storage",
    "LanceContextVDBStore": "agentscope1.vdb_store",
    "LanceContextVectorStore": "agentscope2.vector_store",
    "LanceContextWindowFormatter": "agentscope1.windows",
    "LanceContextWindowMiddleware": "agentscope2.windows",
    "language_model": "language_models",
    "register_backends": "backends",
}
"""The modules of names that are imported on first use."""


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return [one for one in sorted(_LATER) if _is_there(one)]
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return _found(name)
    except ImportError as error:  # hasattr, getmembers and dir go on to the next name.
        raise AttributeError(f"module {__name__!r} cannot import {name!r}: {error}") from error


def __dir__() -> list[str]:
    return sorted({*globals(), "__all__", *__getattr__("__all__")})


def _found(name: str) -> Any:
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)


def _is_there(name: str) -> bool:
    try:
        _found(name)
    except ImportError:
        return False
    return True


class _Missing(MetaPathFinder):
    """Makes a failed `from agentscope_lance_context import NAME` name the missing extra.

    For a missing attribute Python looks for a module of that name, and drops the original error.
    """

    def find_spec(self, fullname: str, *_place: object) -> None:
        """Finds nothing. Raises MissingExtraError for a public name that cannot be imported."""
        package, _, name = fullname.rpartition(".")
        if package == __name__ and name in _LATER:
            _found(name)


sys.meta_path.append(_Missing())
