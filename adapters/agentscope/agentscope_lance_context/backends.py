"""The services as backends of the factories that agentscope-runtime 1.0 makes services with."""

from typing import Any

from agentscope_lance_context._places import SESSIONS, STATES
from agentscope_lance_context._runtime import SessionHistoryServiceFactory, StateServiceFactory
from agentscope_lance_context.memory import LanceContextMemoryService
from agentscope_lance_context.session_history import LanceContextSessionHistoryService
from agentscope_lance_context.state import LanceContextStateService
from lance_context_core import InvalidRequestError
from lance_context_core.errors import MissingExtraError


def register_backends(name: str = "lancedb") -> list[str]:
    """Registers the services with AgentScope's factories; returns the registered kinds.

    These are `session_history`, `state` and, if AgentScope's own factory can be imported, which
    needs `mem0ai` and `reme-ai`, `memory`. Then set `SESSION_HISTORY_BACKEND=lancedb` and
    `SESSION_HISTORY_LANCEDB_URI=…`, with `MEMORY_` and `STATE_` for the others; every further
    option of a service has such a variable too, and a parameter of `create`.
    """
    SessionHistoryServiceFactory.register_backend(name, _session_history)
    StateServiceFactory.register_backend(name, _state)
    try:
        from agentscope_lance_context._runtime import MemoryServiceFactory
    except MissingExtraError:
        return ["session_history", "state"]
    MemoryServiceFactory.register_backend(name, _memory)
    return ["session_history", "state", "memory"]


def _session_history(
    *,
    uri: Any = None,
    store: Any = None,
    embedder: Any = None,
    on_missing: Any = "create",
    on_existing: Any = "replace",
    after_delete: Any = "none",
    ttl_seconds: Any = None,
    max_messages_per_session: Any = None,
    deduplicate: Any = False,
    name: str = SESSIONS.name,
) -> LanceContextSessionHistoryService:
    return LanceContextSessionHistoryService(
        _place(uri, store, "SESSION_HISTORY"),
        embedder=embedder,
        on_missing=on_missing,
        on_existing=on_existing,
        after_delete=after_delete,
        ttl_seconds=_number(ttl_seconds, "ttl_seconds"),
        max_messages_per_session=_whole(max_messages_per_session, "max_messages_per_session"),
        deduplicate=_flag(deduplicate, "deduplicate"),
        name=name,
    )


def _memory(
    *,
    uri: Any = None,
    store: Any = None,
    embedder: Any = None,
    search: Any = "words",
    ttl_seconds: Any = None,
    max_messages_per_session: Any = None,
    deduplicate: Any = False,
) -> LanceContextMemoryService:
    return LanceContextMemoryService(
        _place(uri, store, "MEMORY"),
        embedder=embedder,
        search=search,
        ttl_seconds=_number(ttl_seconds, "ttl_seconds"),
        max_messages_per_session=_whole(max_messages_per_session, "max_messages_per_session"),
        deduplicate=_flag(deduplicate, "deduplicate"),
    )


def _state(
    *,
    uri: Any = None,
    store: Any = None,
    embedder: Any = None,
    ttl_seconds: Any = None,
    name: str = STATES.name,
) -> LanceContextStateService:
    return LanceContextStateService(
        _place(uri, store, "STATE"),
        embedder=embedder,
        ttl_seconds=_number(ttl_seconds, "ttl_seconds"),
        name=name,
    )


def _place(uri: Any, store: Any, prefix: str) -> Any:
    if (uri is None) == (store is None):
        raise InvalidRequestError(
            f"uri={uri!r:.80} and store={store!r:.80}: give one of them, such as with the "
            f"environment's {prefix}_LANCEDB_URI"
        )
    return uri if store is None else store


def _number(value: Any, name: str) -> Any:
    """A number, which the environment has as a text."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError as error:
        raise InvalidRequestError(f"{name}={value!r:.80}: give a number") from error


def _whole(value: Any, name: str) -> Any:
    try:
        return int(value) if isinstance(value, str) else value
    except ValueError as error:
        raise InvalidRequestError(f"{name}={value!r:.80}: give a whole number") from error


def _flag(value: Any, name: str) -> bool:
    if isinstance(value, str):
        if value.lower() not in _FLAGS:
            raise InvalidRequestError(f"{name}={value!r:.80}: give true or false")
        return _FLAGS[value.lower()]
    return bool(value)


_FLAGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False, "": False}
