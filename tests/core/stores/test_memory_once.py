"""A text is remembered once; memories are read, changed and put by their ids."""

from datetime import UTC, datetime, timedelta

import pytest
from core.conformance.doubles import ManualClock

from lance_context_core import (
    ContextStore,
    InvalidRequestError,
    Message,
    NotFoundError,
)

ADA = {"user_id": "ada"}


@pytest.fixture
def store(tmp_path):
    with ContextStore.open(str(tmp_path / "store"), clock=ManualClock()) as store:
        yield store


@pytest.fixture
def memory(store):
    return store.memory


def texts(memory, **asked):
    return [one.text for one in memory.list(page_size=100, **asked).items]


def test_a_text_that_is_remembered_already_gives_back_its_id_and_is_not_doubled(memory):
    tea, milk = memory.add(["tea", "milk"], **ADA)
    assert memory.add(["sugar", "tea", "sugar"], **ADA)[1] == tea
    assert memory.add(["milk"], **ADA) == [milk]
    assert texts(memory, **ADA) == ["tea", "milk", "sugar"]


def test_one_call_stores_a_text_once_and_returns_an_id_for_each(memory):
    one, two, three = memory.add(["tea", "milk", "tea"], **ADA)
    assert one == three != two
    assert texts(memory, **ADA) == ["tea", "milk"]


def test_each_text_may_be_a_memory_of_its_own(memory):
    ids = memory.add(["tea", "tea"], duplicates="keep", **ADA)
    ids += memory.add(["tea"], duplicates="keep", **ADA)
    assert len({*ids}) == 3
    assert memory.add(["tea"], **ADA) == ids[:1]
    assert texts(memory, **ADA) == ["tea"] * 3


def test_messages_without_an_id_are_memories_of_their_own(memory):
    memory.add([Message.user("tea"), Message.user("tea")], **ADA)
    assert texts(memory, **ADA) == ["tea", "tea"]


def test_a_text_of_another_user_or_session_is_another_one(memory):
    (monday,) = memory.add(["tea"], session_id="monday", **ADA)
    assert memory.add(["tea"], session_id="friday", **ADA) != [monday]
    assert memory.add(["tea"], user_id="bob") != [monday]
    assert memory.add(["tea"], **ADA) == [monday]
    assert len(texts(memory, **ADA)) == 2


def test_what_is_touched_has_the_metadata_and_the_expiry_of_the_call(store, memory):
    soon = store.clock.now() + timedelta(days=1)
    memory.add(["tea"], metadata={"by": "ada"}, expires_at=soon, **ADA)
    memory.add(["tea"], expires_at=soon, **ADA)
    (kept,) = memory.list(**ADA).items
    assert (dict(kept.metadata), kept.expires_at) == ({"by": "ada"}, soon)
    memory.add(["tea"], metadata={"by": "bob"}, **ADA)
    (kept,) = memory.list(**ADA).items
    assert (dict(kept.metadata), kept.expires_at) == ({"by": "bob"}, None)


def test_saying_the_same_again_writes_nothing(store, memory):
    memory.add(["tea"], **ADA)
    (before,) = memory.list(**ADA).items
    store.clock.advance(hours=1)
    memory.add(["tea"], **ADA)
    (after,) = memory.list(**ADA).items
    assert after == before


def test_what_expired_or_was_corrected_is_remembered_anew(store, memory):
    soon = store.clock.now() + timedelta(days=1)
    (tea,) = memory.add(["tea"], **ADA)
    memory.update(tea, "coffee", **ADA)
    assert memory.add(["tea"], **ADA) != [tea]
    memory.add(["milk"], expires_at=soon, **ADA)
    store.clock.advance(days=2)
    memory.add(["milk"], **ADA)
    assert sorted(texts(memory, **ADA)) == ["coffee", "milk", "tea"]


def test_a_call_that_fails_touches_nothing(memory):
    memory.add(["tea", Message.user("old", id="m")], **ADA)
    with pytest.raises(ValueError, match="m"):
        memory.add(["tea", Message.user("new", id="m")], metadata={"a": 1}, **ADA)
    assert [dict(one.metadata) for one in memory.list(**ADA).items] == [{}, {}]


def test_a_memory_is_read_by_its_id_and_by_nobody_else(store, memory):
    (id,) = memory.add(["tea"], session_id="s", **ADA)
    assert memory.get(id, **ADA).text == "tea"
    assert memory.get(id, session_id="s", **ADA).text == "tea"
    assert memory.get(id, session_id="t", **ADA) is None
    assert memory.get(id) is None
    assert memory.get(id, user_id="bob") is None
    assert store.scope(user_id="ada").memory.get(id).text == "tea"


def test_a_memory_says_something_else_and_is_found_by_it(memory):
    (id,) = memory.add(["tea"], metadata={"a": 1}, **ADA)
    assert memory.update(id, "coffee", **ADA).text == "coffee"
    (hit,) = memory.search("coffee", **ADA)
    assert (hit.record.id, dict(hit.record.metadata)) == (id, {"a": 1})
    assert memory.search("tea", **ADA) == []
    later = datetime(2090, 1, 1, tzinfo=UTC)
    changed = memory.update(id, metadata={"b": 2}, expires_at=later, **ADA)
    assert (changed.text, dict(changed.metadata), changed.expires_at) == ("coffee", {"b": 2}, later)


def test_a_memory_that_is_changed_keeps_its_place(store, memory):
    ids = memory.add(["tea", "milk", "sugar"], **ADA)
    memory.add(["salt"], session_id="s", **ADA)
    for n, id in enumerate(reversed(ids)):
        memory.update(id, f"cup {n}", **ADA)
        if n == 1:
            store.flush()
    assert texts(memory, **ADA) == ["salt", "cup 2", "cup 1", "cup 0"]
    newest = memory.latest(by_session=True, **ADA)
    assert [one.text for one in newest] == ["salt", "cup 0", "cup 1", "cup 2"]


def test_a_text_is_put_under_an_id(memory):
    first = memory.upsert("drink", "tea", metadata={"a": 1}, **ADA)
    memory.add(["milk"], **ADA)
    second = memory.upsert("drink", "coffee", **ADA)
    assert (second.id, second.created_at, dict(second.metadata)) == ("drink", first.created_at, {})
    assert texts(memory, **ADA) == ["coffee", "milk"]
    assert memory.upsert("drink", "wine", user_id="bob").id == "drink"
    assert texts(memory, **ADA) == ["coffee", "milk"]


def test_a_list_takes_a_filter_and_a_limit(memory):
    memory.add(["tea", "milk", "sugar"], metadata={"a": 1}, **ADA)
    memory.add(["salt"], metadata={"a": 2}, **ADA)
    page = memory.list(filter={"a": 1}, limit=2, **ADA)
    assert ([one.text for one in page.items], page.total, page.has_more) == (
        ["tea", "milk"],
        3,
        True,
    )
    assert [one.text for one in memory.list(filter={"a": 2}, **ADA).items] == ["salt"]


@pytest.mark.parametrize(
    ("work", "error", "says"),
    [
        (
            lambda m: m.update("nobody", "x", **ADA),
            NotFoundError,
            "no memory 'nobody' of user 'ada'",
        ),
        (lambda m: m.update("m", "x", user_id="bob"), NotFoundError, "no memory 'm' of user 'bob'"),
        (lambda m: m.update("m", **ADA), InvalidRequestError, "give a text"),
        (lambda m: m.update("m", " ", **ADA), InvalidRequestError, "text is empty"),
        (lambda m: m.upsert("m", "", **ADA), InvalidRequestError, "text is empty"),
        (lambda m: m.upsert("", "x", **ADA), InvalidRequestError, "id"),
        (lambda m: m.add(["x"], duplicates="twice", **ADA), InvalidRequestError, "'twice'"),
        (lambda m: m.list(limit=0, **ADA), InvalidRequestError, "limit=0"),
        (
            lambda m: m.list(limit=3, page_size=4, **ADA),
            InvalidRequestError,
            "limit=3 and page_size=4",
        ),
        (lambda m: m.get("", **ADA), InvalidRequestError, "id"),
    ],
)
def test_bad_input_is_refused_by_its_name_before_anything_is_written(memory, work, error, says):
    memory.add([Message.user("tea", id="m")], **ADA)
    before = memory.list(**ADA)
    with pytest.raises(error, match=says):
        work(memory)
    assert memory.list(**ADA) == before


def test_many_memories_are_read_by_their_ids_in_that_order(memory):
    memory.add([Message.user(text, id=text) for text in ("tea", "milk", "rum")], **ADA)
    memory.add([Message.user("of ben", id="tea")], user_id="ben")
    memory.add([Message.user("in a session", id="milk")], session_id="s", **ADA)
    memory.update("milk", "oat milk", session_id="", **ADA)
    memory.update("rum", expires_at=datetime(1999, 1, 1, tzinfo=UTC), **ADA)
    found = memory.get_many(["milk", "unknown", "tea", "rum", "milk"], **ADA)
    assert found == [memory.get(one, session_id="", **ADA) for one in ("milk", "tea", "milk")]
    assert [one.text for one in found] == ["oat milk", "tea", "oat milk"]
    (alone,) = memory.get_many(["milk", "tea"], session_id="s", **ADA)
    assert alone.text == "in a session"
    assert memory.get_many([], **ADA) == []
    with pytest.raises(InvalidRequestError, match="ids"):
        memory.get_many("tea", **ADA)
    memory.delete(ids=["tea"], **ADA)
    assert memory.get_many(["tea"], **ADA) == []
