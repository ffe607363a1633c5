"""What cannot be stored is refused in Pydantic AI's class, before anything is written."""

import pytest
from adapters.pydantic_ai.samples import AT, asked, conversation, said_in, texts
from pydantic_ai import messages as ai
from pydantic_ai.conversation import Conversation
from pydantic_ai.exceptions import UserError
from pydantic_ai_lance_context import LanceConversationStore, LanceMessageHistory, LanceRecall

UNSTORABLE = {
    "a lone surrogate": asked("\ud800"),
    "an object": ai.ModelRequest(parts=[ai.ToolReturnPart("f", object(), "c")], timestamp=AT),
}
REFUSED_IDS = {
    "empty": "",
    "with NUL": "a\0b",
    "a lone surrogate": "\ud800",
    "a number": 5,
    "bytes": b"1",
    "nothing": None,
}
IDS = {
    "10,000 characters": "x" * 10_000,
    "a path": "../x",
    "slashes": "a//b/",
    "emoji": "🌧",
    "spaces": " a ",
    "quotes": '\'; DROP TABLE "x" --',
    "wildcards": "%_*",
}


def cases(named):
    return [pytest.param(value, id=name) for name, value in named.items()]


async def is_empty(store):
    stats = await store.kv("pydantic-ai").count()
    return stats == 0 and await store.history.session_ids("pydantic-ai") == []


@pytest.mark.parametrize("message", cases(UNSTORABLE))
async def test_a_message_that_cannot_be_stored_is_refused(store, conversations, message):
    given = Conversation(conversation_id="1", messages=[asked("tea"), message])
    with pytest.raises(UserError):
        await conversations.save(given)
    with pytest.raises(UserError):
        await LanceMessageHistory(store, "1").append([asked("tea"), message])
    assert await is_empty(store)
    assert given.revision is None


@pytest.mark.parametrize("id", cases(REFUSED_IDS))
async def test_an_id_that_names_nothing_is_refused(store, conversations, id):
    with pytest.raises(UserError, match=r"conversation_id|key"):
        await conversations.save(conversation(id, "tea"))
    with pytest.raises(UserError):
        await LanceMessageHistory(store, id).append([asked("tea")])
    assert await is_empty(store)


@pytest.mark.parametrize("id", cases(IDS))
async def test_any_other_id_is_taken_as_it_is(store, conversations, id):
    await conversations.save(conversation("x", "other"))
    await conversations.save(conversation(id, "tea"), scope=id)
    assert texts((await conversations.load(id, scope=id)).messages) == ["tea"]
    assert [one.conversation_id for one in await conversations.list_conversations(scope=id)] == [id]
    assert await said_in(store, id) == ["tea"]
    await conversations.delete(id)
    assert await conversations.load(id) is None
    assert texts((await conversations.load("x")).messages) == ["other"]


@pytest.mark.parametrize("scope", ["\ud800", 5, b"ada"], ids=["surrogate", "number", "bytes"])
async def test_a_scope_that_is_no_text_is_refused(store, conversations, scope):
    with pytest.raises(UserError):
        await conversations.save(conversation("1", "tea"), scope=scope)
    assert await is_empty(store)


async def test_what_is_no_record_and_no_message_is_refused(store, conversations):
    with pytest.raises(UserError, match="ConversationRecord"):
        await conversations.write_record({"conversation_id": "1"}, expected_revision=None)
    for wrong in ("tea", [{"kind": "request"}], 5):
        with pytest.raises(UserError, match="messages"):
            await LanceMessageHistory(store, "1").append(wrong)
    assert await is_empty(store)


async def test_an_entry_that_does_not_exist_is_a_lookup_error(conversations):
    with pytest.raises(LookupError):
        await conversations.read_entry("no such entry")
    with pytest.raises(LookupError):
        await conversations.read_history("no such entry")
    assert await conversations.read_history(None) == []


async def test_an_entry_is_read_by_its_id(conversations):
    first, second = await conversations.save(conversation("1", "a", "b"))
    assert await conversations.read_entry(first.id) == first
    assert await conversations.read_entry(second.id) == second
    assert await conversations.read_history(second.id, limit=0) == []


@pytest.mark.parametrize("limit", [-1, -5])
async def test_a_negative_limit_is_refused(conversations, limit):
    with pytest.raises(UserError, match="limit"):
        await conversations.load("1", limit=limit)


def test_options_are_refused_by_their_names(place):
    for wrong in ({"store": 5}, {"store": place, "user_id": ""}):
        for made in (LanceConversationStore, LanceRecall):
            with pytest.raises(UserError, match=list(wrong)[-1]):
                made(**wrong)
    for wrong in ({"limit": 0}, {"limit": True}, {"on_error": "ignore"}):
        with pytest.raises(UserError, match=next(iter(wrong))):
            LanceRecall(place, **wrong)
    assert not place.exists()
