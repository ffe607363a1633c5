"""A conversation of the store as LangChain's chat message history."""

import asyncio

import pytest
from adapters.langchain.samples import MESSAGES
from core.conformance.back_door import BackDoor
from core.conformance.doubles import ManualClock
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_lance_context import LanceContextChatMessageHistory

from lance_context_core import ContextStore, InvalidRequestError, Message
from lance_context_core._loop import StoreLoop

SAID = [HumanMessage("Is there tea?"), AIMessage("Yes.")]


@pytest.fixture
def history(store):
    return LanceContextChatMessageHistory(store, "monday")


def contents(history):
    return [one.content for one in history.messages]


def test_it_is_what_langchain_calls_a_history(history):
    assert isinstance(history, BaseChatMessageHistory)


def test_messages_come_in_the_order_in_which_they_were_added(history):
    history.add_messages(SAID)
    history.add_user_message("Hot?")
    history.add_ai_message("Very.")
    history.add_message(SystemMessage("Be brief."))
    assert contents(history) == ["Is there tea?", "Yes.", "Hot?", "Very.", "Be brief."]
    assert isinstance(history.messages, list)
    assert str(history).startswith("Human: Is there tea?\nAI: Yes.")


def test_messages_of_one_moment_and_of_a_clock_set_back_keep_their_order(tmp_path):
    clock = ManualClock()
    with ContextStore.open(tmp_path, clock=clock) as store:
        history = LanceContextChatMessageHistory(store, "monday")
        for n in range(6):
            history.add_messages([HumanMessage(f"{n}"), AIMessage(f"{n}")])
            if n >= 3:
                clock.advance(hours=-1)
        assert contents(history) == [str(n) for n in range(6) for _ in range(2)]
        history = LanceContextChatMessageHistory(store, "monday", limit=3)
        assert contents(history) == ["4", "5", "5"]


def test_who_changes_what_was_read_changes_nothing_else(history):
    history.add_messages([HumanMessage(["a"]), AIMessage("b")])
    read = history.messages
    read[0].content.append("changed")
    read.clear()
    assert history.messages == [HumanMessage(["a"]), AIMessage("b")]


def test_messages_of_every_type_read_back_equal(history):
    history.add_messages(list(MESSAGES.values()))
    assert history.messages == list(MESSAGES.values())


def test_messages_outlive_the_process_that_wrote_them(tmp_path):
    with LanceContextChatMessageHistory(tmp_path / "there", "monday") as history:
        history.add_messages(list(MESSAGES.values()))
    with LanceContextChatMessageHistory(tmp_path / "there", "monday") as again:
        assert again.messages == list(MESSAGES.values())


def test_a_call_is_one_commit(history, store):
    history.add_messages([HumanMessage("the first one makes the table")])
    before = store.version()
    history.add_messages([HumanMessage(f"{n}") for n in range(20)])
    assert store.version() == before + 1


def test_no_messages_are_no_commit(history, store):
    history.add_messages([])
    assert store.version() == 0
    assert history.messages == []


def test_chunks_are_stored_as_messages(history):
    history.add_messages([AIMessageChunk("Ye") + AIMessageChunk("s.")])
    assert history.messages == [AIMessage("Yes.")]


def test_a_limit_reads_the_last_messages_and_keeps_the_others(history, store):
    history.add_messages([HumanMessage(f"{n}") for n in range(5)])
    for limit, expected in ((2, ["3", "4"]), (9, list("01234")), (0, []), (None, list("01234"))):
        limited = LanceContextChatMessageHistory(store, "monday", limit=limit)
        assert contents(limited) == expected
        assert [one.content for one in asyncio.run(limited.aget_messages())] == expected


@pytest.mark.parametrize("limit", [-1, True])
def test_a_limit_that_is_no_number_of_messages_is_refused(store, limit):
    with pytest.raises(InvalidRequestError, match="limit"):
        LanceContextChatMessageHistory(store, "monday", limit=limit)


def test_a_message_that_is_added_again_under_its_id_is_there_once(history):
    history.add_messages([HumanMessage("a", id="1")])
    history.add_messages([HumanMessage("a", id="1"), HumanMessage("a")])
    assert history.messages == [HumanMessage("a", id="1"), HumanMessage("a")]


def test_clearing_forgets_this_session_alone(history, store):
    other = LanceContextChatMessageHistory(store, "tuesday")
    agents = LanceContextChatMessageHistory(store, "monday", agent_id="cook")
    for one in (history, other, agents):
        one.add_messages(SAID)
    history.clear()
    assert (history.messages, other.messages, agents.messages) == ([], SAID, SAID)
    history.clear()


def test_nothing_is_written_if_one_message_cannot_be(history, store):
    with pytest.raises(InvalidRequestError):
        history.add_messages([HumanMessage("a"), ToolMessage("b", tool_call_id="c", artifact=open)])
    assert history.messages == []


@pytest.mark.parametrize("session_id", ["", "a\0b"])
def test_a_session_without_a_name_is_refused(store, session_id):
    with pytest.raises(InvalidRequestError, match="session_id"):
        LanceContextChatMessageHistory(store, session_id).add_messages(SAID)


@pytest.mark.parametrize("session_id", ["it's", "' OR 1=1 --", "ö", "a/b"])
def test_a_session_is_a_name_and_nothing_else(store, history, session_id):
    history.add_messages(SAID)
    other = LanceContextChatMessageHistory(store, session_id)
    assert other.messages == []
    other.add_messages(SAID)
    other.clear()
    assert history.messages == SAID


def test_a_store_that_was_handed_over_stays_open(store):
    with LanceContextChatMessageHistory(store, "monday") as history:
        history.add_messages(SAID)
    assert store.history.count("", session_id="monday") == 2


def test_a_scope_isolates(store):
    ada = LanceContextChatMessageHistory(store.scope(user_id="ada"), "monday")
    ben = LanceContextChatMessageHistory(store.scope(user_id="ben"), "monday")
    ada.add_messages(SAID)
    assert (ada.messages, ben.messages) == (SAID, [])


# The back door


def test_others_read_what_was_written_here(store):
    history = LanceContextChatMessageHistory(store, "monday", agent_id="cook", run_id="r1")
    history.add_messages(
        [
            HumanMessage("Is there tea?", id="h1", name="ada"),
            AIMessage("", tool_calls=[{"name": "look", "args": {"for": "tea"}, "id": "c1"}]),
            ToolMessage("2 cups", tool_call_id="c1", name="look"),
        ]
    )
    asked, called, answered = store.history.get_messages("cook", session_id="monday")
    assert (asked.role, asked.text, asked.id, asked.name) == ("user", "Is there tea?", "h1", "ada")
    (call,) = called.parts
    assert (called.role, call.name, call.arguments) == ("assistant", "look", {"for": "tea"})
    assert (answered.role, answered.text, answered.parts[0].call_id) == ("tool", "2 cups", "c1")
    rows = asyncio.run(BackDoor(store.aio).rows("records"))
    assert {(row["kind"], row["session_id"], row["run_id"]) for row in rows} == {
        ("message", "monday", "r1")
    }
    assert [hit.record.id for hit in store.history.search("tea", mode="text", limit=1)] == ["h1"]


def test_others_read_the_text_of_every_message(store):
    """That which LangChain itself takes for the text."""
    history = LanceContextChatMessageHistory(store, "monday")
    history.add_messages(list(MESSAGES.values()))
    read = store.history.get_messages("", session_id="monday")
    rows = asyncio.run(BackDoor(store.aio).rows("records"))
    texts = ["".join(str(one.text).split()) for one in MESSAGES.values()]
    assert ["".join(one.text.split()) for one in read] == texts
    stored = {row["id"]: row["text"] or "" for row in rows}
    assert ["".join(stored[one.id].split()) for one in read] == texts


def test_what_others_wrote_is_read_here(store):
    store.history.append_many(
        "cook",
        [
            Message.user("Is there tea?", id="h1"),
            Message.tool("2 cups", call_id="c1", tool_name="look", id="t1"),
            Message.assistant(
                "Yes.", id="a1", native={"framework": "other", "class": "Reply", "data": 1}
            ),
        ],
        session_id="monday",
    )
    history = LanceContextChatMessageHistory(store, "monday", agent_id="cook")
    assert history.messages == [
        HumanMessage("Is there tea?", id="h1"),
        ToolMessage("2 cups", tool_call_id="c1", name="look", id="t1"),
        AIMessage("Yes.", id="a1"),
    ]


# As a runnable's history


def conversation(store, *, is_keyed):
    """A model that answers with its next line, and remembers."""
    model = FakeListChatModel(responses=["First.", "Second."])
    if not is_keyed:
        return RunnableWithMessageHistory(
            model, lambda session_id: LanceContextChatMessageHistory(store, session_id)
        )
    prompt = ChatPromptTemplate.from_messages([MessagesPlaceholder("past"), ("human", "{asked}")])
    return RunnableWithMessageHistory(
        prompt | model,
        lambda session_id: LanceContextChatMessageHistory(store, session_id),
        input_messages_key="asked",
        history_messages_key="past",
    )


def turns(*, is_keyed):
    asked = ["one?", "two?"]
    return [{"asked": one} if is_keyed else [HumanMessage(one)] for one in asked]


CONFIG = {"configurable": {"session_id": "monday"}}
EXPECTED = [("human", "one?"), ("ai", "First."), ("human", "two?"), ("ai", "Second.")]

each_kind_of_input = pytest.mark.parametrize("is_keyed", [True, False])
remembers = pytest.mark.filterwarnings("ignore:RunnableWithMessageHistory is deprecated")


@remembers
@each_kind_of_input
def test_a_runnable_remembers(store, history, is_keyed):
    runnable = conversation(store, is_keyed=is_keyed)
    for turn in turns(is_keyed=is_keyed):
        runnable.invoke(turn, CONFIG)
    assert [(one.type, one.content) for one in history.messages] == EXPECTED


@remembers
@each_kind_of_input
def test_a_runnable_remembers_what_it_streamed(store, history, is_keyed):
    runnable = conversation(store, is_keyed=is_keyed)
    for turn in turns(is_keyed=is_keyed):
        assert len(list(runnable.stream(turn, CONFIG))) > 1
    assert [(one.type, one.content) for one in history.messages] == EXPECTED


@remembers
@each_kind_of_input
async def test_a_runnable_remembers_asynchronously(store, monkeypatch, is_keyed):
    """And makes no blocking call that would stall the event loop."""
    monkeypatch.setattr(StoreLoop, "run", lambda *_: pytest.fail("a blocking call"))
    runnable = conversation(store, is_keyed=is_keyed)
    invoked, streamed = turns(is_keyed=is_keyed)
    await runnable.ainvoke(invoked, CONFIG)
    assert len([chunk async for chunk in runnable.astream(streamed, CONFIG)]) > 1
    history = LanceContextChatMessageHistory(store.aio, "monday")
    found = await history.aget_messages()
    assert [(one.type, one.content) for one in found] == EXPECTED
    before = await store.aio.version()
    await history.aadd_messages([HumanMessage(f"{n}") for n in range(120)])
    assert await store.aio.version() == before + 1
    found = await history.aget_messages()
    assert [one.content for one in found[len(EXPECTED) :]] == [f"{n}" for n in range(120)]
    await history.aclear()
    assert await history.aget_messages() == []
    await history.aclose()


def test_two_writers_keep_their_turns_together(store):
    def talk(name):
        history = LanceContextChatMessageHistory(store, "monday")
        for n in range(5):
            history.add_messages([HumanMessage(f"{name}{n}"), AIMessage(f"{name}{n}")])

    async def main():
        await asyncio.gather(*(asyncio.to_thread(talk, name) for name in "ab"))

    asyncio.run(main())
    said = contents(LanceContextChatMessageHistory(store, "monday"))
    assert said[::2] == said[1::2]
    assert sorted(said[::2]) == [f"{name}{n}" for name in "ab" for n in range(5)]


def test_any_number_of_histories_share_one_store(tmp_path):
    with ContextStore.open(tmp_path) as store:
        for n in range(3):
            LanceContextChatMessageHistory(store, f"s{n}").add_messages(SAID)
        assert [one.n_messages for one in store.sessions.list()] == [2, 2, 2]
