"""A ReAct agent of agentscope 1.x, ended and begun anew over the same store."""

import asyncio

import pytest
from adapters.agentscope.agentscope1_doubles import (
    ScriptedModel,
    agent,
    call,
    look_into_the_cupboard,
    text,
    texts,
    toolkit_with,
)
from agentscope.agent import ReActAgent
from agentscope.memory import InMemoryMemory
from agentscope.message import Msg
from agentscope.token import CharTokenCounter
from agentscope_lance_context import (
    LanceContextLongTermMemory,
    LanceContextMemory,
    LanceContextSession,
)

from lance_context_core import AsyncContextStore, ContextStore

SUMMARY = {
    "task_overview": "Tea",
    "current_state": "There is some.",
    "important_discoveries": "It is green.",
    "next_steps": "Drink.",
    "context_to_preserve": "Ada likes it.",
}


def turn(where, model, said, *, session="monday", mode="static_control", **options):
    """What the agent answers, which lives for this turn."""

    async def main():
        async with await AsyncContextStore.open(where) as store:
            one = agent(
                model,
                memory=LanceContextMemory(store, session, user_id="ada"),
                long_term_memory=LanceContextLongTermMemory(
                    store, user_id="ada", session_id=session
                ),
                long_term_memory_mode=mode,
                **options,
            )
            sessions = LanceContextSession(store)
            await sessions.load_session_state(session, "ada", agent=one)
            answer = await one(Msg("Ada", said, "user"))
            await sessions.save_session_state(session, "ada", agent=one)
            return answer.get_text_content()

    return asyncio.run(main())


def remembered(where, user="ada"):
    with ContextStore.open(where) as store:
        return [one.text for one in store.scope(user_id=user).memory.list(page_size=100).items]


def test_an_agent_goes_on_after_a_restart_where_it_was(tmp_path):
    looking = ScriptedModel(
        [text("Let me look."), call("look_into_the_cupboard", shelf="the left")],
        "There is green tea.",
    )
    tools = {"toolkit": toolkit_with(look_into_the_cupboard)}
    assert turn(tmp_path, looking, "Is there tea?", **tools) == "There is green tea."
    going_on = ScriptedModel("Green.")
    assert turn(tmp_path, going_on, "Which one?", **tools) == "Green."
    (asked,) = going_on.asked
    assert asked[:3] == ["You cook.", "Is there tea?", "Let me look."]
    assert "green tea on the left" in asked[3]
    assert asked[4:] == ["There is green tea.", "Which one?"]


def test_every_message_is_remembered_once_and_none_that_the_agent_put_there(tmp_path):
    told = ["I like green tea", "Tea again?", "And again, the green tea"]
    for number, said in enumerate(told):
        turn(tmp_path, ScriptedModel(f"Answer {number}"), said)
    expected = [one for n, said in enumerate(told) for one in (said, f"Answer {n}")]
    assert remembered(tmp_path) == expected
    with ContextStore.open(tmp_path) as store:
        talk = store.scope(user_id="ada").history.get_messages("", session_id="monday")
    recalled = [one for one in talk if one.name == "long_term_memory"]
    assert ["Ada: I like green tea" in one.text for one in recalled] == [True, True]


def test_what_was_told_in_one_session_is_known_in_another_and_to_no_other_user(tmp_path):
    turn(tmp_path, ScriptedModel("Noted."), "My tea is Sencha")
    model = ScriptedModel("Sencha.")
    turn(tmp_path, model, "Which tea do I like?", session="tuesday")
    assert any("Ada: My tea is Sencha" in said for said in model.asked[0])
    assert remembered(tmp_path, user="bob") == []


def test_an_agent_records_and_retrieves_by_its_tools(tmp_path):
    model = ScriptedModel(
        [call("record_to_memory", thinking="It may matter", content=["Ada has a cat", " "])],
        "Noted.",
    )
    turn(tmp_path, model, "I have a cat", mode="agent_control")
    assert remembered(tmp_path) == ["Ada has a cat"]
    model = ScriptedModel(
        [call("retrieve_from_memory", keywords=["cat", "dog"], limit=1)], "A cat."
    )
    turn(tmp_path, model, "What have I?", session="tuesday", mode="agent_control")
    assert "Ada has a cat" in model.asked[1][-1]
    assert "It may matter" not in str(model.asked)


@pytest.mark.parametrize("template", ["<system-info>{current_state}", "So far: {current_state}"])
def test_summaries_take_the_place_of_messages_and_are_not_remembered(tmp_path, template):
    compression = ReActAgent.CompressionConfig(
        enable=True,
        agent_token_counter=CharTokenCounter(),
        trigger_threshold=1,
        keep_recent=1,
        summary_template=template,
    )
    for said, answer in (("tea", "Green."), ("cake", "Carrot."), ("milk", "Oat.")):
        model = ScriptedModel(answer, summary=SUMMARY)
        turn(tmp_path, model, said, compression_config=compression)
    assert model.asked[0][1] == template.format(**SUMMARY)

    async def uncompressed():
        async with LanceContextMemory(tmp_path, "monday", user_id="ada") as memory:
            return texts(await memory.get_memory(exclude_mark="compressed"))

    assert asyncio.run(uncompressed()) == [template.format(**SUMMARY), "milk", "Oat."]
    assert remembered(tmp_path) == ["tea", "Green.", "cake", "Carrot.", "milk", "Oat."]


@pytest.mark.parametrize("kept", [InMemoryMemory, None])
def test_a_session_restores_what_an_agent_has_in_memory(tmp_path, kept):
    async def main(model, said):
        async with LanceContextSession(tmp_path) as sessions:
            one = agent(model, memory=kept() if kept else None)
            await sessions.load_session_state("it's", user_id="ada", agent=one)
            await one(Msg("Ada", said, "user"))
            await sessions.save_session_state("it's", user_id="ada", agent=one)
            return texts(await one.memory.get_memory())

    asyncio.run(main(ScriptedModel("Yes."), "Is there tea?"))
    found = asyncio.run(main(ScriptedModel("Green."), "Which one?"))
    assert found == ["Is there tea?", "Yes.", "Which one?", "Green."]
