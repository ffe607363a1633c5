"""LanceContextWindowMemory: what an agent is shown of its session, and that all of it stays."""

import asyncio

import pytest
from adapters.llama_index.samples import say, texts
from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock, ToolCallBlock
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import MockLLM
from llama_index_lance_context import LanceContextWindowMemory

from lance_context_core import ContextStore, InvalidRequestError, Message
from lance_context_core.window import Budget, HistorySection

ROOM = Budget(total=600, margin=0)


@pytest.fixture
def store():
    with ContextStore.open("memory://") as opened:
        yield opened


def said(n):
    return [say(f"number {i} " + "tea " * 20, "assistant" if i % 2 else "user") for i in range(n)]


def memory_of(store, **given):
    return LanceContextWindowMemory(store, **{"budget": ROOM, "session_id": "s", **given})


def test_a_window_is_shown_and_the_whole_conversation_kept(store):
    memory = memory_of(store)
    memory.put_messages(said(60))
    shown = memory.get()
    assert 2 < len(shown) < 30
    assert texts(shown) == texts(said(60))[-len(shown) :]
    assert texts(memory.get_all()) == texts(said(60))
    assert store.history.count("", session_id="s") == 60


def test_the_window_is_the_one_that_the_store_makes(store):
    memory = memory_of(store)
    memory.put_messages(said(60))
    window = store.assemble(
        session_id="s", budget=ROOM, sections=[HistorySection()], dialect="openai_chat"
    )
    assert texts(memory.get()) == [one.text for one in window.messages]
    assert texts(asyncio.run(memory.aget())) == texts(memory.get())


def test_calls_and_results_come_back_as_they_were_put(store):
    call = ToolCallBlock(tool_call_id="c", tool_name="look", tool_kwargs={"at": "pot"})
    answer = {"tool_call_id": "c"}
    messages = [
        say("look"),
        ChatMessage(role=MessageRole.ASSISTANT, blocks=[TextBlock(text="I look."), call]),
        ChatMessage(role=MessageRole.TOOL, content="full", additional_kwargs=answer),
    ]
    memory = memory_of(store)
    memory.put_messages(messages)
    assert memory.get() == messages


def test_a_memory_that_is_empty_shows_nothing_and_a_new_process_goes_on(store):
    assert memory_of(store).get() == []
    memory_of(store).put(say("hello"))
    assert texts(memory_of(store).get("anything")) == ["hello"]
    memory_of(store).set(said(2))
    assert len(memory_of(store).get()) == 2
    memory_of(store).reset()
    assert memory_of(store).get_all() == []


def test_a_user_is_reminded_of_other_sessions(store):
    store.history.append("", Message.user("I take hazelnuts with tea", id="n"), session_id="old")
    memory = memory_of(store.scope(), user_id="ada")
    memory.put(say("what about hazelnuts?"))
    assert "I take hazelnuts" in texts(memory.get())[-1]
    assert "I take hazelnuts" in texts(memory.get("hazelnuts"))[-1]


def test_a_chat_goes_on_with_it_and_its_steps_can_be_looked_at(store):
    memory = memory_of(store, keep_windows=True, run_id="r")
    engine = SimpleChatEngine.from_defaults(llm=MockLLM(), memory=memory)
    engine.chat("hello")
    assert texts(memory.get_all())[0] == "hello"
    assert len(memory.get_all()) == 2
    first = store.windows.get(store.windows.list("s", run_id="r")[0])
    assert [one.text for one in first.seen] == ["hello"]


@pytest.mark.parametrize(
    "given", [{"budget": 0}, {"dialect": "klingon"}, {"sections": [3]}], ids=str
)
def test_a_wrong_argument_is_refused_at_once(store, given):
    with pytest.raises(InvalidRequestError):
        memory_of(store, **given)
    with pytest.raises(InvalidRequestError):
        memory_of(store).put_messages("tea")
