"""LangChain and LangGraph classes over a lance-context store."""

import sys
from importlib import import_module
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING, Any

from lance_context_core.errors import MissingExtraError
from langchain_lance_context.byte_stores import LanceContextByteStore
from langchain_lance_context.caches import LanceContextSemanticCache
from langchain_lance_context.document_retrievers import LanceContextDocumentRetriever
from langchain_lance_context.graph_stores import (
    GraphDocument,
    GraphNode,
    GraphRelationship,
    LanceContextGraphStore,
)
from langchain_lance_context.language_models import language_model
from langchain_lance_context.prompts import LanceContextPromptTemplate
from langchain_lance_context.query_constructors import LanceContextTranslator
from langchain_lance_context.record_managers import LanceContextRecordManager
from langchain_lance_context.retrievers import LanceContextRetriever
from langchain_lance_context.vectorstores import LanceContextVectorStore

if TYPE_CHECKING:
    from langchain_lance_context._threads import SavedThread
    from langchain_lance_context.chat_message_histories import LanceContextChatMessageHistory
    from langchain_lance_context.checkpointers import LanceContextSaver
    from langchain_lance_context.memory_tools import (
        LanceContextMemoryManager,
        create_manage_memory_tool,
        create_search_memory_tool,
    )
    from langchain_lance_context.middleware import LanceContextMemoryMiddleware
    from langchain_lance_context.migration import copy_checkpoints
    from langchain_lance_context.stores import LanceContextStore
    from langchain_lance_context.windows import LanceContextWindowMiddleware

    # At runtime it names what can be imported: see `__getattr__`.
    __all__ = [
        "GraphDocument",
        "GraphNode",
        "GraphRelationship",
        "LanceContextByteStore",
        "LanceContextChatMessageHistory",
        "LanceContextDocumentRetriever",
        "LanceContextGraphStore",
        "LanceContextMemoryManager",
        "LanceContextMemoryMiddleware",
        "LanceContextPromptTemplate",
        "LanceContextRecordManager",
        "LanceContextRetriever",
        "LanceContextSaver",
        "LanceContextSemanticCache",
        "LanceContextStore",
        "LanceContextTranslator",
        "LanceContextVectorStore",
        "LanceContextWindowMiddleware",
        "SavedThread",
        "copy_checkpoints",
        "create_manage_memory_tool",
        "create_search_memory_tool",
        "language_model",
    ]

__version__ = "0.1.0"

_AT_ONCE = (
    "GraphDocument",
    "GraphNode",
    "GraphRelationship",
    "LanceContextByteStore",
    "LanceContextDocumentRetriever",
    "LanceContextGraphStore",
    "LanceContextPromptTemplate",
    "LanceContextRecordManager",
    "LanceContextRetriever",
    "LanceContextSemanticCache",
    "LanceContextTranslator",
    "LanceContextVectorStore",
    "language_model",
)
"""Classes that need only LangChain's core package."""

_LATER = {
    # LangChain has announced the end of this class's base: the others must outlive it.
    "LanceContextChatMessageHistory": "chat_message_histories",
    # LangGraph is an extra, and so are LangChain's agents.
    "LanceContextMemoryManager": "memory_tools",
    "LanceContextMemoryMiddleware": "middleware",
    "LanceContextSaver": "checkpointers",
    "LanceContextStore": "stores",
    "LanceContextWindowMiddleware": "windows",
    "SavedThread": "_threads",
    "copy_checkpoints": "migration",
    "create_manage_memory_tool": "memory_tools",
    "create_search_memory_tool": "memory_tools",
}
"""The modules of names that are imported on first use."""

_EXTRAS = {"langchain": "agents", "langgraph": "langgraph"}
"""The extra that installs a missing framework."""


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted([*_AT_ONCE, *filter(_is_there, _LATER)])
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return _found(name)
    except ImportError as error:  # hasattr, getmembers and dir go on to the next name.
        raise AttributeError(f"module {__name__!r} cannot import {name!r}: {error}") from error


def __dir__() -> list[str]:
    return sorted({*globals(), "__all__", *__getattr__("__all__")})


def _found(name: str) -> Any:
    try:
        module = import_module(f"{__name__}.{_LATER[name]}")
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRAS:
            raise
        raise MissingExtraError(
            f"{name} needs {missing}: pip install 'langchain-lance-context[{_EXTRAS[missing]}]'"
        ) from error
    return getattr(module, name)


def _is_there(name: str) -> bool:
    try:
        _found(name)
    except ImportError:
        return False
    return True


class _Missing(MetaPathFinder):
    """Makes a failed `from langchain_lance_context import NAME` name the missing extra.

    For a missing attribute Python looks for a module of that name, and drops the original error.
    """

    def find_spec(self, fullname: str, *_place: object) -> None:
        """Finds nothing. Raises MissingExtraError for a public name that cannot be imported."""
        package, _, name = fullname.rpartition(".")
        if package == __name__ and name in _LATER:
            _found(name)


sys.meta_path.append(_Missing())
