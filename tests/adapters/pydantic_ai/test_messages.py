"""Everything that Pydantic AI can put into a message comes back, and others read what is said."""

import asyncio

import pytest
from adapters.pydantic_ai.samples import AT, EVERYTHING, PNG, conversation
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_lance_context import LanceContextChatMessageHistory
from pydantic_ai import messages as ai
from pydantic_ai.conversation import Conversation
from pydantic_ai_lance_context import LanceMessageHistory

from lance_context_core import Message, TextPart, ToolCallPart, ToolResultPart
from lance_context_core.messages import AudioPart, ImagePart, ReasoningPart

WAYS = ["conversations", "message history"]


async def stored(store, conversations, messages, way):
    """The messages as they are read again."""
    if way == "conversations":
        await conversations.save(Conversation(conversation_id="trip", messages=messages))
        return (await conversations.load("trip")).messages
    history = LanceMessageHistory(store, "trip")
    await history.append(messages)
    return await history.load()


@pytest.mark.parametrize("way", WAYS)
async def test_every_message_comes_back_equal(store, conversations, way):
    found = await stored(store, conversations, list(EVERYTHING), way)
    assert found == EVERYTHING
    assert [type(part) for one in found for part in one.parts] == [
        type(part) for one in EVERYTHING for part in one.parts
    ]
    # Equality leaves these out.
    image = found[3].parts[0].content[1]
    assert (image.media_type, image.identifier) == (
        EVERYTHING[3].parts[0].content[1].media_type,
        EVERYTHING[3].parts[0].content[1].identifier,
    )


@pytest.mark.parametrize("way", WAYS)
async def test_numbers_that_json_lacks_come_back(store, conversations, way):
    arguments = {"x": float("inf"), "y": [float("-inf")], "big": 2**70}
    call = ai.ModelResponse(parts=[ai.ToolCallPart("f", arguments, "c")], timestamp=AT)
    nan = ai.ModelResponse(parts=[ai.ToolCallPart("f", {"x": float("nan")}, "c")], timestamp=AT)
    found = await stored(store, conversations, [call, nan], way)
    assert found[0] == call
    assert repr(found[1].parts[0].args) == "{'x': nan}"
    said = await store.history.get_messages("pydantic-ai", session_id="trip")
    assert said[1].parts[0].arguments == '{"x": NaN}'


@pytest.mark.parametrize("way", WAYS)
async def test_what_is_said_is_in_the_history_as_parts(store, conversations, way):
    await stored(store, conversations, list(EVERYTHING), way)
    found = await store.history.get_messages("pydantic-ai", session_id="trip")
    system, user, model, result, failure, question = found[:6]
    assert (system.role, system.text) == ("system", "Be brief.")
    assert (user.role, user.text) == ("user", "What is it like in Oslo? 🌧\t«ø»\n\0 end")
    assert user.created_at == AT
    assert model.role == "assistant"
    assert model.parts[:4] == (
        ReasoningPart(text="They want the weather.", signature="s1"),
        TextPart(text="One moment."),
        ToolCallPart(
            call_id="c1",
            name="weather",
            arguments={"city": "Oslo", "days": [1, 2.5, None, True]},
        ),
        ToolCallPart(call_id="c2", name="weather", arguments={"city": "Bergen"}),
    )
    assert ImagePart(data=PNG, media_type="image/png") in model.parts
    assert (result.role, failure.role) == ("tool", "tool")
    assert result.parts[0] == ToolResultPart(
        call_id="c1", name="weather", content=(TextPart(text='{"sky":"rain","mm":2.5}'),)
    )
    assert failure.parts[0].is_error
    assert [one.type for one in question.parts] == [
        *("text", "image", "audio", "video", "file", "file", "text", "file")
    ]
    assert AudioPart(url="https://example.org/a.mp3", media_type="audio/mpeg") in question.parts


async def test_a_search_finds_no_json_of_calls(store, conversations):
    await stored(store, conversations, list(EVERYTHING), "conversations")
    assert [hit.record.role for hit in await store.history.search("Bergen")] == []
    assert [hit.record.role for hit in await store.history.search("weather moment")] != []


async def test_langchain_reads_what_is_said(store, conversations):
    await stored(store, conversations, EVERYTHING[:3], "conversations")
    found = await LanceContextChatMessageHistory(
        store, "trip", agent_id="pydantic-ai"
    ).aget_messages()
    kinds = [SystemMessage, HumanMessage, AIMessage, ToolMessage, ToolMessage]
    assert [type(one) for one in found if type(one) in kinds][:3] == kinds[:3]
    assert [one["name"] for one in found[2].tool_calls][:2] == ["weather", "weather"]
    answers = [one for one in found if isinstance(one, ToolMessage) and one.name == "weather"]
    assert [one.status for one in answers] == ["success", "error"]


async def test_messages_are_in_the_history_once_and_not_again_after_a_fork(store, conversations):
    await conversations.save(conversation("1", "tea", "which?"))
    fork = await conversations.fork("1", new_conversation_id="2")
    fork.messages += conversation("2", "green tea").messages
    await conversations.save(fork)
    hits = await store.search("tea which")
    assert sorted((hit.record.session_id, hit.record.text) for hit in hits) == [
        *(("1", "tea"), ("1", "which?"), ("2", "green tea"))
    ]
    history = LanceContextChatMessageHistory(store, "2", agent_id="pydantic-ai")
    assert [one.text for one in await history.aget_messages()] == ["green tea"]


async def test_an_erased_message_is_gone_from_a_request_that_others_share(store):
    history = LanceMessageHistory(store, "trip")
    await history.append(EVERYTHING[:1])
    (system, _) = await store.history.get_messages("pydantic-ai", session_id="trip")
    await store.erase(ids=[system.id])
    (found,) = await history.load()
    assert found.parts == EVERYTHING[0].parts[1:]


async def test_what_langchain_says_is_read_as_pydantic_ais_messages(store):
    others = LanceContextChatMessageHistory(store, "trip", agent_id="pydantic-ai")
    call = {"name": "weather", "args": {"city": "Oslo"}, "id": "c1", "type": "tool_call"}
    await others.aadd_messages(
        [
            SystemMessage("Be brief."),
            HumanMessage("How is Oslo?"),
            AIMessage("One moment.", tool_calls=[call]),
            ToolMessage("rain", tool_call_id="c1"),
            ToolMessage("no such city", tool_call_id="c2", status="error"),
        ]
    )
    system, user, model, result, failure = await LanceMessageHistory(store, "trip").load()
    assert [type(one.parts[0]) for one in (system, user, result)] == [
        *(ai.SystemPromptPart, ai.UserPromptPart, ai.ToolReturnPart)
    ]
    assert user.parts[0].content == "How is Oslo?"
    assert [type(one) for one in model.parts] == [ai.TextPart, ai.ToolCallPart]
    assert model.parts[1].args == {"city": "Oslo"}
    # The name stands in the call alone.
    assert (result.parts[0].tool_name, result.parts[0].content) == ("weather", "rain")
    assert failure.parts[0].outcome == "failed"


async def test_media_of_others_are_read(store):
    image = ImagePart(data=PNG, media_type="image/png")
    link = ImagePart(url="https://example.org/a.png", media_type="image/png")
    await store.history.append_many(
        "pydantic-ai",
        [
            Message.user(["Look:", image, link]),
            Message.assistant([ReasoningPart(text="Hm."), image]),
            Message.tool([image], call_id="c"),
        ],
        session_id="1",
    )
    user, model, result = await LanceMessageHistory(store, "1").load()
    assert user.parts[0].content[0] == "Look:"
    assert user.parts[0].content[1].data == PNG
    assert user.parts[0].content[2].url == link.url
    assert model.parts[0].content == "Hm."
    assert model.parts[1].content.data == result.parts[0].content[0].data == PNG


async def test_an_agent_goes_on_with_a_history_that_others_began(store, agent):
    await store.history.append("pydantic-ai", Message.user("How is Oslo?"), session_id="1")
    history = LanceMessageHistory(store, "1")
    result = await agent.run("And Bergen?", message_history=await history.load())
    await history.append(result.new_messages())
    said = await store.history.get_messages("pydantic-ai", session_id="1")
    assert [one.text for one in said] == ["How is Oslo?", "And Bergen?", "It is sunny."]
    assert len(await history.load(last=1)) == 1
    assert await history.clear() == 3
    assert await history.load() == []


@pytest.mark.usefixtures("event_loop_of_the_thread")
def test_a_history_blocks_where_an_agent_does(place, agent):
    with LanceMessageHistory(place, "1", user_id="ada") as history:
        result = agent.run_sync("How is Oslo?", message_history=history.load_sync())
        history.append_sync(result.new_messages())
        assert history.load_sync() == result.all_messages()
    with LanceMessageHistory(place, "1", user_id="ben") as other:
        assert other.load_sync() == []
        assert other.clear_sync() == 0


def test_a_history_is_used_in_two_event_loops(place):
    with LanceMessageHistory(place, "1") as history:
        asyncio.run(history.append(EVERYTHING[:1]))
        assert asyncio.run(history.load()) == EVERYTHING[:1]
