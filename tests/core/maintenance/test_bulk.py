"""What comes in few commits, but many rows or bytes, is looked after as well, and nobody asks for it."""

import asyncio
from datetime import datetime

import pytest
from core.conformance.doubles import ManualClock

from lance_context_core import Document, Message
from lance_context_core.settings import IndexPolicy, Maintenance
from lance_context_core.storage.lance import indexes

pytestmark = pytest.mark.usefixtures("each_write_commits")

NOON = datetime(2026, 1, 15, 12).astimezone()
SMALL = IndexPolicy(scalar_rows=100, vector_rows=100, unindexed_rows=50)


async def settled(store):
    """Returns when the upkeep that the commits so far have set off is done."""
    if (worker := store._resources.upkeep._worker) is not None:
        await asyncio.wait([asyncio.wrap_future(worker)])


async def outside(collection):
    """How many rows are outside the index on each column that has one."""
    return await indexes.unindexed(await collection._table.access.reader())


def documents(n, *, start=0):
    return [
        Document(id=f"d{i}", text=f"common word{i}", embedding=[float(i), 1.0])
        for i in range(start, start + n)
    ]


async def table_stats(store, name="records"):
    return next(one for one in (await store.stats()).tables if one.table == name)


@pytest.mark.slow
async def test_a_bulk_load_is_indexed_for_words_vectors_and_look_ups(open_store):
    store = open_store()  # with the settings that everybody has
    docs = store.vectors("docs")
    for start in (0, 2_000, 4_000):
        await docs.add(documents(2_000, start=start))
    await settled(store)
    stats = await table_stats(store, "vectors.docs")
    assert (stats.rows, stats.due, stats.last_error) == (6_000, (), None)
    unindexed = await outside(docs)
    assert set(unindexed) == {"search_text", "vector", "key", "id"}  # no row has an owner
    assert max(unindexed.values()) < 2_000
    assert unindexed["search_text"] < 1_000
    (hit,) = await docs.search("word5999", mode="text", limit=5)
    assert hit.record.id == "d5999"


async def test_a_load_of_one_commit_is_indexed(open_store):
    store = open_store(maintenance=Maintenance(indexes=SMALL))
    docs = store.vectors("docs")
    await docs.add(documents(200))
    await settled(store)
    assert set((await outside(docs)).values()) == {0}
    await docs.add(documents(49, start=200))
    await settled(store)
    assert set((await outside(docs)).values()) == {49}


@pytest.mark.parametrize(("n_letters", "is_indexed"), [(10, False), (2_000, True)])
async def test_few_rows_of_much_text_are_indexed(open_store, n_letters, is_indexed):
    policy = IndexPolicy(unindexed_bytes=200_000)
    store = open_store(maintenance=Maintenance(indexes=policy))
    words = " ".join(f"word{n}" for n in range(n_letters))
    messages = [Message.user(f"{words} {number}") for number in range(20)]
    await store.history.append_many("a", messages, session_id="s")
    await settled(store)
    stats = await table_stats(store)
    assert (stats.unindexed_rows, stats.n_done) == ((0, 1) if is_indexed else (20, 0))
    assert len(await store.search("word3", mode="text", limit=100)) == 20


async def test_rows_that_were_changed_count_as_those_that_were_added(open_store):
    store = open_store(maintenance=Maintenance(indexes=IndexPolicy(unindexed_rows=50)))
    messages = [Message.user(f"message {number}") for number in range(30)]
    await store.history.append_many("a", messages, session_id="s")
    await settled(store)
    assert (await table_stats(store)).unindexed_rows == 30
    await store.history.annotate("a", {"seen": True}, session_id="s")
    await settled(store)
    assert (await table_stats(store)).n_done == 1


async def test_what_came_in_quiet_hours_is_indexed_with_the_first_commit_behind_them(open_store):
    clock = ManualClock(NOON)
    settings = Maintenance(indexes=SMALL, quiet_hours=((11, 13),))
    store = open_store(clock=clock, maintenance=settings)
    docs = store.vectors("docs")
    await docs.add(documents(200))
    await settled(store)
    assert await outside(docs) == {"search_text": 200}
    clock.advance(hours=1)
    await docs.add(documents(1, start=200))
    await settled(store)
    assert set((await outside(docs)).values()) == {0}
