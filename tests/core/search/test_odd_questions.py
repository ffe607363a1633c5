"""Questions and stores that nobody means to ask and to have: found in the process, and by the engine."""

import asyncio

import pytest
from core.conformance.doubles import WordVectors

from lance_context_core import Message
from lance_context_core.memory_index.segment import Segment
from lance_context_core.settings import Composer, SearchCache, SearchOptions, query_words

TURNS = [("Will", "where is the boat"), ("May", "in the harbour"), ("Will", "may I take it")]
EQUAL = TURNS[:1] * 5


@pytest.fixture(params=[SearchCache(), None], ids=["in the process", "by the engine"])
def store(open_store, request):
    return open_store(search_cache=request.param, embedder=WordVectors())


async def told(store, turns):
    messages = [Message.user(text, name=name, id=f"{n}") for n, (name, text) in enumerate(turns)]
    await store.history.append_many("", messages, session_id="s")


async def found(store, query, **options):
    hits = await store.history.search(query, **options)
    scores = [hit.score for hit in hits]
    assert all(0 <= score <= 1 for score in scores)
    assert scores == sorted(scores, reverse=True)
    assert [sum(hit.why.values()) for hit in hits] == pytest.approx(scores)
    return [hit.record.id for hit in hits]


QUESTIONS = [
    "what did they have with it",
    "船はどこですか",
    "🙈",
    "Will may will May",
    "where is the boat of Will, two weeks ago?",
]

LONG = "boat " * 100_000


async def test_a_question_of_a_hundred_thousand_words_finds_what_a_short_one_does(store):
    await told(store, TURNS)
    assert await found(store, LONG) == await found(store, "boat")


async def test_the_words_of_a_long_question_are_made_beside_the_loop(open_store, monkeypatch):
    held_up = []

    def noted(work):
        def made(*arguments):
            held_up.append((work.__name__, is_on_a_loop()))
            return work(*arguments)

        return made

    monkeypatch.setattr(Segment, "words", noted(Segment.words))
    composer = Composer(query_text=noted(query_words))
    store = open_store(embedder=WordVectors(), composer=composer)
    await told(store, TURNS)
    for query in ("boat", LONG):
        await found(store, query)
        assert set(held_up) == {("query_words", query is not LONG), ("words", query is not LONG)}
        held_up.clear()


def is_on_a_loop():
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@pytest.mark.parametrize(
    "turns",
    [
        pytest.param([], id="nothing"),
        pytest.param(TURNS[:1], id="one turn"),
        pytest.param(TURNS, id="a few"),
        pytest.param(EQUAL, id="all equal"),
    ],
)
async def test_no_question_is_too_much_for_any_store(store, turns):
    await told(store, turns)
    for query in QUESTIONS:
        ids = await found(store, query)
        assert len(set(ids)) == len(ids) <= len(turns)
        for mode in ("text", "vector"):
            assert len(await found(store, query, mode=mode)) <= len(turns)
    if turns == EQUAL:
        alone = SearchOptions(neighbours=0)
        assert await found(store, "boat", mode="text", options=alone) == ["0", "1", "2", "3", "4"]


async def test_who_names_a_common_word_means_the_speaker_by_its_capital(store):
    await told(store, TURNS)
    hits = await store.history.search("Where is the boat of Will?")
    assert {hit.record.name for hit in hits if "speaker" in hit.why} == {"Will"}
    hits = await store.history.search("Who will take the boat?")
    assert not any("speaker" in hit.why for hit in hits)


async def test_a_neighbour_that_was_erased_lends_nothing_and_is_not_found(store):
    await told(store, TURNS)
    options = SearchOptions(neighbours=0.3, preceding=1, surroundings=True)
    assert "1" in await found(store, "harbour", mode="text", options=options)
    await store.erase(ids=["1"])
    assert await found(store, "harbour", mode="text", options=options) == []
    hits = await store.history.search("boat", mode="text", options=options)
    # What the others gain they gain of each other, who stand beside each other now.
    assert [hit.record.id for hit in hits] == ["0", "2"]
