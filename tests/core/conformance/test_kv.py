"""The store's key-value items keep the contract of `KeyValueStore`, and more than that."""

import asyncio
import json
import os
import subprocess
import sys
from datetime import timedelta

import pytest
from core.conformance.backends import memory
from core.conformance.doubles import ManualClock, WordVectors
from core.conformance.kv import StoredItemTests
from core.conformance.places import InEachPlace
from hypothesis import given
from hypothesis import strategies as st
from lance_context_testing._items import along, item, key, paths
from lance_context_testing.samples import NAMES

from lance_context_core.errors import (
    AlreadyExistsError,
    InternalError,
    InvalidRequestError,
    ReadOnlyError,
)
from lance_context_core.messages import Message
from lance_context_core.storage.lance import writes
from lance_context_core.storage.names import collection_of, kv_of, kv_table_of, shown_name
from lance_context_core.sync import KeyValues
from lance_context_core.types import Item, ItemVector


class TestKeyValues(InEachPlace, StoredItemTests):
    """The items of the store itself."""

    @pytest.fixture
    def kv(self, kv):
        return kv


# Names


def test_names_of_items_are_told_apart_and_from_collections():
    short = [name for name in NAMES if len(name) < 60]
    tables = [kv_table_of(name) for name in short]
    assert [kv_of(table) for table in tables] == short
    assert {collection_of(table) for table in tables} == {None}
    assert kv_of("vectors.a") is None
    assert "'a b'" in shown_name(kv_table_of("a b"))


async def test_items_of_different_names_do_not_meet(open_store):
    store = open_store()
    for name in ("a", "b c", "ä"):
        await store.kv(name).put([item("k", value={"of": name})])
    for name in ("a", "b c", "ä"):
        assert [one.value["of"] for one in await store.kv(name).list()] == [name]
    assert await store.kv("new").names() == ["a", "b c", "ä"]
    assert await store.vectors().list_collections() == []
    for wrong in ("", "a\0", "x" * 5_000):
        with pytest.raises(InvalidRequestError, match="name"):
            await store.kv(wrong).count()


async def test_items_may_have_an_embedder_of_their_own(open_store):
    store = open_store()
    kv = store.kv("words", embedder=WordVectors(dimension=8))
    await kv.put([Item(key="k", vectors=[ItemVector(text="red")]), Item(key="none")])
    assert [hit.record.key for hit in await kv.search("red")] == ["k"]
    with pytest.raises(InvalidRequestError, match="embedder"):
        await store.kv("words").put([Item(key="k", vectors=[ItemVector(text="red")])])


async def test_the_store_tells_where_it_has_the_time_from(open_store):
    clock = ManualClock()
    store = open_store(clock=clock)
    assert store.clock is store.scope(user_id="ada").clock is clock


# Scopes


async def test_a_key_names_one_item_in_each_scope(open_store):
    store = open_store()
    scopes = [store, store.scope(tenant="a"), store.scope(tenant="b"), store.scope(user_id="a")]
    scopes.append(scopes[1].scope(user_id="a"))
    for n, scope in enumerate(scopes):
        assert await scope.kv().add([item("n/k", value={"n": n}, vectors=along(0))]) == [True]
    for n, scope in enumerate(scopes):
        (found,) = await scope.kv().get([key("n/k")])
        assert found.value == {"n": n}
    inner, other = scopes[1].kv(), scopes[2].kv()
    assert [one.value["n"] for one in await inner.list()] == [1, 4]
    assert [(one.tenant, one.user_id) for one in await inner.list()] == [("a", None), ("a", "a")]
    assert await other.count() == len(await other.search([1.0, 0, 0, 0])) == 1
    assert await other.namespaces() == [("n",)]
    assert await store.kv().count() == 5
    assert await other.delete_under(()) == 1
    assert await other.delete([key("n/k")]) == [False]
    assert await store.kv().delete([key("n/k")]) == [True]
    assert await inner.count() == 2
    assert await store.kv().delete_under(()) == 3


# Embedding


async def test_without_an_embedder_vectors_are_brought(open_store):
    kv = open_store().kv()
    with pytest.raises(InvalidRequestError, match="embedder"):
        await kv.put([item("a", vectors=[ItemVector(text="tea")])])
    await kv.put([item("a", vectors=along(0))])
    with pytest.raises(InvalidRequestError, match="embedder"):
        await kv.search("tea")
    assert paths(await kv.search([1.0, 0, 0, 0])) == ["a"]


async def test_vectors_are_made_at_once_even_where_embedding_is_deferred(open_store):
    kv = open_store(embedder=WordVectors(), defer_embedding=True).kv()
    await kv.put([item("a", vectors=[ItemVector(text="tea"), ItemVector(text=" ")])])
    assert paths(await kv.search("tea")) == ["a"]


# Versions, branches and upkeep


async def test_tags_versions_and_branches_have_the_items_too(open_store):
    store = open_store()
    await store.history.append("a", Message.user("hello"), session_id="s")
    await store.kv().put([item("a", value={"n": 1}), item("b")])
    await store.kv("other").put([item("x")])
    await store.tag("then")
    branch = await store.create_branch("trial")
    await branch.kv().write(puts=[item("a", value={"n": 2})], deletes=[key("b")])
    await branch.kv("late").put([item("y")])
    await store.kv().put([item("c")])
    past = await store.checkout("then")
    assert paths(await past.kv().list()) == ["a", "b"]
    for write in (
        past.kv().put([item("z")]),
        past.kv().append([item("z")]),
        past.kv().delete([key("a")]),
        past.kv().delete_under(()),
        past.kv().touch([key("a")], expires_at=None),
        past.kv().sweep(),
    ):
        with pytest.raises(ReadOnlyError):
            await write
    assert [one.value for one in await branch.kv().list()] == [{"n": 2}]
    assert paths(await store.kv().list()) == ["a", "b", "c"]
    assert await store.kv("late").count() == 0
    assert paths(await branch.kv("late").list()) == ["y"]
    await store.kv("other").delete_under(())
    await store.restore("then")
    assert [(one.key, one.value) for one in await store.kv().list()] == [("a", {"n": 1}), ("b", None)]  # fmt: skip
    assert paths(await store.kv("other").list()) == ["x"]


async def test_upkeep_covers_the_items_and_changes_nothing(open_store):
    kv = (store := open_store()).kv()
    for n in range(40):
        await kv.put([item(f"{n % 3}/{n % 7}", value={"n": n}, data=b"x" * n, vectors=along(n % 4))])  # fmt: skip
    await kv.append([item(f"many/{n:05}", value={"n": n}) for n in range(2_500)])
    before = await kv.list(include_vectors=True)
    assert "kv.default" in [one.table for one in await store.maintain()]
    assert await kv.list(include_vectors=True) == before
    # With indexes on keys and namespaces.
    await kv.write(puts=[item("0/0", value={"n": -1}), item("0/new")], deletes=[key("many/00001")])
    assert [one and one.value for one in await kv.get([key("0/0"), key("many/00001")])] == [{"n": -1}, None]  # fmt: skip
    assert await kv.count(prefix=("many",)) == 2_499
    assert await kv.count(namespace=("many",), filter={"n": {"$lt": 10}}) == 9
    assert paths(await kv.keys(prefix=("many",), reverse=True, limit=1)) == ["many/02499"]
    assert await kv.delete_under(("many",)) == 2_499
    assert await kv.count() == 22


# Several stores and processes


async def test_what_another_store_changed_meanwhile_is_written_over_and_not_lost(open_store):
    kv, late = open_store().kv(), open_store(read_consistency=None).kv()
    await kv.put([item("a", value={"n": 0}), item("b", value={"n": 0})])
    assert await late.count() == 2
    await kv.put([item("a", value={"n": 1})])
    await kv.delete([key("b")])
    # What it has read is not what is there any more.
    await late.put([item("a", value={"n": 2}), item("b", value={"n": 2})])
    assert [one.value for one in await kv.list()] == [{"n": 2}, {"n": 2}]
    await kv.add([item("c", value={"n": 1})])
    assert await late.add([item("c", value={"n": 2}), item("d")]) == [False, True]
    assert paths(await kv.list()) == ["a", "b", "c", "d"]


_PROGRAM = """
import asyncio, json, sys
from lance_context_core import AlreadyExistsError, AsyncContextStore, Item

async def main():
    store = await AsyncContextStore.open(sys.argv[1])
    kv, me = store.kv(), sys.argv[2]
    await kv.count()
    print("ready", flush=True)
    sys.stdin.readline()
    won = []
    for n in range(15):
        adds = [Item(key=f"first/{n}", value={"by": me})]
        puts = [Item(key="last", value={"by": me, "n": n}), Item(key=f"{me}/{n}")]
        puts += [Item(key=f"beside/{n}", value={"by": me})]
        try:
            await kv.write(puts=puts, adds=adds)
        except AlreadyExistsError:
            won.append(False)
        else:
            won.append(True)
    print(json.dumps(won), flush=True)
    await store.close()

asyncio.run(main())
"""


def test_two_processes_do_not_lose_each_others_items(open_store, local_backend):
    kv = KeyValues(open_store().kv())
    kv.put([Item(key="last")])
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, local_backend.uri, name],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "ab"
    ]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("\n")
        writer.stdin.flush()
    won = {}
    for name, writer in zip("ab", writers, strict=True):
        won[name] = json.loads(writer.communicate(timeout=300)[0])
        assert writer.returncode == 0
    items = {one.key: one.value for one in kv.list()}
    winners = []
    for n in range(15):
        winners += [name for name in "ab" if won[name][n]]
        assert winners[n:] == [items[f"first/{n}"]["by"]] == [items[f"beside/{n}"]["by"]]
    shared = {f"{one}/{n}" for one in ("first", "beside") for n in range(15)}
    assert items.keys() == {"last", *shared, *(f"{a}/{n}" for n, a in enumerate(winners))}
    assert items["last"]["n"] == 14


@pytest.mark.s3
async def test_a_write_that_only_seemed_to_fail_is_not_taken_for_another_s(plain, monkeypatch):
    merge = writes.merge

    async def merge_and_fail(*arguments, **options):
        await merge(*arguments, **options)
        monkeypatch.setattr(writes, "merge", merge)
        raise InternalError("the answer was lost")

    kv = plain.kv()
    await kv.put([item("p", value={"n": 0}), item("d")])
    monkeypatch.setattr(writes, "merge", merge_and_fail)
    await kv.write(puts=[item("p", value={"n": 1})], adds=[item("a")], deletes=[key("d")])
    assert writes.merge is merge
    assert {one.key: one.value for one in await kv.list()} == {"a": None, "p": {"n": 1}}


# Against a dict

_NAMESPACES = [(), ("a",), ("a", "b"), ("ab",), ("a", "*"), ("", "'")]
_KEYS = ["k", "K", "k'", ""]
_PATTERNS = [(), ("a",), ("a", None), (None,), (None, "b"), ("ab",), ("*",), ("",), (None, None)]
_names = st.tuples(st.sampled_from(_NAMESPACES), st.sampled_from(_KEYS))


@st.composite
def _items(draw):
    namespace, last = draw(_names)
    seconds = draw(st.sampled_from([None, 1, 3]))
    axis = draw(st.sampled_from([None, 0, 1]))
    return namespace, last, draw(st.integers(0, 3)), seconds, axis


_steps = st.one_of(
    st.tuples(
        st.just("write"),
        st.lists(_items(), max_size=3),
        st.lists(_items(), max_size=3),
        st.lists(_names, max_size=2),
    ),
    st.tuples(st.just("add"), st.lists(_items(), max_size=3)),
    st.tuples(st.just("touch"), st.lists(_names, max_size=3), st.sampled_from([None, 2])),
    st.tuples(st.just("delete_under"), st.sampled_from(_NAMESPACES)),
    st.tuples(st.just("sweep")),
    st.tuples(st.just("wait"), st.integers(1, 2)),
)


class _Model:
    """What the items must be, as a dict."""

    def __init__(self, clock):
        self.clock = clock
        self.items = {}

    def alive(self):
        now = self.clock.now()
        return {
            name: one
            for name, one in self.items.items()
            if one["expires_at"] is None or one["expires_at"] > now
        }

    def put(self, one, *, is_add):
        namespace, last, n, seconds, axis = one
        now, name = self.clock.now(), (namespace, last)
        old = self.alive().get(name)
        if is_add and old:
            return False
        self.items[name] = {
            "n": n,
            "axis": axis,
            "expires_at": None if seconds is None else now + timedelta(seconds=seconds),
            "created_at": old["created_at"] if old else now,
            "updated_at": now,
        }
        return True

    def matching(self, prefix, suffix):
        def fits(segments, pattern):
            return len(segments) == len(pattern) and all(
                wanted in (None, one) for one, wanted in zip(segments, pattern, strict=True)
            )

        return sorted(
            name
            for name in self.alive()
            if fits(name[0][: len(prefix)], prefix)
            and fits(name[0][max(len(name[0]) - len(suffix), 0) :], suffix)
        )


@pytest.mark.slow
@given(st.lists(_steps, min_size=1, max_size=8), st.sampled_from(_PATTERNS), st.sampled_from(_PATTERNS))  # fmt: skip
def test_the_items_are_those_of_a_dict(steps, prefix, suffix):
    asyncio.run(_compare(steps, prefix, suffix))


async def _write(kv, model, given, puts, adds, deletes):
    taken = {one[:2] for one in puts}
    adds = list({one[:2]: one for one in adds if one[:2] not in taken}.values())
    taken |= {one[:2] for one in adds}
    deletes = [name for name in deletes if name not in taken]
    there = model.alive().keys()
    call = kv.write(puts=list(map(given, puts)), adds=list(map(given, adds)), deletes=deletes)
    if any(one[:2] in there for one in adds):
        with pytest.raises(AlreadyExistsError):
            await call
        return
    assert (await call).deleted == [name in there for name in deletes]
    for one in puts:
        is_new = one[:2] not in there or not model.items.get(one[:2])
        model.put(one, is_add=False)
        if is_new:
            model.items[one[:2]]["created_at"] = model.clock.now()
    for one in adds:
        model.put(one, is_add=True)
    for name in deletes:
        model.items.pop(name, None)


async def _compare(steps, prefix, suffix):
    clock = ManualClock()
    store = memory().open(clock=clock)
    kv, model = store.kv(), _Model(clock)

    def given(one):
        namespace, last, n, seconds, axis = one
        return Item(
            namespace=namespace,
            key=last,
            value={"n": n},
            expires_at=None if seconds is None else clock.now() + timedelta(seconds=seconds),
            vectors=() if axis is None else along(axis),
        )

    for step in steps:
        match step:
            case "write", puts, adds, deletes:
                await _write(kv, model, given, puts, adds, deletes)
            case "add", adds:
                added = [model.put(one, is_add=True) for one in adds]
                assert await kv.add(list(map(given, adds))) == added
            case "touch", names, seconds:
                moment = None if seconds is None else clock.now() + timedelta(seconds=seconds)
                touched = model.alive().keys() & set(names)
                assert await kv.touch(names, expires_at=moment) == len(touched)
                for name in touched:
                    model.items[name]["expires_at"] = moment
            case "delete_under", namespace:
                gone = [name for name in model.items if name[0][: len(namespace)] == namespace]
                assert await kv.delete_under(namespace) == len(gone)
                for name in gone:
                    del model.items[name]
            case ("sweep",):
                alive = model.alive()
                assert await kv.sweep() == len(model.items) - len(alive)
                model.items = alive
            case "wait", seconds:
                clock.advance(seconds=seconds)
    alive = model.alive()
    found = {
        (one.namespace, one.key): {
            "n": one.value["n"],
            "axis": int(one.vectors[0].path) if one.vectors else None,
            "expires_at": one.expires_at,
            "created_at": one.created_at,
            "updated_at": one.updated_at,
        }
        for one in await kv.list(include_vectors=True)
    }
    assert found == alive
    assert await kv.keys(prefix=prefix, suffix=suffix) == model.matching(prefix, suffix)
    assert await kv.count(filter={"n": 1}) == sum(one["n"] == 1 for one in alive.values())
    assert await kv.namespaces() == sorted({name[0] for name in alive})
    hits = await kv.search([1.0, 0, 0, 0], limit=99)
    near = {(one.record.namespace, one.record.key): round(one.channels["vector"].raw) for one in hits}  # fmt: skip
    assert near == {name: int(one["axis"] == 0) for name, one in alive.items() if one["axis"] is not None}  # fmt: skip
    await store.close()
