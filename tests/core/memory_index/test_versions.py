"""Earlier versions and branches: a store that searches in the process finds what one finds that does not."""

import asyncio
from datetime import timedelta

import pytest
from core.conformance.doubles import ManualClock, WordVectors
from core.storage.journaling import SMALL

from lance_context_core import AsyncContextStore, Document
from lance_context_core.settings import SearchCache


@pytest.fixture(params=["journal", "none"])
def stores(request, tmp_path):
    """Two of one place: the first has what it searched in memory, the engine searches for the other."""
    options = {
        "embedder": WordVectors(),
        "clock": ManualClock(),
        "maintenance": None,
        "journal": SMALL if request.param == "journal" else None,
    }
    both = [
        AsyncContextStore.open(tmp_path, search_cache=cache, **options)
        for cache in (SearchCache(), None)
    ]
    yield both
    for store in both:
        asyncio.run(store.close())


async def assert_alike(hot, cold, *expected):
    """Both find these memories of Ann, and none of anybody else's; a list has them, too."""
    for _ in range(2):  # read into memory, and from there
        ways = [await store.memory.search("kite", user_id="ann") for store in (hot, cold)]
        assert [{hit.record.text for hit in hits} for hits in ways] == [set(expected)] * 2
        vectors = [
            {hit.record.id: hit.channels["vector"].raw for hit in hits if "vector" in hit.channels}
            for hits in ways
        ]
        assert vectors[0] == pytest.approx(vectors[1], abs=1e-5)
    assert {one.text for one in (await hot.memory.list(user_id="ann")).items} == set(expected)


async def remember(store, text, user="ann"):
    (id,) = await store.memory.add([text], user_id=user)
    return id


@pytest.mark.parametrize("ref", ["version", "tag", "moment"])
async def test_an_earlier_state_is_found_as_it_was(stores, ref):
    hot, cold = stores
    gone = await remember(hot, "red kite")
    await remember(hot, "blue kite")
    await assert_alike(hot, cold, "red kite", "blue kite")
    number = await hot.tag("then")
    there = {"version": number, "tag": "then"}.get(ref)
    if ref == "moment":
        (version,) = await hot.versions(limit=1)
        there = version.created_at + timedelta(microseconds=1)
    await hot.context().delete(id=gone)
    await remember(hot, "green kite")
    before = [await store.checkout(there) for store in stores]
    await assert_alike(hot, cold, "blue kite", "green kite")
    await assert_alike(*before, "red kite", "blue kite")
    await remember(hot, "white kite")
    await assert_alike(*before, "red kite", "blue kite")
    await assert_alike(hot, cold, "blue kite", "green kite", "white kite")


async def test_what_is_restored_is_found_and_what_came_after_is_not(stores):
    hot, cold = stores
    await remember(hot, "red kite")
    await hot.tag("then")
    await remember(hot, "blue kite")
    await assert_alike(hot, cold, "red kite", "blue kite")
    await cold.restore("then")
    await assert_alike(hot, cold, "red kite")


async def test_a_branch_is_found_by_itself_until_it_is_merged(stores):
    hot, cold = stores
    await remember(hot, "red kite")
    await assert_alike(hot, cold, "red kite")
    left = await hot.create_branch("left")
    sides = left, await cold.branch("left")
    await remember(left, "blue kite")
    await remember(sides[1], "yellow kite")
    await remember(hot, "green kite")
    await assert_alike(hot, cold, "red kite", "green kite")
    await assert_alike(*sides, "red kite", "blue kite", "yellow kite")
    await cold.merge("left")
    await assert_alike(hot, cold, "red kite", "green kite", "blue kite", "yellow kite")


async def test_a_branch_that_is_made_anew_under_its_name_is_another(stores):
    hot, cold = stores
    await remember(hot, "red kite")
    left = await hot.create_branch("left")
    await remember(left, "blue kite")
    await assert_alike(left, await cold.branch("left"), "red kite", "blue kite")
    await cold.delete_branch("left")
    await remember(await cold.create_branch("left"), "white kite")
    await assert_alike(*[await one.branch("left") for one in stores], "red kite", "white kite")


async def test_a_collection_that_is_made_anew_under_its_name_is_another(stores):
    hot, cold = stores
    for text in ("red kite", "blue kite"):
        await cold.vectors("c").add([Document(text=text)])
        for _ in range(2):
            hits = await hot.vectors("c").search("kite")
            assert [hit.record.text for hit in hits] == [text]
        await cold.vectors("c").delete_collection()
