"""The turn before another one is that of their session, however many write it, and whatever has gone."""

import multiprocessing
import random
from contextlib import ExitStack

import pytest
from core.conformance.doubles import ManualClock, WordVectors

from lance_context_core import ContextStore, Message, ToolCallPart
from lance_context_core._loop import block_on
from lance_context_core.settings import SearchCache, SearchOptions
from lance_context_core.storage.sql import equals
from lance_context_core.storage.write_batch import WriteBatch

SPAWN = multiprocessing.get_context("spawn")

TURNS = [
    "hello there",
    "hi what can I do",
    "which animal does Ann like best",
    "the zebra",
    "which city was the conference in",
    "Lisbon it was",
    "who paid the dinner bill",
    "Tom did so",
]
QUESTIONS = ["animal Ann like best", "city conference", "paid the dinner bill"]


def opened(place, *, is_cached=True, **options):
    cache = SearchCache() if is_cached else None
    given = {"embedder": WordVectors(), "maintenance": None, "search_cache": cache}
    return ContextStore.open(place, **{**given, **options})


def say(store, number, text=None, session="s"):
    said = Message.user(TURNS[number] if text is None else text, id=f"m{number}")
    store.history.append("a", said, session_id=session)


def ranks(store, questions=QUESTIONS):
    """What each question finds, and what the turns around it gave each hit."""
    found = [store.search(one, limit=4) for one in questions]
    return [
        [(hit.record.id, hit.neighbour_bonus > 0, round(hit.score, 4)) for hit in hits]
        for hits in found
    ]


@pytest.fixture
def by_one(tmp_path):
    """What the questions find where one worker has said all."""

    def found(**options):
        with opened(tmp_path / "one", **options) as store:
            for number in range(len(TURNS)):
                say(store, number)
            return ranks(store)

    return found


@pytest.mark.parametrize(
    ("between", "options"),
    [
        pytest.param("nothing", {}, id="nothing between"),
        pytest.param("a read", {}, id="a read between"),
        pytest.param("a search", {}, id="a search between"),
        pytest.param("a flush", {}, id="a flush between"),
        pytest.param("a new start", {}, id="a new start between"),
        pytest.param("nothing", {"journal": None}, id="no journal"),
        pytest.param("nothing", {"is_cached": False}, id="by the engine"),
        pytest.param("a flush", {"is_cached": False}, id="by the engine, a flush between"),
        pytest.param("a read", {"is_cached": False, "journal": None}, id="by the engine alone"),
    ],
)
def test_what_is_recalled_does_not_depend_on_how_many_workers_wrote(
    tmp_path, by_one, between, options
):
    with ExitStack() as stack:
        stores = [stack.enter_context(opened(tmp_path / "two", **options)) for _ in range(2)]
        for number in range(len(TURNS)):
            store = stores[number % 2]
            if between == "a read":
                store.history.get_messages("a", session_id="s")
            elif between == "a search":
                store.search("zebra")
            elif between == "a flush":
                stores[number % 2 - 1].flush()
            elif between == "a new start":
                store.close()
                store = stores[number % 2] = stack.enter_context(
                    opened(tmp_path / "two", **options)
                )
            say(store, number)
        expected = by_one(**options)
        assert expected[0][1][:2] == ("m3", True)  # The zebra, by the question before it.
        for store in stores:
            assert ranks(store) == expected


def speak(place, pipe, options):
    with opened(place, **options) as store:
        while (number := pipe.recv()) is not None:
            say(store, number)
            pipe.send(ranks(store) if number == len(TURNS) - 1 else None)


@pytest.mark.parametrize("options", [{}, {"journal": None}], ids=["a journal", "no journal"])
def test_what_is_recalled_does_not_depend_on_how_many_processes_wrote(tmp_path, by_one, options):
    ends, workers = [], []
    for _ in range(2):
        here, there = SPAWN.Pipe()
        workers.append(SPAWN.Process(target=speak, args=(tmp_path / "two", there, options)))
        workers[-1].start()
        ends.append(here)
    for number in range(len(TURNS)):
        ends[number % 2].send(number)
        found = ends[number % 2].recv()
    for end, worker in zip(ends, workers, strict=True):
        end.send(None)
        worker.join()
    with opened(tmp_path / "two", **options) as store:
        assert found == ranks(store) == by_one(**options)


def test_the_links_that_an_earlier_release_stored_do_not_count(tmp_path, by_one):
    with opened(tmp_path / "two") as store:
        for number in range(len(TURNS)):
            say(store, number)
        store.flush()
        table = store._aio._resources.records
        rows = block_on(table.select(None, columns=["id", "key"])).to_pylist()
        keys = {row["id"]: row["key"] for row in rows}
        # As two workers in turn stored them.
        for number in range(2, len(TURNS)):
            before = {"previous_key": keys[f"m{number - 2}"]}
            block_on(table.write(WriteBatch(where=equals("id", f"m{number}"), values=before)))
        found = [ranks(store)]
        with opened(tmp_path / "two") as later:
            found.append(ranks(later))
        store.maintain()
        found.append(ranks(store))
    assert found == [by_one()] * 3


def pop(store):
    store.history.pop("a", session_id="s")
    return [0, 1]


def clear(store):
    store.history.clear("a", session_id="s")
    return []


def clear_the_last(store):
    store.history.clear("a", session_id="s", filter={"id": "m2"})
    return [0, 1]


def clear_an_inner_one(store):
    store.history.clear("a", session_id="s", filter={"id": "m1"})
    return [0, 2]


def take_back_the_tail(store):
    store.history.replace_tail("a", [], session_id="s", after="m0")
    return [0]


def delete(store):
    store.context().delete(id="m2")
    return [0, 1]


def erase(store):
    store.erase(ids=["m2"])
    return [0, 1]


def sweep(store):
    store.context().update(id="m2", expires_at=store.clock.advance(seconds=1))
    store.clock.advance(seconds=1)
    store.history.sweep()
    return [0, 1]


CHANGES = [
    *(pop, clear, clear_the_last, clear_an_inner_one, take_back_the_tail, delete, erase, sweep),
]


@pytest.mark.parametrize(
    ("place", "is_cached"),
    [
        pytest.param("store", True, id="in the process"),
        pytest.param("store", False, id="by the engine"),
        pytest.param("memory://", True, id="in the memory of one process"),
    ],
)
@pytest.mark.parametrize("change", CHANGES, ids=lambda one: one.__name__.replace("_", " "))
def test_a_turn_follows_the_last_one_that_is_still_there(tmp_path, change, place, is_cached):
    place = place if place == "memory://" else tmp_path / place
    clock = ManualClock()
    options = {"mode": "vector", "options": SearchOptions(neighbours=(0.3, 0.2))}

    def asked(store):
        hits = store.history.search("zebra", session_id="s", **options)
        return {hit.record.id: (hit.score, hit.neighbour_bonus) for hit in hits}

    with opened(place, is_cached=is_cached, clock=clock) as store:
        for number in range(3):
            say(store, number)
        asked(store)
        staying = change(store)
        say(store, 3)
        found = asked(store)
    with opened(tmp_path / "plain", is_cached=is_cached, clock=clock) as plain:
        for number in [*staying, 3]:
            say(plain, number)
        expected = asked(plain)
    assert found.keys() == {f"m{number}" for number in [*staying, 3]}
    assert found == {id: pytest.approx(one, abs=1e-5) for id, one in expected.items()}


def change_at_random(store, rng, said):
    """One more change of two sessions, by a store; `said` are the ids that were."""
    session = rng.choice("st")
    what = rng.choice(["say", "say", "say", "rewrite", "clear", "pop", "upsert", "flush", "move"])
    if what in ("rewrite", "clear", "move") and not said:
        what = "say"
    words = " ".join(rng.choices(QUESTIONS[0].split() + QUESTIONS[2].split(), k=3))
    if what == "say":
        said.append((len(said), session))
        say(store, len(said) - 1, words, session)
    elif what == "flush":
        store.flush()
    elif what == "pop":
        store.history.pop("a", session_id=session)
    elif what == "clear":
        number, session = rng.choice(said)
        store.history.clear("a", session_id=session, filter={"id": f"m{number}"})
    elif what == "rewrite":
        number, session = rng.choice(said)
        message = Message.user(words, id=f"m{number}")
        if message.id in {one.id for one in store.history.get_messages("a", session_id=session)}:
            store.history.rewrite("a", message, session_id=session)
    elif what == "move":
        store.context().upsert(
            "user", words, id="moved", key="id", session_id=session, agent_id="a"
        )
    else:
        store.history.append_many("a", [Message.user(words), Message.user("zebra")], session_id="t")


@pytest.mark.parametrize("seed", range(4))
def test_who_has_followed_what_others_wrote_ranks_as_who_has_just_come(tmp_path, seed):
    rng, said = random.Random(seed), []
    with ExitStack() as stack:
        stores = [stack.enter_context(opened(tmp_path / "store")) for _ in range(2)]
        for _ in range(25):
            change_at_random(rng.choice(stores), rng, said)
            expected = None
            with opened(tmp_path / "store") as cold:
                expected = ranks(cold)
            assert [ranks(store) for store in stores] == [expected, expected]


def test_the_engine_knows_the_same_turns_before_as_the_process(tmp_path):
    options = SearchOptions(neighbours=(0.5, 0.25), n_candidates=3, preceding=0)
    rng, said = random.Random(7), []
    with (
        opened(tmp_path / "store") as hot,
        opened(tmp_path / "store", is_cached=False) as engine,
    ):
        for _ in range(30):
            change_at_random(rng.choice([hot, engine]), rng, said)
            asked = {"mode": "vector", "limit": 9, "options": options}
            found = [
                {hit.record.id: round(hit.score, 4) for hit in store.search("animal bill", **asked)}
                for store in (hot, engine)
            ]
            assert found[0] == found[1]


def test_turns_of_other_users_and_agents_stand_between_none_of_a_session(tmp_path):
    with opened(tmp_path / "store") as store, opened(tmp_path / "plain") as plain:
        for number, text in enumerate(TURNS):
            say(store, number)
            say(plain, number)
            for other in (store.scope(user_id="u"), store.scope(tenant="t")):
                other.history.append("a", Message.user(f"of others {text}"), session_id="s")
            store.history.append("b", Message.user(f"of others {text}"), session_id="s")
            store.context("c").add("user", f"of others {text}", session_id="s", agent_id="a")
        own = {"agent_id": "a", "session_id": "s", "filter": {"user_id": None, "tenant": None}}
        options = SearchOptions(neighbours=(0.5, 0.25), n_candidates=3, surroundings=True)
        for question in QUESTIONS:
            found = [
                {
                    hit.record.id: (hit.score, hit.neighbour_bonus)
                    for hit in one.history.search(question, mode="vector", options=options, **own)
                }
                for one in (store, plain)
            ]
            assert found[0] == {id: pytest.approx(hit) for id, hit in found[1].items()}


@pytest.mark.parametrize("is_cached", [True, False], ids=["in memory", "by the engine"])
def test_a_call_without_a_text_gets_no_words_of_the_turn_before_it(tmp_path, is_cached):
    with opened(tmp_path / "store", is_cached=is_cached, embedder=None) as store:
        say(store, 0, "Move the deployment to Frankfurt.")
        call = Message.assistant(ToolCallPart(name="ls", call_id="c"), id="call")
        store.history.append_many("a", [call, Message.assistant("It is moved.")], session_id="s")
        found = store.search("which deployment is in Frankfurt", limit=3)
        assert found[0].record.text == "Move the deployment to Frankfurt."
        assert [hit.why.get("preceding") for hit in found if hit.record.id == "call"] in (
            [],
            [None],
        )
