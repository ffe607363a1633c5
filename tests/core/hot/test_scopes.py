"""Which searches are answered in the process, how fresh they are, and what that takes in memory."""

import asyncio

import pytest
from core.conformance.doubles import WordVectors
from core.engine.journaling import SMALL, opened

from lance_context_core import AsyncContextStore, InvalidRequestError
from lance_context_core.hot.cache import blocks_of
from lance_context_core.settings import SearchCache, SearchOptions


@pytest.fixture
def store(tmp_path):
    store = open_at(tmp_path / "store")
    yield store
    asyncio.run(store.close())


def open_at(path, **options):
    options = {"search_cache": SearchCache(), "embedder": WordVectors()} | options
    return AsyncContextStore.open(path, maintenance=None, journal=SMALL, **options)


async def found(store, query, user="ann", **options):
    hits = await store.memory.search(query, user_id=user, **options)
    return [hit.record.text for hit in hits]


async def counted(store):
    told = (await store.stats()).search_cache
    return told.hits, told.misses


# Which


async def test_the_first_search_of_a_scope_reads_it_and_the_next_ones_find_it_in_memory(store):
    await store.memory.add(["a red kite", "a blue vase"], user_id="ann")
    for _ in range(3):
        assert (await found(store, "vase"))[0] == "a blue vase"
    assert await counted(store) == (2, 1)


async def test_a_search_right_after_a_write_shows_it_and_folds_nothing(store):
    await store.memory.add(["a red kite"], user_id="ann")
    await store.flush()
    await found(store, "kite")
    await store.memory.add(["a green kite"], user_id="ann")
    assert set(await found(store, "kite")) == {"a red kite", "a green kite"}
    (records,) = [one for one in (await store.stats()).tables if one.table == "records"]
    assert records.journal_rows == 1
    assert await counted(store) == (1, 1)


async def test_a_fold_leaves_what_is_in_memory_as_it_is(store):
    await store.memory.add(["a red kite"], user_id="ann")
    await found(store, "kite")
    await store.flush()
    await store.memory.add(["a green kite"], user_id="ann")
    await store.flush()
    assert set(await found(store, "kite")) == {"a red kite", "a green kite"}
    assert await counted(store) == (1, 1)


async def test_each_user_is_ranked_by_statistics_of_their_own(store):
    await store.memory.add(["tea", "tea and cake", "cake"], user_id="ann")
    alone = await store.memory.search("tea", user_id="ann", mode="text")
    await store.memory.add(["tea", "tea", "milk"], user_id="bob")
    beside = await store.memory.search("tea", user_id="ann", mode="text")
    assert [hit.score for hit in beside] == [hit.score for hit in alone]


async def test_what_another_program_writes_into_the_table_is_found(store):
    await store.memory.add(["a red kite"], user_id="ann")
    await store.flush()
    await found(store, "kite")
    table = await opened(store, "records")
    await table.update(where="text = 'a red kite'", updates={"user_id": "bob"})
    assert await found(store, "kite") == []
    assert await found(store, "kite", user="bob") == ["a red kite"]


async def test_a_scope_of_too_many_records_is_searched_by_the_engine(tmp_path):
    async with open_at(tmp_path / "store", search_cache=SearchCache(max_records=3)) as store:
        await store.memory.add(["kite 1", "kite 2", "kite 3"], user_id="ann")
        await found(store, "kite")
        await store.memory.add(["kite 4"], user_id="ann")
        for _ in range(3):
            assert len(await found(store, "kite")) == 4
        assert await counted(store) == (0, 1)


async def test_words_that_only_the_engine_can_tell_are_asked_of_it(store):
    await store.memory.add(["我们搬到了上海", "a red kite"], user_id="ann")
    assert (await found(store, "上海"))[0] == "我们搬到了上海"
    assert (await found(store, "kite", mode="text")) == ["a red kite"]
    assert (await counted(store))[0] == 0


async def test_without_a_cache_the_engine_searches(tmp_path):
    async with open_at(tmp_path / "store", search_cache=None) as store:
        await store.memory.add(["a red kite"], user_id="ann")
        assert await found(store, "kite") == ["a red kite"]
        assert (await store.stats()).search_cache is None


@pytest.mark.parametrize("bad", [{"max_bytes": 0}, {"max_records": 1.5}, {"max_bytes": True}])
def test_bounds_of_no_sense_are_refused(bad):
    with pytest.raises(InvalidRequestError, match=next(iter(bad))):
        SearchCache(**bad)


# Whose


async def test_branches_and_versions_are_searched_as_they_are(store):
    await store.memory.add(["a red kite"], user_id="ann")
    await found(store, "kite")
    left = await store.create_branch("left")
    await left.memory.add(["a blue kite"], user_id="ann")
    await store.memory.add(["a green kite"], user_id="ann")
    then = await store.checkout(await store.version())
    await store.memory.delete(user_id="ann")
    assert await found(store, "kite") == []
    assert set(await found(left, "kite")) == {"a red kite", "a blue kite"}
    assert set(await found(then, "kite")) == {"a red kite", "a green kite"}


async def test_two_stores_share_a_cache_and_nothing_else(tmp_path):
    cache = SearchCache()
    one = open_at(tmp_path / "one", search_cache=cache)
    other = open_at(tmp_path / "other", search_cache=cache)
    async with one, other:
        await one.memory.add(["a red kite"], user_id="ann")
        await other.memory.add(["a blue kite"], user_id="ann")
        assert await found(one, "kite") == ["a red kite"]
        assert await found(other, "kite") == ["a blue kite"]
        assert blocks_of(cache).n_scopes == 2
        await one.close()
        assert blocks_of(cache).n_scopes == 1
    assert (blocks_of(cache).n_scopes, blocks_of(cache).n_bytes) == (0, 0)


async def test_of_what_is_erased_or_moved_to_another_user_nothing_is_found(store):
    gone, moved = await store.memory.add(["a red kite", "a blue kite"], user_id="ann")
    await found(store, "kite")
    await store.erase(ids=[gone])
    assert (await store.stats()).search_cache.n_scopes == 0
    assert await found(store, "kite") == ["a blue kite"]
    await store.context().update(id=moved, user_id="bob")
    assert await found(store, "kite") == []
    assert await found(store, "kite", user="bob") == ["a blue kite"]


# Memory


async def test_many_scopes_stay_within_the_bound_and_what_was_used_last_stays(tmp_path):
    cache = SearchCache(max_bytes=60_000)
    async with open_at(tmp_path / "store", search_cache=cache) as store:
        for number in range(40):
            await store.memory.add([f"kite {number}"], user_id=f"u{number}")
            await found(store, "kite", user=f"u{number}")
            await found(store, "kite", user="u0")
            assert 0 < blocks_of(cache).n_bytes <= 60_000
        hits, misses = await counted(store)
        assert (hits, misses) == (40, 40)
        kept = blocks_of(cache)
        assert len(kept._kept) == sum(map(len, kept._scopes.values())) < 40


async def test_a_block_that_grows_beyond_the_bound_goes(tmp_path):
    cache = SearchCache(max_bytes=60_000)
    async with open_at(tmp_path / "store", search_cache=cache) as store:
        for number in range(40):
            await store.memory.add([f"kite {number} {'long ' * 200}"], user_id="ann")
            assert len(await found(store, "kite", limit=100)) == number + 1
            assert blocks_of(cache).n_bytes <= 60_000
        assert blocks_of(cache).n_scopes == 0


# The same as the engine's way


OPTIONS = {
    "as usual": {},
    "variety": {"options": SearchOptions(mmr_lambda=0.5)},
    "neighbours": {"options": SearchOptions(neighbours=0.5)},
    "filtered": {"filter": {"metadata.n": {"$gt": 3}}},
    "by words": {"mode": "text"},
    "by vector": {"mode": "vector"},
}


@pytest.mark.parametrize("how", OPTIONS)
async def test_it_finds_what_the_engine_finds_where_all_of_the_table_is_one_scope(tmp_path, how):
    texts = ["red kite", "Ann's kites, and a kite", "blue_vase", "the vase: red", "nothing", "kite"]
    async with (
        open_at(tmp_path / "store") as hot,
        open_at(tmp_path / "store", search_cache=None) as cold,
    ):
        for number, text in enumerate(texts):
            await hot.memory.add([text], user_id="ann", metadata={"n": number})
        ways = [
            await store.memory.search("Red kites and a vase", user_id="ann", **OPTIONS[how])
            for store in (hot, cold)
        ]
        assert [hit.record for hit in ways[0]] == [hit.record for hit in ways[1]]
        assert [hit.score for hit in ways[0]] == pytest.approx([hit.score for hit in ways[1]])
        assert (await counted(hot)) == (0, 1)


async def test_a_record_is_found_whole(store):
    for embedding in ([0.5] * 64, None):
        await store.context().add("user", b"\x00\x01", embedding=embedding, tags=["t"], source="s")
    await store.context().add("user", "a red kite", metadata={"n": {"m": 1}})
    ways = [
        await context.search([0.5] * 64, include_relationships=True)
        for context in (store.context(), (await store.checkout(await store.version())).context())
    ]
    assert ways[0] == ways[1]
    assert await counted(store) == (0, 1)


async def test_many_searches_at_once_of_a_cold_scope_all_find_it(store):
    await store.memory.add(["a red kite"], user_id="ann")
    many = await asyncio.gather(*(found(store, "kite") for _ in range(20)))
    assert many == [["a red kite"]] * 20
