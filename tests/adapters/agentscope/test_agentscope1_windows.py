"""LanceContextWindowFormatter: what the model of an agent is sent, and what stays in its memory."""

import pytest
from adapters.agentscope.agentscope1_doubles import (
    PlainFormatter,
    ScriptedModel,
    call,
    look_into_the_cupboard,
    texts,
    toolkit_with,
)
from agentscope.agent import ReActAgent
from agentscope.formatter import OpenAIChatFormatter
from agentscope.memory import InMemoryMemory
from agentscope.message import Msg
from agentscope_lance_context import LanceContextMemory, LanceContextWindowFormatter

from lance_context_core import ContextStore, InvalidRequestError, Message
from lance_context_core.window import Budget, HistorySection, SystemSection

ROOM = Budget(total=700, margin=0)


@pytest.fixture
def store():
    with ContextStore.open("memory://") as opened:
        yield opened


def talk(n):
    return [
        one
        for number in range(n)
        for one in (
            Msg("Ada", f"number {number} " + "tea " * 20, "user"),
            Msg("Cook", "cup " * 20, "assistant"),
        )
    ]


class Seeing(PlainFormatter):
    """Keeps the messages that it is to format."""

    def __init__(self):
        self.seen = []

    async def format(self, msgs):
        self.seen.append(list(msgs))
        return await super().format(msgs)


async def answered(store, model, said, *, memory=None, tools=(), earlier=(), **given):
    """The memory of an agent that was asked, and what its formatter was given."""
    memory = InMemoryMemory() if memory is None else memory
    await memory.add(list(earlier))
    seeing = Seeing()
    formatter = LanceContextWindowFormatter(
        seeing, store.aio, **{"budget": ROOM, "session_id": "s", **given}
    )
    agent = ReActAgent(
        "Cook", "You cook.", model, formatter, memory=memory, toolkit=toolkit_with(*tools)
    )
    agent.set_console_output_enabled(False)
    await agent(Msg("Ada", said, "user"))
    return memory, seeing.seen


async def test_the_model_is_shown_a_window_and_the_memory_stays_whole(store):
    memory, (heard,) = await answered(store, ScriptedModel("Hm."), "And now?", earlier=talk(40))
    assert heard[0].get_text_content() == "You cook."
    assert 2 < len(heard) < 30
    assert heard[-1].get_text_content() == "And now?"
    assert len(await memory.get_memory()) == 82
    own = store.scope(user_id="~")
    assert own.history.count("", session_id="s") == 81
    window = own.assemble(
        session_id="s",
        budget=ROOM,
        sections=[SystemSection(text="You cook."), HistorySection()],
        dialect="openai_chat",
    )
    assert [one.id for one in heard[1:]] == [one.id for one in window.messages[1:]]


async def test_calls_keep_their_results_and_messages_are_those_of_the_memory(store):
    model = ScriptedModel([call("look_into_the_cupboard", shelf="top")], "Green tea.")
    memory, (_, second) = await answered(
        store, model, "Is there tea?", tools=[look_into_the_cupboard], earlier=talk(20)
    )
    kinds = [block["type"] for one in second[-2:] for block in one.get_content_blocks()]
    assert kinds == ["tool_use", "tool_result"]
    there = {one.id: one.to_dict() for one in await memory.get_memory()}
    assert [there[one.id] for one in second[1:]] == [one.to_dict() for one in second[1:]]


async def test_over_a_memory_of_the_same_session_each_message_is_there_once(store):
    memory = LanceContextMemory(store.aio, "s", user_id="ada")
    await answered(store, ScriptedModel("Hm."), "hello", memory=memory, user_id="ada")
    kept = store.scope(user_id="ada").history.get_messages("", session_id="s")
    assert [one.text for one in kept] == ["hello", "Hm."]
    assert texts(await memory.get_memory()) == ["hello", "Hm."]


async def test_a_user_is_reminded_of_other_sessions(store):
    said = Message.user("I take hazelnuts with tea", id="n")
    store.scope(user_id="ada").history.append("", said, session_id="old")
    _, (heard,) = await answered(
        store, ScriptedModel("Hm."), "what about hazelnuts?", user_id="ada"
    )
    assert "I take hazelnuts" in heard[-1].get_text_content()


async def test_each_step_can_be_looked_at(store):
    await answered(store, ScriptedModel("Hm."), "hello", user_id="ada", keep_windows=True)
    own = store.scope(user_id="ada")
    (step,) = own.windows.list("s")
    assert "hello" in [one.text for one in own.windows.get(step).seen]


async def test_agentscopes_own_formatter_takes_the_window(store):
    formatter = LanceContextWindowFormatter(OpenAIChatFormatter(), store.aio, ROOM, session_id="s")
    sent = await formatter.format([Msg("system", "You cook.", "system"), *talk(40)])
    assert sent[0]["role"] == "system"
    assert 2 < len(sent) < 30
    assert await formatter.format([Msg("system", "You cook.", "system")]) == sent[:1]


@pytest.mark.parametrize(
    "given",
    [{"budget": 0}, {"dialect": "klingon"}, {"sections": [3]}, {"user_id": " "}, {"session_id": ""}],
    ids=str,
)  # fmt: skip
def test_a_wrong_argument_is_refused_at_once(store, given):
    with pytest.raises(InvalidRequestError):
        LanceContextWindowFormatter(
            PlainFormatter(), store, **{"budget": 900, "session_id": "s", **given}
        )
    with pytest.raises(InvalidRequestError, match="formatter"):
        LanceContextWindowFormatter("plain", store, 900, session_id="s")
