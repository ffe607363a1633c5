"""What is added to the channels' scores, and that a hit says what each part gave."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from core.conformance.doubles import WordVectors
from core.search.ranked import by_text, by_vector, fuse
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core import Message
from lance_context_core.errors import InvalidRequestError
from lance_context_core.search.boosts import (
    Neighbours,
    Period,
    Preceding,
    Recency,
    Role,
    Speaker,
    Turn,
)
from lance_context_core.settings import Composer, SearchCache, SearchOptions

MONDAY = datetime(2026, 5, 4, tzinfo=UTC)
WEIGHTS = st.sampled_from([0.1, 0.3, 1.0])
KEYS = ["a", "b", "c", "d", "e"]


def scores(hits):
    return {hit.key: hit.score for hit in hits}


def why(hits):
    return {hit.key: hit.why for hit in hits}


def chain(keys):
    return dict(zip(keys[1:], keys, strict=False))


# Each part


def test_turns_two_steps_away_lend_their_own_share_through_one_that_nobody_found():
    turns = dict.fromkeys("abc", Turn())
    hits = fuse(
        {},
        {"a": 3.0, "x": 1.0},
        previous=chain("abc"),
        turns=turns,
        boosts=[Neighbours((0.5, 0.25))],
    )
    # The best by words has 0.6, of which the second gets 0.5, the third 0.25; 1.5 would be the most.
    assert scores(hits) == pytest.approx({"a": 0.6 / 2.5, "b": 0.3 / 2.5, "c": 0.15 / 2.5, "x": 0})
    assert why(hits)["b"] == pytest.approx({"channels": 0, "neighbours": 0.3 / 2.5})


def test_what_no_channel_found_and_nobody_lends_to_is_no_hit():
    turns = dict.fromkeys("abz", Turn())
    hits = by_text({"a": 1.0}, previous=chain("ab"), turns=turns, boosts=[Neighbours((0.3,))])
    assert [hit.key for hit in hits] == ["a", "b"]


def test_what_a_fusion_drops_does_not_come_back_by_its_neighbours():
    turns = dict.fromkeys("ab", Turn())

    def first(vector, text):
        return {"a": 1.0}

    hits = fuse({"a": 1.0, "b": 0.5}, {}, fusion=first, previous=chain("ab"), turns=turns)
    assert [hit.key for hit in hits] == ["a"]


def test_a_short_turn_hands_its_words_on_and_a_long_one_does_not():
    text = {"a": 4.0, "x": 2.0}
    for said, gain in (("word " * 60, 0.5), ("word " * 61, 0.0)):
        turns = {"a": Turn(text=said), "b": Turn(text="yes")}
        hits = by_text(text, previous=chain("ab"), turns=turns, boosts=[Preceding(0.5)])
        assert why(hits).get("b", {}).get("preceding", 0) == pytest.approx(2 / 12 if gain else 0)


def test_the_turns_of_the_one_speaker_whom_a_question_names_gain():
    turns = {"a": Turn(name="Ann"), "b": Turn(name="Ben"), "c": Turn()}
    for question, gaining in [("Did Ann go?", {"a"}), ("Ann or Ben?", set()), ("Who?", set())]:
        hits = fuse(
            dict.fromkeys("abc", 0.5), {}, turns=turns, question=question, boosts=[Speaker(0.2)]
        )
        assert {hit.key for hit in hits if "speaker" in hit.why} == gaining


def test_a_role_gains_its_weight():
    turns = {"a": Turn(role="user"), "b": Turn(role="assistant")}
    hits = fuse({"a": 0.1, "b": 0.1}, {}, turns=turns, boosts=[Role({"user": 0.25})])
    assert scores(hits) == pytest.approx({"a": 0.65 / 1.25, "b": 0.4 / 1.25})


def test_the_youngest_gains_most_and_half_for_each_half_life():
    days = {"a": 0, "b": 10, "c": 20}
    turns = {key: Turn(created_at=MONDAY - timedelta(days=n)) for key, n in days.items()}
    part = Recency(weight=0.4, half_life=timedelta(days=10))
    gained = why(fuse(dict.fromkeys("abc", 0.5), {}, turns=turns, boosts=[part]))
    assert [gained[key]["recency"] * 1.4 for key in "abc"] == pytest.approx([0.4, 0.2, 0.1])


def test_what_was_said_in_the_last_such_month_gains():
    said = {"a": MONDAY, "b": MONDAY - timedelta(days=30), "c": MONDAY - timedelta(days=365)}
    turns = {key: Turn(created_at=moment) for key, moment in said.items()}
    part = Period(weight=0.4, asked_at=MONDAY + timedelta(days=40))

    def gaining(question):
        hits = fuse(dict.fromkeys("abc", 0.5), {}, turns=turns, boosts=[part], question=question)
        return {hit.key for hit in hits if "period" in hit.why}

    assert gaining("What did Ann say in May?") == {"a"}
    assert gaining("What did Ann say in May 2025?") == {"c"}
    assert gaining("What did Ann say in April 2026?") == {"b"}
    assert gaining("What did Ann say last week?") == gaining("What did Ann say?") == set()
    del turns["a"], turns["b"]
    assert gaining("What did Ann say in May?") == {"c"}


# All of them


@given(
    st.dictionaries(st.sampled_from(KEYS), st.floats(-1, 1)),
    st.dictionaries(st.sampled_from(KEYS), st.floats(0.01, 50)),
    st.dictionaries(st.sampled_from(KEYS), st.sampled_from(KEYS)),
    st.dictionaries(
        st.sampled_from(KEYS),
        st.builds(
            Turn,
            st.sampled_from([None, "Ann", "Will", ""]),
            st.sampled_from([None, "user", "tool"]),
            st.sampled_from([None, MONDAY, MONDAY - timedelta(days=9)]),
            st.sampled_from([None, "", "short", "long " * 99]),
        ),
    ),
    st.sampled_from([None, "", "Did Ann go?", "Ann Will", "Who came 9 days ago?"]),
    WEIGHTS,
)
def test_scores_stay_in_the_unit_interval_fall_and_are_explained(
    vector, text, previous, turns, question, weight
):
    boosts = [
        Neighbours((weight, weight)),
        Preceding(weight),
        Speaker(weight),
        Role({"user": weight}),
        Recency(weight=weight),
        Period(weight=weight, asked_at=MONDAY),
    ]
    given = {"previous": previous, "turns": turns, "question": question, "boosts": boosts}
    for hits in (fuse(vector, text, **given), by_vector(vector, **given), by_text(text, **given)):
        assert all(0 <= hit.score <= 1 for hit in hits)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        for hit in hits:
            assert sum(hit.why.values()) == pytest.approx(hit.score, abs=1e-9)
            assert all(part >= 0 for part in hit.why.values())


class Shout:
    name, largest = "shout", 0.5

    def __init__(self, gain=0.5):
        self.gain = gain

    def __call__(self, question, candidates):
        return {
            key: self.gain for key, one in candidates.items() if (one.turn.text or "").isupper()
        }


async def test_a_boost_of_one_s_own_sees_the_turns_and_is_told_of(open_store):
    store = open_store(embedder=WordVectors())
    said = [Message.user("the museum with trains"), Message.user("MUSEUM")]
    await store.history.append_many("", said, session_id="s")
    options = SearchOptions(boosts=[Shout()], neighbours=0)
    (best, _) = await store.search("museum trains", options=options)
    assert best.record.text == "MUSEUM"
    assert best.why["shout"] == pytest.approx(0.5 / 1.5)


@pytest.mark.parametrize("gain", [-0.1, 0.6, float("nan")])
async def test_a_boost_that_leaves_its_bounds_is_named(open_store, gain):
    store = open_store(embedder=WordVectors())
    await store.history.append("", Message.user("MUSEUM"), session_id="s")
    with pytest.raises(InvalidRequestError, match="boost 'shout' gave"):
        await store.search("museum", options=SearchOptions(boosts=[Shout(gain)]))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("neighbours", [0.3, 2]),
        ("neighbours", "0.3"),
        ("preceding", -1),
        ("coverage", 1.5),
        ("speaker", True),
        ("surroundings", "yes"),
        ("without_names", 2),
        ("boosts", [Shout]),
        ("boosts", [SimpleNamespace(name="x")]),
        ("boosts", "x"),
    ],
)
def test_options_out_of_range_are_refused_by_name(name, value):
    with pytest.raises(InvalidRequestError, match=name):
        SearchOptions(**{name: value})


def test_weights_out_of_range_are_refused_by_name():
    for make in (
        lambda: Role({"user": 2}),
        lambda: Role({}),
        lambda: Recency(weight=0),
        lambda: Recency(half_life=timedelta()),
        lambda: Period(weight=2),
        lambda: Period(asked_at=MONDAY.replace(tzinfo=None)),
    ):
        with pytest.raises(InvalidRequestError, match=r"weight|half_life|asked_at"):
            make()


# In a conversation


async def told(store):
    turns = [("Ann", "which museum"), ("Ben", "trains"), ("Ann", "bread milk eggs")]
    messages = [Message.user(text, name=name) for name, text in turns]
    await store.history.append_many("", messages, session_id="s")


async def test_a_turn_that_no_word_finds_is_found_beside_one_that_is(store):
    await told(store)
    hits = await store.search("museum")
    assert [hit.record.text for hit in hits] == ["which museum", "trains", "bread milk eggs"]
    assert hits[1].channels == hits[2].channels == {}
    assert set(hits[1].why) == {"channels", "neighbours", "preceding"}
    assert set(hits[2].why) == {"channels", "neighbours"}
    for only in (
        {"mode": "text"},
        {"options": SearchOptions(surroundings=False)},
        {"options": SearchOptions(neighbours=0)},
        {"filter": {"name": "Ann"}},
    ):
        assert [hit.record.text for hit in await store.search("museum", **only)] == ["which museum"]
    asked = await store.search("museum", mode="text", options=SearchOptions(surroundings=True))
    assert len(asked) == 3


@pytest.mark.parametrize("cache", [SearchCache(), None], ids=["in the process", "by the engine"])
async def test_what_was_said_on_the_day_that_is_asked_for_comes_first(open_store, cache):
    store = open_store(search_cache=cache)
    for n, day in enumerate((1, 12, 23)):
        said = Message.user(
            "tea with Ben", id=f"{n}", created_at=datetime(2026, 5, day, tzinfo=UTC)
        )
        await store.history.append("", said, session_id=f"s{n}")
    options = SearchOptions(boosts=[Period(asked_at=datetime(2026, 5, 15, tzinfo=UTC))])
    first, *_ = await store.search("Who had tea three days ago?", options=options)
    assert first.record.id == "1"
    assert first.why["period"] > 0


async def test_now_is_what_the_stores_clock_says(open_store, clock):
    store = open_store()
    for n, days in enumerate((1, 3, 9)):
        at = clock.now() - timedelta(days=days)
        said = Message.user("tea with Ben", id=f"{n}", created_at=at)
        await store.history.append("", said, session_id=f"s{n}")
    options = SearchOptions(boosts=[Period()])
    first, *_ = await store.search("Who had tea three days ago?", options=options)
    assert first.record.id == "1"
    assert first.why["period"] > 0


async def test_memories_stand_alone(store):
    texts = ["which museum", "trains"]
    await store.memory.add(texts, user_id="u", session_id="s")
    assert len(await store.memory.search("museum", user_id="u")) == 1


async def test_a_neighbour_that_is_gone_is_no_hit_and_no_error(store):
    await told(store)
    await store.history.clear("", session_id="s", filter={"text": "trains"})
    # The turns on both sides of it are neighbours now.
    found = [hit.record.text for hit in await store.search("museum")]
    assert found == ["which museum", "bread milk eggs"]


class Noting(WordVectors):
    """Notes what is embedded of questions."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def embed_query(self, text):
        self.asked.append(text)
        return super().embed_query(text)


@pytest.mark.parametrize("mode", [None, "vector", "hybrid"])
async def test_the_speakers_whom_a_question_names_are_not_embedded(open_store, mode):
    embedder = Noting()
    store = open_store(embedder=embedder)
    await told(store)
    embedder.asked.clear()
    await store.history.search("Which museum did Ann mean?", mode=mode)
    await store.history.search(
        "Which museum did Ann mean?", mode=mode, options=SearchOptions(without_names=False)
    )
    assert embedder.asked == ["Which museum did mean?", "Which museum did Ann mean?"]


async def test_a_composer_says_what_of_a_question_is_embedded(open_store):
    embedder = Noting()
    composer = Composer(query_to_embed=lambda text, names: f"{text} {sorted(names)}")
    store = open_store(embedder=embedder, composer=composer)
    await told(store)
    embedder.asked.clear()
    await store.search("museum by Ann or Ben")
    assert embedder.asked == ["museum by Ann or Ben ['Ann', 'Ben']"]
