"""One turn of an agent of LangGraph, as OpenTelemetry is told of it."""

from pathlib import Path

import pytest
from lance_context_opentelemetry import instrument, uninstrument
from langchain_core.messages import AIMessage, HumanMessage
from langchain_lance_context import LanceContextSaver, LanceContextStore
from langgraph.graph import END, START, MessagesState, StateGraph
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from lance_context_core import ContextStore

PAGE = Path(__file__).parents[3] / "docs" / "observing.md"


@pytest.fixture
def tracing():
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrument(tracer_provider=provider)
    yield provider, exporter
    uninstrument()


def drawn(spans):
    """The spans as a tree, in the order in which they began, repeated ones once."""
    lines = []

    def draw(parent, depth):
        below = [one for one in spans if (one.parent and one.parent.span_id) == parent]
        for span in sorted(below, key=lambda one: one.start_time):
            lines.append("  " * depth + span.name)
            draw(span.context.span_id, depth + 1)

    draw(None, 0)
    return "\n".join(line for n, line in enumerate(lines) if n == 0 or line != lines[n - 1])


def test_a_turn_is_one_trace_which_the_page_shows(tmp_path, tracing):
    provider, exporter = tracing
    tracer = provider.get_tracer("tutor")
    with ContextStore.open(tmp_path / "memory") as store:
        known = LanceContextStore(store)
        known.put(("ada",), "trains", {"likes": "trains"})
        exporter.clear()

        def answer(state):
            with tracer.start_as_current_span("execute_node answer"):
                found = known.search(("ada",), query=state["messages"][-1].content)
                with tracer.start_as_current_span("chat scripted"):
                    said = AIMessage(f"I know {len(found)} things.")
                return {"messages": [said]}

        graph = StateGraph(MessagesState)
        graph.add_node("answer", answer)
        graph.add_edge(START, "answer")
        graph.add_edge("answer", END)
        agent = graph.compile(checkpointer=LanceContextSaver(store), store=known)
        with tracer.start_as_current_span("invoke_agent tutor"):
            agent.invoke(
                {"messages": [HumanMessage("What do I like?")]},
                {"configurable": {"thread_id": "monday"}},
                durability="sync",  # Else checkpoints are written when there is time.
            )
    spans = exporter.get_finished_spans()
    assert len({span.context.trace_id for span in spans}) == 1
    assert f"```text\n{drawn(spans)}\n```" in PAGE.read_text(encoding="utf-8"), drawn(spans)
