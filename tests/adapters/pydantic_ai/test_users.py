"""Users of one place are apart, and what is erased of one is gone from everywhere."""

import pytest
from adapters.pydantic_ai.samples import conversation, texts
from pydantic_ai_lance_context import LanceConversationStore, LanceMessageHistory

from lance_context_core import InvalidRequestError


def of(store, user):
    return LanceConversationStore(store, user_id=user)


async def test_two_users_with_one_id_do_not_see_each_other(store):
    ada, ben = of(store, "ada"), of(store.scope(user_id="ben"), None)
    await ada.save(conversation("1", "tea of Ada"), scope="label")
    assert await ben.load("1") is None
    await ben.save(conversation("1", "tea of Ben"), scope="label")
    assert texts((await ada.load("1")).messages) == ["tea of Ada"]
    (entry,) = await ada.load_entries("1")
    with pytest.raises(LookupError):
        await ben.read_entry(entry.id)
    for user in ("ada", "ben"):
        listed = await of(store, user).list_conversations(scope="label")
        assert len(listed) == 1
        found = await store.scope(user_id=user).search("tea")
        assert [hit.record.text for hit in found] == [f"tea of {user.title()}"]
    await ben.delete("1")
    assert texts((await ada.load("1")).messages) == ["tea of Ada"]
    assert len(await LanceMessageHistory(store, "1", user_id="ada").load()) == 1
    assert await LanceMessageHistory(store, "1", user_id="ben").load() == []


async def test_an_erased_user_has_no_conversations_any_more(store):
    await of(store, "ada").save(conversation("1", "tea of Ada"))
    await of(store, "ben").save(conversation("1", "tea of Ben"))
    await store.scope(user_id="ada").erase()
    assert await of(store, "ada").load("1") is None
    assert await of(store, "ada").list_conversations() == []
    assert [hit.record.text for hit in await store.search("tea")] == ["tea of Ben"]
    assert texts((await of(store, "ben").load("1")).messages) == ["tea of Ben"]


async def test_the_scope_of_an_agent_names_the_messages(store):
    conversations = LanceConversationStore(store.scope(agent_id="tutor"))
    await conversations.save(conversation("1", "tea"))
    assert await store.history.session_ids("tutor") == ["1"]
    assert len(await LanceMessageHistory(store.scope(agent_id="tutor"), "1").load()) == 1


async def test_a_user_outside_the_scope_is_refused(store):
    with pytest.raises(Exception, match="ben") as refused:
        of(store.scope(user_id="ada"), "ben")
    assert isinstance(refused.value.__cause__, InvalidRequestError)
