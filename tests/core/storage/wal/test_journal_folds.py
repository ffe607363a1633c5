"""What waits in the journal is lost or doubled by no fold, nor by what comes and goes meanwhile."""

import asyncio
from pathlib import Path

import pytest
from core.storage.journaling import SMALL, in_the_table, read, say

from lance_context_core import Document, InvalidRequestError, Item
from lance_context_core.settings import Maintenance
from lance_context_core.storage.wal import sqlite
from lance_context_core.storage.wal.policy import JournalPolicy
from lance_context_core.storage.wal.table_log import TableLog


def failing(monkeypatch, name, *, after=False):
    """Have a step of the journal fail once, before or after it is done."""
    step, left = getattr(TableLog, name), [1]

    async def fail(self, *args, **options):
        if not left:
            return await step(self, *args, **options)
        left.pop()
        if after:
            await step(self, *args, **options)
        raise OSError("the process was ended here")

    monkeypatch.setattr(TableLog, name, fail)


async def test_what_a_fold_brings_is_counted_also_after_the_table_was_looked_after(store):
    table = store._resources.records
    table.access.connection.on_commit = lambda table: None
    await say(store, "one", "two")
    await store.flush()
    assert table.written.rows == 2
    store._resources.upkeep.settings = Maintenance(every_n_commits=1)
    store._resources.upkeep.committed(table)
    assert table.written.rows == 0
    await say(store, "three")
    await store.flush()
    assert table.written.rows == 1


# Whoever looks seldom for what others wrote


@pytest.fixture
def seldom(open_store):
    """One that never looks for newer versions by itself."""
    return open_store(maintenance=None, journal=SMALL, read_consistency=None)


async def test_what_was_seen_before_another_folded_it_stays_to_be_seen(store, seldom):
    await say(store, "one")
    await store.flush()
    assert await read(seldom) == ["one"]
    await say(store, "two")
    await say(seldom, "three")
    assert await read(seldom) == ["one", "two", "three"]
    await store.flush()
    assert await read(seldom) == ["one", "two", "three"]


async def test_what_was_seen_stays_where_a_commit_that_folded_it_was_cut_short(
    store, seldom, monkeypatch
):
    await say(store, "one")
    await store.flush()
    assert await read(seldom) == ["one"]
    await say(store, "two")
    assert await read(seldom) == ["one", "two"]

    async def fail(self, *args, **options):
        raise OSError("the process was ended here")

    with monkeypatch.context() as patch:
        patch.setattr(TableLog, "note", fail)
        with pytest.raises(OSError, match="ended here"):
            await say(store, "three", "four", "five", "six")
    assert (await read(seldom))[:2] == ["one", "two"]


async def test_what_was_seen_in_a_collection_that_was_made_anew_stays(store, other, seldom):
    async def add(*ids):
        for id in ids:
            await store.vectors("c").add([Document(id=id, text="x", embedding=[1.0, 0.0])])

    async def seen():
        ids = [one.id for one in await seldom.vectors("c").list()]
        assert [one.id for one in await other.vectors("c").list()] == ids
        return ids

    for id in ("a", "b", "c"):
        await add(id)
        await store.flush()
    assert await seen() == ["a", "b", "c"]
    await store.vectors("c").delete_collection()
    await add("d", "e")
    assert await seen() == ["d", "e"]
    await store.flush()
    assert await seen() == ["d", "e"]


# Folds that end early


async def test_a_fold_that_ended_before_it_was_noted_doubles_nothing(
    store, open_store, monkeypatch
):
    await say(store, "one")
    await store.flush()
    ids = await say(store, "two", "three")
    failing(monkeypatch, "forget")
    with pytest.raises(OSError, match="ended here"):
        await store.flush()
    assert await read(store) == ["one", "two", "three"]
    await say(store, "four")
    async with open_store(maintenance=None) as again:
        for one in (store, again):
            assert await read(one) == ["one", "two", "three", "four"]
            assert await one.history.count("a", session_id="s") == 4
        await again.flush()
        for one in (store, again):
            assert await read(one) == ["one", "two", "three", "four"]
            assert await one.context().get(id=ids[0])
    assert len(await in_the_table(store)) == 4


async def test_what_is_deleted_after_a_fold_that_ended_early_does_not_come_back(
    store, other, monkeypatch
):
    ids = await say(store, "one", "two")
    failing(monkeypatch, "forget")
    with pytest.raises(OSError, match="ended here"):
        await store.flush()
    assert await other.context().delete(id=ids[0])
    for _ in range(2):
        for one in (store, other):
            assert await read(one) == ["two"]
        await store.flush()
    assert await store.history.clear("a", session_id="s") == 1
    await store.flush()
    assert await read(other) == []


async def test_an_item_that_is_written_after_a_fold_that_ended_early_stays_as_written(
    store, other, monkeypatch
):
    key = ((), "k")
    await store.kv().put([Item(key="k", value={"n": 1})])
    await store.kv().put([Item(key="gone", value={"n": 1})])
    failing(monkeypatch, "forget")
    with pytest.raises(OSError, match="ended here"):
        await store.flush()
    await other.kv().put([Item(key="k", value={"n": 2})])
    assert await other.kv().delete([((), "gone")]) == [True]
    for _ in range(2):
        for one in (store, other):
            assert (await one.kv().get([key]))[0].value == {"n": 2}
            assert await one.kv().keys() == [key]
        await store.flush()
    assert len(await in_the_table(store, "kv.default")) == 1


async def test_long_work_after_a_fold_that_ended_early_doubles_nothing(store, other, monkeypatch):
    await say(store, "one", "two")
    failing(monkeypatch, "forget")
    with pytest.raises(OSError, match="ended here"):
        await store.flush()
    # What long work beside the journal ends with, such as a merge of files.
    await other._resources.records.access.catch_up()
    await store.flush()
    for one in (store, other):
        assert await read(one) == ["one", "two"]
    assert len(await in_the_table(store)) == 2


async def test_a_fold_that_was_noted_and_then_failed_is_done(store, other, monkeypatch):
    await say(store, "one")
    failing(monkeypatch, "forget", after=True)
    with pytest.raises(OSError, match="ended here"):
        await store.flush()
    await other.flush()
    assert await read(other) == ["one"]
    assert len(await in_the_table(store)) == 1


async def test_who_reads_while_it_is_folded_sees_each_row_once(store, other):
    async def talk():
        for n in range(60):
            await say(store, f"{n}")
            if n % 7 == 0:
                await store.flush()

    talking = asyncio.create_task(talk())
    seen = []
    while not talking.done():
        there = await read(other)
        assert there == [f"{n}" for n in range(len(there))]
        assert len(there) >= len(seen)
        seen = there
        await asyncio.sleep(0)
    await talking
    assert len(await read(other)) == 60


# Tables and branches that come and go


async def test_a_collection_that_is_dropped_takes_along_what_waits_for_it(store, other):
    await store.vectors("c").add([Document(id="a", text="x", embedding=[1.0, 0.0])])
    await store.vectors("c").add([Document(id="b", text="y", embedding=[0.0, 1.0])])
    assert await other.vectors("c").delete_collection() == 2
    for one in (store, other):
        assert await one.vectors("c").count() == 0
        assert await one.vectors("c").list_collections() == []


async def test_a_collection_that_another_made_anew_has_its_own_dimension(store, other):
    """Each time the table comes to the same versions."""

    def document(id, length):
        return Document(id=id, text="x", embedding=[1.0] * length)

    for length, (one, two) in [(2, (store, other)), (3, (other, store)), (2, (store, other))]:
        await one.vectors("c").delete_collection()
        await one.vectors("c").add([document("a", length)])
        await one.flush()
        await one.vectors("c").add([document("b", length)])
        assert [doc.id for doc in await two.vectors("c").list()] == ["a", "b"]
        with pytest.raises(InvalidRequestError, match=f"{5 - length}"):
            await two.vectors("c").add([document("c", 5 - length)])
        await two.vectors("c").add([document("c", length)])
        there = await one.vectors("c").list(include_embedding=True)
        assert [len(doc.embedding) for doc in there] == [length] * 3
    await store.flush()
    assert await other.vectors("c").count() == 3


async def test_a_branch_that_is_made_anew_has_nothing_of_the_former_one(store, other):
    await say(store, "before")
    branch = await store.create_branch("left")
    await say(branch, "of the first")
    assert await store.delete_branch("left")
    assert await read(store) == ["before"]
    await say(store, "after")
    anew = await other.create_branch("left")
    assert await read(anew) == ["before", "after"]
    await say(anew, "of the second")
    await anew.flush()
    assert await read(await store.branch("left")) == ["before", "after", "of the second"]
    assert await read(store) == ["before", "after"]


async def test_what_waits_on_a_branch_is_not_on_main_nor_the_other_way_round(store):
    await say(store, "both")
    branch = await store.create_branch("left")
    await say(branch, "left")
    await say(store, "main")
    for _ in range(2):
        assert await read(branch) == ["both", "left"]
        assert await read(store) == ["both", "main"]
        await store.flush()


# What the log takes on the disk


async def test_the_log_of_sqlite_stays_small_while_nothing_is_flushed(open_store):
    store = open_store(maintenance=None, journal=JournalPolicy(rows=1_000_000, bytes=2**40))
    path, item = Path(store._resources.database.uri, sqlite.NAME), b"x" * 32_768
    sizes = []
    for _ in range(64):
        # A checkpoint in the background, and a commit after it, which cuts the log.
        for _ in range(9):
            await store.kv("k").put([Item(namespace=("n",), key="k", data=item)])
        await store._resources.database.finish()
        sizes.append(sqlite.log_bytes(path))
    # All of it is 18 MB. On a busy machine a checkpoint may come late, and not always.
    assert min(sizes[32:]) < 4 * 1024 * 1024
