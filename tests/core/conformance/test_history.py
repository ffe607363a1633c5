"""The store's history keeps the contract of `HistoryProvider`, and more than that."""

import pytest
from core.conformance.history import StoredHistoryTests
from core.conformance.places import InEachPlace
from lance_context_testing.history import texts

from lance_context_core.errors import AlreadyExistsError
from lance_context_core.messages import Message
from lance_context_core.stores.records import writes


class TestHistory(InEachPlace, StoredHistoryTests):
    """The history of the store itself."""

    @pytest.fixture
    def history(self, history):
        return history


async def test_one_id_names_a_message_per_user(store):
    users = [store, *(store.scope(user_id=user) for user in ("u", "v", "None"))]
    for number, user in enumerate(users):
        message = Message.user(f"{number}", id="m")
        assert await user.history.append("a", message, session_id="s") == "m"
    for number, user in enumerate(users[1:], start=1):
        assert texts(await user.history.get_messages("a", session_id="s")) == [f"{number}"]
    assert await store.history.count("a", session_id="s") == len(users)


async def test_a_wide_handle_is_not_refused_what_narrower_ones_call_so(store):
    for user in ("u", "v"):
        await store.scope(user_id=user).history.append("a", said(user), session_id="s")
    batch = [said("nobody's"), Message.user("after it", id="n")]
    assert await store.history.append_many("a", batch, session_id="s") == ["m", "n"]
    assert await store.history.append_many("a", batch, session_id="s") == ["m", "n"]
    everything = await store.history.get_messages("a", session_id="s")
    assert texts(everything) == ["u", "v", "nobody's", "after it"]


async def test_one_message_by_two_doors_is_one_unless_it_says_something_else(store):
    record = {"session_id": "s", "bot_id": "a", "id": "m"}
    await store.context().add("user", "tea", **record)
    await store.history.append("a", said("tea"), session_id="s")
    await store.history.append("a", Message.user("tea", id="n"), session_id="s")
    await store.context().add("user", "tea", **record | {"id": "n"})
    assert texts(await store.history.get_messages("a", session_id="s")) == ["tea", "tea"]
    with pytest.raises(AlreadyExistsError, match="'m'"):
        await store.history.append("a", said("coffee"), session_id="s")
    with pytest.raises(AlreadyExistsError, match="'n'"):
        await store.context().add("user", "coffee", **record | {"id": "n"})


async def test_what_is_there_stays_if_that_is_asked_for(store):
    await store.history.append("a", said("old"), session_id="s")
    new = [said("new"), Message.user("another", id="n")]
    keep = {"session_id": "s", "keep_existing": True}
    assert await store.history.append("a", new[0], **keep) == "m"
    assert await store.history.append_many("a", new, **keep) == ["m", "n"]
    assert texts(await store.history.get_messages("a", session_id="s")) == ["old", "another"]
    await store.memory.add([said("old")], session_id="s")
    assert await store.memory.add(new, **keep) == ["m", "n"]
    assert texts((await store.memory.list(session_id="s")).items) == ["old", "another"]


async def test_a_single_append_asks_nothing_of_what_is_there(store, monkeypatch):
    """A look before each append would cost each conversation; only a repetition needs one."""
    await store.history.append("a", said("first"), session_id="s")
    asked = []
    existing = writes.existing_of

    async def counted(*arguments, **options):
        asked.append(arguments)
        return await existing(*arguments, **options)

    monkeypatch.setattr(writes, "existing_of", counted)
    await store.history.append("a", Message.user("second", id="n"), session_id="s")
    await store.memory.add([said("remembered")])
    assert asked == []
    await store.history.append("a", Message.user("second", id="n"), session_id="s")
    assert len(asked) == 1


def said(text):
    return Message.user(text, id="m")
