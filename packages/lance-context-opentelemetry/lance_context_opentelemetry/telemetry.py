"""Names and spans of the store's calls."""

import json
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from time import perf_counter
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.metrics import Histogram, MeterProvider
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, TracerProvider

from lance_context_core import (
    AsyncContext,
    AsyncContextStore,
    AsyncDocuments,
    AsyncHistory,
    AsyncKeyValues,
    AsyncKnowledge,
    AsyncMemory,
    AsyncVectors,
    InvalidRequestError,
)
from lance_context_core.results import AsyncGraph

PROVIDER = "lance_context"

_SEARCH, _CREATE, _UPSERT = "search_memory", "create_memory", "upsert_memory"
_UPDATE, _DELETE, _RETRIEVAL = "update_memory", "delete_memory", "retrieval"
_READ = "get_memory"
"""The conventions have no name for reading by key."""

_CALLS: Mapping[type[Any], Mapping[str, str]] = {
    AsyncHistory: {
        "append": _CREATE,
        "append_many": _CREATE,
        "replace": _UPDATE,
        "rewrite": _UPDATE,
        "replace_tail": _UPDATE,
        "annotate": _UPDATE,
        "pop": _DELETE,
        "clear": _DELETE,
        "clear_run": _DELETE,
        "get_messages": _READ,
        "search": _SEARCH,
    },
    AsyncMemory: {
        "add": _CREATE,
        "search": _SEARCH,
        "list": _READ,
        "latest": _READ,
        "delete": _DELETE,
        "clear": _DELETE,
    },
    AsyncContext: {
        "add": _CREATE,
        "add_many": _CREATE,
        "upsert": _UPSERT,
        "upsert_many": _UPSERT,
        "update": _UPDATE,
        "delete": _DELETE,
        "search": _SEARCH,
        "retrieve": _SEARCH,
    },
    AsyncKeyValues: {
        "put": _UPSERT,
        "add": _CREATE,
        "append": _CREATE,
        "write": _UPSERT,
        "delete": _DELETE,
        "delete_under": _DELETE,
        "list": _READ,
        "search": _SEARCH,
    },
    AsyncVectors: {
        "add": _CREATE,
        "upsert": _UPSERT,
        "delete": _DELETE,
        "erase": _DELETE,
        "get": _READ,
        "search": _RETRIEVAL,
    },
    AsyncDocuments: {
        "add": _CREATE,
        "add_many": _CREATE,
        "delete": _DELETE,
        "erase": _DELETE,
        "search": _RETRIEVAL,
    },
    AsyncGraph: {"find": _RETRIEVAL, "neighbours": _RETRIEVAL},
    AsyncKnowledge: {
        "add": _CREATE,
        "search": _SEARCH,
        "distill": _CREATE,
        "correct": _UPDATE,
    },
    AsyncContextStore: {
        "search": _SEARCH,
        "erase": _DELETE,
        "assemble": _READ,
        **{name: f"lance_context.{name}" for name in ("merge", "restore", "maintain", "thin")},
        **{name: f"lance_context.{name}" for name in ("embed_pending", "change_model", "sql")},
        **{name: f"lance_context.{name}" for name in ("export", "import_", "verify", "flush")},
    },
}
"""The operation name of each call."""

_QUERY = {_SEARCH: "gen_ai.memory.query.text", _RETRIEVAL: "gen_ai.retrieval.query.text"}
_FOUND = {_SEARCH: "gen_ai.memory.records", _RETRIEVAL: "gen_ai.retrieval.documents"}

_is_within: ContextVar[bool] = ContextVar("lance_context_is_within", default=False)
"""Whether another call of a store makes this one and has the span for both."""

_lock = threading.Lock()
_replaced: dict[tuple[type[Any], str], Any] = {}
"""The original calls without spans; None for an inherited one."""


@dataclass(frozen=True, slots=True)
class _Telling:
    tracer: Tracer
    duration: Histogram
    with_texts: bool


def instrument(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    with_texts: bool = False,
) -> None:
    """Record a span and the duration of each call of every store of this process.

    - `tracer_provider`, `meter_provider`: the destinations; by default the program's global providers;
    - `with_texts`: also record questions and results. Otherwise no text is recorded, and no id
      except those of the session and the agent.

    The spans are children of the current span. A repeated call replaces the former one. Raises
    InvalidRequestError for an invalid provider.
    """
    for name, one, method in (
        ("tracer_provider", tracer_provider, "get_tracer"),
        ("meter_provider", meter_provider, "get_meter"),
    ):
        if one is not None and not hasattr(one, method):
            raise InvalidRequestError(f"{name}={one!r}: give one of OpenTelemetry's, or None")
    tracer = trace.get_tracer(PROVIDER, tracer_provider=tracer_provider)
    meter = metrics.get_meter(PROVIDER, meter_provider=meter_provider)
    duration = meter.create_histogram(
        "gen_ai.client.operation.duration", unit="s", description="How long a call took"
    )
    telling = _Telling(tracer, duration, bool(with_texts))
    with _lock:
        _restore()
        for kind, calls in _CALLS.items():
            for name, operation in calls.items():
                plain = getattr(kind, name)
                _replaced[kind, name] = vars(kind).get(name)
                setattr(kind, name, _told(plain, operation, telling))


def uninstrument() -> None:
    """Stops recording. Does nothing without an earlier `instrument`."""
    with _lock:
        _restore()


def _restore() -> None:
    while _replaced:
        (kind, name), plain = _replaced.popitem()
        if plain is None:
            delattr(kind, name)
        else:
            setattr(kind, name, plain)


def _told(
    plain: Callable[..., Awaitable[Any]], operation: str, telling: _Telling
) -> Callable[..., Awaitable[Any]]:
    @wraps(plain)
    async def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        if _is_within.get():
            return await plain(self, *args, **kwargs)
        with _within(), _spanned(telling, operation, _attributes(self, operation, kwargs)) as span:
            found = await plain(self, *args, **kwargs)
            if span.is_recording():
                if isinstance(found, Sized) and not isinstance(found, str):
                    span.set_attribute("lance_context.n_results", len(found))
                if telling.with_texts:
                    _tell_texts(span, operation, args, kwargs, found)
            return found

    return call


@contextmanager
def _within() -> Iterator[None]:
    token = _is_within.set(True)
    try:
        yield
    finally:
        _is_within.reset(token)


@contextmanager
def _spanned(telling: _Telling, operation: str, attributes: dict[str, str]) -> Iterator[Span]:
    named = attributes.get("gen_ai.data_source.id")
    name = operation if named is None else f"{operation} {named}"
    counted = {key: attributes[key] for key in ("gen_ai.operation.name", "gen_ai.provider.name")}
    begun = perf_counter()
    with telling.tracer.start_as_current_span(
        name,
        kind=SpanKind.CLIENT,
        attributes=attributes,
        # An error's message may contain a text.
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield span
        except BaseException as error:
            counted["error.type"] = type(error).__name__
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(Status(StatusCode.ERROR))
            raise
        finally:
            telling.duration.record(perf_counter() - begun, counted)


def _attributes(store: Any, operation: str, kwargs: Mapping[str, Any]) -> dict[str, str]:
    told = {"gen_ai.operation.name": operation, "gen_ai.provider.name": PROVIDER}
    resources = getattr(store, "_resources", None) or getattr(
        getattr(store, "_records", None), "resources", None
    )
    if resources is not None:
        told["gen_ai.memory.store.id"] = resources.database.uri
    for name, attribute in (("session_id", "conversation"), ("agent_id", "agent")):
        if isinstance(one := kwargs.get(name), str):
            told[f"gen_ai.{attribute}.id"] = one
    if operation == _RETRIEVAL:
        source = getattr(store, "name", None) or getattr(store, "collection", None)
        told["gen_ai.data_source.id"] = str(source or _kind(store))
    return told


def _kind(store: Any) -> str:
    return type(store).__name__.removeprefix("Async").lower()


def _tell_texts(
    span: Span, operation: str, args: Sequence[Any], kwargs: Mapping[str, Any], found: Any
) -> None:
    query = next((one for one in (*args, kwargs.get("query")) if isinstance(one, str)), None)
    if (name := _QUERY.get(operation)) is not None and query is not None:
        span.set_attribute(name, query)
    if (name := _FOUND.get(operation)) is not None and isinstance(found, list):
        span.set_attribute(name, json.dumps([_hit(one) for one in found], ensure_ascii=False))


def _hit(hit: Any) -> dict[str, Any]:
    one = getattr(hit, "record", hit)
    text = getattr(one, "text", None)
    return {
        "id": getattr(one, "id", None),
        "content": text if isinstance(text, str) else None,
        "score": getattr(hit, "score", None),
    }
