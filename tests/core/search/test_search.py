"""What a search returns, and why: each score is worked out anew from the texts alone."""

from datetime import UTC, datetime, timedelta

import pytest
from core.conformance.doubles import WordVectors
from core.search.corpus import WORDS, Conversation, best, stretched
from hypothesis import given, reject
from hypothesis import strategies as st

from lance_context_core import Document, Message
from lance_context_core.settings import Convex, ReciprocalRank, SearchOptions

MODES = ("hybrid", "vector", "text")
EVERYTHING = 1_000
"""More candidates than there are turns."""

QUERIES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3, unique=True).map(" ".join)
SHARES = st.sampled_from([0.0, 0.25, 0.3, 1.0]) | st.floats(0, 1)

each_mode = pytest.mark.parametrize("mode", MODES)


@pytest.fixture(scope="module")
def conversation():
    talk = Conversation()
    yield talk
    talk.store.close()


def scores_of(hits):
    return {hit.record.id: hit.score for hit in hits}


def close(expected):
    return pytest.approx(expected, abs=1e-5)


# A hit explains itself


@given(query=QUERIES, mode=st.sampled_from(MODES), neighbours=SHARES)
def test_a_hit_tells_its_cosine_and_its_bm25(conversation, query, mode, neighbours):
    raw = {"vector": conversation.cosines(query), "text": conversation.bm25(query)}
    asked = [name for name in raw if mode in {name, "hybrid"}]
    options = SearchOptions(neighbours=neighbours, n_candidates=EVERYTHING)
    hits = conversation.store.search(query, mode=mode, limit=EVERYTHING, options=options)
    assert {hit.record.id for hit in hits} == {one for name in asked for one in raw[name]}
    for hit in hits:
        found = [name for name in asked if hit.record.id in raw[name]]
        assert hit.matched_channels == tuple(sorted(found))
        for name in found:
            said = hit.channels[name]
            own = raw[name][hit.record.id]
            assert said.raw == close(own)
            assert said.normalised == close(stretched(raw[name])[hit.record.id])
            assert said.rank <= 1 + sum(other > own - 1e-5 for other in raw[name].values())
            assert said.rank >= 1 + sum(other > own + 1e-5 for other in raw[name].values())


@given(query=QUERIES, weight=SHARES, neighbours=SHARES, n=st.sampled_from([5, 20, EVERYTHING]))
def test_a_hybrid_score_is_the_formula_of_the_docs(conversation, query, weight, neighbours, n):
    vector = best(conversation.cosines(query), n)
    text = best(conversation.bm25(query), n)
    if max(len(vector), len(text)) > n and n != EVERYTHING:
        reject()  # which of several equals are candidates is the engine's to say
    vector, text = stretched(vector), stretched(text)
    fused = {
        one: weight * vector.get(one, 0.0) + (1 - weight) * text.get(one, 0.0)
        for one in {*vector, *text}
    }
    lent = conversation.lent(fused)
    options = SearchOptions(
        fusion=Convex(vector_weight=weight),
        neighbours=neighbours,
        n_candidates=n,
        surroundings=False,
    )
    hits = conversation.store.search(query, limit=n, options=options)
    expected = {
        one: (score + neighbours * lent[one]) / (1 + 2 * neighbours) for one, score in fused.items()
    }
    for hit in hits:
        assert hit.score == close(expected[hit.record.id])
        own = fused[hit.record.id] / (1 + 2 * neighbours)
        assert hit.score - hit.neighbour_bonus == close(own)
    ranked = sorted(expected.values(), reverse=True)
    assert [hit.score for hit in hits] == close(ranked[: len(hits)])


@given(query=QUERIES, neighbours=SHARES)
def test_words_alone_score_the_bm25_of_a_turn_and_of_its_neighbours(
    conversation, query, neighbours
):
    raw = conversation.bm25(query)
    lent = conversation.lent(raw)
    options = SearchOptions(neighbours=neighbours, n_candidates=EVERYTHING)
    hits = conversation.store.search(query, mode="text", limit=EVERYTHING, options=options)
    totals = {one: score + neighbours * lent[one] for one, score in raw.items()}
    assert scores_of(hits) == close({one: 1 - 10 / (10 + t) for one, t in totals.items()})
    for hit in hits:
        own = hit.channels["text"].raw
        assert hit.score - hit.neighbour_bonus == close(own / (own + 10))


@given(query=QUERIES, neighbours=SHARES)
def test_vectors_alone_score_the_cosine_of_a_turn_and_what_neighbours_have_above_the_lowest(
    conversation, query, neighbours
):
    raw = conversation.cosines(query)
    lent = conversation.lent({one: score - min(raw.values()) for one, score in raw.items()})
    options = SearchOptions(neighbours=neighbours, n_candidates=EVERYTHING)
    hits = conversation.store.search(query, mode="vector", limit=EVERYTHING, options=options)
    totals = {one: score + neighbours * lent[one] for one, score in raw.items()}
    assert scores_of(hits) == close({one: min(1.0, (1 + t) / 2) for one, t in totals.items()})
    for hit in hits:
        own = (1 + hit.channels["vector"].raw) / 2
        assert hit.score - hit.neighbour_bonus == close(own)


@given(query=QUERIES)
def test_reciprocal_rank_counts_places_alone(conversation, query):
    options = SearchOptions(fusion=ReciprocalRank(k=10), neighbours=0.0, n_candidates=EVERYTHING)
    for hit in conversation.store.search(query, limit=EVERYTHING, options=options):
        places = [1 / (10 + said.rank) for said in hit.channels.values()]
        assert hit.score == close(sum(places) / (2 / 11))


@given(
    query=QUERIES,
    mode=st.sampled_from(MODES),
    limit=st.integers(1, 60),
    neighbours=SHARES | st.none(),
    weight=SHARES,
)
def test_scores_lie_between_0_and_1_and_fall(conversation, query, mode, limit, neighbours, weight):
    options = SearchOptions(
        fusion=Convex(vector_weight=weight), neighbours=neighbours, n_candidates=20
    )
    hits = conversation.store.search(query, mode=mode, limit=limit, options=options)
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= hit.neighbour_bonus <= hit.score <= 1 for hit in hits)
    assert len(hits) <= limit
    assert len({hit.record.id for hit in hits}) == len(hits)


# Neighbours


@pytest.fixture
def museum(open_store):
    """A question, the answer to it, and a stray turn that has more of the question's words."""
    return open_store(embedder=WordVectors())


async def told(store):
    turns = ["which museum was best", "the museum with trains", "bread milk eggs"]
    strays = ["best bread in town", "museum of modern bread and of old milk", "milk and eggs"]
    for session, texts in (("a", turns), ("b", strays)):
        messages = [Message.user(text) for text in texts]
        await store.history.append_many("", messages, session_id=session)


@each_mode
async def test_an_answer_rises_with_its_question_in_every_mode_of_a_conversation(museum, mode):
    await told(museum)
    for search in (museum.search, museum.history.search):
        hits = await search("which museum was best", mode=mode, limit=2)
        assert [hit.record.text for hit in hits][1] == "the museum with trains"
        assert hits[1].neighbour_bonus > 0
        alone = SearchOptions(neighbours=0.0)
        plain = await search("which museum was best", mode=mode, limit=9, options=alone)
        assert {hit.neighbour_bonus for hit in plain} == {0}


@pytest.mark.parametrize(
    "span",
    [
        None,
        {},
        {"last": 1},
        {"limit": 1},
        {"last": 1, "offset": 1},
        {"filter": {"text": "bread milk eggs"}},
    ],
)
async def test_a_turn_is_the_neighbour_of_the_last_one_whatever_was_read_before(open_store, span):
    turns = ["which museum was best", "bread milk eggs", "the museum with trains"]
    answer = Message.assistant("the one with wooden floors")
    await open_store(embedder=WordVectors()).history.append_many(
        "", [Message.user(text) for text in turns], session_id="a"
    )
    later = open_store(embedder=WordVectors())
    if span is not None:
        await later.history.get_messages("", session_id="a", **span)
    await later.history.append("", answer, session_id="a")
    await later.history.append("", Message.user("museum of bread"), session_id="b")
    around = SearchOptions(neighbours=1.0, surroundings=True)
    hits = await later.search("wooden floors", mode="text", options=around)
    assert [hit.record.text for hit in hits] == [answer.text, turns[-1]]


@each_mode
async def test_options_for_something_else_leave_neighbours_to_the_room(museum, mode):
    texts = ["which museum was best", "the museum with trains", "a museum of bread"]
    await museum.memory.add(texts, user_id="u", session_id="s")
    await museum.context("notes").add_many(
        [{"role": "user", "content": text, "session_id": "s"} for text in texts]
    )
    await museum.vectors("docs").add([Document(text=text) for text in texts])
    await told(museum)
    for options in (None, SearchOptions(n_candidates=20)):
        for hits in (
            await museum.memory.search("museum best", user_id="u", mode=mode, options=options),
            await museum.vectors("docs").search("museum best", mode=mode, options=options),
        ):
            assert len(hits) >= 3
            assert {hit.neighbour_bonus for hit in hits} == {0}
        hits = await museum.history.search("museum best", mode=mode, options=options)
        assert max(hit.neighbour_bonus for hit in hits) > 0
        rows = await museum.context("notes").search("museum best", mode="text", options=options)
        assert [row["score"] for row in rows] == [
            pytest.approx(row["text_score"] / (row["text_score"] + 10)) for row in rows
        ]
    lending = SearchOptions(neighbours=0.3)
    hits = await museum.memory.search("museum best", user_id="u", mode=mode, options=lending)
    assert max(hit.neighbour_bonus for hit in hits) > 0


async def test_without_an_embedder_an_answer_still_rises_with_its_question(store):
    await told(store)
    found = [hit.record.text for hit in await store.search("which museum was best", limit=2)]
    assert found == ["which museum was best", "the museum with trains"]
    alone = SearchOptions(neighbours=0.0)
    found = await store.search("which museum was best", limit=2, options=alone)
    assert [hit.record.text for hit in found][1] != "the museum with trains"


# Order


@each_mode
@pytest.mark.parametrize("n_candidates", [1, 50])
async def test_equals_come_in_the_order_of_writing(open_store, mode, n_candidates):
    store = open_store(embedder=WordVectors())
    ids = [f"{name}{n}" for name in "zam" for n in range(9)]
    for start in range(0, len(ids), 9):
        messages = [Message.user("always the same", id=one) for one in ids[start : start + 9]]
        await store.history.append_many("", messages, session_id=f"s{start}")
        documents = [Document(id=one, text="always the same") for one in ids[start : start + 9]]
        await store.vectors("docs").add(documents)
    options = SearchOptions(neighbours=0.0, n_candidates=n_candidates)

    async def found():
        turns = await store.search("same", mode=mode, limit=99, options=options)
        documents = await store.vectors("docs").search("same", mode=mode, limit=99, options=options)
        return [[hit.record.id for hit in hits] for hits in (turns, documents)]

    assert await found() == [ids, ids]
    await store.context().compact()
    await store.maintain()
    assert await found() == [ids, ids]


# What is hidden stays hidden


@each_mode
@pytest.mark.parametrize("neighbours", [0.0, 0.3])
@pytest.mark.parametrize("mmr_lambda", [None, 0.5])
async def test_what_is_deleted_expired_or_retired_is_never_found(
    open_store, clock, mode, neighbours, mmr_lambda
):
    store = open_store(embedder=WordVectors())
    context = store.context()
    fates = ["kept", "deleted", "expired", "retired"]
    for n in range(4):
        for fate in fates:
            later = clock.now() + timedelta(hours=1) if fate == "expired" else None
            await context.add(
                "user", f"blue vase {n}", id=f"{fate}{n}", session_id="s", expires_at=later
            )
    await store.vectors("docs").add(
        [Document(id=f"{fate}{n}", text=f"blue vase {n}") for n in range(4) for fate in fates[:2]]
    )
    for n in range(4):
        await context.delete(id=f"deleted{n}")
        await context.update(id=f"retired{n}", lifecycle_status="retired")
    await store.vectors("docs").delete([f"deleted{n}" for n in range(4)])
    clock.advance(hours=2)
    options = SearchOptions(neighbours=neighbours, mmr_lambda=mmr_lambda)
    kept = {f"kept{n}" for n in range(4)}
    hits = await store.search("blue vase", mode=mode, limit=99, options=options)
    rows = await context.search("blue vase", mode=mode, limit=99, options=options)
    more = await context.retrieve(text="blue vase", limit=99, options=options)
    documents = await store.vectors("docs").search(
        "blue vase", mode=mode, limit=99, options=options
    )
    for found in (
        {hit.record.id for hit in hits},
        {row["id"] for row in rows},
        {row["id"] for row in more},
    ):
        assert found == kept
    assert {hit.record.id for hit in documents} == kept


@each_mode
async def test_a_search_of_an_earlier_version_finds_what_was_there(open_store, mode):
    store = open_store(embedder=WordVectors())
    await store.context().add("user", "blue vase", id="old")
    version = await store.version()
    await store.context().delete(id="old")
    await store.context().add("user", "blue vase again", id="new")
    assert [hit.record.id for hit in await store.search("vase", mode=mode)] == ["new"]
    then = await store.checkout(version)
    assert [hit.record.id for hit in await then.search("vase", mode=mode)] == ["old"]


# Limits


@each_mode
@pytest.mark.parametrize("limit", [10**6, 2**32, 2**63, 10**30])
def test_a_limit_beyond_everything_finds_everything(conversation, mode, limit):
    hits = conversation.store.search("zorp", mode=mode, limit=limit)
    expected = conversation.bm25("zorp") if mode == "text" else conversation.cosines("zorp")
    assert {hit.record.id for hit in hits} == set(expected)


def test_the_day_counts_among_the_words_of_a_turn(conversation):
    day = datetime.now(UTC).strftime("%B %Y")
    hits = conversation.store.search(day, mode="text", limit=EVERYTHING)
    assert len(hits) == len(conversation.turns)
