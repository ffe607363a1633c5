"""No row names an erased one by its key: no row behind it, and none that is written later."""

import asyncio

import pytest

from lance_context_core import AsyncContextStore, Message
from lance_context_core.storage.sql import equals, is_present
from lance_context_core.storage.write_batch import WriteBatch


@pytest.fixture
def store(open_store):
    return open_store(maintenance=None)


async def say(store, *ids, session="s"):
    for id in ids:
        message = Message.user(f"I have the dog {id}.", id=id)
        await store.history.append("a", message, session_id=session)


async def rows(store):
    """All rows of a handle, hidden ones too, by id."""
    table = store._resources.records
    columns = [*table.spec.schema.names]
    return {row["id"]: row for row in (await table.select(None, columns=columns)).to_pylist()}


async def views(store):
    """Main, each branch and what each tag names."""
    branches = [await store.branch(one.name) for one in await store.branches()]
    return [store, *branches, *[await store.checkout(tag) for tag in await store.tags()]]


async def naming(store, key):
    """The rows that have a key in any column, wherever the store has rows."""
    return [
        (id, name)
        for view in await views(store)
        for id, row in (await rows(view)).items()
        for name, value in row.items()
        if isinstance(value, str) and key in value
    ]


@pytest.mark.parametrize("is_flushed", [True, False], ids=["each flushed", "none flushed"])
async def test_no_row_names_an_erased_turn(store, is_flushed):
    await say(store, "m1")
    if is_flushed:
        await store.flush()
    await say(store, "m2")
    key = (await rows(store))["m1"]["key"]
    await store.create_branch("idea")
    await store.tag("then")
    await store.erase(ids=["m1"])
    await say(store, "m3")
    await say(await store.branch("idea"), "m4")
    assert await naming(store, key) == []


async def forget_all(store):
    await store.history.clear("a", session_id="s")


async def forget_one(store):
    await store.history.clear("a", session_id="s", filter={"id": "m1"})


async def pop(store):
    await store.history.pop("a", session_id="s")


async def replace(store):
    await store.history.replace_tail(
        "a", [Message.user("anew", id="m0")], session_id="s", after=None
    )


async def expire(store):
    await store.context().update(id="m1", expires_at=store.clock.advance(seconds=1))
    store.clock.advance(seconds=1)


@pytest.mark.parametrize("change", [forget_all, forget_one, pop, replace, expire])
async def test_a_later_turn_does_not_name_one_that_no_read_shows(store, change):
    await say(store, "m1")
    key = (await rows(store))["m1"]["key"]
    await change(store)
    await say(store, "m2")
    assert {one for one in await naming(store, key) if one[0] != "m1"} == set()


async def as_earlier_releases(store, behind, before):
    """Let turns name those before them, as earlier releases stored that."""
    await store.flush()
    table = store._resources.records
    keys = {row["id"]: row["key"] for row in (await rows(store)).values()}
    for id in behind:
        await table.write(WriteBatch(where=equals("id", id), values={"previous_key": keys[before]}))


@pytest.mark.parametrize("is_flushed", [True, False], ids=["each flushed", "all at once"])
async def test_an_erasure_takes_out_what_an_earlier_release_stored(store, is_flushed):
    for id in ("m1", "m2", "m3"):
        await say(store, id)
        if is_flushed:
            await store.flush()
    key = (await rows(store))["m1"]["key"]
    await as_earlier_releases(store, ["m2", "m3"], "m1")
    await store.create_branch("idea")
    assert len(await naming(store, key)) == 6
    await store.erase(ids=["m1"])
    assert await naming(store, key) == []
    assert [one.id for one in await store.history.get_messages("a", session_id="s")] == ["m2", "m3"]


async def test_maintenance_takes_it_out_once_and_then_commits_nothing(store):
    await say(store, "m1", "m2", "m3", "m4")
    await as_earlier_releases(store, ["m3", "m4"], "m1")
    before = [one.text for one in await store.history.get_messages("a", session_id="s")]
    await store.maintain()
    table = store._resources.records
    assert await table.count(is_present("previous_key")) == 0
    assert [one.text for one in await store.history.get_messages("a", session_id="s")] == before
    version = await table.version()
    await store.maintain()
    assert await table.version() == version
    assert (await store.verify()).is_whole


async def distill(store):
    made = await store.knowledge.distill(session_id="s")
    await store.knowledge.merge(made.job_id)


async def chunks_of(store):
    found = await rows(store)
    return {row["source_ids"][0]: row for row in found.values() if row["kind"] == "chunk"}


@pytest.mark.parametrize("is_flushed", [True, False], ids=["flushed", "not flushed"])
async def test_no_chunk_names_the_chunk_of_an_erased_turn(store, is_flushed):
    await say(store, "m1", "m2", "m3")
    await distill(store)
    if is_flushed:
        await store.flush()
    there = await chunks_of(store)
    assert there["m3"]["previous_key"] == there["m2"]["key"]
    await store.create_branch("idea")
    await store.erase(ids=["m2"])
    await say(store, "m4")
    await distill(store)
    assert await naming(store, there["m2"]["key"]) == []
    found = await chunks_of(store)
    assert found.keys() == {"m1", "m3", "m4"}
    assert found["m4"]["previous_key"] == found["m3"]["key"]


def test_an_import_stores_no_links_of_turns(tmp_path):
    async def run():
        async with AsyncContextStore.open(tmp_path / "one", maintenance=None) as one:
            await say(one, "m1", "m2")
            await as_earlier_releases(one, ["m2"], "m1")
            await one.export(tmp_path / "file.jsonl")
        async with AsyncContextStore.open(tmp_path / "two", maintenance=None) as two:
            await two.import_(tmp_path / "file.jsonl")
            assert [row["previous_key"] for row in (await rows(two)).values()] == [None, None]

    asyncio.run(run())
