"""A checkout of a time shows the records as they were acknowledged by then, whenever they were folded.

The oracle notes what a read shows right after each write.
"""

import asyncio
import time
from datetime import UTC, datetime
from random import Random

import pytest
from efforts import in_proofs

from lance_context_core import AsyncContextStore, Item
from lance_context_core.messages import Message


@pytest.fixture
def store(tmp_path):
    """A store that does nothing by itself."""
    store = AsyncContextStore.open(tmp_path / "store", maintenance=None)
    yield store
    asyncio.run(store.close())


async def shown(store):
    """All that reads show of the records."""
    context = store.context()
    records = await context.list()
    ids = [one["id"] for one in records]
    assert await context.entries() == len(ids)
    for one in ids[::3]:
        assert (await context.get(id=one))["id"] == one
    messages = await store.history.get_messages("a", session_id="s")
    assert await store.history.get_messages("a", session_id="s", last=2) == messages[-2:]
    assert await store.history.count("a", session_id="s") == len(messages)
    memories = (await store.memory.list()).items
    return (
        [(one["id"], one["text"], one["source"], one["author"]) for one in records],
        [(one.id, one.text) for one in messages],
        [one.id for one in memories],
    )


async def found(store):
    """The ids of all records that a search finds for what most of them say."""
    return {hit.record.id for hit in await store.search("tea", mode="text", limit=100)}


def now():
    """A moment that nothing else has."""
    time.sleep(0.002)
    moment = datetime.now(UTC)
    time.sleep(0.002)
    return moment


async def say(store, id, text="tea"):
    await store.history.append("a", Message.user(text, id=id), session_id="s")


async def check(store, seen):
    for number, (moment, then) in enumerate(seen.items()):
        at = await store.checkout(moment)
        assert await shown(at) == then
        if number % 4 == 0:
            assert await found(at) == {id for id, text, *_ in then[0] if "tea" in text}


async def test_what_was_acknowledged_later_is_left_out_of_the_first_fold_that_covers_a_time(store):
    seen = {}
    for n in range(3):
        await say(store.writing_as("ada"), f"m{n}")
        seen[now()] = await shown(store)
    await check(store, seen)
    await say(store, "m3")
    seen[now()] = await shown(store)
    await say(store, "m4")
    await check(store, seen)


async def test_what_is_changed_or_removed_later_in_the_same_fold_is_as_it_was(store):
    for n in range(4):
        await say(store, f"m{n}")
    await store.flush()
    seen = {now(): await shown(store)}
    await store.history.rewrite("a", Message.user("other", id="m1"), session_id="s")
    seen[now()] = await shown(store)
    await store.history.clear("a", session_id="s", filter={"text": "other"})
    seen[now()] = await shown(store)
    await say(store, "m4")
    seen[now()] = await shown(store)
    await say(store, "m1", "again")
    seen[now()] = await shown(store)
    await store.history.pop("a", session_id="s")
    seen[now()] = await shown(store)
    await store.flush()
    await check(store, seen)


async def test_what_comes_from_a_branch_was_not_there_before_it_was_merged(store):
    await say(store, "m0")
    branch = await store.create_branch("b")
    await say(branch, "m1")
    seen = {now(): await shown(store)}
    on_branch = {now(): await shown(branch)}
    await say(branch, "m2")
    await check(branch, on_branch)
    await store.merge("b")
    seen[now()] = await shown(store)
    await say(store, "m3")
    await check(store, seen)
    await check(branch, on_branch)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *in_proofs(1, 2, 3, 4, 5)])
async def test_every_time_shows_what_was_read_then(store, seed):
    random, seen = Random(seed), {}
    await say(store, "first")
    for n in range(30):
        match random.randrange(10):
            case 0:
                await store.flush()
            case 1:
                async with store._resources.records.access.separately() as handle:
                    await say(store, f"m{n}")
                    await handle.optimize()
            case 2:
                await store.context().add("user", "x" * 2_000_000, id=f"c{n}")
            case 3:
                await store.context().upsert("user", "tea", external_id="e", source=str(n))
            case 4:
                await store.history.pop("a", session_id="s")
            case 5:
                await store.memory.add([Message.user("likes tea", id=f"k{n}")], user_id="u")
            case 6 if messages := await store.history.get_messages("a", session_id="s"):
                one = Message.user(f"said {n}", id=random.choice(messages).id)
                await store.history.rewrite("a", one, session_id="s")
            case _:
                await say(store, f"m{n}")
        seen[now()] = await shown(store)
    await check(store, seen)


async def test_removals_are_remembered_of_records_alone_and_not_over_an_erasure(store):
    journal = store._resources.database.connection.journal

    async def remembered():
        asked = "SELECT key FROM removals"
        return await journal.asked(lambda one: one.connection.execute(asked).fetchall(), [])

    await store.kv().put([Item(key="k", value={})])
    await say(store, "m0")
    await say(store, "m1")
    await store.flush()
    await store.kv().delete([((), "k")])
    await store.history.pop("a", session_id="s")
    await store.flush()
    assert len(await remembered()) == 1
    await store.erase(ids=["m0"])
    assert await remembered() == []
