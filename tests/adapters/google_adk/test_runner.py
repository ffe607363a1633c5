"""Agents of ADK that run over the three services."""

import asyncio

import pytest
from adapters.google_adk.samples import APP, OF_ADA, agent_of, call, get, talk, texts
from google.adk.agents import SequentialAgent
from google.adk.apps import App, ResumabilityConfig
from google.adk.runners import Runner
from google.adk.tools import FunctionTool, ToolContext, load_memory, preload_memory
from google.genai import types
from google_adk_lance_context import (
    LanceArtifactService,
    LanceMemoryService,
    LanceSessionService,
)


@pytest.fixture
def runner_of(store):
    """Makes a runner for an agent, or an app, as another process would."""

    def make(agent=None, *, app=None, **options):
        return Runner(
            **({"app": app} if app else {"agent": agent, "app_name": APP}),
            session_service=LanceSessionService(store, **options),
            memory_service=LanceMemoryService(store),
            artifact_service=LanceArtifactService(store),
            auto_create_session=True,
        )

    return make


async def test_a_conversation_goes_on_with_another_runner(runner_of):
    assert await talk(runner_of(agent_of("Hello.")), "Hi.") == ["Hello."]
    agent = agent_of("You said hi.")
    assert await talk(runner_of(agent), "What did I say?") == ["You said hi."]
    (asked,) = agent.model.asked
    assert [one.parts[0].text for one in asked.contents] == ["Hi.", "Hello.", "What did I say?"]


async def test_tools_change_states_and_save_files(runner_of, sessions, artifacts):
    async def note(text: str, tool_context: ToolContext) -> str:
        """Note a text."""
        tool_context.state["user:noted"] = text
        tool_context.state["app:n"] = 1
        tool_context.state["temp:draft"] = text
        version = await tool_context.save_artifact("note.txt", types.Part(text=text))
        return f"version {version}"

    agent = agent_of(call("note", text="nuts"), "Noted.", tools=[note])
    await talk(runner_of(agent), "No nuts, please.")
    session = await get(sessions)
    assert session.state == {"user:noted": "nuts", "app:n": 1}
    answer = session.events[2].get_function_responses()[0]
    assert answer.response == {"result": "version 0"}
    assert session.events[2].actions.artifact_delta == {"note.txt": 0}
    part = await artifacts.load_artifact(**OF_ADA, session_id="1", filename="note.txt")
    assert part.text == "nuts"
    assert texts(session) == ["No nuts, please.", "", "", "Noted."]
    # Another session of the user knows what was noted.
    other = agent_of("Hi.", instruction="They cannot eat {user:noted}.")
    await talk(runner_of(other), "Hello?", session_id="2")
    assert "They cannot eat nuts." in other.model.asked[0].config.system_instruction


async def test_temporary_state_is_seen_by_the_next_agent_and_not_stored(runner_of, sessions):
    first = agent_of("green tea", name="first", output_key="temp:choice")
    second = agent_of("Here it is.", name="second", instruction="Bring {temp:choice}.")
    with pytest.warns(DeprecationWarning, match="SequentialAgent"):
        both = SequentialAgent(name="both", sub_agents=[first, second])
    await talk(runner_of(both), "Tea!")
    assert "Bring green tea." in second.model.asked[0].config.system_instruction
    assert (await get(sessions)).state == {}


async def test_an_agent_remembers_other_sessions(runner_of, sessions, memories):
    await talk(runner_of(agent_of("Noted.")), "I am allergic to nuts.")
    await memories.add_session_to_memory(await get(sessions))
    agent = agent_of(call("load_memory", query="allergic"), "No nuts.", tools=[load_memory])
    assert (await talk(runner_of(agent), "What may I not eat?", session_id="2"))[-1] == "No nuts."
    found = agent.model.asked[1].contents[-1].parts[0].function_response.response
    assert "I am allergic to nuts." in str(found)
    preloading = agent_of("No nuts.", tools=[preload_memory])
    await talk(runner_of(preloading), "Am I allergic?", session_id="3")
    assert "user: I am allergic to nuts." in str(preloading.model.asked[0].contents)


async def test_a_call_that_waits_for_a_person_goes_on_later(runner_of, sessions):
    sent = []

    def send(letter: str) -> str:
        """Send a letter."""
        sent.append(letter)
        return "sent"

    tool = FunctionTool(send, require_confirmation=True)
    await talk(runner_of(agent_of(call("send", letter="to Ada"), tools=[tool])), "Write to Ada.")
    assert sent == []
    session = await get(sessions)
    (request,) = [
        one for event in session.events for one in event.get_function_calls()
        if one.name == "adk_request_confirmation"
    ]  # fmt: skip
    runner = runner_of(agent_of("It is sent.", tools=[tool]))
    answer = types.FunctionResponse(id=request.id, name=request.name, response={"confirmed": True})
    message = types.Content(role="user", parts=[types.Part(function_response=answer)])
    async for _ in runner.run_async(user_id="ada", session_id="1", new_message=message):
        pass
    assert sent == ["to Ada"]
    assert texts(await get(sessions))[-1] == "It is sent."


async def test_two_runs_of_one_session_at_once_lose_nothing_if_stale_ones_may_append(
    runner_of, sessions
):
    runners = [runner_of(agent_of(f"Answer {n}."), stale="append") for n in range(3)]
    await talk(runner_of(agent_of("Hello.")), "Hi.")
    await asyncio.gather(*(talk(one, f"Question {n}.") for n, one in enumerate(runners)))
    said = texts(await get(sessions))
    assert sorted(said[2:]) == sorted(
        text for n in range(3) for text in (f"Question {n}.", f"Answer {n}.")
    )
    for n in range(3):
        assert said.index(f"Question {n}.") < said.index(f"Answer {n}.")


async def test_a_session_is_rewound_with_its_state_and_files(runner_of, sessions, artifacts):
    async def note(text: str, tool_context: ToolContext) -> str:
        """Note a text."""
        tool_context.state["noted"] = text
        await tool_context.save_artifact("note.txt", types.Part(text=text))
        return "noted"

    for text in ("tea", "milk"):
        await talk(runner_of(agent_of(call("note", text=text), "Noted.", tools=[note])), text)
    runner = runner_of(agent_of("Noted."))
    second = (await get(sessions)).events[4].invocation_id
    await runner.rewind_async(user_id="ada", session_id="1", rewind_before_invocation_id=second)
    assert (await get(sessions)).state == {"noted": "tea"}
    file = {**OF_ADA, "session_id": "1", "filename": "note.txt"}
    assert (await artifacts.load_artifact(**file)).text == "tea"
    assert await artifacts.list_versions(**file) == [0, 1, 2]


@pytest.mark.filterwarnings(r"ignore:\[EXPERIMENTAL\]:UserWarning")
async def test_a_resumable_app_keeps_the_states_of_its_agents(runner_of, sessions):
    app = App(
        name=APP,
        root_agent=agent_of("Hello."),
        resumability_config=ResumabilityConfig(is_resumable=True),
    )
    await talk(runner_of(app=app), "Hi.")
    events = (await get(sessions)).events
    assert any(one.actions.end_of_agent for one in events)
