"""Shared by the middlewares: the user of a run, and additions to the system message."""

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

from langchain_core.messages import SystemMessage
from langgraph.config import get_config
from langgraph.runtime import Runtime

from lance_context_core import AsyncContextStore, ContextStore, InvalidRequestError, adapting
from lance_context_core.adapting import OnError

_log = logging.getLogger("langchain_lance_context")

Whose: TypeAlias = str | Callable[[Runtime[Any]], str]
"""A name, or a function of the current run that returns it, such as from `runtime.context`."""


def going_on(on_error: OnError, problem: str) -> AbstractContextManager[None]:
    """Like `adapting.going_on`, with this package's logger."""
    return adapting.going_on(on_error, problem, _log)


def name_of(whose: Whose | None, part: str, runtime: Runtime[Any]) -> str | None:
    """The name in this run; a function that returns None must not widen the scope."""
    if not callable(whose):
        return whose
    name = whose(runtime)
    if not isinstance(name, str) or not name:
        raise InvalidRequestError(
            f"{part}={name!r:.80} is what the function given for it returned: it must return a name"
        )
    return name


def configured(name: str, *, otherwise: str | None = None) -> Any:
    """The value of `name` in the run's config."""
    given: Mapping[str, Any] = get_config().get("configurable") or {}
    value = given.get(name)
    return otherwise if value is None else value


def extended(message: SystemMessage | None, text: str) -> SystemMessage:
    """Providers accept one system message; its beginning stays unchanged for their caches."""
    if message is None or not message.content:
        return SystemMessage(text)
    if isinstance(message.content, str):
        return message.model_copy(update={"content": f"{message.content}\n\n{text}"})
    return message.model_copy(
        update={"content": [*message.content, {"type": "text", "text": text}]}
    )


def check_embedding(embedding: object, store: object) -> None:
    """An open store has its own embedder."""
    if embedding is not None and isinstance(store, ContextStore | AsyncContextStore):
        raise InvalidRequestError(
            "embedding: the records of an open store are embedded by its own embedder; open the "
            "store with it"
        )


def check_whose(whose: object, name: str) -> None:
    """A name, or a function."""
    if whose is not None and not callable(whose) and not (isinstance(whose, str) and whose):
        raise InvalidRequestError(
            f"{name}={whose!r:.80}: give a name, or a function of the run's Runtime"
        )
