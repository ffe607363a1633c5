"""The names of agentscope-runtime that the services use, in any of its release lines.

Each name is imported on first use. `_runtime.pyi` has their types.
"""

from importlib import import_module
from typing import Any

from lance_context_core.errors import MissingExtraError

_ENGINE = "agentscope_runtime.engine"
_BOTH = (
    "agentscope-runtime 0.1.6 to 0.2.0, pip install 'agentscope-lance-context[context]', "
    "or 1.0.1 to 1.0.5, pip install 'agentscope-lance-context[runtime1]'"
)
_ZERO = "agentscope-runtime 0.1.6 to 0.2.0: pip install 'agentscope-lance-context[context]'"
_ONE = "agentscope-runtime 1.0.1 to 1.0.5: pip install 'agentscope-lance-context[runtime1]'"

_PLACES: dict[str, tuple[str, tuple[str, ...]]] = {
    "Message": (_BOTH, ("schemas.agent_schemas",)),
    "TextContent": (_BOTH, ("schemas.agent_schemas",)),
    "Session": (_BOTH, ("schemas.session", "services.session_history_service")),
    "SessionHistoryService": (
        _BOTH,
        ("services.session_history.session_history_service", "services.session_history_service"),
    ),
    "MemoryService": (_BOTH, ("services.memory.memory_service", "services.memory_service")),
    "RAGService": (_ZERO, ("services.rag_service",)),
    "StateService": (_ONE, ("services.agent_state.state_service",)),
    "StateServiceFactory": (_ONE, ("services.agent_state.state_service_factory",)),
    "SessionHistoryServiceFactory": (
        _ONE,
        ("services.session_history.session_history_service_factory",),
    ),
    "MemoryServiceFactory": (_ONE, ("services.memory.memory_service_factory",)),
}
"""For each name: the releases that have it, and the modules that may define it."""


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    releases, places = _PLACES[name]
    missing: ImportError | None = None
    for place in places:
        try:
            return getattr(import_module(f"{_ENGINE}.{place}"), name)
        except ImportError as error:
            # Distinguishes a missing AgentScope from a dependency that it does not declare.
            missing = error if missing is None or not _is_of(error) else missing
    raise MissingExtraError(f"{name} needs {releases} ({missing})") from missing


def _is_of(error: ImportError) -> bool:
    """Whether the missing module is AgentScope's."""
    return (error.name or "").partition(".")[0] == "agentscope_runtime"
