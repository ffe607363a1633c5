"""Filter keys with dots, as LangGraph's SqliteStore and SqliteSaver read them: paths into the values."""

import asyncio

import pytest
from langchain_lance_context import LanceContextSaver, LanceContextStore
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.sqlite import SqliteStore

from lance_context_core import ContextStore

VALUES = {
    "nested": {"a": {"b": 1}},
    "other": {"a": {"b": 2, "c": "x"}},
    "deep": {"a": {"b": {"c": 1}}},
    "flat": {"a": 1},
    "list": {"a": [{"b": 1}]},
    "none": {"x": 1},
}
OPERATORS = [
    {"a.b": 1},
    {"a.b": {"$gte": 1}},
    {"a.c": "x"},
    {"a.b.c": 1},
    {"a.b": 2, "a.c": "x"},
    {"a.d": 1},
    {"x": 1},
]
EQUALITY = [one for one in OPERATORS if not any(isinstance(v, dict) for v in one.values())]
EQUALITY += [{"a.b": None}, {"a.b.c": None}]


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Ours and LangGraph's, with the same in them."""
    with (
        ContextStore.open(tmp_path_factory.mktemp("dotted")) as opened,
        SqliteStore.from_conn_string(":memory:") as lite,
        SqliteSaver.from_conn_string(":memory:") as saver,
    ):
        lite.setup()
        ours, our_saver = LanceContextStore(opened), LanceContextSaver(opened)
        for key, value in VALUES.items():
            checkpoint = empty_checkpoint()
            for one in (lite, ours):
                one.put(("t",), key, value)
            for one in (saver, our_saver):
                place = {"configurable": {"thread_id": key, "checkpoint_ns": ""}}
                one.put(place, checkpoint, value, {})
        yield ours, lite, our_saver, saver


def found(store, filter):
    return sorted(one.key for one in store.search(("t",), filter=filter))


def threads(tuples):
    return sorted(one.config["configurable"]["thread_id"] for one in tuples)


async def listed(tuples):
    return [one async for one in tuples]


@pytest.mark.parametrize("filter", OPERATORS, ids=str)
def test_a_search_finds_by_a_path_what_langgraphs_own_store_finds(stores, filter):
    ours, lite, *_ = stores
    assert found(ours, filter) == found(lite, filter)
    again = asyncio.run(ours.asearch(("t",), filter=filter))
    assert sorted(one.key for one in again) == found(lite, filter)


@pytest.mark.parametrize("filter", EQUALITY, ids=str)
def test_a_list_of_checkpoints_finds_by_a_path_what_langgraphs_own_saver_finds(stores, filter):
    *_, ours, lite = stores
    expected = threads(lite.list(None, filter=filter))
    assert threads(ours.list(None, filter=filter)) == expected
    assert threads(asyncio.run(listed(ours.alist(None, filter=filter)))) == expected
    for thread in VALUES:  # as what is known of a thread that was just read
        place = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
        assert ours.get_tuple(place) is not None
        assert (threads(ours.list(place, filter=filter)) == [thread]) == (thread in expected)


def test_a_key_that_has_dots_itself_is_itself_where_it_is(store):
    both, path = {"a.b": 1, "a": {"b": 2}}, {"a": {"b": 1}}
    memory, saver = LanceContextStore(store), LanceContextSaver(store)
    for key, value in {"both": both, "path": path}.items():
        memory.put(("t",), key, value)
        place = {"configurable": {"thread_id": key, "checkpoint_ns": ""}}
        saver.put(place, empty_checkpoint(), value, {})
    assert found(memory, {"a.b": 1}) == ["both", "path"]
    assert found(memory, {"a.b": 2}) == []
    assert threads(saver.list(None, filter={"a.b": 1})) == ["both", "path"]
    assert threads(saver.list(None, filter={"a.b": 2})) == []


def test_a_path_goes_on_in_a_nested_filter(store):
    memory = LanceContextStore(store)
    memory.put(("t",), "deep", {"a": {"b": {"c": 1}}})
    assert found(memory, {"a": {"b.c": 1}}) == ["deep"]
    assert found(memory, {"a.b": {"c": {"$gt": 0}}}) == ["deep"]
    assert found(memory, {"a.b": {"c": 2}}) == []
