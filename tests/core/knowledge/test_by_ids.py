"""What is known can be read, listed, changed and forgotten by ids, owners and filters."""

from datetime import UTC, datetime

import pytest
from core.knowledge.living import BERGEN, OSLO, facts, said

from lance_context_core import ContextStore, InvalidRequestError, ManagedMemory, NotFoundError
from lance_context_core.knowledge import AsyncManagedMemory


def state(store):
    """What there is, hidden or not: what any write would change."""
    return [
        sorted((one["id"], one["text"], str(one["updated_at"])) for one in found)
        for found in (
            store.context(name).list(include_retired=True, include_expired=True)
            for name in ("default", "knowledge")
        )
    ]


def test_a_memory_opens_the_store_at_a_path_and_closes_it(tmp_path):
    with ManagedMemory(tmp_path / "here") as memory:
        memory.add(OSLO, user_id="ada")
    with ContextStore.open(str(tmp_path / "here")) as store:
        assert facts(store) == [OSLO["content"]]
        with ManagedMemory(store) as memory:
            memory.close()
        assert facts(store) == [OSLO["content"]]


async def test_a_path_does_for_coroutines_too(tmp_path):
    async with AsyncManagedMemory(str(tmp_path / "here"), embedder="local") as memory:
        await memory.add(OSLO, user_id="ada")
        (fact,) = await memory.get_all(user_id="ada")
        assert fact.text == OSLO["content"]
        other = memory.using()
        await other.close()
        assert len(await memory.list()) == 1


@pytest.mark.parametrize("store", [None, 3, object()])
def test_what_is_no_store_is_refused_in_words(store):
    with pytest.raises(InvalidRequestError, match="give an open store, a scope of one, or a path"):
        ManagedMemory(store)


def test_an_open_store_has_its_own_embedder(store):
    with pytest.raises(InvalidRequestError, match="embedder='local'"):
        ManagedMemory(store, embedder="local")


def test_facts_are_listed_by_owner_session_and_filter(memory):
    memory.add(OSLO, user_id="ada", agent_id="tutor", session_id="s1")
    memory.add("I have a dog.", user_id="ada", run_id="s2")
    memory.add("I have a cat.", user_id="bob")

    def texts(**asked):
        return [one.text for one in memory.list(**asked)]

    both = [OSLO["content"], "I have a dog."]
    assert texts() == [*both, "I have a cat."]
    assert texts(user_id="ada") == both
    assert texts(user_id="ada", agent_id="tutor") == both[:1]
    assert texts(agent_id="nobody") == []
    assert texts(session_id="s2") == texts(run_id="s2") == both[1:]
    assert texts(filters={"AND": [{"user_id": "ada"}, {"run_id": "s1"}]}) == both[:1]
    assert texts(filters={"OR": [{"user_id": "bob"}, {"run_id": {"in": ["s1"]}}]}) == [
        OSLO["content"],
        "I have a cat.",
    ]
    assert texts(filters={"NOT": [{"user_id": "bob"}]}) == both
    assert texts(filters={"agent_id": "*"}) == both[:1]
    assert texts(filter={"fact.slot": "residence"}) == both[:1]
    assert texts(limit=1) == texts(top_k=1) == both[:1]
    assert texts(limit=0) == []
    assert texts(offset=1, limit=1) == both[1:]


def test_a_search_stays_with_an_agent_and_takes_the_other_names(memory):
    memory.add("I love tea.", user_id="ada", agent_id="tutor", run_id="s1")
    memory.add("I love green tea.", user_id="ada", agent_id="cook", run_id="s2")

    def texts(**asked):
        return {one.record.text for one in memory.search("tea", **asked)}

    assert texts(user_id="ada") == {"I love tea.", "I love green tea."}
    assert texts(agent_id="cook") == texts(run_id="s2") == {"I love green tea."}
    assert texts(filters={"run_id": "s1"}) == {"I love tea."}
    assert len(texts(top_k=1)) == len(texts(limit=1)) == 1
    assert texts(limit=0) == set()


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        pytest.param({"limit": 1, "top_k": 2}, "limit=1 and top_k=2", id="limits"),
        pytest.param(
            {"session_id": "a", "run_id": "b"}, "session_id='a' and run_id='b'", id="runs"
        ),
        pytest.param({"filter": {"a": 1}, "filters": {"b": 1}}, "filter=.* and filters=", id="two"),
    ],
)
def test_two_names_that_say_two_things_are_refused(memory, asked, says):
    for call in (memory.list, lambda **given: memory.search("x", **given)):
        with pytest.raises(InvalidRequestError, match=says):
            call(**asked)


def test_infer_may_be_said_as_yes_and_no(store, memory):
    assert memory.add(OSLO, infer=False).job_id is None
    assert facts(store) == []
    memory.add("I have a dog.", infer=True)
    assert facts(store) == ["I have a dog."]


def test_turns_expire_at_a_moment_or_at_the_end_of_a_day(store, memory):
    kept = {"infer": "never", "session_id": "s"}
    memory.add("I have a dog.", expires_at="2030-01-01T09:00:00Z", **kept)
    memory.add("I have a cat.", expiration_date="2029-12-31", **kept)
    memory.add("I have a cow.", expires_at=1893456000, **kept)
    found = [one["expires_at"] for one in store.context().list()]
    new_year = datetime(2030, 1, 1, tzinfo=UTC)
    assert [one.replace(tzinfo=UTC) for one in found] == [
        new_year.replace(hour=9),
        new_year,
        new_year,
    ]


def test_a_fact_a_chunk_a_summary_and_a_turn_are_read_by_their_ids(store, memory):
    added = memory.add(OSLO, user_id="ada", session_id="s")
    kinds = {one["kind"]: one["id"] for one in store.context("knowledge").list()}
    for kind in ("fact", "chunk", "summary"):
        assert memory.get(kinds[kind]).kind == kind
    assert memory.get(added.ids[0]).text == OSLO["content"]
    assert memory.get("nobody") is None
    assert store.scope(user_id="bob").knowledge.get(kinds["fact"]) is None


def test_an_update_says_something_else_and_keeps_what_was_said(memory):
    memory.add(OSLO, user_id="ada")
    (fact,) = memory.list(user_id="ada")
    assert memory.update(fact.id, "Ada lives in Rome.").text == "Ada lives in Rome."
    assert memory.search("Rome", user_id="ada")[0].record.text == "Ada lives in Rome."
    assert [one.kind for one in memory.history(fact.id)] == ["add", "correct"]


def test_what_is_deleted_is_found_no_more_in_whatever_words(memory):
    memory.add(OSLO, user_id="ada")
    (fact,) = memory.list(user_id="ada")
    memory.delete(fact.id)
    assert memory.get(fact.id) is None
    assert memory.list(user_id="ada") == []
    assert memory.search("Oslo", user_id="ada") == []
    assert memory.history(fact.id)[-1].kind == "invalidate"


def test_all_of_a_user_an_agent_or_a_session_is_forgotten_and_nothing_else(store, memory):
    memory.add(OSLO, user_id="ada", session_id="s1")
    memory.add("I have a dog.", user_id="ada", session_id="s2")
    memory.add("I have a cat.", user_id="bob", agent_id="tutor", session_id="s1")
    memory.add("I have a cow.", user_id="bob", session_id="s3", infer=False)
    assert memory.delete_all(user_id="ada", session_id="s2") == 1
    assert facts(store) == [OSLO["content"], "I have a cat."]
    assert memory.delete_all(user_id="ada") == 1
    for search_type in ("chain", "facts", "turns", "summaries"):
        assert memory.search("Oslo dog", user_id="ada", search_type=search_type) == []
    assert memory.delete_all(agent_id="tutor") == 1
    assert store.scope(user_id="bob").knowledge.delete_all() == 1
    assert memory.delete_all(user_id="bob") == 0
    assert [one["kind"] for one in store.context().list()] == []


def test_an_archived_session_is_forgotten_too(store, memory):
    memory.add(OSLO, user_id="ada", session_id="s1")
    memory.archive("s1")
    assert memory.delete_all(user_id="ada") == 1
    assert {event.kind for event in memory.trace("s1")} == {"job"}


def test_what_another_session_proves_too_stays(store, memory):
    memory.add("I have a dog.", user_id="ada", session_id="s1")
    memory.add("I have a dog.", user_id="ada", session_id="s2")
    memory.delete_all(user_id="ada", run_id="s1")
    assert facts(store) == ["I have a dog."]


def test_an_unknown_id_is_not_found_and_changes_nothing(store, memory):
    memory.add(OSLO, user_id="ada")
    (fact,) = memory.list(user_id="ada")
    before = state(store)
    bob = store.scope(user_id="bob").knowledge
    for knowledge, id in ((memory, "nobody"), (bob, fact.id)):
        for work in (
            lambda k, i: k.update(i, "Ada lives in Rome."),
            lambda k, i: k.correct(i, "Ada lives in Rome."),
            lambda k, i: k.delete(i),
            lambda k, i: k.invalidate(i, reason="wrong"),
            lambda k, i: k.pin(i),
            lambda k, i: k.history(i),
            lambda k, i: k.explain(i),
        ):
            with pytest.raises(NotFoundError, match=id):
                work(knowledge, id)
    assert state(store) == before


def test_a_fact_that_was_undone_meanwhile_is_not_changed(store, memory):
    added = memory.add(OSLO, user_id="ada")
    (fact,) = memory.list(user_id="ada")
    memory.undo(added.job_id)
    before = state(store)
    for work in (
        lambda: memory.update(fact.id, "Ada lives in Rome."),
        lambda: memory.delete(fact.id),
    ):
        with pytest.raises(InvalidRequestError, match=f"{fact.id}.*undo"):
            work()
    assert state(store) == before


@pytest.mark.parametrize(
    "change",
    [lambda m, fact: m.update(fact, "Ada lives in Rome."), lambda m, fact: m.pin(fact)],
    ids=["corrected", "pinned"],
)
def test_a_fact_that_a_person_has_hidden_is_not_changed(store, memory, change):
    memory.add(OSLO, user_id="ada")
    (fact,) = memory.list(user_id="ada")
    memory.delete(fact.id)
    before = state(store)
    with pytest.raises(InvalidRequestError, match=r"deleted.*add the correction as a new message"):
        change(memory, fact.id)
    assert state(store) == before


@pytest.mark.parametrize(
    ("work", "says"),
    [
        pytest.param(lambda m: m.delete_all(), "give a user_id", id="nobody"),
        pytest.param(lambda m: m.add(OSLO, infer="soon"), "infer='soon'", id="infer"),
        pytest.param(lambda m: m.add(OSLO, expires_at="soon"), "expires_at is 'soon'", id="expiry"),
        pytest.param(
            lambda m: m.add(OSLO, expires_at=1, expiration_date="2030-01-01"),
            "expires_at=1 and expiration_date",
            id="two expiries",
        ),
        pytest.param(
            lambda m: m.add(OSLO, run_id="a", session_id="b"),
            "session_id='b' and run_id",
            id="runs",
        ),
        pytest.param(lambda m: m.add([OSLO, {"text": "x"}]), r"content\[1\]", id="second message"),
        pytest.param(lambda m: m.add(OSLO, agent_id=""), "agent_id", id="no agent"),
        pytest.param(lambda m: m.list(limit=-1), "limit", id="limit"),
        pytest.param(lambda m: m.list(offset=-1), "offset", id="offset"),
        pytest.param(lambda m: m.search("x", limit=-1), "top_k=-1|limit=-1", id="hits"),
        pytest.param(lambda m: m.update("x", " "), "text is empty", id="text"),
        pytest.param(lambda m: m.get(""), "id", id="id"),
    ],
)
def test_bad_input_is_refused_by_its_name_before_anything_is_written(store, memory, work, says):
    memory.add(BERGEN, user_id="ada")
    before = state(store)
    with pytest.raises(InvalidRequestError, match=says):
        work(memory)
    assert state(store) == before


def test_messages_of_other_apis_are_known_by_what_they_say(store, memory):
    memory.add(
        [said([{"type": "text", "text": "I love jazz."}], timestamp=1714521600)], user_id="ada"
    )
    memory.add([said("I love jazz.", created_at="2024-05-01T00:00:00Z")], user_id="ada")
    (fact,) = memory.list(user_id="ada")
    assert fact.created_at == datetime(2024, 5, 1, tzinfo=UTC)
