"""What OpenTelemetry is told of a store: nothing unless it is wanted, and then no text."""

import asyncio
import json

import pytest
from lance_context_opentelemetry import instrument, uninstrument
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from lance_context_core import (
    AsyncContextStore,
    ContextStore,
    Document,
    InvalidRequestError,
    Message,
    NotFoundError,
)
from lance_context_core.embedders import as_embedder
from lance_context_core.graph import Entity
from lance_context_core.stores.history import AsyncHistory


@pytest.fixture
def tracing():
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider, exporter
    uninstrument()


@pytest.fixture
def store():
    with ContextStore.open("memory://") as store:
        yield store


def turn(store):
    store.history.append("bot", Message.user("I like secret tea.", id="m"), session_id="s")
    store.memory.add([Message.user("Likes secret tea.", id="n")], user_id="ada")
    store.memory.search("secret", user_id="ada")
    store.vectors("notes").add([Document(id="d", embedding=[1.0, 0.0])])
    store.vectors("notes").search([1.0, 0.0])


def test_each_call_is_a_span_within_the_callers(store, tracing):
    provider, exporter = tracing
    instrument(tracer_provider=provider)
    with provider.get_tracer("agent").start_as_current_span("invoke_agent tutor") as agent:
        turn(store)
    *spans, outer = exporter.get_finished_spans()
    assert [span.name for span in spans] == [
        *("create_memory", "create_memory", "search_memory", "create_memory", "retrieval notes"),
    ]
    assert {span.parent.span_id for span in spans} == {agent.get_span_context().span_id}
    assert outer.name == "invoke_agent tutor"
    assert spans[0].attributes["gen_ai.conversation.id"] == "s"
    assert spans[2].attributes["lance_context.n_results"] == 1
    assert spans[4].attributes["gen_ai.data_source.id"] == "notes"
    assert {span.attributes["gen_ai.provider.name"] for span in spans} == {"lance_context"}


def test_what_is_asked_of_the_graph_is_a_retrieval(store, tracing):
    provider, exporter = tracing
    [ada] = store.graph.add_entities([Entity(name="Ada")])
    instrument(tracer_provider=provider)
    assert [one.id for one in store.graph.find("Ada")] == [ada.id]
    assert [one.id for one in store.graph.neighbours(ada.id).entities] == [ada.id]
    assert [span.name for span in exporter.get_finished_spans()] == ["retrieval graph"] * 2


def test_a_store_is_as_it_was_once_nothing_is_told_any_more(store, tracing):
    provider, exporter = tracing
    plain = {name: getattr(AsyncContextStore, name) for name in dir(AsyncContextStore)}
    own = set(vars(AsyncContextStore))
    instrument(tracer_provider=provider)
    uninstrument()
    store.search("tea")
    assert exporter.get_finished_spans() == ()
    assert {name: getattr(AsyncContextStore, name) for name in dir(AsyncContextStore)} == plain
    assert set(vars(AsyncContextStore)) == own


def test_a_coroutines_calls_are_spans_within_its_own(tracing):
    provider, exporter = tracing
    instrument(tracer_provider=provider)

    async def run():
        async with await AsyncContextStore.open("memory://") as store:
            with provider.get_tracer("agent").start_as_current_span("outer") as outer:
                await store.search("tea")
            return outer.get_span_context().span_id

    outer = asyncio.run(run())
    [span, _] = exporter.get_finished_spans()
    assert (span.name, span.parent.span_id) == ("search_memory", outer)


def test_no_text_is_told_unless_it_is_asked_for(store, tracing):
    provider, exporter = tracing
    instrument(tracer_provider=provider)
    turn(store)
    assert "secret" not in "".join(span.to_json() for span in exporter.get_finished_spans())
    exporter.clear()
    instrument(tracer_provider=provider, with_texts=True)
    store.memory.search("secret", user_id="ada")
    [span] = exporter.get_finished_spans()
    assert span.attributes["gen_ai.memory.query.text"] == "secret"
    [found] = json.loads(span.attributes["gen_ai.memory.records"])
    assert (found["id"], found["content"]) == ("n", "Likes secret tea.")


def test_what_a_call_makes_others_do_is_within_it(tracing):
    provider, exporter = tracing
    instrument(tracer_provider=provider)

    def embed(texts):
        with provider.get_tracer("model").start_as_current_span("embeddings"):
            return [[1.0, 0.0] for _ in texts]

    with ContextStore.open("memory://", embedder=as_embedder(embed, model="m")) as store:
        store.memory.add([Message.user("tea")], user_id="ada")
    by_name = {span.name: span for span in exporter.get_finished_spans()}
    assert by_name.keys() == {"embeddings", "create_memory"}
    inner, outer = by_name["embeddings"], by_name["create_memory"]
    assert inner.context.trace_id == outer.context.trace_id
    assert inner.parent.span_id == outer.context.span_id


def test_an_error_is_told_by_its_kind_alone(store, tracing):
    provider, exporter = tracing
    instrument(tracer_provider=provider)
    turn(store)
    exporter.clear()
    with pytest.raises(NotFoundError):
        store.merge("a-secret-branch")
    [span] = exporter.get_finished_spans()
    assert (span.attributes["error.type"], span.status.is_ok) == ("NotFoundError", False)
    assert "secret" not in span.to_json()


def test_how_long_calls_took_is_a_histogram(store, tracing):
    reader = InMemoryMetricReader()
    instrument(tracer_provider=tracing[0], meter_provider=MeterProvider([reader]))
    turn(store)
    [resource] = reader.get_metrics_data().resource_metrics
    [metric] = resource.scope_metrics[0].metrics
    assert (metric.name, metric.unit) == ("gen_ai.client.operation.duration", "s")
    counts = {
        point.attributes["gen_ai.operation.name"]: point.count for point in metric.data.data_points
    }
    assert counts == {"create_memory": 3, "search_memory": 1, "retrieval": 1}


def test_without_it_the_calls_are_as_they_were(store, tracing):
    before = AsyncHistory.append
    instrument(tracer_provider=tracing[0])
    instrument(tracer_provider=tracing[0])
    assert AsyncHistory.append is not before
    uninstrument()
    uninstrument()
    assert AsyncHistory.append is before
    turn(store)
    assert tracing[1].get_finished_spans() == ()


def test_what_is_no_provider_is_refused_and_changes_nothing():
    before = AsyncHistory.append
    with pytest.raises(InvalidRequestError, match="tracer_provider='here'"):
        instrument(tracer_provider="here")
    assert AsyncHistory.append is before
