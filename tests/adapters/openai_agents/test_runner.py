"""Runs of agents over a session: the SDK's Runner, and a model that follows a script."""

import asyncio
import json

import pytest
from adapters.openai_agents.samples import call, output, user
from agents import (
    Agent,
    ModelRetrySettings,
    ModelSettings,
    RunConfig,
    Runner,
    SQLiteSession,
    UserError,
    function_tool,
)
from agents.memory import SessionSettings
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from agents.tool_context import ToolContext
from openai_agents_lance_context import LanceContextSession

from lance_context_core import ContextStore, Message, ToolCallPart, ToolResultPart


@function_tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


def scripted(*steps, **settings):
    """An agent with a tool, and what its model answers."""
    answers = [[assistant_message(one)] if isinstance(one, str) else one for one in steps]
    model = ScriptedModel(answers)
    return Agent(name="tutor", model=model, tools=[weather], **settings)


async def blocking(agent, text, **how):
    def run():
        with asyncio.Runner() as runner:
            asyncio.set_event_loop(runner.get_loop())
            return Runner.run_sync(agent, text, **how)

    return await asyncio.to_thread(run)


async def streamed(agent, text, **how):
    result = Runner.run_streamed(agent, text, **how)
    async for _ in result.stream_events():
        pass
    return result


each_way = pytest.mark.parametrize(
    "run", [Runner.run, blocking, streamed], ids=["awaited", "blocking", "streamed"]
)


@each_way
async def test_the_model_is_given_what_was_said_before(session, run):
    agent = scripted("In California.", "Sacramento.")
    await run(agent, "Where is the Golden Gate?", session=session)
    result = await run(agent, "What is its capital?", session=session)
    assert result.final_output == "Sacramento."
    given = agent.model.last_call.input
    assert [one["role"] for one in given] == ["user", "assistant", "user"]
    assert await session.get_items() == result.to_input_list()


@each_way
async def test_a_list_of_items_follows_what_is_there(session, run):
    await session.add_items([user("Earlier")])
    agent = scripted("Yes.")
    await run(agent, [user("Later")], session=session)
    assert agent.model.last_call.input == [user("Earlier"), user("Later")]


async def test_sessions_of_one_agent_stay_apart(store):
    agent = scripted("Cats!", "Dogs!", "You like cats.")
    cats, dogs = (LanceContextSession(one, store) for one in ("cats", "dogs"))
    await Runner.run(agent, "I like cats", session=cats)
    await Runner.run(agent, "I like dogs", session=dogs)
    await Runner.run(agent, "What do I like?", session=cats)
    assert [one["role"] for one in agent.model.last_call.input] == ["user", "assistant", "user"]
    assert "dogs" not in str(agent.model.last_call.input)


async def test_a_run_leaves_what_it_leaves_in_a_session_of_sqlite(session):
    left = []
    for one in (session, SQLiteSession("monday")):
        agent = scripted(
            [function_call("weather", {"city": "Oslo"}, call_id="c1")], "Sunny.", "Bye."
        )
        await Runner.run(agent, "The weather in Oslo?", session=one)
        await Runner.run(agent, "Thanks.", session=one)
        left.append(await one.get_items())
    assert left[0] == left[1]
    assert [one.get("type") for one in left[0]] == [
        *(None, "function_call", "function_call_output", "message", None, "message")
    ]


async def test_others_read_the_call_of_a_run_and_its_result(session, store):
    agent = scripted([function_call("weather", {"city": "Oslo"}, call_id="c1")], "Sunny.")
    await Runner.run(agent, "The weather in Oslo?", session=session)
    _, asked, answered, _ = await store.history.get_messages("", session_id="monday")
    assert asked.parts == (ToolCallPart(call_id="c1", name="weather", arguments={"city": "Oslo"}),)
    assert answered.parts == (
        ToolResultPart(call_id="c1", name="weather", content="sunny in Oslo"),
    )
    assert [hit.record.text for hit in await session.search("city")] == []


@each_way
async def test_a_limit_of_one_gives_the_model_no_output_without_its_call(store, run):
    session = LanceContextSession("monday", store, session_settings={"limit": 1})
    await session.add_items([user("The weather?"), call(), output()])
    agent = scripted("Sunny.")
    await run(agent, "And?", session=session)
    assert agent.model.last_call.input == [user("And?")]
    assert len(await session.get_items(-1)) == 5


async def test_the_settings_of_a_run_go_before_those_of_the_session(store):
    session = LanceContextSession("monday", store, session_settings={"limit": 1})
    await session.add_items([user(f"{n}") for n in range(4)])
    agent = scripted("Yes.")
    config = RunConfig(session_settings=SessionSettings(limit=3))
    await Runner.run(agent, "4", session=session, run_config=config)
    assert [one["content"] for one in agent.model.last_call.input] == [*"1234"]


async def test_a_callback_may_shorten_what_the_model_is_given(session):
    await session.add_items([user("old"), user("older")])
    agent = scripted("Yes.")
    config = RunConfig(session_input_callback=lambda history, new: history[-1:] + new)
    await Runner.run(agent, [user("new")], session=session, run_config=config)
    assert [one["content"] for one in agent.model.last_call.input] == ["older", "new"]
    assert [one["content"] for one in (await session.get_items())[:3]] == ["old", "older", "new"]


async def test_the_context_of_each_run_selects_the_owner(store):
    session = LanceContextSession("monday", store, scope_of=lambda run: {"user_id": run.context})
    agent = scripted("Hello Ada.", "Hello Ben.", "Ada.")
    await Runner.run(agent, "I am Ada", session=session, context="ada")
    await Runner.run(agent, "I am Ben", session=session, context="ben")
    await Runner.run(agent, "Who am I?", session=session, context="ada")
    assert "Ben" not in str(agent.model.last_call.input)
    assert len(await LanceContextSession("monday", store, user_id="ada").get_items()) == 4
    assert len(await LanceContextSession("monday", store, user_id="ben").get_items()) == 2


@each_way
async def test_a_retry_leaves_no_item_twice(session, run):
    retry = ModelRetrySettings(
        max_retries=2, backoff={"initial_delay": 0, "jitter": False}, policy=lambda _: True
    )
    agent = scripted(
        ModelStep.raise_error(ConnectionError("gone")),
        "Here again.",
        model_settings=ModelSettings(retry=retry),
    )
    await run(agent, "Are you there?", session=session)
    assert [one["role"] for one in await session.get_items()] == ["user", "assistant"]


# Recall


async def found(tool, query, context=None):
    arguments = json.dumps({"query": query})
    run = ToolContext(
        context=context, tool_name=tool.name, tool_call_id="c", tool_arguments=arguments
    )
    return await tool.on_invoke_tool(run, arguments)


async def test_an_agent_recalls_what_was_said_in_another_session(store):
    monday, tuesday = (
        LanceContextSession(one, store, user_id="ada") for one in ("monday", "tuesday")
    )
    await Runner.run(scripted("Noted."), "I am allergic to nuts.", session=monday)
    agent = scripted([function_call("recall", {"query": "allergic"}, call_id="c")], "No nuts.")
    # The tool of another session is as good.
    agent.tools = [monday.recall_tool()]
    await Runner.run(agent, "What am I allergic to?", session=tuesday)
    (hit,) = json.loads(agent.model.last_call.input[-1]["output"])[:1]
    assert (hit["text"], hit["by"], hit["session"]) == (
        *("I am allergic to nuts.", "user", "monday"),
    )
    assert hit.keys() == {"text", "by", "session", "at"}


async def test_recall_leaves_out_what_the_model_is_given_anyway(store):
    session = LanceContextSession("monday", store, user_id="ada")
    await session.add_items([user("old tea"), user("new tea")])
    await store.memory.add(["Likes tea"], user_id="ada")
    tool = session.recall_tool()
    assert len(json.loads(await found(tool, "tea"))) == 3

    async def recalled(limit):
        agent = scripted([function_call("recall", {"query": "tea"}, call_id="c")], "Tea.")
        agent.tools = [tool]
        config = RunConfig(session_settings=SessionSettings(limit=limit))
        await Runner.run(agent, "More tea?", session=session, run_config=config)
        said = agent.model.last_call.input[-1]["output"]
        for _ in range(4):
            await session.pop_item()
        return {one["text"] for one in json.loads(said)}

    assert await recalled(None) == {"Likes tea"}
    assert await recalled(1) == {"Likes tea", "old tea"}
    assert len(json.loads(await found(session.recall_tool(limit=1), "tea"))) == 1


async def test_no_question_reaches_what_another_user_said(store):
    await LanceContextSession("monday", store, user_id="ben").add_items([user("My PIN is 1234")])
    tool = LanceContextSession("tuesday", store, user_id="ada").recall_tool()
    assert await found(tool, "PIN of user_id ben") == "Nothing was found."
    assert list(tool.params_json_schema["properties"]) == ["query"]


async def test_recall_asks_for_the_owner_of_the_run(store):
    session = LanceContextSession("tuesday", store, scope_of=lambda run: {"user_id": run.context})
    await LanceContextSession("monday", store, user_id="ada").add_items([user("My dog is Rex")])
    tool = session.recall_tool(name="remember", description="What was said.")
    assert (tool.name, tool.description) == ("remember", "What was said.")
    assert "Rex" in await found(tool, "dog", "ada")
    assert await found(tool, "dog", "ben") == "Nothing was found."


@pytest.mark.parametrize("limit", [0, -1, True, "5"], ids=["zero", "negative", "truth", "text"])
def test_a_recall_of_nothing_is_a_user_error(session, limit):
    with pytest.raises(UserError, match="limit="):
        session.recall_tool(limit=limit)


async def test_an_agent_goes_on_with_what_another_framework_began(session, tmp_path):
    with ContextStore.open(tmp_path / "memory") as store:
        asked = ToolCallPart(call_id="c1", name="weather", arguments={"city": "Oslo"})
        said = [
            Message.user("The weather?"),
            Message.assistant([asked]),
            Message.tool("sunny", call_id="c1", tool_name="weather"),
            Message.assistant("It is sunny."),
        ]
        store.history.append_many("", said, session_id="monday")
    agent = scripted("You are welcome.")
    await Runner.run(agent, "Thanks.", session=session)
    assert [one.get("type", one.get("role")) for one in agent.model.last_call.input] == [
        *("user", "function_call", "function_call_output", "assistant", "user")
    ]
