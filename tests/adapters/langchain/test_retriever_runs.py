"""A recall in a trace: a run of a retriever, below the run that asked, with what was found."""

import asyncio

import pytest
from adapters.langchain.test_middleware import Scripted
from langchain.agents import create_agent
from langchain_core.tracers.base import BaseTracer
from langchain_lance_context import (
    LanceContextMemoryMiddleware,
    LanceContextStore,
    create_manage_memory_tool,
    create_search_memory_tool,
)

from lance_context_core import AsyncContextStore
from lance_context_core.errors import StorageError


class Traced(BaseTracer):
    """The runs that ended."""

    def __init__(self):
        super().__init__()
        self.ended = []

    def _persist_run(self, run):
        pass

    def _end_trace(self, run):
        self.ended.append(run)
        super()._end_trace(run)

    @property
    def recalls(self):
        return [one for one in self.ended if one.run_type == "retriever"]

    def parent(self, run):
        return next(one for one in self.ended if one.id == run.parent_run_id)


@pytest.fixture
def traced():
    return Traced()


@pytest.fixture(params=["sync", "async"])
def call(request, traced):
    def called(runnable, given):
        config = {"callbacks": [traced], "configurable": {"user_id": "ada", "thread_id": "t"}}
        if request.param == "sync":
            return runnable.invoke(given, config)
        return asyncio.run(runnable.ainvoke(given, config))

    return called


def contents(run):
    return [one["page_content"] if isinstance(one, dict) else one.page_content for one in run.outputs["documents"]]  # fmt: skip


def agent(store, **options):
    return create_agent(Scripted(), middleware=[LanceContextMemoryMiddleware(store, **options)])


ASKED = {"messages": [("user", "Is there ginger tea?")]}


def test_the_recall_of_an_agent_is_a_run_of_a_retriever(embedding_store, traced, call):
    embedding_store.memory.add(["likes ginger tea"], user_id="ada")
    call(agent(embedding_store), ASKED)
    [recall] = traced.recalls
    assert (recall.name, recall.inputs) == ("recall", {"query": "Is there ginger tea?"})
    assert contents(recall) == ["likes ginger tea"]
    assert traced.parent(recall).name == "model"


def test_a_recall_that_fails_is_shown_with_its_error(store, traced, call, monkeypatch):
    def away(*_, **__):
        raise StorageError("the disk is away")

    monkeypatch.setattr(AsyncContextStore, "search", away)
    call(agent(store), ASKED)
    [recall] = traced.recalls
    assert "the disk is away" in recall.error


def test_a_search_of_an_agents_memories_is_one_too(store, traced, call):
    call(create_manage_memory_tool(store), {"content": "Ada likes ginger tea."})
    call(create_search_memory_tool(store), {"query": "tea"})
    [recall] = traced.recalls
    assert contents(recall) == ["Ada likes ginger tea."]
    assert (recall.name, traced.parent(recall).run_type) == ("search_memory", "tool")


def test_and_one_of_the_items_below_a_namespace(store, traced, call):
    memory = LanceContextStore(store)
    call(create_manage_memory_tool(("m",), store=memory), {"content": "ginger tea"})
    call(create_search_memory_tool(("m",), store=memory), {"query": "tea"})
    [recall] = traced.recalls
    assert contents(recall) == ["ginger tea"]
    assert traced.parent(recall).run_type == "tool"
