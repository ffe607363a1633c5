"""LanceContextSaver: LangGraph's own suite, blocking and asynchronous, and what it leaves out."""

import asyncio
import inspect
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langchain_lance_context import LanceContextSaver
from langchain_lance_context._checkpoint_removal import Removal
from langchain_lance_context._segments import joined, spun
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import Capability
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME

from lance_context_core import InvalidRequestError, ReadOnlyError

EXPECTED = {
    "put": 17,
    "put_writes": 10,
    "get_tuple": 10,
    "list": 16,
    "delete_thread": 5,
    "delete_for_runs": 7,
    "copy_thread": 8,
    "prune": 8,
}


class Blocking(BaseCheckpointSaver):
    """The synchronous methods of a saver, under their asynchronous names."""

    def __init__(self, saver):
        super().__init__(serde=saver.serde)
        self._saver = saver

    async def aget_tuple(self, config):
        return self._saver.get_tuple(config)

    async def alist(self, config, *, filter=None, before=None, limit=None):
        for one in self._saver.list(config, filter=filter, before=before, limit=limit):
            yield one

    async def aput(self, config, checkpoint, metadata, new_versions):
        return self._saver.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(self, config, writes, task_id, task_path=""):
        self._saver.put_writes(config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id):
        self._saver.delete_thread(thread_id)

    async def adelete_for_runs(self, run_ids):
        self._saver.delete_for_runs(run_ids)

    async def acopy_thread(self, source_thread_id, target_thread_id):
        self._saver.copy_thread(source_thread_id, target_thread_id)

    async def aprune(self, thread_ids, *, strategy="keep_latest"):
        self._saver.prune(thread_ids, strategy=strategy)


@pytest.fixture
def saver(store):
    return LanceContextSaver(store)


@pytest.mark.parametrize(
    ("kind", "home"),
    [(lambda saver: saver, "directory"), (Blocking, "memory")],
    ids=["async", "sync"],
)
def test_langgraph_finds_every_capability_and_each_passes(kind, home, tmp_path):
    names = iter(range(100))

    @checkpointer_test(name=f"{kind} {home}")
    async def made():
        uri = "memory://" if home == "memory" else tmp_path / str(next(names))
        async with LanceContextSaver(uri) as saver:
            yield kind(saver)

    results = asyncio.run(validate(made)).results
    assert {name: one.failures for name, one in results.items() if one.failures} == {}
    assert {name: one.passed for name, one in results.items()} == dict.fromkeys(EXPECTED, True)
    assert all(results[name].tests_passed >= n for name, n in EXPECTED.items())
    assert set(EXPECTED) <= {one.value for one in Capability}


def test_the_blocking_and_the_asynchronous_methods_have_the_same_signatures():
    for name in ("get_tuple", "list", "put", "put_writes", "delete_thread", "delete_for_runs",
                 "copy_thread", "prune", "get_delta_channel_history"):  # fmt: skip
        one, other = (getattr(LanceContextSaver, prefix + name) for prefix in ("", "a"))
        assert inspect.signature(one).parameters == inspect.signature(other).parameters, name


def at(thread="t", ns="", checkpoint_id=None):
    named = {"thread_id": thread, "checkpoint_ns": ns}
    return {"configurable": named | ({"checkpoint_id": checkpoint_id} if checkpoint_id else {})}


def put(saver, config, values, *, new=None, metadata=None, versions=None):
    """Put a checkpoint whose channels have these values; of them `new` ones are written."""
    parent = saver.get_tuple(config)
    before = {} if parent is None else parent.checkpoint["channel_versions"]
    new = list(values) if new is None else new
    checkpoint = empty_checkpoint()
    checkpoint["id"] = str(uuid6())
    changed = versions or {name: saver.get_next_version(before.get(name), None) for name in new}
    checkpoint["channel_versions"] = {**before, **changed}
    checkpoint["channel_values"] = values
    source = {"source": "loop", "step": 1, "parents": {}, **(metadata or {})}
    config = at(*(config["configurable"][key] for key in ("thread_id", "checkpoint_ns")),
                parent and parent.checkpoint["id"])  # fmt: skip
    return saver.put(config, checkpoint, source, changed)


def values(saver, config):
    return saver.get_tuple(config).checkpoint["channel_values"]


# Values


def test_a_value_that_did_not_change_is_read_at_its_older_version(saver):
    put(saver, at(), {"a": 1, "b": [1, 2]})
    put(saver, at(), {"a": 2}, new=["a"])
    assert values(saver, at()) == {"a": 2, "b": [1, 2]}
    assert values(LanceContextSaver(saver._handle.sync), at()) == {"a": 2, "b": [1, 2]}


def test_a_channel_that_is_left_out_of_the_versions_does_not_reappear(saver):
    put(saver, at(), {"a": 1, "b": 2})
    checkpoint = {**saver.get_tuple(at()).checkpoint, "id": str(uuid6())}
    del checkpoint["channel_versions"]["b"], checkpoint["channel_values"]["b"]
    saver.put(at(), checkpoint, {}, {})
    assert values(saver, at()) == {"a": 1}


def test_a_channel_that_was_emptied_is_empty(saver):
    put(saver, at(), {"a": 1, "b": 2})
    put(saver, at(), {"b": 2}, new=["a"])
    assert values(saver, at()) == {"b": 2}


def test_a_value_of_each_past_checkpoint_is_what_it_was_then(store):
    saver = LanceContextSaver(store)
    rng = random.Random(7)
    written, now = {}, []
    for step in range(36):
        if step % 13 == 12:
            now = now[5:]  # as a trimmed conversation
        now = [*now, HumanMessage(f"{step} {rng.random()}" * 20, id=str(step))]
        config = put(saver, at(), {"messages": now, "n": step})
        written[config["configurable"]["checkpoint_id"]] = now
    for reader in (saver, LanceContextSaver(store)):
        for checkpoint_id, messages in written.items():
            assert values(reader, at(checkpoint_id=checkpoint_id))["messages"] == messages
        listed = {one.checkpoint["id"]: one.checkpoint for one in reader.list(at())}
        assert {name: one["channel_values"]["messages"] for name, one in listed.items()} == written


def test_a_value_that_grows_is_stored_as_what_is_new_in_it(saver):
    messages = []
    for step in range(100):
        messages = [*messages, AIMessage(f"{step} {random.random()}" * 40, id=str(step))]
        put(saver, at(), {"messages": messages})
    whole = len(saver.serde.dumps_typed(messages)[1])
    items = saver._handle.sync.kv("checkpoints").list(prefix=("t", "values"))
    assert len(items) == 100
    # Whole each time it would be fifty times the last one.
    assert sum(len(one.data) for one in items) < 6 * whole


@settings(deadline=None)
@given(st.data())
def test_any_sequence_of_values_is_put_together_again(data):
    piece = st.binary(max_size=3).map(lambda one: one * 90)
    rope, rows = None, {}
    current = data.draw(piece)
    for version in range(data.draw(st.integers(1, 12))):
        rope, rows[version] = spun(current, version, rope)
        assert joined(rope.segments, rows) == rope.data == current
        start = data.draw(st.integers(0, len(current)))
        end = data.draw(st.integers(start, len(current)))
        current = current[:start] + data.draw(piece) + current[end:]


def test_two_branches_of_a_thread_have_values_of_their_own(saver):
    root = put(saver, at(), {"a": "root" * 100})
    left = put(saver, root, {"a": "root" * 100 + "left"})
    right = put(saver, root, {"a": "root" * 100 + "right"})
    assert values(saver, left) == {"a": "root" * 100 + "left"}
    assert values(saver, right) == {"a": "root" * 100 + "right"}
    assert saver.get_tuple(left).parent_config == saver.get_tuple(right).parent_config == root


def test_versions_grow_and_never_meet():
    saver = LanceContextSaver("memory://")
    first = saver.get_next_version(None, None)
    second, other = (saver.get_next_version(first, None) for _ in range(2))
    assert first < second != other > first
    assert saver.get_next_version(9, None) > first
    saver.close()


# Writes


def test_pending_writes_come_in_the_order_in_which_a_run_applies_them(saver):
    """By path, then by task, then by index, in whatever order they were written."""
    config = put(saver, at(), {})
    given = [("p2", "c"), ("p1", "b"), ("", "z"), ("p1", "a"), ("", "y")]
    for path, task in given:
        saver.put_writes(config, [("c", f"{path}{task}0"), ("d", f"{path}{task}1")], task, path)
    found = [(task, value) for task, _, value in saver.get_tuple(config).pending_writes]
    assert found == [
        (task, f"{path}{task}{idx}") for path, task in sorted(given) for idx in range(2)
    ]
    assert [one[2] for one in next(saver.list(at())).pending_writes] == [one for _, one in found]


def test_of_a_tasks_writes_the_first_counts_and_of_the_special_ones_the_last(saver):
    config = put(saver, at(), {})
    saver.put_writes(config, [("c", 1), (RESUME, "old"), (ERROR, "x")], "task")
    saver.put_writes(config, [("c", 2), (RESUME, "new"), (INTERRUPT, "i"), ("d", 3)], "task")
    found = {(channel, value) for _, channel, value in saver.get_tuple(config).pending_writes}
    assert found == {("c", 1), (RESUME, "new"), (ERROR, "x"), (INTERRUPT, "i"), ("d", 3)}


def test_more_writes_than_are_looked_through_first_hide_no_checkpoint(store):
    saver = LanceContextSaver(store)
    config = put(saver, at(), {"a": 1})
    for task in range(40):
        saver.put_writes(config, [("c", task)], f"{task:02}")
    found = LanceContextSaver(store).get_tuple(at())
    assert [value for _, _, value in found.pending_writes] == list(range(40))
    # Of a checkpoint that never came to be.
    for task in range(40):
        saver.put_writes(at(checkpoint_id=str(uuid6())), [("c", task)], f"{task:02}")
    found = LanceContextSaver(store).get_tuple(at())
    assert found.config == config
    assert len(found.pending_writes) == 40


# Lists


def test_a_list_is_filtered_by_any_metadata_before_it_is_limited(saver):
    hostile = {
        "it's": "a 'quote'",
        "a.b": 1,
        "$eq": "x",
        "deep": {"a": [1, None]},
        "f": 0.5,
        "b": True,
    }
    for step in range(6):
        put(saver, at(f"t{step % 2}"), {}, metadata={"step": step, "odd": step % 2 == 1, **hostile})
    for key, value in hostile.items():
        assert len(list(saver.list(None, filter={key: value}))) == 6, key
        assert list(saver.list(None, filter={key: "other"})) == []
    assert [one.metadata["step"] for one in saver.list(None, filter={"odd": True})] == [5, 3, 1]
    found = saver.list(None, filter={"odd": True, "it's": "a 'quote'"}, limit=2)
    assert [one.metadata["step"] for one in found] == [5, 3]
    assert list(saver.list(None, limit=0)) == []
    newest = next(saver.list(at("t1")))
    before = [one.metadata["step"] for one in saver.list(at("t1"), before=newest.config)]
    assert before == [3, 1]
    assert len(list(saver.list(newest.config))) == 1


def test_a_long_list_is_read_as_it_is_taken(saver):
    for step in range(120):
        put(saver, at(), {"n": step})
    assert [one.checkpoint["channel_values"]["n"] for one in saver.list(at())] == [
        *range(119, -1, -1)
    ]

    async def taken():
        return [one.checkpoint["channel_values"]["n"] async for one in saver.alist(at(), limit=70)]

    assert asyncio.run(taken()) == [*range(119, 49, -1)]


# Retention


def test_only_so_many_checkpoints_are_kept(saver, store, monkeypatch):
    saver = LanceContextSaver(store, keep_last=10)
    n_removals = []
    removed = Removal.reduce
    monkeypatch.setattr(
        Removal, "reduce", lambda *args, **kw: n_removals.append(1) or removed(*args, **kw)
    )
    for step in range(36):
        put(
            saver,
            at(),
            {"messages": ["word" * 50] * step, "old": "x"},
            new=["messages"] if step else None,
        )
        saver.put_writes(
            at(checkpoint_id=saver.get_tuple(at()).checkpoint["id"]), [("c", step)], "t"
        )
        # Before the 33rd put there is nothing to be removed but at the first, which looks.
        assert len(list(saver.list(at()))) == (step + 1 if step < 32 else step - 22)
    assert len(n_removals) == 2
    saver.prune(["t"], strategy="retention")
    found = [len(one.checkpoint["channel_values"]["messages"]) for one in saver.list(at())]
    assert found == [*range(35, 25, -1)]
    assert all(one.checkpoint["channel_values"]["old"] == "x" for one in saver.list(at()))
    assert values(LanceContextSaver(store), at())["messages"] == ["word" * 50] * 35
    assert store.kv("checkpoints").count(prefix=("t", "state")) == 20


def test_checkpoints_are_kept_for_so_long(store):
    put(LanceContextSaver(store), at(), {"a": 1})
    time.sleep(0.05)
    saver = LanceContextSaver(store, keep_for=timedelta(milliseconds=20))
    newest = put(saver, at(), {"a": 2})
    assert [one.config for one in saver.list(at())] == [newest]
    time.sleep(0.05)
    saver.prune(["t"], strategy="retention")
    assert [one.config for one in saver.list(at())] == [newest]


def test_pruning_frees_the_values_that_nobody_needs(saver, store):
    for step in range(30):
        put(
            saver,
            at(),
            {"messages": [f"{n} " * 99 for n in range(step)], "same": 1},
            new=None if step == 0 else ["messages"],
        )
    before = store.kv("checkpoints").count(prefix=("t", "values"))
    saver.prune(["t"])
    assert store.kv("checkpoints").count(prefix=("t", "values")) < before / 2
    assert values(LanceContextSaver(store), at()) == {
        "messages": [f"{n} " * 99 for n in range(29)],
        "same": 1,
    }
    put(saver, at(), {"messages": [f"{n} " * 99 for n in range(30)]})
    assert len(values(LanceContextSaver(store), at())["messages"]) == 30


def test_what_runs_made_goes_and_what_others_share_stays(saver):
    put(saver, at(), {"a": "long" * 100}, metadata={"run_id": "r1"})
    put(saver, at(), {"a": "long" * 100 + "er", "b": 1}, metadata={"run_id": "r2"})
    put(saver, at("u"), {"a": 1}, metadata={"run_id": "r1"})
    saver.delete_for_runs(["r1", "it's"])
    assert [one.metadata["run_id"] for one in saver.list(None)] == ["r2"]
    assert values(saver, at()) == {"a": "long" * 100 + "er", "b": 1}


# Scopes, versions, processes


def test_a_scope_isolates(store):
    ada, ben = (LanceContextSaver(store.scope(tenant=name)) for name in ("ada", "ben"))
    put(ada, at(), {"a": "ada"})
    put(ben, at(), {"a": "ben"})
    assert values(ada, at()) == {"a": "ada"}
    ada.delete_thread("t")
    ada.delete_for_runs(["r"])
    assert ada.get_tuple(at()) is None
    assert list(ada.list(None)) == []
    assert values(ben, at()) == {"a": "ben"}


def test_branches_and_versions_of_the_store_show_the_checkpoints_of_then(store):
    saver = LanceContextSaver(store)
    first = put(saver, at(), {"a": 1})
    store.tag("then")
    branch = LanceContextSaver(store.create_branch("trial"))
    put(saver, at(), {"a": 2})
    put(branch, at(), {"a": 3})
    assert values(saver, at()) == {"a": 2}
    assert values(branch, at()) == {"a": 3}
    past = LanceContextSaver(store.checkout("then"))
    assert past.get_tuple(at()).config == first
    with pytest.raises(ReadOnlyError):
        put(past, at(), {"a": 4})
    assert values(past, at()) == {"a": 1}


PROGRAM = """
import os, sys
from typing import Annotated, TypedDict
from operator import add
from langchain_lance_context import LanceContextSaver
from langgraph.graph import StateGraph, START, END

class State(TypedDict):
    done: Annotated[list, add]

def step(name):
    def run(state):
        with open(sys.argv[1] + "/ran", "a") as file:
            file.write(name + " ")
        if name == "b" and sys.argv[2] == "die":
            os.kill(os.getpid(), 9)
        return {"done": [name]}
    return run

graph = StateGraph(State)
for name, after in (("a", START), ("b", "a"), ("c", "b")):
    graph.add_node(name, step(name)); graph.add_edge(after, name)
graph.add_edge("c", END)
with LanceContextSaver(sys.argv[1] + "/store") as saver:
    app = graph.compile(checkpointer=saver)
    config = {"configurable": {"thread_id": "t"}}
    given = {"done": ["start"]} if sys.argv[2] == "die" else None
    print(app.invoke(given, config, durability="sync")["done"])
"""


def test_a_run_that_was_killed_goes_on_in_another_process(tmp_path):
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    killed = subprocess.run([*command, "die"], check=False, capture_output=True)
    assert killed.returncode == -9, killed.stderr
    done = subprocess.run([*command, "resume"], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "['start', 'a', 'b', 'c']"
    assert (tmp_path / "ran").read_text().split() == ["a", "b", "b", "c"]


def test_two_stores_on_one_directory_see_each_others_checkpoints(tmp_path):
    with LanceContextSaver(tmp_path) as one, LanceContextSaver(tmp_path) as other:
        grown = ["long" * 30]
        for step in range(12):
            writer, reader = (one, other) if step % 2 else (other, one)
            config = put(writer, at(), {"m": grown})
            writer.put_writes(config, [("c", step)], "task")
            found = reader.get_tuple(at())
            assert found.config == config
            assert found.checkpoint["channel_values"] == {"m": grown}
            assert found.pending_writes == [("task", "c", step)]
            grown = [*grown, "long" * 30 + str(step)]
        one.delete_thread("t")
        assert other.get_tuple(at()) is None
        put(other, at(), {"m": grown})
        assert values(one, at()) == {"m": grown}


def test_many_threads_of_a_process_write_at_once(store):
    saver = LanceContextSaver(store)
    put(saver, at("warm"), {"a": 0})
    n_before = store.kv("checkpoints")._aio._table.access.handle

    async def turn(name):
        config = at(name)
        for step in range(3):
            checkpoint = {**empty_checkpoint(), "id": str(uuid6())}
            checkpoint["channel_values"] = {"a": [name] * step}
            checkpoint["channel_versions"] = {"a": saver.get_next_version(step, None)}
            config = await saver.aput(config, checkpoint, {}, checkpoint["channel_versions"])
            await saver.aput_writes(config, [("a", name)], "task")
        return (await saver.aget_tuple(at(name))).checkpoint["channel_values"]

    async def main():
        before = await n_before.version()
        found = await asyncio.gather(*(turn(f"t{n}") for n in range(40)))
        return found, await n_before.version() - before

    found, n_commits = asyncio.run(main())
    assert found == [{"a": [f"t{n}"] * 2} for n in range(40)]
    assert n_commits < 40 * 6 / 2


class Noting(JsonPlusSerializer):
    """Notes in which threads it converts what is long."""

    def __init__(self):
        super().__init__()
        self.threads = Counter()

    def dumps_typed(self, obj):
        made = super().dumps_typed(obj)
        self._note("dumps", made)
        return made

    def loads_typed(self, data):
        self._note("loads", data)
        return super().loads_typed(data)

    def _note(self, what, typed):
        if len(typed[1]) > 64 * 1024:
            self.threads[what, threading.get_ident()] += 1


def test_long_values_are_converted_beside_the_event_loop(store):
    saver = LanceContextSaver(store, serde=Noting())
    messages = [AIMessage("word " * 50, id=str(n)) for n in range(400)]
    put(saver, at(), {"messages": messages})
    here = threading.get_ident()
    assert [what for what, _ in saver.serde.threads] == ["dumps"]
    saver.serde.threads.clear()

    async def main():
        found = await saver.aget_tuple(at())
        checkpoint = {**found.checkpoint, "id": str(uuid6())}
        checkpoint["channel_versions"] = {"messages": saver.get_next_version(1, None)}
        checkpoint["channel_values"] = {"messages": [*messages, AIMessage("x", id="new")]}
        await saver.aput(found.config, checkpoint, {}, checkpoint["channel_versions"])
        return [
            len(one.checkpoint["channel_values"]["messages"]) async for one in saver.alist(at())
        ]

    assert asyncio.run(main()) == [401, 400]
    assert {what for what, _ in saver.serde.threads} == {"dumps", "loads"}
    assert here not in {thread for _, thread in saver.serde.threads}


# The rest


def test_a_store_that_was_handed_over_stays_open_and_one_by_uri_is_closed(store, tmp_path):
    with LanceContextSaver(store) as saver:
        put(saver, at(), {"a": 1})
    assert values(LanceContextSaver(store), at()) == {"a": 1}
    own = LanceContextSaver(tmp_path / "own")
    put(own, at(), {"a": 1})
    own.close()
    with pytest.raises(RuntimeError, match="closed"):
        own.get_tuple(at())


def test_bad_input_is_refused_before_anything_is_written(store):
    saver = LanceContextSaver(store)
    config = put(saver, at(), {"a": 1})
    for bad in ({}, {"configurable": {}}, {"configurable": {"thread_id": None}}):
        with pytest.raises(InvalidRequestError, match="thread"):
            saver.get_tuple(bad)
        with pytest.raises(InvalidRequestError, match="thread"):
            saver.put(bad, empty_checkpoint(), {}, {})
    with pytest.raises(InvalidRequestError, match="checkpoint"):
        saver.put_writes(at(), [("c", 1)], "task")
    with pytest.raises(InvalidRequestError, match="NUL"):
        put(saver, at("a\0b"), {"a": 1})
    with pytest.raises(InvalidRequestError, match="strategy"):
        saver.prune(["t"], strategy="everything")
    for options in ({"keep_last": 0}, {"keep_last": True}, {"keep_for": timedelta(0)}):
        with pytest.raises(InvalidRequestError):
            LanceContextSaver(store, **options)
    with pytest.raises(TypeError):
        put(saver, at(), {"a": 1, "b": threading.Lock()})
    saver.put_writes(config, [], "task")
    assert [one.config for one in saver.list(None)] == [config]
    assert saver.get_tuple(config).pending_writes == []


def test_hostile_ids_are_only_names(store):
    saver = LanceContextSaver(store)
    names = ["it's", 'a"b', "' OR 1=1 --", "%", "_", "a/b", "", "é\u2028", "\\"]
    for name in names[:]:
        put(saver, at(name or "empty", ns=name), {name: name})
    for name in names:
        assert values(saver, at(name or "empty", ns=name)) == {name: name}
    saver.delete_thread("' OR 1=1 --")
    saver.delete_thread("%")
    assert len(list(saver.list(None))) == len(names) - 2
    put(saver, {"configurable": {"thread_id": 7, "checkpoint_ns": ""}}, {"a": 1})
    assert values(saver, at("7")) == {"a": 1}
