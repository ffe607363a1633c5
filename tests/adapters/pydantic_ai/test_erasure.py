"""A message that is erased, deleted or rewritten by its id is so in the conversation as well."""

import subprocess

import pytest
from adapters.pydantic_ai.samples import AT, EVERYTHING, answered, asked, conversation, run, texts
from langchain_lance_context import LanceContextChatMessageHistory
from pydantic_ai import Agent
from pydantic_ai import messages as ai
from pydantic_ai.conversation import Conversation
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import DeferredToolRequests
from pydantic_ai_lance_context import LanceConversationStore

from lance_context_core import Item, Message

WORD = "zqvx"


def holding(place):
    """The files with the word."""
    told = subprocess.run(
        ["grep", "-rlaF", WORD, place], capture_output=True, text=True, check=False
    )
    return told.stdout.splitlines()


async def erase(store, id, session_id="1"):
    """Erase one message, with all that can be."""
    await store.erase(ids=[id], filter={"session_id": session_id}, sole_writer=True)


async def messages_of(conversations, id="1"):
    return texts((await conversations.load(id)).messages)


def called(*ids, thoughts=()):
    calls = [ai.ToolCallPart("weather", {"city": f"{WORD} {id}"}, id) for id in ids]
    return ai.ModelResponse(
        parts=[*(ai.ThinkingPart(one) for one in thoughts), *calls], timestamp=AT
    )


def returned(*ids):
    parts = [ai.ToolReturnPart("weather", f"result {id}", id, timestamp=AT) for id in ids]
    return ai.ModelRequest(parts=parts, timestamp=AT)


async def saved(conversations, *messages, id="1"):
    made = Conversation(conversation_id=id, messages=list(messages))
    return await conversations.save(made)


@pytest.mark.parametrize("at", [0, 1, 2])
async def test_the_words_of_an_erased_message_are_in_no_file(place, store, conversations, at):
    words = ["a", "b", "c"]
    words[at] = WORD
    entries = await conversations.save(conversation("1", *words))
    assert holding(place)
    await erase(store, entries[at].id)
    assert holding(place) == []
    del words[at]
    assert await messages_of(conversations) == words
    with pytest.raises(LookupError):
        await conversations.read_entry(entries[at].id)
    async with LanceConversationStore(place) as another:
        assert await messages_of(another) == words


async def test_a_conversation_with_a_gap_goes_on(conversations, store, agent):
    entries = await conversations.save(conversation("1", "a", "b", "c", "d"))
    await erase(store, entries[3].id)
    await erase(store, entries[1].id)
    await run(agent, conversations, "1", "e")
    assert await messages_of(conversations) == ["a", "c", "e", "It is sunny."]
    record = await conversations.read_record("1")
    back = await conversations.branch("1", at=1, expected_revision=record.revision)
    assert texts(back.messages) == ["a"]
    await conversations.delete("1")
    assert await store.kv("pydantic-ai").count() == 0


async def test_the_last_messages_are_counted_without_the_erased_ones(conversations, store):
    entries = await conversations.save(conversation("1", *"abcdefgh"))
    for number in (1, 5, 6):
        await erase(store, entries[number].id)
    for limit in range(1, 9):
        loaded = await conversations.load("1", limit=limit)
        assert texts(loaded.messages) == [*"acdeh"][-limit:]
    # What is compared is what was loaded, so that the same history is no other one.
    copy = Conversation(
        conversation_id="1",
        messages=(await conversations.load("1", limit=3)).messages,
        revision=loaded.revision,
    )
    copy.new_message_index = 3
    assert await conversations.save(copy) == []
    assert (await conversations.read_record("1")).branches == []


async def test_one_speaker_is_erased_from_a_request_that_others_share(conversations, store):
    (entry,) = await saved(conversations, EVERYTHING[0])
    await erase(store, entry.id)
    (left,) = (await conversations.load("1")).messages
    assert left.parts == EVERYTHING[0].parts[1:]
    await erase(store, f"{entry.id}:1")
    assert (await conversations.load("1")).messages == []


async def test_erasing_a_message_takes_it_from_all_forks(place, store, conversations):
    entries = await conversations.save(conversation("1", "a", WORD, "c"))
    fork = await conversations.fork("1", at=2, new_conversation_id="2")
    fork.messages += conversation("2", "d").messages
    await conversations.save(fork)
    await erase(store, entries[1].id)
    assert await messages_of(conversations, "1") == ["a", "c"]
    assert await messages_of(conversations, "2") == ["a", "d"]
    assert holding(place) == []


async def test_old_states_have_an_erased_message_no_more(place, store, conversations):
    entries = await conversations.save(conversation("1", "a", WORD, "c"))
    await store.tag("before")
    await store.create_branch("aside")
    await conversations.save(conversation("2", "other"))
    await erase(store, entries[1].id)
    for state in (await store.checkout("before"), await store.branch("aside")):
        assert await messages_of(LanceConversationStore(state)) == ["a", "c"]
    assert holding(place) == []


async def test_an_erased_session_or_user_leaves_no_word(place, store):
    for erasing in (
        lambda: store.erase(filter={"session_id": "1"}, sole_writer=True),
        lambda: store.scope(user_id="ada").erase(sole_writer=True),
    ):
        ada = LanceConversationStore(store, user_id="ada")
        made = await ada.load("1") or Conversation(conversation_id="1")
        made.messages += [asked(WORD), answered(WORD)]
        await ada.save(made)
        await LanceConversationStore(store, user_id="ben").save(conversation("2", "tea"))
        await erasing()
        assert holding(place) == []
        loaded = await ada.load("1")
        assert loaded is None or loaded.messages == []
        assert await messages_of(LanceConversationStore(store, user_id="ben"), "2") == ["tea"]
        await LanceConversationStore(store, user_id="ben").delete("2")
    assert await ada.list_conversations() == []


async def test_what_other_frameworks_change_is_changed(conversations, store):
    entries = await conversations.save(conversation("1", "a", "b", "c"))
    await store.history.rewrite(
        "pydantic-ai", Message.assistant("B", id=entries[1].id), session_id="1"
    )
    await store.history.pop("pydantic-ai", session_id="1", expected_id=entries[2].id)
    loaded = await conversations.load("1")
    assert texts(loaded.messages) == ["a", "B"]
    assert [one.kind for one in loaded.messages] == ["request", "response"]
    await LanceContextChatMessageHistory(store, "1", agent_id="pydantic-ai").aclear()
    assert (await conversations.load("1")).messages == []


# What goes with an erased message


async def test_a_call_goes_with_its_result(conversations, store):
    entries = await saved(
        conversations, asked("a"), called("c1", "c2"), returned("c1", "c2"), answered("d")
    )
    await erase(store, f"{entries[2].id}:1")
    _, calls, results, _ = (await conversations.load("1")).messages
    assert [one.tool_call_id for one in calls.parts] == ["c1"]
    assert [one.tool_call_id for one in results.parts] == ["c1"]
    await erase(store, entries[2].id)
    assert texts((await conversations.load("1")).messages) == ["a", "d"]


async def test_a_result_goes_with_its_call(place, conversations, store):
    entries = await saved(
        conversations,
        *(asked("a"), called("c1"), returned("c1"), answered("b")),
        *(asked("c"), called("c1"), returned("c1"), answered("d")),
    )
    await erase(store, entries[1].id)
    expected = (await conversations.load("1")).messages
    assert len(expected) == 6
    assert [part.part_kind for one in expected[3:5] for part in one.parts] == [
        "tool-call",
        "tool-return",
    ]
    for limit in range(1, 7):
        assert (await conversations.load("1", limit=limit)).messages == expected[-limit:]
    await erase(store, entries[5].id)
    assert texts((await conversations.load("1")).messages) == ["a", "b", "c", "d"]
    assert holding(place) == []


async def test_thoughts_go_with_the_calls_that_they_led_to(conversations, store):
    entries = await saved(
        conversations, asked("a"), called("c1", thoughts=["hm"]), returned("c1"), answered("d")
    )
    await erase(store, entries[2].id)
    assert await messages_of(conversations) == ["a", "d"]


async def test_a_call_whose_result_was_erased_is_not_run_again(conversations, store):
    ran = []
    agent = Agent(TestModel(call_tools=[]))

    @agent.tool_plain
    def weather(city: str) -> str:
        ran.append(city)
        return "sunny"

    entries = await saved(conversations, asked("a"), called("c1"), returned("c1"))
    await erase(store, entries[2].id)
    await run(agent, conversations, "1", "b")
    assert ran == []


async def test_a_call_that_waits_is_erased_with_its_message(place, store, conversations):
    agent = Agent(TestModel(), output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True)
    def delete_all() -> str:
        return "all is gone"

    made = Conversation(conversation_id="1")
    result = await agent.run("Tidy up.", conversation=made)
    (_, response) = result.conversation.messages
    for part in (*response.parts, *result.conversation.deferred_tool_requests.approvals):
        part.args = {"what": WORD}
    (_, entry) = await conversations.save(result)
    await conversations.fork("1", new_conversation_id="2")
    for id in ("1", "2"):
        loaded = await conversations.load(id)
        assert loaded.deferred_tool_requests == result.conversation.deferred_tool_requests
        assert (await conversations.save(loaded)) == []
    await erase(store, entry.id)
    assert holding(place) == []
    for id in ("1", "2"):
        loaded = await conversations.load(id)
        assert loaded.deferred_tool_requests is None
        assert texts(loaded.messages) == ["Tidy up."]


# Conversations of earlier versions, whose items have the messages, too


async def of_earlier_version(store, messages, id="1"):
    """What they stored; the ids of the entries."""
    ids = [f"{id}-{number}" for number in range(len(messages))]
    items, since, pages = [], [], []
    for number, message in enumerate(messages):
        (*said,) = [] if not message.parts else [message.parts[0].content]
        value = {"of": id, "messages": len(said), "depth": number}
        if since:
            value["parent"] = since[-1]
        if number == len(messages) - 1 or number % 32 == 0:
            value["since"] = list(since)
        if number % 32 == 0:
            value["pages"] = list(pages)
            since = []
            pages.append(ids[number])
        since.append(ids[number])
        data = ai.ModelMessagesTypeAdapter.dump_json([message])
        items.append(Item(namespace=("entries",), key=ids[number], value=value, data=data))
        role = "user" if isinstance(message, ai.ModelRequest) else "assistant"
        await store.history.append_many(
            "pydantic-ai",
            [Message.of(role, text, id=ids[number]) for text in said],
            session_id=id,
        )
    record = (
        f'{{"conversation_id":"{id}","head_id":"{ids[-1]}","usage":{{}},"branches":[],'
        '"revision":"r","updated_at":"2026-11-30T12:00:00Z","format_version":1}'
    )
    value = {"roots": [ids[0]]}
    items.append(Item(namespace=("records",), key=id, value=value, data=record.encode()))
    await store.kv("pydantic-ai").put(items)
    return ids


async def test_a_conversation_of_an_earlier_version_loads_and_is_stored_once_at_its_next_save(
    place, store, conversations
):
    said = [str(number) for number in range(70)]
    old = [*conversation("1", *said).messages, ai.ModelRequest(parts=[], timestamp=AT)]
    ids = await of_earlier_version(store, old)
    fork = await conversations.fork("1", at=40, new_conversation_id="2")
    assert fork.messages == old[:40]
    # The fork has renewed what it shares.
    for number in (3, 50):
        await erase(store, ids[number])
    left = [*old[:3], *old[4:50], *old[51:]]
    for limit in (None, 1, 5, 35, 70):
        loaded = await conversations.load("1", limit=limit)
        assert loaded.messages == left[-(limit or 70) :]
    loaded = await conversations.load("1")
    loaded.messages += [asked("and")]
    await conversations.save(loaded)
    assert all(
        one.data is None for one in await store.kv("pydantic-ai").list(namespace=("entries",))
    )
    assert (await conversations.load("1")).messages == [*left, asked("and")]
    assert (await conversations.load("2")).messages == left[:39]
    await erase(store, ids[5])
    assert (await conversations.load("2")).messages == [*left[:4], *left[5:39]]
    await conversations.delete("1")
    await conversations.delete("2")
    assert await store.kv("pydantic-ai").count() == 0
