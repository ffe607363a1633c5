"""The words of a scope are made when a search asks for words, not before."""

import asyncio
from collections import Counter

import pytest
from core.conformance.doubles import WordVectors
from core.storage.journaling import SMALL

from lance_context_core import AsyncContextStore
from lance_context_core.memory_index import scopes, segment
from lance_context_core.memory_index.bm25 import Postings, words_of
from lance_context_core.memory_index.cache import segments_of
from lance_context_core.settings import SearchCache

TEXTS = ("a red kite", "a blue vase", "a red rose")


@pytest.fixture
def cut(monkeypatch):
    """How often each text was cut into words."""
    counts = Counter()

    def counting(settings):
        words = words_of(settings)

        def counted(text):
            counts[text] += 1
            return words(text)

        return counted

    monkeypatch.setattr(scopes, "words_of", counting)
    return counts


@pytest.fixture
def store(tmp_path):
    cache = SearchCache()
    made = AsyncContextStore.open(
        tmp_path / "store",
        embedder=WordVectors(),
        search_cache=cache,
        maintenance=None,
        journal=SMALL,
    )
    made.cache = cache
    yield made
    asyncio.run(made.close())


async def found(store, query, **options):
    return [hit.record.text for hit in await store.memory.search(query, user_id="ann", **options)]


async def test_a_search_by_vectors_makes_no_words_and_the_first_by_words_makes_them_once(
    store, cut
):
    await store.memory.add([*TEXTS], user_id="ann")
    for _ in range(2):
        assert (await found(store, "red kite", mode="vector"))[0] == "a red kite"
    assert not cut
    await store.memory.add(["a green kite"], user_id="ann")
    assert "a green kite" in await found(store, "green kite", mode="vector")
    assert not cut
    before = segments_of(store.cache).n_bytes
    for mode in ("text", "hybrid", "vector", "text"):
        assert (await found(store, "green kite", mode=mode))[0] == "a green kite"
        if mode == "text":
            rows = {text: n for text, n in cut.items() if text.startswith("a ")}
            assert rows == dict.fromkeys([*TEXTS, "a green kite"], 1)
    assert segments_of(store.cache).n_bytes > before
    await store.memory.add(["a grey kite"], user_id="ann")
    assert "a grey kite" in await found(store, "grey", mode="text")
    assert cut["a grey kite"] == cut["a red kite"] == 1


async def test_what_is_written_and_removed_while_words_are_made_is_found_and_is_not(
    store, cut, monkeypatch
):
    ids = await store.memory.add([*TEXTS], user_id="ann")
    await found(store, "kite", mode="vector")
    loop, seen = asyncio.get_running_loop(), []

    async def change():
        await store.memory.delete(ids=ids[:1], user_id="ann")
        await store.memory.add(["a grey kite"], user_id="ann")
        seen.extend(await found(store, "kite", mode="vector"))

    def slowly(texts):
        if not seen:
            asyncio.run_coroutine_threadsafe(change(), loop).result(timeout=300)
        return Postings(texts)

    monkeypatch.setattr(segment, "Postings", slowly)
    assert sorted(await found(store, "red kite", mode="text")) == ["a grey kite", "a red rose"]
    assert "a red kite" not in seen
    assert sorted(await found(store, "red kite", mode="text")) == ["a grey kite", "a red rose"]
