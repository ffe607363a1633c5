"""What events are to other frameworks, and what theirs are to ADK."""

import pytest
from adapters.google_adk.samples import APP, PARTS, PNG, create, get, said
from google.adk.events.event import Event
from google.genai import types
from google_adk_lance_context import LanceSessionService
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_lance_context import LanceContextChatMessageHistory

from lance_context_core import Message, TextPart, ToolCallPart, ToolResultPart
from lance_context_core.messages import (
    AudioPart,
    DataPart,
    FilePart,
    ImagePart,
    ReasoningPart,
    UnknownPart,
    VideoPart,
)


def result(*content, is_error=False):
    return ToolResultPart(call_id="c1", name="weather", content=content, is_error=is_error)


CANONICAL = {
    "text": TextPart(text="It is sunny. ☀ \0"),
    "empty text": TextPart(text=""),
    "thought": ReasoningPart(text="They want tea.", signature="AHNpZw=="),
    "call": ToolCallPart(call_id="c1", name="weather", arguments={"city": "Oslo", "days": 2}),
    "call without an id": ToolCallPart(name="now"),
    "signed call": ToolCallPart(call_id="c2", name="now"),
    "answer": result(TextPart(text="sunny")),
    "answer as JSON": result(DataPart(data={"degrees": 21, "wind": {"from": "north"}})),
    "failure": result(TextPart(text="no such city"), is_error=True),
    "answer with a picture": result(
        TextPart(text="see"), ImagePart(data=PNG, media_type="image/png")
    ),
    "picture": ImagePart(data=PNG, media_type="image/png", name="a.png"),
    "sound": AudioPart(data=b"RIFF", media_type="audio/wav"),
    "file": FilePart(url="gs://b/a.pdf", media_type="application/pdf"),
    "film": VideoPart(url="https://a/b.mp4", media_type="video/mp4"),
    "code": UnknownPart(
        type="executable_code", payload={"executable_code": {"code": "1+1", "language": "PYTHON"}}
    ),
    "output of code": UnknownPart(
        type="code_execution_result",
        payload={"code_execution_result": {"outcome": "OUTCOME_OK", "output": "2"}},
    ),
}


async def messages_of(store, sessions, *parts, author="bot"):
    """What others read of an event with these parts."""
    session = await create(sessions)
    content = types.Content(role="model", parts=list(parts))
    await sessions.append_event(session, Event(author=author, content=content))
    return await store.scope(user_id="ada").history.get_messages(APP, session_id="1")


@pytest.mark.parametrize("name", PARTS)
async def test_a_part_is_what_others_call_it(store, sessions, name):
    (message,) = await messages_of(store, sessions, PARTS[name])
    assert message.parts == (CANONICAL[name],)
    is_result = isinstance(CANONICAL[name], ToolResultPart)
    assert (message.role, message.name) == ("tool" if is_result else "assistant", "bot")


async def test_a_search_finds_what_was_said_and_no_call(store, sessions):
    await messages_of(store, sessions, PARTS["call"], types.Part(text="Sunny in Bergen."))
    ada = store.scope(user_id="ada")
    assert [hit.record.text for hit in await ada.search("Bergen")] == ["Sunny in Bergen."]
    assert await ada.search("Oslo") == []


async def test_langchain_reads_what_the_agent_said_and_did(store, sessions):
    session = await create(sessions)
    for event in (
        said("What is it like in Oslo?"),
        Event(author="bot", content=types.Content(role="model", parts=[PARTS["call"]])),
        Event(author="bot", content=types.Content(role="user", parts=[PARTS["failure"]])),
        said("I do not know.", author="bot"),
    ):
        await sessions.append_event(session, event)
    history = LanceContextChatMessageHistory(store.scope(user_id="ada"), "1", agent_id=APP)
    found = await history.aget_messages()
    assert [type(one) for one in found] == [HumanMessage, AIMessage, ToolMessage, AIMessage]
    (call,) = found[1].tool_calls
    assert (call["id"], call["name"], call["args"]) == (
        *("c1", "weather", {"city": "Oslo", "days": 2}),
    )
    assert (found[2].tool_call_id, found[2].status) == ("c1", "error")
    assert found[2].text == "no such city"
    # What LangChain adds, ADK reads.
    await history.aadd_messages([HumanMessage("And in Bergen?"), AIMessage("Rain.")])
    last = (await get(sessions)).events[-2:]
    assert [(one.author, one.content.role, one.content.parts[0].text) for one in last] == [
        ("user", "user", "And in Bergen?"),
        (APP, "model", "Rain."),
    ]


@pytest.mark.parametrize("name", CANONICAL)
async def test_what_another_framework_wrote_means_the_same_in_adk(store, name):
    part = CANONICAL[name]
    role = "tool" if isinstance(part, ToolResultPart) else "assistant"
    message = Message.of(role, [part], id="m1", name="helper")
    await store.scope(user_id="ada").history.append("", message, session_id="1")
    sessions = LanceSessionService(store, agent_id="")
    (event,) = (await get(sessions)).events
    assert (event.id, event.author) == ("m1", "helper")
    assert event.content.role == ("user" if role == "tool" else "model")
    expected = PARTS[name].model_copy(deep=True)
    # The signature of a thought is its own provider's; settings of a film have no other place.
    expected.thought_signature = expected.video_metadata = None
    if expected.function_call is not None and expected.function_call.args is None:
        expected.function_call.args = {}
    if name == "answer with a picture":
        expected.function_response.response = {"result": "see"}
    assert event.content.parts == [expected]


async def test_a_result_without_a_name_gets_that_of_its_call(store):
    history = store.scope(user_id="ada").history
    call = ToolCallPart(call_id="c1", name="weather", arguments="Oslo, please")
    answer = ToolResultPart(call_id="c1", content=(TextPart(text="sunny"), TextPart(text="warm")))
    turn = [Message.assistant([call]), Message.of("tool", [answer])]
    await history.append_many("", turn, session_id="1")
    first, second = (await get(LanceSessionService(store, agent_id=""))).events
    assert first.get_function_calls()[0].args == {"arguments": "Oslo, please"}
    (response,) = second.get_function_responses()
    assert (response.name, response.response) == ("weather", {"result": "sunny\nwarm"})


async def test_what_a_system_says_is_no_words_of_an_agent(store, sessions):
    history = store.scope(user_id="ada").history
    await history.append(APP, Message.system("Be brief."), session_id="1")
    session = await get(sessions)
    await sessions.append_event(session, said("Be kind.", author="system", state={"k": 1}))
    assert [one.author for one in (await get(sessions)).events] == ["system", "system"]
    found = await history.get_messages(APP, session_id="1")
    assert [(one.role, one.name) for one in found] == [("system", None)] * 2
