"""The ways in which programs for LangGraph's own savers and stores open one, and so do its servers."""

import asyncio
import json
import runpy
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from importlib import import_module
from pathlib import Path

import pytest
from langchain_lance_context import LanceContextSaver, LanceContextStore
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.base import BaseStore

from lance_context_core import ContextStore, InvalidRequestError
from lance_context_core.errors import StoreClosedError

THREAD = {"configurable": {"thread_id": "t"}}


def graph(**made):
    builder = StateGraph(MessagesState)
    builder.add_node("cook", lambda _: {"messages": [("ai", "Boil water.")]})
    builder.add_edge(START, "cook")
    return builder.compile(**made)


def test_a_saver_is_made_of_a_connection_string_in_both_kinds_of_block(tmp_path):
    place = str(tmp_path / "store")
    with LanceContextSaver.from_conn_string(place, keep_for=timedelta(days=1)) as saver:
        saver.setup()
        graph(checkpointer=saver).invoke({"messages": [("user", "Tea?")]}, THREAD)

    async def main():
        async with LanceContextSaver.from_conn_string(place, keep_last=5) as again:
            await again.setup()
            return await graph(checkpointer=again).aget_state(THREAD)

    state = asyncio.run(main())
    assert [one.content for one in state.values["messages"]] == ["Tea?", "Boil water."]


def test_the_end_of_the_block_closes_the_store(tmp_path):
    with LanceContextSaver.from_conn_string(str(tmp_path / "store")) as saver:
        assert saver.get_tuple(THREAD) is None
    with pytest.raises(StoreClosedError):
        saver.get_tuple(THREAD)


def test_a_saver_in_memory_makes_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with LanceContextSaver.from_conn_string(":memory:") as saver:
        graph(checkpointer=saver).invoke({"messages": []}, THREAD)
        assert saver.get_tuple(THREAD) is not None
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("given", [None, Path("x")], ids=["None", "a path"])
def test_a_connection_string_that_is_no_text_is_refused(given):
    with pytest.raises(InvalidRequestError, match="conn_string"):
        LanceContextSaver.from_conn_string(given)


@pytest.mark.parametrize("cls", [SqliteSaver, AsyncSqliteSaver])
def test_whatever_a_saver_of_sqlite_has_to_be_called_is_here(cls):
    public = {name for name in vars(cls) if not name.startswith("_")}
    beside = {"cursor", "is_setup"}  # of the connection
    assert {one for one in public - beside if not hasattr(LanceContextSaver, one)} == set()


def test_a_store_names_what_makes_its_vectors(store, embedding):
    assert LanceContextStore(store, index={"embed": embedding, "dims": 64}).embeddings is embedding
    assert LanceContextStore(store, index={"fields": ["text"]}).embeddings is None
    assert LanceContextStore(store).embeddings is None


FACTORIES = """
from contextlib import asynccontextmanager
from langchain_lance_context import LanceContextSaver, LanceContextStore

@asynccontextmanager
async def checkpointer():
    async with LanceContextSaver.from_conn_string("memory", keep_last=100) as saver:
        yield saver

@asynccontextmanager
async def store():
    async with LanceContextStore.from_conn_string("memory") as memory:
        yield memory
"""


def loaded(path, home):
    """What LangGraph's server finds under a path of `langgraph.json`."""
    if ".py:" in path:
        file, _, name = path.rpartition(":")
        return runpy.run_path(str(home / file))[name]
    module, _, name = path.rpartition(".")
    return vars(import_module(module))[name]


@pytest.mark.parametrize(
    "paths",
    [
        pytest.param(
            {
                "checkpointer": "langchain_lance_context.serving.checkpointer",
                "store": "langchain_lance_context.serving.store",
            },
            id="ours",
        ),
        pytest.param(
            {"checkpointer": "./places.py:checkpointer", "store": "./places.py:store"},
            id="of a file",
        ),
    ],
)
def test_a_server_opens_and_closes_what_its_configuration_names(tmp_path, monkeypatch, paths):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LANCE_CONTEXT_STORE", "memory")
    (tmp_path / "places.py").write_text(FACTORIES, encoding="utf-8")
    config = json.loads(json.dumps({name: {"path": path} for name, path in paths.items()}))

    async def served():
        made = [loaded(config[name]["path"], tmp_path)() for name in ("checkpointer", "store")]
        assert all(isinstance(one, AbstractAsyncContextManager) for one in made)
        async with made[0] as saver, made[1] as memory:
            assert isinstance(saver, BaseCheckpointSaver)
            assert isinstance(memory, BaseStore)
            agent = graph(checkpointer=saver, store=memory)
            await agent.ainvoke({"messages": [("user", "Tea?")]}, THREAD)
            await memory.aput(("users",), "ada", {"city": "Oslo"})
        return saver, memory

    saver, memory = asyncio.run(served())
    for closed in (lambda: saver.get_tuple(THREAD), lambda: memory.get(("users",), "ada")):
        with pytest.raises(StoreClosedError):
            closed()
    with ContextStore.open(tmp_path / "memory") as opened:
        assert len(graph(checkpointer=LanceContextSaver(opened)).get_state(THREAD).values) == 1
        assert LanceContextStore(opened).get(("users",), "ada").value == {"city": "Oslo"}


@pytest.mark.parametrize("name", ["checkpointer", "store"])
def test_a_factory_without_a_place_says_which_variable_to_set(monkeypatch, name):
    monkeypatch.delenv("LANCE_CONTEXT_STORE", raising=False)

    async def opened():
        async with vars(import_module("langchain_lance_context.serving"))[name]():
            pass

    with pytest.raises(InvalidRequestError, match="LANCE_CONTEXT_STORE"):
        asyncio.run(opened())
