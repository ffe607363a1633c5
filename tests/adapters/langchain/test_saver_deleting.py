"""What is deleted while a run goes on: its next checkpoint is whole, and none is read without a value."""

import asyncio
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import replace
from operator import add
from typing import Annotated, TypedDict

import pytest
from langchain_lance_context import LanceContextSaver
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.graph import END, START, StateGraph

from lance_context_core import AsyncKeyValues, NotFoundError

AT = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
PROFILE = {"name": "ada" * 50}


class State(TypedDict):
    log: Annotated[list, add]
    profile: dict


def built(saver, interrupt):
    """A graph whose second node has something done to the thread."""

    def second(state):
        interrupt()
        return {"log": ["second" * 20]}

    graph = StateGraph(State)
    graph.add_node("first", lambda state: {"log": ["first" * 20], "profile": PROFILE})
    graph.add_node("second", second)
    graph.add_node("third", lambda state: {"log": ["third" * 20]})
    for before, after in ((START, "first"), ("first", "second"), ("second", "third")):
        graph.add_edge(before, after)
    graph.add_edge("third", END)
    return graph.compile(checkpointer=saver)


DONE = {"log": ["in" * 20, "first" * 20, "second" * 20, "third" * 20], "profile": PROFILE}

ACTS = {
    "delete": lambda saver: saver.delete_thread("t"),
    "prune": lambda saver: saver.prune(["t"]),
    "delete by pruning": lambda saver: saver.prune(["t"], strategy="delete"),
    "delete a run": lambda saver: saver.delete_for_runs(["r"]),
    "copy over it": lambda saver: (saver.delete_thread("t"), saver.copy_thread("other", "t")),
    "delete, and write": lambda saver: (saver.delete_thread("t"), put(saver, {"log": ["x"]})),
}


def put(saver, values, *, config=AT, new=None):
    versions = {name: saver.get_next_version(None, None) for name in values}
    made = {**empty_checkpoint(), "id": str(uuid6())}
    made |= {"channel_values": values, "channel_versions": versions}
    return saver.put(config, made, {}, versions if new is None else new)


LEFT = {
    "delete": None,
    "delete by pruning": None,
    "copy over it": {"log": ["o"]},
    "delete, and write": {"log": ["x"]},
}
"""The state of the thread after a run that went on; else it is whole."""


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("who", ["itself", "another saver", "another process"])
def test_a_run_whose_checkpoints_are_deleted_ends_in_a_whole_one_or_in_none(tmp_path, who, act):
    with LanceContextSaver(tmp_path / "a") as saver, LanceContextSaver(tmp_path / "a") as theirs:
        put(
            saver,
            {"log": ["o"]},
            config={"configurable": {**AT["configurable"], "thread_id": "other"}},
        )
        # One over the same table, and one that is as far away as another process.
        one = {"itself": saver, "another saver": LanceContextSaver(saver._handle.sync)}
        app = built(saver, lambda: ACTS[act](one.get(who, theirs)))
        given = {"log": ["in" * 20]}
        config = {"configurable": AT["configurable"], "metadata": {"run_id": "r"}}
        assert app.invoke(given, config, durability="sync") == DONE
        for reader in (saver, theirs, LanceContextSaver(saver._handle.sync)):
            found = built(reader, None).get_state(AT)
            if act in LEFT:
                there = reader.get_tuple(AT)
                assert (there and there.checkpoint["channel_values"]) == LEFT[act]
                assert len(list(reader.list(AT))) == (LEFT[act] is not None)
                continue
            assert found.values == DONE
            assert found.next == ()
            # Each that was put after the deletion is whole, too.
            later = [one for one in reader.list(AT) if one.metadata.get("step", 0) >= 2]
            assert [one.checkpoint["channel_values"]["profile"] for one in later] == [PROFILE] * 2


PROGRAM = """
import sys
from langchain_lance_context import LanceContextSaver
with LanceContextSaver(sys.argv[1]) as saver:
    saver.delete_thread("t")
"""


def test_a_process_may_delete_the_thread_of_another(tmp_path):
    def act():
        command = [sys.executable, "-c", PROGRAM, str(tmp_path / "a")]
        subprocess.run(command, check=True, capture_output=True)

    with LanceContextSaver(tmp_path / "a") as saver:
        app = built(saver, act)
        assert app.invoke({"log": ["in" * 20]}, AT, durability="sync") == DONE
        assert saver.get_tuple(AT) is None
        again = built(saver, lambda: None)
        assert again.invoke({"log": ["in" * 20]}, AT, durability="sync") == DONE
    with LanceContextSaver(tmp_path / "a") as saver:
        assert saver.get_tuple(AT).checkpoint["channel_values"] == DONE


def test_a_thread_that_goes_on_from_an_older_checkpoint_survives_its_pruning(tmp_path):
    with LanceContextSaver(tmp_path / "a") as saver, LanceContextSaver(tmp_path / "a") as other:
        app = built(saver, lambda: None)
        app.invoke({"log": ["in" * 20]}, AT, durability="sync")
        [old] = [one for one in app.get_state_history(AT) if one.next == ("third",)]
        app.invoke({"log": ["again" * 20], "profile": {"new": "x" * 99}}, AT)
        then = old.values
        app.update_state(old.config, {"log": ["forked" * 20]}, as_node="second")
        other.prune(["t"])
        assert app.invoke(None, AT)["profile"] == then["profile"]
        assert built(other, None).get_state(AT).values["profile"] == then["profile"]


def test_a_store_that_is_restored_under_a_run_has_its_next_checkpoint_whole(store):
    saver = LanceContextSaver(store)
    put(
        saver,
        {"log": ["before"]},
        config={"configurable": {**AT["configurable"], "thread_id": "o"}},
    )
    store.tag("before")
    app = built(saver, lambda: store.restore("before"))
    assert app.invoke({"log": ["in" * 20]}, AT, durability="sync") == DONE
    assert LanceContextSaver(store).get_tuple(AT).checkpoint["channel_values"] == DONE


# No checkpoint without what it had


def without_rows(store, channel):
    """Remove what the values of a channel are made of, as if a process had died half-way."""
    kv = store.kv("checkpoints")
    gone = [one for one in kv.keys(prefix=("t", "values")) if f'"{channel}"' in one[1]]
    assert all(kv.delete(gone))
    return gone


def test_a_checkpoint_that_has_lost_a_value_says_so(store):
    saver = LanceContextSaver(store)
    first = put(saver, {"kept": 1})
    broken = put(saver, {"profile": PROFILE, "log": [1]})
    without_rows(store, "profile")
    id_ = broken["configurable"]["checkpoint_id"]
    for reader in (saver, LanceContextSaver(store)):
        calls = [
            lambda: LanceContextSaver(store).get_tuple(AT),
            lambda: asyncio.run(LanceContextSaver(store).aget_tuple(broken)),
            lambda: next(LanceContextSaver(store).list(AT)),
            lambda reader=reader: list(reader.list(AT, before=None)),
        ]
        for call in calls[: 3 if reader is saver else 4]:
            with pytest.raises(NotFoundError) as raised:
                call()
            for part in ("'t'", repr(id_), "'profile'", "delete the thread", "before="):
                assert part in str(raised.value)
        # The ways out.
        assert reader.get_tuple(first).checkpoint["channel_values"] == {"kept": 1}
        assert [one.config for one in reader.list(AT, before=broken)] == [first]
    saver.delete_thread("t")
    assert saver.get_tuple(AT) is None


def test_a_list_has_what_is_newer_than_a_checkpoint_that_has_lost_a_value(store):
    saver = LanceContextSaver(store)
    put(saver, {"old": 1})
    put(saver, {"profile": PROFILE})
    newer = [put(saver, {"log": [n]}) for n in range(3)][::-1]
    without_rows(store, "profile")
    reader = LanceContextSaver(store)
    assert [one.config for one in reader.list(AT, limit=3)] == newer
    listed = reader.list(AT)
    assert [next(listed).config for _ in range(3)] == newer
    with pytest.raises(NotFoundError, match="profile"):
        next(listed)


def test_a_value_whose_parts_are_of_another_one_counts_as_lost(store):
    saver = LanceContextSaver(store)
    put(saver, {"log": ["a" * 200, "b"]})
    put(saver, {"log": ["a" * 200, "b", "c" * 70]})
    kv = store.kv("checkpoints")
    [whole] = [one for one in kv.list(prefix=("t", "values")) if "segments" not in one.value]
    kv.put([replace(whole, data=whole.data.replace(b"a", b"d"))])
    with pytest.raises(NotFoundError, match="log"):
        LanceContextSaver(store).get_tuple(AT)


def test_a_channel_without_a_value_is_no_lost_one(store):
    saver = LanceContextSaver(store)
    versions = {name: saver.get_next_version(None, None) for name in ("a", "b", "never")}
    made = {**empty_checkpoint(), "id": str(uuid6()), "channel_versions": versions}
    made["channel_values"] = {"a": 1}
    saver.put(AT, made, {}, {name: versions[name] for name in ("a", "b")})
    for reader in (saver, LanceContextSaver(store)):
        assert reader.get_tuple(AT).checkpoint["channel_values"] == {"a": 1}


def test_a_value_that_was_never_new_is_stored_all_the_same(store):
    saver = LanceContextSaver(store)
    put(saver, {"a": 1, "b": [2]}, new={})
    assert LanceContextSaver(store).get_tuple(AT).checkpoint["channel_values"] == {"a": 1, "b": [2]}


def test_a_reader_beside_a_run_whose_checkpoints_are_pruned_sees_whole_ones_alone(store):
    writer, reader, pruner = (LanceContextSaver(store) for _ in range(3))
    put(writer, {"n": 0, "twin": 0})
    done, found = threading.Event(), []

    def read():
        while not done.is_set():
            one = reader.get_tuple(AT)
            found.append(one.checkpoint["channel_values"])
            found.extend(one.checkpoint["channel_values"] for one in reader.list(AT, limit=3))

    thread = threading.Thread(target=read)
    thread.start()
    try:
        for n in range(25):
            put(writer, {"n": n, "twin": n})
            pruner.prune(["t"])
    finally:
        done.set()
        thread.join()
    assert found
    assert all(one["n"] == one["twin"] for one in found)


def test_a_run_looks_for_nothing_while_nobody_else_writes(store, monkeypatch):
    saver, other = LanceContextSaver(store), LanceContextSaver(store)
    app = built(
        saver,
        lambda: put(
            other, {"a": 1}, config={"configurable": {"thread_id": "u", "checkpoint_ns": ""}}
        ),
    )
    app.invoke({"log": ["in" * 20]}, AT, durability="sync")
    calls = []
    for name in ("get", "list", "keys", "put", "append"):
        method = getattr(AsyncKeyValues, name)

        async def spied(self, *args, method=method, **kwargs):
            calls.append(method.__name__)
            return await method(self, *args, **kwargs)

        monkeypatch.setattr(AsyncKeyValues, name, spied)
    app.invoke({"log": ["again" * 20]}, AT, durability="sync")
    # What the other saver writes is an addition, and takes nothing away. But the run begins with a
    # look for what it may have added to the thread.
    assert Counter(calls) == {"append": calls.count("append"), "keys": 1}
