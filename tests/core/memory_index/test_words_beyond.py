"""What the process knows of words beyond each text: of the turn before, and how many are nowhere."""

import pytest
from core.conformance.doubles import WordVectors

from lance_context_core import AsyncContextStore, Message
from lance_context_core.settings import SearchOptions

ASKED = "which museum has trains"


async def talk(store, *texts, ids="abcdefgh"):
    messages = [Message.user(text, id=id, name="Ann") for id, text in zip(ids, texts, strict=False)]
    await store.history.append_many("", messages, session_id="s")


async def by_words(store, query, **more):
    options = SearchOptions(neighbours=0, preceding=1, surroundings=True, speaker=0)
    hits = await store.history.search(query, mode="text", options=options, **more)
    return {hit.record.id: hit for hit in hits}


async def test_words_of_a_question_and_of_its_answer_count_together(store):
    await talk(store, "which museum", "the one with trains", "mine, too", "trains")
    # Only both turns together have all that is asked for.
    found = await by_words(store, "which museum has the trains?")
    assert next(iter(found)) == "b"
    assert found["b"].why["preceding"] > 0
    assert sum(found["b"].why.values()) == pytest.approx(found["b"].score)
    assert "preceding" not in found["a"].why


async def test_a_turn_without_a_word_of_its_own_is_found_and_no_channel_says_so(store):
    await talk(store, ASKED, "the old one")
    found = await by_words(store, "museum")
    assert found["b"].channels == {}
    assert found["b"].why == {"channels": 0, "preceding": found["b"].score}
    assert found["a"].channels.keys() == {"text"}


async def test_who_has_only_heard_a_word_comes_behind_who_said_it(store):
    # The last is shorter: BM25 over both turns together has it first.
    said = ["What is a mole?", "An animal, or 6.022e23 of something.", "The second, please."]
    await talk(store, *said)
    assert list(await by_words(store, "animal")) == ["b", "c"]


@pytest.mark.parametrize(
    ("first", "second", "is_found"),
    [("museum " * 60, "yes", True), ("museum " * 61, "yes", False), ("museum", "yes " * 61, False)],
)
async def test_both_turns_have_to_be_short(store, first, second, is_found):
    await talk(store, first, second)
    assert ("b" in await by_words(store, "museum")) is is_found


async def test_a_turn_that_is_gone_hands_nothing_on(store):
    await talk(store, ASKED, "the old one")
    assert "b" in await by_words(store, "museum")
    await store.history.clear("", session_id="s", filter={"id": "a"})
    assert await by_words(store, "museum") == {}


async def test_a_turn_that_does_not_match_the_filter_hands_nothing_on(store):
    await talk(store, ASKED, "the old one")
    assert set(await by_words(store, "museum", filter={"id": {"$in": ["a", "b"]}})) == {"a", "b"}
    assert await by_words(store, "museum", filter={"id": "b"}) == {}


async def test_a_turn_that_comes_later_has_the_words_of_one_in_memory(store):
    await talk(store, ASKED)
    assert set(await by_words(store, "museum")) == {"a"}
    await talk(store, "the old one", ids="b")
    assert set(await by_words(store, "museum")) == {"a", "b"}


async def test_who_asks_for_one_channel_gets_what_has_the_words_itself(store):
    await talk(store, ASKED, "the old one")
    hits = await store.history.search("museum", mode="text")
    assert [hit.record.id for hit in hits] == ["a"]


async def test_the_engine_lends_what_the_process_counts(tmp_path):
    """The order is the same here, and the scores are the engine's own."""
    for cache in ({}, {"search_cache": None}):
        place = tmp_path / f"store{len(cache)}"
        store = AsyncContextStore.open(place, embedder=WordVectors(), **cache)
        await talk(store, ASKED, "the old one")
        found = await by_words(store, "museum")
        assert list(found) == ["a", "b"]
        assert found["b"].why["preceding"] > 0
        await store.close()


async def test_a_reranker_judges_what_each_turn_says_itself(store):
    await talk(store, ASKED, "the old one")
    given = []

    class Noting:
        def rerank_hybrid(self, query, vector, text):
            raise NotImplementedError

        def rerank_fts(self, query, text):
            given.append((text["text"].to_pylist(), text["_score"].to_pylist()))
            return text.append_column("_relevance_score", text["_score"])

    options = SearchOptions(reranker=Noting())
    await store.history.search("museum", mode="text", options=options)
    alone = SearchOptions(reranker=Noting(), preceding=0)
    await store.history.search("museum", mode="text", options=alone)
    assert given[0] == given[1] == ([ASKED], given[0][1])


async def test_words_count_less_where_the_best_text_has_few_of_those_asked_for(tmp_path):
    store = AsyncContextStore.open(tmp_path / "store", embedder=WordVectors())
    await talk(store, "which museum", "a red kite flew", "bread and milk")

    async def best(question, **options):
        found = await store.search(question, limit=1, options=SearchOptions(**options))
        return found[0].channels["text"]

    # Five words of six are nowhere, and these are the rarest.
    paraphrase = "kite plok snar wump frob blax"
    less, full = await best(paraphrase), await best(paraphrase, coverage=0)
    assert (less.raw, less.rank) == (full.raw, full.rank)
    assert 0 < less.normalised < full.normalised == 1
    assert (await best("red kite flew", coverage=0.1)).normalised == 1
    halved = await best(paraphrase, coverage=0.5)
    assert halved.normalised == pytest.approx(less.normalised / 2)
    await store.close()


async def test_memories_and_the_engine_count_words_in_full(tmp_path):
    store = AsyncContextStore.open(tmp_path / "store", embedder=WordVectors(), search_cache=None)
    await talk(store, "a red kite flew")
    await store.memory.add(["a red kite flew"])
    question = "kite plok snar wump frob blax"
    for found in (await store.history.search(question), await store.memory.search(question)):
        assert found[0].channels["text"].normalised == 1
    await store.close()
