"""What cannot be stored is refused in the framework's class, before anything is written."""

import math

import pytest
from adapters.agent_framework.samples import forms, said, user
from agent_framework import AgentSession, Content, Message, SessionContext
from agent_framework.exceptions import IntegrationInvalidRequestException
from agent_framework_lance_context import (
    LanceCheckpointStorage,
    LanceContextProvider,
    LanceHistoryProvider,
    LanceSessionStore,
)

IDS = {
    "10,000 characters": "x" * 10_000,
    "300 characters": "é" * 300,
    "a path": "../x",
    "slashes": "a//b/",
    "emoji": "🌧",
    "spaces": " a ",
    "quotes": '\'; DROP TABLE "x" --',
    "wildcards": "%_*",
}
REFUSED_IDS = {
    "empty": "",
    "with NUL": "a\0b",
    "a lone surrogate": "\ud800",
    "a number": 5,
    "bytes": b"1",
    "reserved": "(no session)",
}
ODD = {
    "NaN": Content.from_function_call("c", "f", arguments={"x": math.nan, "y": -math.inf}),
    "NaN in a hosted call": Content("shell_tool_call", call_id="c", timeout_ms=math.nan),
    "NaN in a usage": Content.from_usage({"input_token_count": math.nan}),
    "a lone surrogate": Content.from_text("\ud83c here"),
    "a lone surrogate in a call": Content.from_function_call(
        "\ud800", "\ud800", arguments="\ud800"
    ),
    "NUL": Content.from_function_call("a\0b", "a\0b", arguments={"a\0": "\0"}),
    "no id": Content.from_function_call("", "f"),
    "nothing": Content.from_function_result("c", result=None),
    "a broken image": Content("data", uri="data:image/png;base64,%%%", media_type="image/png"),
    "an image without a place": Content("uri", media_type="image/png"),
    "an id of a service": Content("mcp_server_tool_call", tool_name="", arguments=None),
    "integers of any size": Content.from_function_call("c", "f", arguments={"n": 2**80}),
}


ENDLESS = {}
ENDLESS["again"] = ENDLESS


def cases(named):
    return [pytest.param(value, id=name) for name, value in named.items()]


@pytest.mark.parametrize("id", cases(IDS))
async def test_any_text_is_a_session(store, history, id):
    await history.save_messages(id, [user("here", message_id=id)])
    await history.save_messages("other", [user("there")])
    assert said(await history.get_messages(id)) == [("user", "here")]
    sessions = LanceSessionStore(store)
    await sessions.set(id, AgentSession(session_id=id))
    assert (await sessions.get(id)).session_id == id
    assert await sessions.get("other") is None


@pytest.mark.parametrize("id", cases(REFUSED_IDS))
async def test_what_names_no_session_is_refused_by_its_name(store, history, id):
    for call in (
        history.save_messages(id, [user("here")]),
        history.get_messages(id),
        history.clear(id),
    ):
        with pytest.raises(IntegrationInvalidRequestException, match="session_id") as refused:
            await call
        assert isinstance(refused.value, ValueError)
    if id != "(no session)":
        sessions = LanceSessionStore(store)
        for call in (sessions.set(id, AgentSession()), sessions.get(id), sessions.delete(id)):
            with pytest.raises(ValueError, match="session_id"):
                await call
    assert await store.history.session_ids("") == []
    assert await store.kv("agent-framework").count() == 0


@pytest.mark.parametrize("content", cases(ODD))
async def test_odd_contents_come_back_as_they_were(history, store, content):
    given = Message("assistant", [content], author_name="a\0\ud800", message_id="\ud800")
    await history.save_messages("1", [given])
    assert repr(forms(await history.get_messages("1"))) == repr(forms([given]))
    (stored,) = await store.history.get_messages("", session_id="1")
    assert len(stored.parts) == 1


async def test_the_rest_of_a_text_with_half_an_emoji_is_found(history, store):
    await history.save_messages("1", [user("here \ud83c")])
    assert [hit.record.text for hit in await store.search("here", mode="text")] == ["here ?"]


@pytest.mark.parametrize(
    "messages",
    cases(
        {
            "a text": "Hi.",
            "one message": user("Hi."),
            "texts": [user("Hi."), "Ho."],
            "nothing": [None],
            "no role": [user("Hi."), Message("", ["Ho."])],
            "a number as role": [Message(5, ["Ho."])],
            "one that holds itself": [user("Hi."), user("Ho.", additional_properties=ENDLESS)],
        }
    ),
)
async def test_what_is_no_message_is_refused_and_nothing_of_its_turn_is_stored(
    history, store, messages
):
    with pytest.raises(IntegrationInvalidRequestException, match="messages"):
        await history.save_messages("1", messages)
    assert await store.history.session_ids("") == []


@pytest.mark.parametrize(
    ("made", "arguments", "names"),
    [
        (LanceHistoryProvider, {"max_messages": -1}, "max_messages=-1"),
        (LanceHistoryProvider, {"max_messages": True}, "max_messages=True"),
        (LanceHistoryProvider, {"source_id": ""}, "source_id"),
        (LanceHistoryProvider, {"agent_id": 5}, "agent_id"),
        (LanceHistoryProvider, {"user_id": ""}, "user_id"),
        (LanceContextProvider, {"limit": 0}, "limit=0"),
        (LanceContextProvider, {"limit": "5"}, "limit='5'"),
        (LanceContextProvider, {"source_id": None}, "source_id"),
        (LanceContextProvider, {"remember": "all"}, "remember='all'"),
        (LanceContextProvider, {"on_error": "ignore"}, "on_error='ignore'"),
        (LanceSessionStore, {"tenant": "a\0"}, "tenant"),
        (LanceCheckpointStorage, {"user_id": 5}, "user_id"),
    ],
)
async def test_wrong_arguments_are_refused_by_their_names(store, made, arguments, names):
    with pytest.raises(IntegrationInvalidRequestException, match=names):
        made(store, **arguments)


@pytest.mark.parametrize("made", [LanceHistoryProvider, LanceContextProvider, LanceSessionStore])
def test_what_is_no_store_is_refused(made):
    with pytest.raises(IntegrationInvalidRequestException, match="store=5"):
        made(5)


@pytest.mark.parametrize("remembered", ["tea", [5], ["tea", ""]])
async def test_a_function_that_returns_no_texts_is_told_so(store, remembered):
    provider = LanceContextProvider(store, remember=lambda _: remembered)
    context = SessionContext(session_id="1", input_messages=[user("tea")])
    with pytest.raises(IntegrationInvalidRequestException):
        await provider.after_run(agent=None, session=None, context=context, state={})
    assert (await store.memory.list()).total == 0
