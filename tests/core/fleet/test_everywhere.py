"""Calls over all tenants of a fleet, or over some: what failed is named, and the rest is done."""

import asyncio
import json

import pytest
from core.fleet.conftest import in_shard, said, say

from lance_context_core import ContextStore
from lance_context_core.errors import InvalidRequestError, StorageError
from lance_context_core.settings import ReciprocalRank, SearchOptions

TENANTS = [f"tenant-{n}" for n in range(8)]


@pytest.fixture
def told(open_fleet, embedder):
    """A fleet in which each tenant says a word of its own, one that all say, and names a colour."""
    fleet = open_fleet(embedder=embedder)

    async def tell():
        for n, tenant in enumerate(TENANTS):
            store = fleet.scope(tenant=tenant, user_id=f"user-{n % 2}")
            await say(store, f"apple word{n}", "pear " * n + "plum", session_id=tenant)

    asyncio.run(tell())
    return fleet


async def test_a_search_over_all_finds_the_hits_of_each_shard(told):
    found = await told.search("apple", mode="text", limit=20)
    assert {hit.record.tenant for hit in found.hits} == {*TENANTS}
    assert (found.unanswered, found.is_complete) == ({}, True)
    assert [hit.record.text for hit in (await told.search("word3", limit=1)).hits] == [
        "apple word3"
    ]


async def test_a_search_over_some_sees_those_alone(told):
    found = await told.search("apple", tenants=TENANTS[:2], limit=20, mode="text")
    assert {hit.record.tenant for hit in found.hits} == {*TENANTS[:2]}
    of_user = await told.search("apple", user_id="user-0", limit=20, mode="text")
    assert {hit.record.tenant for hit in of_user.hits} == {*TENANTS[::2]}


@pytest.mark.parametrize("options", [None, SearchOptions(fusion=ReciprocalRank())])
async def test_hits_are_in_the_order_of_one_store_with_all_of_it(told, tmp_path, embedder, options):
    with ContextStore.open(tmp_path / "one", embedder=embedder, maintenance=None) as one:
        for n, tenant in enumerate(TENANTS):
            await say(
                one.aio.scope(tenant=tenant),
                f"apple word{n}",
                "pear " * n + "plum",
                session_id=tenant,
            )
        # By vectors a score is the same in any store.
        alone = SearchOptions(neighbours=0, surroundings=False)
        wanted = one.search("pear plum", mode="vector", limit=6, options=alone)
    found = await told.search("pear plum", mode="vector", limit=6, options=alone)
    assert [round(hit.score, 5) for hit in found.hits] == [round(h.score, 5) for h in wanted]
    hybrid = await told.search("word5 apple", limit=16, options=options)
    assert hybrid.hits[0].record.text == "apple word5"
    scores = [hit.score for hit in hybrid.hits]
    assert scores == sorted(scores, reverse=True)


async def test_shards_that_do_not_answer_in_time_or_fail_are_named(told, monkeypatch):
    slow, broken = told._shards.get("1").store, told._shards.get("2").store
    search = type(slow).search

    async def searched(store, *args, **kwargs):
        uri = store.uri
        if uri == slow.uri:
            await asyncio.sleep(30)
        if uri == broken.uri:
            raise StorageError("the disk is gone")
        return await search(store, *args, **kwargs)

    monkeypatch.setattr(type(slow), "search", searched)
    found = await told.search("apple", mode="text", limit=20, timeout_seconds=1)
    assert found.unanswered == {
        "1": "no answer within 1 seconds",
        "2": "StorageError: the disk is gone",
    }
    assert not found.is_complete
    assert found.hits
    shards = {(await told.placement(hit.record.tenant)).shard for hit in found.hits}
    assert shards <= {"0", "3"}


async def test_a_copy_that_does_not_count_is_not_found(told):
    here = (await told.placement("tenant-3")).shard
    other = told._shards.get(next(n for n in "0123" if n != here))
    await say(other.store.scope(tenant="tenant-3"), "apple copy")
    seen = await told.placement("tenant-3")
    await told._catalog.change(seen, leaving=other.name)
    found = await told.search("apple", mode="text", limit=20)
    assert "apple copy" not in {hit.record.text for hit in found.hits}
    assert len(found.hits) == 8


async def test_one_user_is_erased_in_all_shards(told):
    done = await told.erase(user_id="user-0")
    assert sum(one.records for one in done.results.values()) == 8
    assert done.failed == {}
    for n, tenant in enumerate(TENANTS):
        assert bool(await said(told.scope(tenant=tenant), tenant)) == bool(n % 2)


async def test_some_tenants_are_erased_and_others_stay(told):
    assert (await told.erase(tenants=["tenant-1"], dry_run=True)).results["tenant-1"].records == 2
    await told.erase(tenants=["tenant-1"])
    assert await said(told.scope(tenant="tenant-1"), "tenant-1") == []
    assert len(await said(told.scope(tenant="tenant-2"), "tenant-2")) == 2
    with pytest.raises(InvalidRequestError, match="erase what"):
        await told.erase()
    with pytest.raises(InvalidRequestError, match="tenants="):
        await told.erase(tenants="tenant-2")


async def test_all_shards_are_checked_counted_maintained_and_flushed(told):
    checked = await told.verify()
    assert [*checked.results] == ["catalog", "0", "1", "2", "3"]
    assert not any(one.problems for one in checked.results.values())
    await told.flush()
    stats = await told.stats(shards=[1, "2"])
    assert [*stats.results] == ["1", "2"]
    assert [*(await told.maintain(only_due=True)).results] == ["0", "1", "2", "3"]
    with pytest.raises(InvalidRequestError, match="shards 0 to 3"):
        await told.stats(shards=[9])


async def test_exports_hold_each_row_once(told, tmp_path):
    await told.export(tmp_path / "out")
    lines = [
        json.loads(line)
        for file in (tmp_path / "out").iterdir()
        for line in file.read_text().splitlines()
    ]
    texts = [line["text"] for line in lines if line.get("table") == "records"]
    assert sorted(texts) == sorted(
        text for n in range(8) for text in (f"apple word{n}", "pear " * n + "plum")
    )
    done = await told.export(tmp_path / "some", tenants=["tenant-4"])
    assert done.results["tenant-4"].rows["records"] == 2
    with ContextStore.open(tmp_path / "again", maintenance=None) as store:
        store.import_(tmp_path / "some" / "tenant-0.jsonl")
        assert len(await said(store.aio.scope(tenant="tenant-4"), "tenant-4")) == 2


async def test_shards_of_one_tenant_are_part_of_all(told):
    await told.move("tenant-6", to="big")
    assert (await told.search("word6", mode="text")).hits[0].record.tenant == "tenant-6"
    assert await in_shard(told, "big", "tenant-6")
    assert "big" in (await told.stats()).results
