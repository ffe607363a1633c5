"""Threads as things: which there are, those that are old, and that a deleted one stays deleted."""

import asyncio
import inspect
from datetime import UTC, datetime, timedelta
from operator import add
from typing import Annotated, TypedDict

import pytest
from core.conformance.doubles import START as MOMENT
from langchain_lance_context import LanceContextSaver, SavedThread
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.graph import END, START, StateGraph

from lance_context_core import AsyncKeyValues, ContextStore, InvalidRequestError


def at(thread, ns="", checkpoint_id=None, **more):
    named = {"thread_id": thread, "checkpoint_ns": ns, **more}
    return {"configurable": named | ({"checkpoint_id": checkpoint_id} if checkpoint_id else {})}


def put(saver, config, metadata=None, **values):
    versions = {name: saver.get_next_version(None, None) for name in values}
    made = {**empty_checkpoint(), "id": str(uuid6())}
    made |= {"channel_values": values, "channel_versions": versions}
    return saver.put(config, made, metadata or {}, versions)


@pytest.fixture(params=["sync", "async"])
def call(request, context_store):
    saver = LanceContextSaver(context_store)

    def called(method, *args, **kwargs):
        if request.param == "sync":
            return getattr(saver, method)(*args, **kwargs)
        return asyncio.run(getattr(saver, f"a{method}")(*args, **kwargs))

    return called


def test_the_methods_have_the_same_signatures():
    for name in ("threads", "delete_threads"):
        one, other = (getattr(LanceContextSaver, prefix + name) for prefix in ("", "a"))
        assert inspect.signature(one).parameters == inspect.signature(other).parameters


# Which there are


@pytest.fixture
def filled(context_store, clock):
    """Three threads, an hour after each other; the first one goes on at the end."""
    saver = LanceContextSaver(context_store)
    first = put(saver, at("a", user_id="ada"), {"source": "input", "of": {"city": "Oslo"}}, n=1)
    clock.advance(hours=1)
    put(saver, at("b"), {"source": "input", "of": {"city": "Rome"}}, n=1)
    clock.advance(hours=1)
    put(saver, at("c", "sub:1"), {"source": "loop"}, n=1)
    clock.advance(hours=1)
    put(saver, first, {"source": "loop", "of": {"city": "Oslo"}}, n=2)
    saver.put_writes(first, [("n", 3)], "task")
    clock.advance(hours=1)
    return saver


def ids(threads):
    return [one.thread_id for one in threads]


def test_a_thread_tells_its_newest_checkpoint_its_times_and_how_many_it_has(filled, call):
    threads = call("threads")
    assert ids(threads) == ["a", "c", "b"]
    newest = filled.get_tuple(at("a"))
    assert threads[0] == SavedThread(
        thread_id="a",
        config=newest.config,
        metadata=newest.metadata,
        n_checkpoints=2,
        created_at=MOMENT,
        updated_at=MOMENT + timedelta(hours=3),
    )
    assert threads[0].config["configurable"]["user_id"] == "ada"
    assert filled.get_tuple(threads[1].config).config["configurable"]["checkpoint_ns"] == "sub:1"


def test_the_newest_checkpoint_is_that_of_the_graph_itself(call, context_store):
    saver = LanceContextSaver(context_store)
    root = put(saver, at("t"), {"step": 1}, n=1)
    put(saver, at("t", "sub:1"), {"step": 7}, n=1)
    [thread] = call("threads")
    assert (thread.config, thread.metadata["step"]) == (root, 1)
    assert thread.n_checkpoints == 2


@pytest.mark.parametrize(
    ("filter", "found"),
    [
        ({"source": "loop"}, ["a", "c"]),
        ({"source": "input"}, ["b"]),
        ({"of.city": "Oslo"}, ["a"]),
        ({"source": "loop", "of": {"city": "Oslo"}}, ["a"]),
        ({"of": None}, ["c"]),
        ({}, ["a", "c", "b"]),
    ],
)
def test_a_filter_is_on_the_metadata_of_the_newest_checkpoint(filled, call, filter, found):
    assert ids(call("threads", filter=filter)) == found
    assert ids(call("threads", filter=filter, limit=1)) == found[:1]


def test_pages_go_on_before_the_last_thread(filled, call):
    page = call("threads", limit=2)
    assert ids(page) == ["a", "c"]
    assert ids(call("threads", limit=2, before=page[-1].config)) == ["b"]
    assert call("threads", limit=0) == []


def test_threads_before_a_time_have_nothing_newer(filled, call):
    for hours, found in ((4, ["a", "c", "b"]), (3, ["c", "b"]), (2, ["b"]), (1, [])):
        assert ids(call("threads", before=MOMENT + timedelta(hours=hours))) == found


def test_more_threads_than_a_page_of_reads_are_all_found(store):
    saver = LanceContextSaver(store)
    for n in range(120):
        put(saver, at(f"t{n}"), {"odd": n % 2 == 1}, n=n)
    assert ids(saver.threads()) == [f"t{n}" for n in reversed(range(120))]
    assert ids(saver.threads(filter={"odd": True}, limit=55)) == [
        f"t{n}" for n in range(119, 9, -2)
    ]


def test_a_scope_has_its_own_threads(store):
    ada, ben = (LanceContextSaver(store.scope(user_id=one)) for one in ("ada", "ben"))
    put(ada, at("t"), n=1)
    put(ben, at("t"), n=1)
    put(ben, at("u"), n=1)
    assert [len(one.threads()) for one in (ada, ben)] == [1, 2]
    ada.delete_thread("t")
    assert [len(one.threads()) for one in (ada, ben)] == [0, 2]


def test_nothing_was_ever_put_and_there_are_no_threads(call):
    assert call("threads") == []
    assert call("delete_threads", before=datetime.now(UTC)) == []


@pytest.mark.parametrize(
    "given",
    [
        {"before": datetime(2026, 1, 1)},  # noqa: DTZ001 - without a zone, on purpose
        {"before": "2026-01-01"},
        {"before": at("t")},
        {"limit": -1},
        {"limit": True},
    ],
    ids=["a time without a zone", "a text", "a config of no checkpoint", "below 0", "a truth"],
)
def test_what_is_no_time_and_no_number_is_refused(call, given):
    with pytest.raises(InvalidRequestError):
        call("threads", **given)


# Those that are old


def test_whole_threads_are_deleted_by_their_age(filled, call):
    assert call("delete_threads", before=MOMENT + timedelta(hours=2, minutes=30)) == ["c", "b"]
    assert ids(call("threads")) == ["a"]
    assert len(list(filled.list(at("a")))) == 2
    assert call("delete_threads", before=MOMENT + timedelta(hours=2, minutes=30)) == []


def test_a_filter_spares_others(filled, call):
    assert call("delete_threads", before=datetime.now(UTC) + timedelta(days=9999), filter={"of.city": "Rome"}) == ["b"]  # fmt: skip
    assert ids(call("threads")) == ["a", "c"]


@pytest.mark.parametrize("given", [None, datetime(2026, 1, 1), at("t")], ids=["None", "naive", "a config"])  # noqa: DTZ001  # fmt: skip
def test_an_age_must_be_a_time(filled, call, given):
    with pytest.raises(InvalidRequestError, match="before"):
        call("delete_threads", before=given)
    assert len(call("threads")) == 3


def test_a_thread_that_goes_on_meanwhile_is_not_deleted(store, monkeypatch):
    saver, other = LanceContextSaver(store), LanceContextSaver(store)
    there = put(saver, at("t"), n=1)
    counted = AsyncKeyValues.count

    async def gone_on(self, **given):
        await other.aput(there, {**empty_checkpoint(), "id": str(uuid6())}, {}, {})
        return await counted(self, **given)

    monkeypatch.setattr(AsyncKeyValues, "count", gone_on)
    assert saver.delete_threads(before=datetime.now(UTC) + timedelta(hours=1)) == []
    assert len(list(saver.list(at("t")))) == 2


# A deleted one stays deleted


class State(TypedDict):
    log: Annotated[list, add]


def built(saver, interrupt, *, nested=False):
    """A graph of three steps, whose second one has something done; or one with that inside."""

    def second(state):
        interrupt()
        return {"log": ["second"]}

    graph = StateGraph(State)
    graph.add_node("first", lambda _: {"log": ["first"]})
    graph.add_node("second", second)
    graph.add_node("third", lambda _: {"log": ["third"]})
    for before, after in ((START, "first"), ("first", "second"), ("second", "third"), ("third", END)):  # fmt: skip
        graph.add_edge(before, after)
    if not nested:
        return graph.compile(checkpointer=saver)
    outer = StateGraph(State)
    outer.add_node("inner", graph.compile())
    outer.add_edge(START, "inner")
    return outer.compile(checkpointer=saver)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("nested", [False, True], ids=["a graph", "a subgraph"])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync calls", "async calls"])
def test_a_late_run_brings_no_deleted_thread_back(store, durability, nested, is_async):
    saver, other = LanceContextSaver(store), LanceContextSaver(store)
    deletions = []

    def act():
        deletions.append(other.delete_thread("t"))

    app = built(saver, act, nested=nested)
    app.update_state(at("t"), {"log": ["before"]}, as_node="inner" if nested else "third")

    def run():
        if is_async:
            return asyncio.run(app.ainvoke({"log": ["in"]}, at("t"), durability=durability))
        return app.invoke({"log": ["in"]}, at("t"), durability=durability)

    assert run()["log"][-1] == "third"
    assert deletions == [None]
    for reader in (saver, other, LanceContextSaver(store)):
        assert reader.threads() == []
        assert reader.get_tuple(at("t")) is None
    assert store.kv("checkpoints").count(prefix=("t",)) == 0


def test_a_new_run_begins_a_new_thread_under_the_same_id(store):
    saver = LanceContextSaver(store)
    app = built(saver, lambda: saver.delete_thread("t"))
    app.invoke({"log": ["in"]}, at("t"), durability="sync")
    again = built(LanceContextSaver(store), lambda: None)
    assert again.invoke({"log": ["new"]}, at("t"))["log"] == ["new", "first", "second", "third"]
    assert again.invoke({"log": ["on"]}, at("t"))["log"][4:] == ["on", "first", "second", "third"]
    [thread] = saver.threads()
    assert thread.n_checkpoints == 10


def test_writes_on_top_of_a_deleted_checkpoint_are_not_kept(store):
    saver, other = LanceContextSaver(store), LanceContextSaver(store)
    there = put(saver, at("t"), n=1)
    other.delete_thread("t")
    saver.put_writes(there, [("n", 2)], "task")
    asyncio.run(saver.aput_writes(there, [("n", 2)], "another"))
    assert store.kv("checkpoints").count(prefix=("t",)) == 0


def test_what_stands_on_a_checkpoint_that_came_during_the_deletion_is_not_kept(store, monkeypatch):
    saver, other = LanceContextSaver(store), LanceContextSaver(store)
    there, came = put(saver, at("t"), n=1), []

    def while_it_is_deleted(method):
        async def call(self, *args, **given):
            if not came:
                made = {**empty_checkpoint(), "id": str(uuid6())}
                came.append(await saver.aput(there, made, {}, {}))
            return await method(self, *args, **given)

        return call

    for name in ("delete", "delete_under"):
        method = while_it_is_deleted(getattr(AsyncKeyValues, name))
        monkeypatch.setattr(AsyncKeyValues, name, method)
    other.delete_thread("t")
    saver.put_writes(came[0], [("n", 2)], "task")
    assert put(saver, came[0], n=3)
    assert store.kv("checkpoints").count(prefix=("t",)) == 0


def test_a_chain_of_late_checkpoints_is_not_kept(store):
    saver, other = LanceContextSaver(store), LanceContextSaver(store)
    config = put(saver, at("t"), n=1)
    other.delete_thread("t")
    assert saver.get_tuple(at("t")) is None
    for n in range(3):
        config = put(saver, config, n=n)
        saver.put_writes(config, [("n", n)], "task")
    assert store.kv("checkpoints").count(prefix=("t",)) == 0


def test_a_thread_that_was_deleted_once_may_be_pruned_under_a_run(store):
    saver, other = LanceContextSaver(store), LanceContextSaver(store)
    put(saver, at("t"), n=1)
    saver.delete_thread("t")
    config = put(saver, at("t"), n=2)
    put(other, config, n=3)
    other.prune(["t"])
    put(saver, config, n=4)  # its parent was pruned, and not deleted with a thread
    assert [one.checkpoint["channel_values"] for one in saver.list(at("t"))] == [{"n": 4}, {"n": 3}]


def test_a_thread_that_is_copied_over_a_deleted_one_goes_on(store):
    saver = LanceContextSaver(store)
    config = put(saver, at("t"), n=1)
    saver.copy_thread("t", "kept")
    saver.delete_thread("t")
    saver.copy_thread("kept", "t")
    put(saver, config, n=2)
    assert [one.checkpoint["channel_values"] for one in saver.list(at("t"))] == [{"n": 2}, {"n": 1}]


def test_the_mark_of_a_deleted_thread_does_not_stay_for_ever(tmp_path, clock):
    with ContextStore.open(tmp_path / "a") as opened:
        saver = LanceContextSaver(opened)
        put(saver, at("t"), n=1)
        saver.delete_thread("t")
        saver.delete_thread("unknown")
        [mark] = opened.kv("checkpoints").list()
        assert mark.expires_at < datetime.now(UTC) + timedelta(days=8)
