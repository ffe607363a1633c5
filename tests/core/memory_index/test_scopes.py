"""Which searches are answered in the process, how fresh they are, and what that takes in memory."""

import asyncio
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import product

import pytest
import snowballstemmer
from core.conformance.doubles import ManualClock, WordVectors
from core.storage.journaling import SMALL, opened

from lance_context_core import AsyncContextStore, Document, InvalidRequestError, Message
from lance_context_core.memory_index.bm25 import words_of
from lance_context_core.memory_index.cache import segments_of
from lance_context_core.memory_index.columns import Condition
from lance_context_core.settings import IndexPolicy, SearchCache, SearchOptions, TextIndex
from lance_context_core.storage import changes
from lance_context_core.storage.lance.table_handle import TableHandle
from lance_context_core.types import Item, ItemVector


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


async def test_what_is_changed_in_a_record_that_was_found_is_not_in_the_next_one(store):
    said = [Message.user("a red kite", metadata={"tags": ["toy"]}), Message.user("a blue kite")]
    await store.history.append_many("a", said, session_id="s")
    for _ in range(3):
        hits = await store.history.search("kite", agent_id="a")
        found = {hit.record.text: hit.record for hit in hits}
        for message in said:
            record = found[message.text]
            assert record.metadata == message.metadata
            assert record.parts == message.parts
            record.metadata["seen"] = record.parts[0].extra["seen"] = True
        found["a red kite"].metadata["tags"].append("seen")


async def test_an_expiry_between_two_searches_is_seen_and_so_is_a_clock_set_back(tmp_path):
    clock = ManualClock()
    async with open_at(tmp_path / "store", clock=clock) as store:
        for days in (1, 2):
            until = clock.now() + timedelta(days=days)
            await store.memory.add([f"a kite of {days}"], user_id="ann", expires_at=until)
        shown = {0: {"a kite of 1", "a kite of 2"}, 1: {"a kite of 2"}, 2: set()}
        for n_days, step in ((0, 1), (1, 1), (2, -1), (1, -1), (0, 1), (1, 1), (2, 0)):
            for _ in range(2):
                assert set(await found(store, "kite")) == shown[n_days]
            clock.advance(days=step)


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


async def test_what_is_in_memory_is_found_without_a_look_by_the_engine(store, monkeypatch):
    await store.memory.add(["a red kite"], user_id="ann")
    await store.flush()
    await found(store, "kite")

    async def peek(*_):
        raise AssertionError("the engine was asked")

    monkeypatch.setattr(TableHandle, "peek", peek)
    assert await found(store, "kite") == ["a red kite"]


async def test_a_scope_of_too_many_records_is_searched_by_the_engine(tmp_path):
    async with open_at(tmp_path / "store", search_cache=SearchCache(max_records=3)) as store:
        await store.memory.add(["kite 1", "kite 2", "kite 3"], user_id="ann")
        await found(store, "kite")
        await store.memory.add(["kite 4"], user_id="ann")
        for _ in range(3):
            assert len(await found(store, "kite")) == 4
        assert await counted(store) == (0, 1)


async def test_words_that_only_the_engine_can_tell_are_asked_of_it(store):
    await store.memory.add(["मेरी बहन", "a red kite"], user_id="ann")
    assert (await found(store, "बहन"))[0] == "मेरी बहन"
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
        assert segments_of(cache).n_scopes == 2
        await one.close()
        assert segments_of(cache).n_scopes == 1
    assert (segments_of(cache).n_scopes, segments_of(cache).n_bytes) == (0, 0)


async def test_of_what_is_erased_or_moved_to_another_user_nothing_is_found(store):
    gone, moved = await store.memory.add(["a red kite", "a blue kite"], user_id="ann")
    await found(store, "kite")
    await store.erase(ids=[gone])
    assert (await store.stats()).search_cache.n_scopes == 0
    assert await found(store, "kite") == ["a blue kite"]
    await store.context().update(id=moved, user_id="bob")
    assert await found(store, "kite") == []
    assert await found(store, "kite", user="bob") == ["a blue kite"]


async def test_equals_stay_in_the_order_of_writing_when_one_is_written_anew(store):
    ids = [f"{name}{n}" for n, name in enumerate("zamkb")]
    docs, options = store.vectors("docs"), SearchOptions(neighbours=0.0)
    await docs.add([Document(id=one, text="always the same") for one in ids])
    said = [Message.user("always the same", id=one) for one in ids]
    await store.history.append_many("a", said, session_id="s")

    async def in_order():
        documents = await docs.search("same", options=options)
        turns = await store.history.search("same", agent_id="a", options=options)
        return [[hit.record.id for hit in hits] for hits in (documents, turns)]

    assert await in_order() == [ids, ids]
    for one in ids[2], ids[0]:
        await docs.upsert([Document(id=one, text="always the same")])
        await store.context().update(id=one, metadata={"n": 1})
        assert await in_order() == [ids, ids]
    assert (await counted(store))[0] == 2  # The documents, which are followed in memory.


# Memory


async def test_many_scopes_stay_within_the_bound_and_what_was_used_last_stays(tmp_path):
    cache = SearchCache(max_bytes=60_000)
    async with open_at(tmp_path / "store", search_cache=cache) as store:
        for number in range(40):
            await store.memory.add([f"kite {number}"], user_id=f"u{number}")
            await found(store, "kite", user=f"u{number}")
            await found(store, "kite", user="u0")
            assert 0 < segments_of(cache).n_bytes <= 60_000
        hits, misses = await counted(store)
        assert (hits, misses) == (40, 40)
        kept = segments_of(cache)
        assert len(kept._kept) == sum(map(len, kept._scopes.values())) < 40


async def test_a_block_that_grows_beyond_the_bound_goes(tmp_path):
    cache = SearchCache(max_bytes=60_000)
    async with open_at(tmp_path / "store", search_cache=cache) as store:
        for number in range(40):
            await store.memory.add(
                [f"kite {number} {'long ' * 200}"], user_id="ann", duplicates="keep"
            )
            assert len(await found(store, "kite", limit=100)) == number + 1
            assert segments_of(cache).n_bytes <= 60_000
        assert segments_of(cache).n_scopes == 0


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


async def test_indexes_that_are_built_leave_what_is_in_memory_as_it_is(store):
    await store.memory.add(["a red kite"], user_id="ann")
    await found(store, "kite")
    await store.flush()
    (kept,) = [
        done
        for done in await store.maintain(only_due=True, policy=IndexPolicy(scalar_rows=1))
        if done.table == "records"
    ]
    assert {"id", "user_id"} <= set(kept.indexes_built)
    await store.memory.add(["a green kite"], user_id="ann")
    assert (await found(store, "green"))[0] == "a green kite"
    assert await counted(store) == (1, 1)


async def test_many_searches_at_once_of_a_cold_scope_all_find_it(store):
    await store.memory.add(["a red kite"], user_id="ann")
    many = await asyncio.gather(*(found(store, "kite") for _ in range(20)))
    assert many == [["a red kite"]] * 20
    assert await counted(store) == (19, 1)


async def test_many_searches_at_once_read_a_scope_twice_at_most_that_changes_while_it_is_read(
    store, monkeypatch
):
    read, n_reads = changes.read, 0

    async def slow(*args, **options):
        nonlocal n_reads
        n_reads += 1
        there = await read(*args, **options)
        # So many at once that nobody can follow.
        new = [f"{n_reads} {n}" for n in range(9)]
        await store.memory.add(new, user_id="bob", duplicates="keep")
        return there

    await store.memory.add(["a red kite"], user_id="ann")
    monkeypatch.setattr(changes, "read", slow)
    first = asyncio.ensure_future(found(store, "kite"))
    while not n_reads:  # noqa: ASYNC110 - it counts
        await asyncio.sleep(0)
    many = await asyncio.gather(*(found(store, "kite") for _ in range(20)))
    assert [await first, *many] == [["a red kite"]] * 21
    assert n_reads == 2


async def test_what_was_written_while_others_read_a_scope_is_found(store, monkeypatch):
    read = changes.read
    loop = asyncio.get_running_loop()
    is_read, may_end = loop.create_future(), loop.create_future()

    async def slow(*args, **options):
        there = await read(*args, **options)
        if not is_read.done():
            is_read.set_result(None)
            await may_end
        return there

    await store.memory.add(["a red kite"], user_id="ann")
    monkeypatch.setattr(changes, "read", slow)
    first = asyncio.ensure_future(found(store, "kite"))
    await is_read
    many = [f"a green kite, {number}" for number in range(9)]
    await store.memory.add(many, user_id="ann")
    second = asyncio.ensure_future(found(store, "green kite", limit=20))
    await asyncio.sleep(0.01)
    may_end.set_result(None)
    assert set(await second) == {"a red kite", *many}
    assert await first == ["a red kite"]


async def test_one_who_reads_a_cold_scope_and_is_cancelled_leaves_it_to_the_others(
    store, monkeypatch
):
    await store.memory.add(["a red kite"], user_id="ann")
    read, n_reads = changes.read, 0

    async def slow(*args, **options):
        nonlocal n_reads
        n_reads += 1
        if n_reads == 1:
            first.cancel()
            await asyncio.sleep(0)
        return await read(*args, **options)

    monkeypatch.setattr(changes, "read", slow)
    first = asyncio.ensure_future(found(store, "kite"))
    others = [asyncio.ensure_future(found(store, "kite")) for _ in range(5)]
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await asyncio.gather(*others) == [["a red kite"]] * 5
    assert n_reads == 2


# The event loop


async def test_many_rows_are_asked_nothing_on_the_event_loop(store, monkeypatch):
    asked, n_asked = Condition.asked, {True: 0, False: 0}

    def counted_asked(self, rows):
        n_asked[threading.current_thread() is here] += len(rows)
        return asked(self, rows)

    here = threading.current_thread()
    monkeypatch.setattr(Condition, "asked", counted_asked)
    messages = [Message.user(f"kite {number}") for number in range(700)]
    await store.history.append_many("a", messages, session_id="s")
    await store.history.append("a", Message.user("vase"), session_id="s")
    for number in (3, 600):
        filter = {
            "created_at": {"$gt": "2020-01-01T00:00:00Z"},
            "external_id": {"$ne": f"{number}"},
        }
        hits = await store.history.search("kite 5", agent_id="a", filter=filter)
        assert hits[0].record.text == "kite 5"
    await store.history.append("a", Message.user("kite 700"), session_id="s")
    await store.history.search("kite 5", agent_id="a", filter=filter)
    assert n_asked[False] >= 3 * 700
    assert n_asked[True] <= 4
    assert await counted(store) == (2, 1)


# Words


@pytest.mark.parametrize("tokenizer", ["icu/split", "simple"])
async def test_words_are_those_of_the_table_whatever_the_handle_was_opened_with(
    tmp_path, tokenizer
):
    german = TextIndex(tokenizer=tokenizer, language="German")
    async with open_at(tmp_path / "store", text_index=german) as store:
        await store.memory.add(["Wir haben zwei Häuser", "We have a house"], user_id="ann")
    async with open_at(tmp_path / "store") as store:
        assert await found(store, "Haus", mode="text") == ["Wir haben zwei Häuser"]
        assert await counted(store) == (0, 1)


def test_threads_that_stem_at_once_find_the_stems_that_one_finds():
    words = [
        f"{head}{end}" for head in map("".join, product("abcdr", "aeo", "lmnt")) for end in ENDS
    ]
    texts = [" ".join(words[start::7]) for start in range(7)]
    stems = {text: snowball(text) for text in texts}
    words_of.cache_clear()
    alike = words_of(TextIndex())
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(7) as pool:
            assert dict(zip(texts, pool.map(alike, texts), strict=True)) == stems
    finally:
        sys.setswitchinterval(interval)


ENDS = ("ing", "ational", "fulness", "ously", "ied", "ments", "izing")


def snowball(text):
    stemmer = snowballstemmer.stemmer("english")
    return [stemmer.stemWord(word) for word in text.split()]


# Key-value items


async def test_items_are_found_in_the_process_as_the_engine_finds_them(tmp_path):
    async with (
        open_at(tmp_path / "store") as hot,
        open_at(tmp_path / "store", search_cache=None) as cold,
    ):
        for number, texts in enumerate([["kite"], [], ["vase", "red kite"], ["vase"]]):
            vectors = [ItemVector(path=text, text=text) for text in texts]
            await hot.kv().put(
                [
                    Item(
                        key=f"k{number}",
                        namespace=(place, "x"),
                        value={"n": number},
                        vectors=vectors,
                        data=b"d",
                    )
                    for place in "ab"
                ]
            )
        for which in (
            {"prefix": ["a"]},
            {"prefix": ["a"], "filter": {"n": {"$gt": 1}}, "include_data": False},
            {"namespace": ["b", None]},
            {"suffix": ["x"]},
            {},
        ):
            ways = [await store.kv().search("red kite", **which) for store in (hot, cold)]
            assert [hit.record for hit in ways[0]] == [hit.record for hit in ways[1]]
            assert [hit.score for hit in ways[0]] == pytest.approx([hit.score for hit in ways[1]])
        assert await counted(hot) == (1, 4)
        await hot.kv().delete([(("a", "x"), "k2")])
        left = await hot.kv().search("red kite", prefix=["a"])
        assert [hit.record.key for hit in left] == ["k0", "k3"]
        assert await counted(hot) == (2, 4)


async def test_an_item_that_is_there_twice_is_left_to_the_engine(store):
    item = Item(key="k", vectors=[ItemVector(path="p", text="kite")])
    await store.kv().append([item])
    await store.kv().append([item])
    for _ in range(2):
        assert len(await store.kv().search("kite")) == 2
    assert await counted(store) == (0, 0)


# Erasure


@pytest.mark.parametrize("read", ["list", "search", "count of another user"])
async def test_what_one_process_erases_leaves_the_memory_of_others_at_their_next_read(
    tmp_path, read
):
    caches = SearchCache(), SearchCache()
    one, other = (open_at(tmp_path / "store", search_cache=cache) for cache in caches)
    async with one, other:
        gone, _ = await one.memory.add(["a red kite", "a blue kite"], user_id="ann")
        await other.memory.list(user_id="ann")
        await one.flush()
        assert len(await found(other, "kite")) == 2
        await one.erase(ids=[gone])
        if read == "list":
            await other.memory.list(user_id="ann")
        elif read == "search":
            assert await found(other, "kite") == ["a blue kite"]
        else:
            await other.memory.list(user_id="bob")
        kept = [kept for kept, _ in segments_of(caches[1])._kept.values()]
        past = other._resources.database.connection.journal.mirrors._past
        assert "red" not in repr([block._rows for block in kept])
        assert "red" not in repr([entry.row for entry in past._entries.values()])


@pytest.mark.parametrize("read", ["list", "count of another user"])
async def test_without_a_journal_any_read_lets_go_of_what_another_process_erased(tmp_path, read):
    caches = SearchCache(), SearchCache()
    one, other = (
        AsyncContextStore.open(
            tmp_path, embedder=WordVectors(), journal=None, maintenance=None, search_cache=cache
        )
        for cache in caches
    )
    async with one, other:
        gone, _ = await one.memory.add(["a red kite", "a blue kite"], user_id="ann")
        assert len(await found(other, "kite")) == 2
        assert segments_of(caches[1]).n_scopes == 1
        await one.erase(ids=[gone])
        if read == "list":
            await other.memory.list(user_id="ann")
        else:
            await other.memory.list(user_id="bob")
        assert segments_of(caches[1]).n_scopes == 0
        assert await found(other, "kite") == ["a blue kite"]
        assert await counted(other) == (0, 2)


async def test_a_scope_from_which_something_was_erased_while_it_was_read_is_not_kept(
    tmp_path, monkeypatch
):
    cache, read = SearchCache(), changes.read

    async def erased_meanwhile(*args, **options):
        part = await read(*args, **options)
        await one.erase(ids=[gone])
        await other.memory.list(user_id="bob")
        return part

    one, other = open_at(tmp_path / "store"), open_at(tmp_path / "store", search_cache=cache)
    async with one, other:
        gone, _ = await one.memory.add(["a red kite", "a blue kite"], user_id="ann")
        await one.flush()
        await other.memory.list(user_id="ann")
        monkeypatch.setattr(changes, "read", erased_meanwhile)
        await found(other, "kite")
        assert segments_of(cache).n_scopes == 0
        monkeypatch.undo()
        assert await found(other, "kite") == ["a blue kite"]
