"""LanceContextSaver reads nothing that it knows, and knows what others write at the same time."""

import asyncio
import pickle
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_lance_context import LanceContextSaver
from langchain_lance_context._known import OwnVersions
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.memory import InMemorySaver

from lance_context_core import AsyncContextStore, AsyncKeyValues, ContextStore, Message
from lance_context_core.results import ItemsAppended

N_SAVERS = 3
ACTS = st.tuples(
    st.integers(0, N_SAVERS - 1),
    st.sampled_from(["put", "put", "writes", "early writes"]),
    st.sampled_from(["t", "u"]),
)


def at(thread, checkpoint_id=None):
    named = {"thread_id": thread, "checkpoint_ns": ""}
    return {"configurable": named | ({"checkpoint_id": checkpoint_id} if checkpoint_id else {})}


def checkpoint(saver, value):
    versions = {"a": saver.get_next_version(None, None)}
    made = {**empty_checkpoint(), "id": str(uuid6()), "channel_values": {"a": value}}
    return {**made, "channel_versions": versions}


class Threads:
    """What is done to some savers, and to one in memory that says what they have to show."""

    def __init__(self, savers):
        self.savers, self.oracle = savers, InMemorySaver()
        self._newest = {}
        self._n_writes = 0

    async def act(self, number, what, thread):
        """Do one thing, at the same time as others."""
        saver = self.savers[number]
        if what == "writes" and thread in self._newest:
            await self._write(saver, thread, self._newest[thread])
        elif what != "writes":
            made = checkpoint(saver, [what] * 50)
            work = [self._put(saver, thread, made)]
            self._newest[thread] = made["id"]
            if what == "early writes":
                # LangGraph stores what a task wrote without waiting for its checkpoint.
                work.insert(0, self._write(saver, thread, made["id"]))
            await asyncio.gather(*work)

    async def _put(self, saver, thread, made):
        arguments = (made, {"source": "loop"}, made["channel_versions"])
        self.oracle.put(at(thread), *arguments)
        await saver.aput(at(thread), *arguments)

    async def _write(self, saver, thread, checkpoint_id):
        self._n_writes += 1
        arguments = ([("a", self._n_writes)], f"task {self._n_writes:05}")
        self.oracle.put_writes(at(thread, checkpoint_id), *arguments)
        await saver.aput_writes(at(thread, checkpoint_id), *arguments)

    async def check(self):
        """Every saver shows what the one in memory shows."""
        for thread in ("t", "u"):
            expected = seen(self.oracle.get_tuple(at(thread)))
            for saver in self.savers:
                assert seen(await saver.aget_tuple(at(thread))) == expected

    async def delete(self, thread):
        """Remove a thread, through the first saver."""
        await self.savers[0].adelete_thread(thread)
        self.oracle.delete_thread(thread)
        self._newest.pop(thread, None)


def seen(found):
    if found is None:
        return None
    id_ = found.config["configurable"]["checkpoint_id"]
    return id_, found.checkpoint["channel_values"], sorted(found.pending_writes)


@settings(max_examples=8, deadline=None)
@given(st.lists(st.lists(ACTS, min_size=1, max_size=4), max_size=6), st.sampled_from("tu"))
def test_each_saver_shows_what_all_have_written_at_the_same_time(rounds, deleted):
    async def main(uri):
        async with await AsyncContextStore.open(uri) as store:
            # Two in one store, whose writes share commits, and one that stands for another process.
            savers = [LanceContextSaver(store), LanceContextSaver(store), LanceContextSaver(uri)]
            threads = Threads(savers)
            for acts in rounds:
                await asyncio.gather(*(threads.act(*act) for act in acts))
                await threads.check()
            await threads.delete(deleted)
            await threads.check()
            await threads.act(1, "put", deleted)
            await store.maintain()
            await threads.check()
            await savers[2].aclose()

    with tempfile.TemporaryDirectory() as uri:
        asyncio.run(main(uri))


def test_what_a_process_wrote_alone_is_not_read_again(store, monkeypatch):
    saver = LanceContextSaver(store)
    first = checkpoint(saver, 0)
    saver.put(at("first"), first, {}, first["channel_versions"])
    assert saver.get_tuple(at("t")) is None
    reads = []
    for name in ("get", "list", "keys"):
        method = getattr(AsyncKeyValues, name)

        async def spied(self, *args, method=method, **kwargs):
            reads.append(method.__name__)
            return await method(self, *args, **kwargs)

        monkeypatch.setattr(AsyncKeyValues, name, spied)
    written = []
    for step in range(5):
        made = checkpoint(saver, step)
        config = saver.put(at("t"), made, {}, made["channel_versions"])
        saver.put_writes(config, [("a", step)], "task")
        other = checkpoint(saver, step)
        saver.put(at(f"other {step}"), other, {}, other["channel_versions"])
        found = saver.get_tuple(at("t"))
        assert (found.config, found.pending_writes) == (config, [("task", "a", step)])
        assert found.checkpoint["channel_values"] == {"a": step}
        older = saver.get_tuple(at("t", (written or [config])[0]["configurable"]["checkpoint_id"]))
        assert older.checkpoint["channel_values"] == {"a": 0}
        written.append(config)
        assert [one.config for one in saver.list(at("t"), limit=1)] == [config]
        assert [one.config for one in saver.list(at("t"), before=config)] == written[-2::-1]
    assert reads == []


def test_what_others_did_elsewhere_costs_a_look_at_the_names_alone(store, monkeypatch):
    saver, other = LanceContextSaver(store), LanceContextSaver(store)
    configs = []
    for step in range(4):
        assert (saver.get_tuple(at("t")) is None) is (step == 0)
        made = checkpoint(saver, step)
        configs.append(saver.put(at("t"), made, {}, made["channel_versions"]))
    elsewhere = checkpoint(other, 0)
    other.put(at("elsewhere"), elsewhere, {}, elsewhere["channel_versions"])
    store.maintain()
    reads = []
    for name in ("get", "list", "keys"):
        method = getattr(AsyncKeyValues, name)

        async def spied(self, *args, method=method, **kwargs):
            reads.append(method.__name__)
            return await method(self, *args, **kwargs)

        monkeypatch.setattr(AsyncKeyValues, name, spied)
    assert saver.get_tuple(configs[1]).checkpoint["channel_values"] == {"a": 1}
    assert [one.config for one in saver.list(at("t"))] == configs[::-1]
    assert reads == ["keys"]
    # Where they did something to the thread it is read again.
    reads.clear()
    other.put_writes(configs[1], [("a", "late")], "task")
    assert saver.get_tuple(configs[1]).pending_writes == [("task", "a", "late")]
    other.prune(["t"])
    assert saver.get_tuple(configs[1]) is None
    assert [one.config for one in saver.list(at("t"))] == configs[-1:]


def test_an_old_checkpoint_that_a_list_has_shown_is_read_again_once_it_may_be_another(
    store, monkeypatch
):
    writer = LanceContextSaver(store)
    configs = []
    for step in range(200):
        made = checkpoint(writer, step)
        configs.append(writer.put(at("t"), made, {}, made["channel_versions"]))
    saver, reads = LanceContextSaver(store), []
    assert len(list(saver.list(at("t")))) == 200
    list_items = AsyncKeyValues.list

    async def spied(self, *args, **kwargs):
        reads.append(kwargs)
        return await list_items(self, *args, **kwargs)

    monkeypatch.setattr(AsyncKeyValues, "list", spied)
    for n in (3, 60, 3):
        assert saver.get_tuple(configs[n]).checkpoint["channel_values"] == {"a": n}
    assert reads == []
    saver.put_writes(configs[3], [("a", "mine")], "own")
    assert saver.get_tuple(configs[3]).pending_writes == [("own", "a", "mine")]
    writer.put_writes(configs[3], [("a", "theirs")], "other")
    assert len(saver.get_tuple(configs[3]).pending_writes) == 2
    writer.delete_thread("t")
    assert [saver.get_tuple(configs[n]) for n in (3, 60)] == [None, None]


def test_of_a_list_no_more_is_read_than_is_asked_for(store, monkeypatch):
    saver = LanceContextSaver(store)
    for step in range(12):
        made = checkpoint(saver, step)
        saver.put(at("t"), made, {"odd": step % 2 == 1, "kind": "x"}, made["channel_versions"])
    n_read = []
    listed = AsyncKeyValues.list

    async def spied(self, *args, **kwargs):
        found = await listed(self, *args, **kwargs)
        n_read.append(len(found))
        return found

    monkeypatch.setattr(AsyncKeyValues, "list", spied)
    for filter in (None, {"kind": "x"}):
        n_read.clear()
        [one] = LanceContextSaver(store).list(at("t"), limit=1, filter=filter)
        assert one.checkpoint["channel_values"] == {"a": 11}
        assert n_read == [1]


async def test_a_commit_that_is_shared_with_others_is_not_ones_own(tmp_path):
    async with AsyncContextStore.open(tmp_path, journal=None) as store:
        mine, theirs = (LanceContextSaver(store) for _ in range(2))

        async def put(saver, thread):
            made = checkpoint(saver, "then")
            await saver.aput(at(thread), made, {}, made["channel_versions"])
            return made["id"]

        n_shared = 0
        for _ in range(5):
            assert seen(await mine.aget_tuple(at("t"))) == seen(await theirs.aget_tuple(at("t")))
            before = await store.kv("checkpoints").version()
            # While the first is written the others come, and are written together.
            *_, newest = await asyncio.gather(put(mine, "u"), put(mine, "t"), put(theirs, "t"))
            n_shared += await store.kv("checkpoints").version() - before < 3
            for saver in (mine, theirs):
                assert seen(await saver.aget_tuple(at("t")))[0] == newest
        assert n_shared


def done(version, n_items):
    return ItemsAppended(version=version, n_items=n_items, grows_since=version)


def test_a_version_is_ones_own_once_all_of_its_items_are():
    own = OwnVersions()
    assert own.cover(after=3, until=3)
    assert not own.cover(after=3, until=2)
    own.note(done(4, 3), n_items=2)
    assert not own.cover(after=3, until=4)
    own.note(done(4, 3), n_items=1)
    own.note(done(6, None), n_items=1)
    assert own.cover(after=3, until=4)
    assert not own.cover(after=3, until=6)
    own.note(done(5, 1), n_items=1)
    assert own.cover(after=3, until=5)


@pytest.mark.parametrize("how", ["an erasure", "the end of a store"])
def test_nothing_of_a_thread_is_kept_in_memory_after(how, store):
    saver = LanceContextSaver(store)
    made = checkpoint(saver, "the words of a thread")
    config = saver.put(at("t"), made, {}, made["channel_versions"])
    saver.put_writes(config, [("a", "more words")], "task")
    assert b"the words" in pickle.dumps([*held(saver)])
    if how == "an erasure":
        store.memory.add([Message.user("to go", id="m")], user_id="u")
        store.erase(ids=["m"])
    else:
        with ContextStore.open("memory://"):
            pass
    assert b"words" not in pickle.dumps([*held(saver)])
    found = saver.get_tuple(at("t"))
    assert found.checkpoint["channel_values"] == {"a": "the words of a thread"}
    assert found.pending_writes == [("task", "a", "more words")]


def held(saver):
    """The bytes that a saver keeps."""
    memory = saver._memory
    for known in memory._known.values():
        for items in [*known.window.by_owner.values(), *known.older.by_owner.values()]:
            yield from (one.data for one in items)
        yield from (one.rope.data for one in known.values.values())
    for rows in memory.rows._rows.values():
        yield from (one.data for one in rows.values() if one is not None)
