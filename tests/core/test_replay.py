"""Questions asked again find what they would have found then, in either way."""

import pytest
from core.conformance.doubles import ManualClock, WordVectors

from lance_context_core import ContextStore, InvalidRequestError, Message, NotFoundError
from lance_context_core.settings import SearchOptions


class Backwards(WordVectors):
    """Finds what has the letters of a word in the other order."""

    def embed_documents(self, texts):
        return WordVectors().embed_documents(texts)

    def embed_query(self, text):
        return super().embed_query(" ".join(one[::-1] for one in text.split()))


@pytest.fixture
def store():
    clock = ManualClock()
    with ContextStore.open("memory://", clock=clock, embedder=WordVectors()) as store:
        for n, said in enumerate(["tea is hot", "rain is wet", "is tea wet", "tea again", "aet"]):
            clock.advance(minutes=1)
            message = Message.user(said, id=f"m{n}")
            store.history.append("bot", message, session_id="s")
        yield store


def ids(hits):
    return [hit.record.id for hit in hits]


def test_each_way_finds_what_a_search_finds(store):
    words = {"mode": "text", "options": SearchOptions(neighbours=0)}
    found = store.replay("tea", after=words, limit=2)
    [one] = found.questions
    assert ids(one.before) == ids(store.search("tea", limit=2))
    assert ids(one.after) == ids(store.search("tea", limit=2, **words))
    assert {*one.gained} == {*ids(one.after)} - {*ids(one.before)}
    assert {*one.lost} == {*ids(one.before)} - {*ids(one.after)}
    assert (found.n_gained, found.n_lost) == (len(one.gained), len(one.lost))
    assert found.n_changed == (ids(one.before) != ids(one.after))


def test_the_same_way_twice_changes_nothing(store):
    found = store.replay(["tea", "rain", "nothing"])
    assert (found.n_gained, found.n_lost, found.n_changed) == (0, 0, 0)
    assert [one.question for one in found.questions] == ["tea", "rain", "nothing"]


def test_a_question_of_a_session_finds_nothing_that_was_said_later(store):
    found = store.replay(session_id="s", limit=10)
    assert [one.id for one in found.questions] == [f"m{n}" for n in range(5)]
    for n, one in enumerate(found.questions):
        assert {*ids(one.before)} <= {f"m{k}" for k in range(n)}
    assert ids(found.questions[3].before)


def test_an_earlier_moment_is_searched_as_it_was(store):
    store.tag("then")
    store.memory.add([Message.user("tea tea", id="new")], user_id="ada")
    assert "new" not in ids(store.replay("tea", at="then").questions[0].before)
    assert "new" in ids(store.replay("tea").questions[0].before)
    with pytest.raises(NotFoundError):
        store.replay("tea", at="no-such")


def test_another_embedder_searches_vectors_of_its_own_and_nothing_is_written(store):
    version = store.version()
    vector = {"mode": "vector", "options": SearchOptions(neighbours=0, surroundings=False)}
    other = {**vector, "embedder": Backwards(model="backwards")}
    [one] = store.replay("tea", before=vector, after=other, limit=1).questions
    assert (ids(one.before), ids(one.after)) == (["m3"], ["m4"])
    assert (one.gained, one.lost) == (("m4",), ("m3",))
    assert store.version() == version


def test_a_scope_replays_what_it_sees(store):
    ada = store.scope(user_id="ada")
    ada.memory.add([Message.user("tea for ada", id="hers")])
    [one] = ada.replay("tea", after={"embedder": WordVectors(model="w2")}).questions
    assert ids(one.before) == ids(one.after) == ["hers"]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"questions": "a", "session_id": "s"},
        {"questions": "a", "after": {"no_such": 1}},
        {"questions": "a", "after": 7},
        {"questions": 7},
    ],
)
def test_what_cannot_be_replayed_is_refused(store, arguments):
    with pytest.raises(InvalidRequestError):
        store.replay(**arguments)


def test_a_session_in_which_nobody_asked_is_not_found(store):
    with pytest.raises(NotFoundError):
        store.replay(session_id="nobody")
