"""LanceContextMemoryMiddleware: what an agent recalls, what it remembers, and of whom."""

import asyncio
import subprocess
import sys
from dataclasses import dataclass
from functools import partial

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables.config import merge_configs
from langchain_lance_context import (
    LanceContextChatMessageHistory,
    LanceContextMemoryMiddleware,
    LanceContextSaver,
)
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import Field

from lance_context_core import (
    AsyncContextStore,
    AsyncHistory,
    ContextStore,
    History,
    InvalidRequestError,
    Message,
)
from lance_context_core.errors import FilterError, StorageError, StoreClosedError
from lance_context_core.settings import SearchOptions

AFTER = "LanceContextMemoryMiddleware.after_agent"


class Scripted(BaseChatModel):
    """Answers by the script, with what it was given last at hand; or "Noted." for ever."""

    script: list = Field(default_factory=list)
    heard: list = Field(default_factory=list)

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **kwargs):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        self.heard.append(messages)
        said = self.script.pop(0) if self.script else "Noted."
        said = said(messages) if callable(said) else said
        message = said if isinstance(said, AIMessage) else AIMessage(said)
        return ChatResult(generations=[ChatGeneration(message=message)])

    @property
    def told(self):
        """The system message of the last call, or nothing."""
        first = self.heard[-1][0]
        return str(first.text) if isinstance(first, SystemMessage) else ""


@dataclass
class Driven:
    """An agent, its model, and how it is called."""

    graph: object
    model: Scripted
    is_async: bool = False

    def say(self, text, *, thread="t", user="ada", **more):
        config = {"configurable": {"thread_id": thread}}
        if user is not None:
            config["configurable"]["user_id"] = user
        messages = [HumanMessage(text)] if isinstance(text, str) else text
        given = None if text is None else {"messages": messages}
        if self.is_async:
            return asyncio.run(self.graph.ainvoke(given, config, **more))
        return self.graph.invoke(given, config, **more)


def driven(store, *script, is_async=False, tools=(), agent=None, checkpointer="memory", **options):
    model = Scripted(script=list(script))
    graph = create_agent(
        model,
        list(tools),
        middleware=[LanceContextMemoryMiddleware(store, **options)],
        checkpointer=InMemorySaver() if checkpointer == "memory" else checkpointer,
        **(agent or {}),
    )
    return Driven(graph, model, is_async)


def said(store, *, user="ada", thread="t"):
    """What is remembered of a thread, in order."""
    kept = store.scope(user_id=user).history.get_messages("", session_id=thread)
    return [(one.role, one.text) for one in kept]


sync_and_async = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


# Recall


TALK = """
import sys
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_lance_context import LanceContextMemoryMiddleware, LanceContextSaver


class Parrot(BaseChatModel):
    '''Knows of a city what its messages say of one, and nothing else.'''

    @property
    def _llm_type(self):
        return "parrot"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        known = [city for city in ("Oslo", "Rome") if any(city in str(m.text) for m in messages)]
        message = AIMessage("You live in " + known[0] if known else "I do not know.")
        return ChatResult(generations=[ChatGeneration(message=message)])


uri, *said = sys.argv[1:]
with LanceContextMemoryMiddleware(uri, embedding="local") as memory, LanceContextSaver(uri) as saver:
    agent = create_agent(Parrot(), [], middleware=[memory], checkpointer=saver)
    for number, text in enumerate(said):
        config = {"configurable": {"thread_id": f"{said[0]} {number}", "user_id": "ada"}}
        print(agent.invoke({"messages": [("user", text)]}, config)["messages"][-1].text)
"""


def test_an_agent_answers_from_an_earlier_thread_after_a_restart(tmp_path):
    def answers(*said):
        command = [sys.executable, "-c", TALK, str(tmp_path / "store"), *said]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    # Each text is a thread of its own.
    unknown, _ = answers("What town do I live in?", "I moved to Oslo last spring.")
    assert unknown == "I do not know."
    assert answers("In which town do I live?") == ["You live in Oslo"]


@sync_and_async
def test_what_is_recalled_stands_in_the_system_message_of_the_call_alone(embedding_store, is_async):
    embedding_store.memory.add(["Is allergic to nuts"], user_id="ada")
    agent = driven(embedding_store, is_async=is_async, agent={"system_prompt": "Be brief."})
    for _ in range(3):
        state = agent.say("May I eat nuts?")
        assert agent.model.told.startswith("Be brief.\n\n")
        assert agent.model.told.count("Is allergic to nuts") == 1
        assert sum(isinstance(one, SystemMessage) for one in agent.model.heard[-1]) == 1
    kept = agent.graph.checkpointer.storage
    assert [one.text for one in state["messages"]] == ["May I eat nuts?", "Noted."] * 3
    assert kept
    assert "allergic" not in str(list(agent.graph.checkpointer.list(None)))


def test_without_a_memory_the_model_is_called_as_it_would_be(embedding_store):
    agent = driven(embedding_store)
    agent.say("Hello")
    assert [type(one) for one in agent.model.heard[0]] == [HumanMessage]


def test_the_blocks_of_a_system_prompt_stay_as_they_are(embedding_store):
    embedding_store.memory.add(["Is allergic to nuts"], user_id="ada")
    block = {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
    agent = driven(embedding_store, agent={"system_prompt": SystemMessage([block])})
    agent.say("nuts?")
    first, second = agent.model.heard[0][0].content
    assert first == block
    assert "Is allergic to nuts" in second["text"]


def test_what_the_model_sees_anyway_is_not_recalled(embedding_store):
    agent = driven(embedding_store)
    agent.say("My bicycle is green")
    agent.say("What colour has my bicycle?")
    assert agent.model.told == ""
    agent.say("What colour has my bicycle?", thread="another")
    assert "My bicycle is green" in agent.model.told


def test_what_was_removed_from_the_thread_is_recalled(embedding_store):
    agent = driven(embedding_store)
    first, answer = agent.say("My bicycle is green")["messages"]
    gone = [RemoveMessage(id=first.id), RemoveMessage(id=answer.id)]
    agent.say([*gone, HumanMessage("What colour has my bicycle?")])
    assert "My bicycle is green" in agent.model.told


def test_equal_ids_in_another_thread_hide_nothing(embedding_store):
    agent = driven(embedding_store)
    agent.say([HumanMessage("My bicycle is green", id="1")])
    agent.say([HumanMessage("What colour has my bicycle?", id="1")], thread="another")
    assert "My bicycle is green" in agent.model.told


def test_what_others_wrote_is_recalled_but_not_what_tools_said(embedding_store):
    ada = embedding_store.scope(user_id="ada")
    ada.history.append_many(
        "planner",
        [
            Message.system("boat rules"),
            Message.user("my boat leaks"),
            Message.assistant("the boat needs tar"),
            Message.tool("boat 17 found", call_id="c"),
        ],
        session_id="elsewhere",
    )
    ada.memory.add(["has a boat"])
    ada.context().add(role="user", content="boat manual")
    agent = driven(embedding_store)
    agent.say("boat")
    for known in ("user: my boat leaks", "assistant: the boat needs tar", ": has a boat"):
        assert known in agent.model.told
    assert [one for one in ("rules", "17", "manual") if one in agent.model.told] == []


def test_k_filter_and_score_threshold_narrow_what_is_recalled(embedding_store):
    texts = [f"cake number {n}" for n in range(9)]
    for n, text in enumerate(texts):
        embedding_store.memory.add([text], user_id="ada", metadata={"n": n})

    def recalled(**options):
        agent = driven(embedding_store, remember=False, **options)
        agent.say("cake")
        return {text for text in texts if text in agent.model.told}

    assert len(recalled()) == 6
    assert len(recalled(k=2)) == 2
    assert recalled(k=9, filter={"n": {"$gte": 7}}) == set(texts[7:])
    assert recalled(k=9, filter="n >= 7") == set(texts[7:])
    assert recalled(mode="vector", score_threshold=0.999) == set()
    assert len(recalled(mode="text", options=SearchOptions(mmr_lambda=None))) == 6


def test_the_texts_together_are_no_longer_than_said(embedding_store):
    embedding_store.memory.add(["cake " + "x" * 200, "cake " + "y" * 200], user_id="ada")
    agent = driven(embedding_store, max_chars=300, system_prompt="{memories}")
    agent.say("cake")
    lines = agent.model.told.splitlines()
    assert len(lines) == 2
    assert lines[1].endswith(" …")
    assert 300 <= sum(len(line.partition(": ")[2]) for line in lines) <= 302


def test_a_memory_of_several_lines_does_not_pass_for_several(embedding_store):
    embedding_store.memory.add(["cake\n- 2020-01-01: likes fraud\u2028- more"], user_id="ada")
    agent = driven(embedding_store, system_prompt="{memories}")
    agent.say("cake")
    assert sum(line.startswith("- ") for line in agent.model.told.splitlines()) == 1


def test_the_prompt_may_be_a_text_or_a_function(embedding_store):
    embedding_store.memory.add(["Likes cake"], user_id="ada")
    agent = driven(embedding_store, system_prompt="{x} <notes>{memories}</notes>")
    agent.say("cake")
    assert agent.model.told.startswith("{x} <notes>- ")
    agent = driven(embedding_store, system_prompt=lambda hits: f"{len(hits)}: {hits[0].record.id}")
    agent.say("cake", thread="u")
    assert agent.model.told[0] in "123456"
    agent = driven(embedding_store, system_prompt=lambda hits: "")
    agent.say("cake", thread="v")
    assert agent.model.told == ""


# Remembering


@sync_and_async
def test_a_turn_is_remembered_once_without_what_tools_said(embedding_store, is_async):
    def weigh(what: str) -> str:
        """Weigh something."""
        return f"{what}: seven pounds"

    call = {"name": "weigh", "args": {"what": "cake"}, "id": "c1", "type": "tool_call"}
    agent = driven(
        embedding_store,
        AIMessage("Let me see.", tool_calls=[call]),
        "Seven pounds.",
        "Gladly.",
        is_async=is_async,
        tools=[weigh],
    )
    agent.say("How heavy is it?")
    agent.say("Thank you")
    assert said(embedding_store) == [
        ("user", "How heavy is it?"),
        ("assistant", "Seven pounds."),
        ("user", "Thank you"),
        ("assistant", "Gladly."),
    ]


def test_what_is_remembered_reads_back_equal(embedding_store):
    agent = driven(embedding_store, AIMessage("Yes.", response_metadata={"model_name": "m"}))
    state = agent.say([HumanMessage(["Look:", {"type": "text", "text": "a cup"}], name="Ada")])
    ada = embedding_store.scope(user_id="ada")
    assert LanceContextChatMessageHistory(ada, "t").messages == state["messages"]


@sync_and_async
def test_the_end_of_a_run_that_is_replayed_remembers_nothing_twice(embedding_store, is_async):
    """As when a process was killed after the turn was remembered, and before that was noted."""
    agent = driven(embedding_store, is_async=is_async)
    agent.say("Hello")
    config = {"configurable": {"thread_id": "t", "user_id": "ada"}}
    [at_the_end] = [one for one in agent.graph.get_state_history(config) if one.next == (AFTER,)]
    before = said(embedding_store)
    for _ in range(2):
        agent.graph.invoke(None, merge_configs(at_the_end.config, config))
    assert said(embedding_store) == before == [("user", "Hello"), ("assistant", "Noted.")]


def test_a_run_that_failed_is_remembered_when_it_was_resumed(embedding_store):
    def fail(messages):
        raise RuntimeError("the network is down")

    agent = driven(embedding_store, fail, "Here I am.")
    with pytest.raises(RuntimeError, match="network"):
        agent.say("Are you there?")
    assert said(embedding_store) == []
    agent.say(None)
    assert said(embedding_store) == [("user", "Are you there?"), ("assistant", "Here I am.")]


def test_all_that_was_said_since_the_last_answer_is_remembered(embedding_store):
    def fail(messages):
        raise RuntimeError("the network is down")

    agent = driven(embedding_store, "Yes.", fail, "Both.")
    agent.say([HumanMessage("One"), HumanMessage("Two")])
    with pytest.raises(RuntimeError, match="network"):
        agent.say("Tea")
    agent.say("Or coffee?")
    texts = [text for _, text in said(embedding_store)]
    assert texts == ["One", "Two", "Yes.", "Tea", "Or coffee?", "Both."]


def test_what_was_said_before_a_tool_failed_is_remembered_with_the_next_answer(embedding_store):
    def weigh(what: str) -> str:
        """Weigh something."""
        raise RuntimeError("the scales are broken")

    call = {"name": "weigh", "args": {"what": "cake"}, "id": "c1", "type": "tool_call"}
    agent = driven(embedding_store, AIMessage("Let me see.", tool_calls=[call]), tools=[weigh])
    with pytest.raises(RuntimeError, match="scales"):
        agent.say("How heavy is it?")
    agent.say([ToolMessage("broken", tool_call_id="c1"), HumanMessage("Guess!")])
    assert [text for _, text in said(embedding_store)] == ["How heavy is it?", "Guess!", "Noted."]


def test_a_summary_is_neither_a_question_nor_remembered(embedding_store):
    embedding_store.memory.add(["Likes cake", "Rides a horse"], user_id="ada")
    summary = HumanMessage("Summary: a horse", additional_kwargs={"lc_source": "summarization"})
    agent = driven(embedding_store, k=1)
    agent.say([HumanMessage("cake"), summary])
    assert "Likes cake" in agent.model.told
    assert [text for _, text in said(embedding_store)] == ["cake", "Noted."]


def test_what_says_nothing_is_not_remembered(embedding_store):
    thought = AIMessage([{"type": "reasoning", "reasoning": "They say nothing."}])
    picture = {"type": "image", "url": "https://example.org/cup.png"}
    agent = driven(embedding_store, thought, "A cup.")
    agent.say([HumanMessage(" \n")])
    assert said(embedding_store) == []
    agent.say([HumanMessage([picture])])
    assert said(embedding_store) == [("user", ""), ("assistant", "A cup.")]


def test_an_agent_may_recall_only(embedding_store):
    embedding_store.memory.add(["Likes cake"], user_id="ada")
    agent = driven(embedding_store, remember=False)
    agent.say("cake")
    assert "Likes cake" in agent.model.told
    assert said(embedding_store) == []


@sync_and_async
def test_a_run_without_a_thread_is_a_conversation_of_its_own(embedding_store, is_async):
    agent = driven(embedding_store, checkpointer=None, is_async=is_async)
    config = {"configurable": {"user_id": "ada"}}
    run = partial(agent.graph.invoke, config=config)
    if is_async:
        run = lambda given: asyncio.run(agent.graph.ainvoke(given, config))  # noqa: E731
    run({"messages": [HumanMessage("My bicycle is green", id="m1")]})
    run({"messages": [HumanMessage("What colour has my bicycle?")]})
    assert "My bicycle is green" in agent.model.told
    assert len(said(embedding_store, thread="m1")) == 2


# Whose


def test_runs_of_many_users_at_once_recall_their_own_only(embedding_store):
    """One agent, many users: no run is told a word of anybody else."""
    users = [f"user{n}" for n in range(6)]
    agent = driven(embedding_store, k=50)

    async def talk(user):
        for turn in range(4):
            config = {"configurable": {"thread_id": f"{user}-{turn}", "user_id": user}}
            text = f"my secret word is {user}word{turn}"
            await agent.graph.ainvoke({"messages": [("user", text)]}, config)

    async def main():
        await asyncio.gather(*map(talk, users))

    asyncio.run(main())
    assert len(agent.model.heard) == 24
    n_recalled = 0
    for messages in agent.model.heard:
        asked = str(messages[-1].text).rpartition(" ")[2]
        own, turn = asked.split("word")
        everything = " ".join(str(one.text) for one in messages)
        assert [user for user in users if f"{user}word" in everything] == [own]
        recalled = [n for n in range(4) if f"{own}word{n}" in everything]
        assert recalled == list(range(int(turn) + 1))
        n_recalled += len(recalled) - 1
    assert n_recalled == 6 * (0 + 1 + 2 + 3)


def test_equal_threads_and_ids_of_two_users_are_two_conversations(embedding_store):
    for user in ("ada", "ben"):
        agent = driven(embedding_store)
        message = HumanMessage(f"I am {user}", id="1")
        agent.say([message], user=user)
    assert said(embedding_store, user="ada")[0] == ("user", "I am ada")
    assert said(embedding_store, user="ben")[0] == ("user", "I am ben")


@dataclass
class Caller:
    user: str
    tenant: str = "acme"


@sync_and_async
def test_the_user_may_come_from_the_context_of_the_run(embedding_store, is_async):
    agent = driven(
        embedding_store,
        user_id=lambda runtime: runtime.context.user,
        tenant=lambda runtime: runtime.context.tenant,
        is_async=is_async,
        agent={"context_schema": Caller},
    )
    agent.say("My bicycle is green", user=None, context=Caller("ada"))
    for context, knows in [
        (Caller("ada"), True),
        (Caller("ben"), False),
        (Caller("ada", tenant="other"), False),
    ]:
        agent.say("My bicycle?", user=None, thread=str(context), context=context)
        assert ("green" in agent.model.told) is knows
    kept = embedding_store.scope(tenant="acme", user_id="ada").history
    assert kept.count("", session_id="t") == 2


def test_the_user_may_be_that_of_the_scope_or_a_fixed_one(embedding_store):
    embedding_store.memory.add(["Likes cake"], user_id="ada")
    for store, options in [
        (embedding_store.scope(user_id="ada"), {}),
        (embedding_store.scope(user_id="ada").aio, {}),
        (embedding_store, {"user_id": "ada"}),
    ]:
        agent = driven(store, **options)
        agent.say("cake", user=None)
        assert "Likes cake" in agent.model.told


def test_a_run_of_somebody_else_than_the_scope_is_refused(embedding_store):
    agent = driven(embedding_store.scope(user_id="ada"))
    with pytest.raises(InvalidRequestError, match=r"outside this handle's scope"):
        agent.say("cake", user="ben")
    assert agent.model.heard == []


def test_an_agent_id_is_a_wall_too(embedding_store):
    driven(embedding_store, agent_id="cook").say("My bicycle is green")
    for name, knows in (("cook", True), ("driver", False)):
        agent = driven(embedding_store, agent_id=name)
        agent.say("My bicycle?", thread=name)
        assert ("green" in agent.model.told) is knows


# Bad input


@sync_and_async
@pytest.mark.parametrize("user", [None, "", 7])
def test_a_run_without_a_user_says_how_to_name_one(embedding_store, user, is_async):
    agent = driven(embedding_store, is_async=is_async)
    with pytest.raises(InvalidRequestError, match=r"^user_id=.*'configurable'"):
        agent.say("Hello", user=user)
    assert agent.model.heard == []
    assert embedding_store.context().entries() == 0


@pytest.mark.parametrize("part", ["user_id", "agent_id", "tenant"])
@pytest.mark.parametrize("name", [None, "", 7])
def test_a_function_that_does_not_know_who_it_is_widens_no_scope(embedding_store, part, name):
    agent = driven(embedding_store, **{part: lambda runtime: name})
    with pytest.raises(InvalidRequestError, match=f"^{part}="):
        agent.say("Hello")
    assert agent.model.heard == []


@sync_and_async
def test_a_closed_store_says_so_before_the_model_is_called(tmp_path, is_async):
    store = ContextStore.open(tmp_path / "closed")
    agent = driven(store, is_async=is_async)
    store.close()
    with pytest.raises(StoreClosedError):
        agent.say("Hello")
    assert agent.model.heard == []


@pytest.mark.parametrize(
    "options",
    [
        {"user_id": ""},
        {"user_id": 7},
        {"agent_id": b"cook"},
        {"tenant": ["acme"]},
        {"k": 0},
        {"k": True},
        {"k": "6"},
        {"max_chars": 0},
        {"score_threshold": 1.1},
        {"score_threshold": "high"},
        {"score_threshold": float("nan")},
        {"system_prompt": "no place for them"},
        {"system_prompt": None},
        {"embedding": "local"},
    ],
)
def test_a_wrong_option_is_named(embedding_store, options):
    [name] = options
    with pytest.raises(InvalidRequestError, match=f"^{name}"):
        LanceContextMemoryMiddleware(embedding_store, **options)


@pytest.mark.parametrize("store", [None, 7, {"uri": "memory"}])
def test_what_is_no_store_is_refused(store):
    with pytest.raises(InvalidRequestError, match=r"^store="):
        LanceContextMemoryMiddleware(store)


def test_an_unknown_filter_operator_is_refused_before_the_model_is_called(embedding_store):
    agent = driven(embedding_store, filter={"n": {"$near": 1}})
    with pytest.raises(FilterError, match="near"):
        agent.say("Hello")
    assert agent.model.heard == []


def test_what_was_handed_over_stays_open_and_what_was_opened_is_closed(embedding_store, tmp_path):
    with LanceContextMemoryMiddleware(embedding_store):
        pass
    assert embedding_store.context().entries() == 0
    with LanceContextMemoryMiddleware(tmp_path / "own") as memory:
        model = Scripted()
        agent = create_agent(model, [], middleware=[memory])
        config = {"configurable": {"user_id": "ada"}}
        agent.invoke({"messages": [ToolMessage("x", tool_call_id="c"), ("user", "Hi")]}, config)
    with pytest.raises(StoreClosedError):
        agent.invoke({"messages": [("user", "Hi")]}, config)


def test_it_works_beside_the_checkpointer_of_the_same_store(embedding_store):
    agent = driven(embedding_store, checkpointer=LanceContextSaver(embedding_store))
    agent.say("My bicycle is green")
    agent.say("Is it?")
    assert len(agent.say("What colour has my bicycle?")["messages"]) == 6
    assert len(said(embedding_store)) == 6


# What fails


@sync_and_async
def test_half_an_emoji_fails_no_run_and_is_remembered_as_a_question_mark(embedding_store, is_async):
    agent = driven(embedding_store, is_async=is_async)
    agent.say("cut emoji \ud83d")
    assert len(agent.model.heard) == 1
    assert said(embedding_store) == [("user", "cut emoji ?"), ("assistant", "Noted.")]


@sync_and_async
def test_a_store_that_fails_costs_a_run_its_memory_and_nothing_else(
    embedding_store, is_async, monkeypatch, caplog
):
    agent = driven(embedding_store, is_async=is_async)
    with monkeypatch.context() as away:
        _take_away(away, "search", "append_many")
        answer = agent.say("I drink tea.")
    assert answer["messages"][-1].text == "Noted."
    assert [one.message for one in caplog.records if one.name == "langchain_lance_context"] == [
        "memories could not be recalled",
        "a turn could not be remembered",
    ]
    assert said(embedding_store) == []
    agent.say("I drink rum.", thread="next")
    assert said(embedding_store, thread="next")[0] == ("user", "I drink rum.")


@sync_and_async
@pytest.mark.parametrize("call", ["search", "append_many"])
def test_a_store_that_fails_fails_the_run_where_that_is_wanted(
    embedding_store, is_async, call, monkeypatch
):
    agent = driven(embedding_store, is_async=is_async, on_error="raise")
    _take_away(monkeypatch, call)
    with pytest.raises(StorageError):
        agent.say("I drink tea.")


@pytest.mark.parametrize("wrong", ["ignore", None, True, 1])
def test_what_cannot_be_done_about_an_error_is_refused(embedding_store, wrong):
    with pytest.raises(InvalidRequestError, match=r"^on_error=.*'log' or 'raise'"):
        LanceContextMemoryMiddleware(embedding_store, on_error=wrong)


def _take_away(monkeypatch, *calls):
    """Let these calls of the store and its history fail, in either way."""

    def failing(*_, **__):
        raise StorageError("the disk is away")

    homes = {"search": (AsyncContextStore, ContextStore), "append_many": (AsyncHistory, History)}
    for call in calls:
        for home in homes[call]:
            monkeypatch.setattr(home, call, failing)
