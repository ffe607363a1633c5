"""Agents of agentscope 2.x that remember what they were told, in other sessions and processes."""

import asyncio
from contextlib import suppress

import pytest
from adapters.agentscope.agentscope2_doubles import ScriptedModel, agent, call, texts
from agentscope.event import UserConfirmResultEvent
from agentscope.message import AssistantMsg, DataBlock, TextBlock, ThinkingBlock, URLSource, UserMsg
from agentscope.state import AgentState
from agentscope.tool import FunctionTool, Toolkit
from agentscope_lance_context import LanceContextMemoryMiddleware

from lance_context_core import (
    AsyncContextStore,
    ContextStore,
    ContextStoreError,
    InvalidRequestError,
    Message,
    TextPart,
)


async def reply(store, model, said, *, session="monday", state=None, tools=(), **options):
    """What an agent answers that lives for this reply; it remembers of the user `ada`."""
    options = {"user_id": "ada", "mode": "static_control", **options}
    async with LanceContextMemoryMiddleware(store, **options) as memory:
        one = agent(
            model,
            middlewares=[memory],
            toolkit=Toolkit(tools=[*await memory.list_tools(), *tools]),
            state=state or AgentState(session_id=session),
        )
        inputs = UserMsg("Ada", said) if isinstance(said, str) else said
        return await one.reply(inputs)


def recalled(model):
    """What the first prompt told of memories, line by line, in each hint."""
    hints = [one for one in map(str, model.asked[0]) if one.startswith("What is remembered")]
    return [hint.splitlines()[1:] for hint in hints]


def remembered(where, **scope):
    with ContextStore.open(where) as store:
        found = store.scope(**{"user_id": "ada", **scope}).memory.list(page_size=100).items
        return [(one.session_id, one.role, one.text) for one in found]


async def test_an_agent_recalls_after_a_restart_what_it_was_told_in_another_session(tmp_path):
    await reply(tmp_path, ScriptedModel("Noted."), "My tea is Sencha", session="monday")
    model = ScriptedModel("Sencha.")
    await reply(tmp_path, model, "Which tea is mine?", session="it's tuesday")
    assert recalled(model) == [["- Ada: My tea is Sencha"]]
    (asked,) = model.asked
    # Right after the question that it is about.
    assert asked[asked.index("Which tea is mine?") + 1].startswith("What is remembered")
    assert remembered(tmp_path) == [
        ("it's tuesday", "user", "Which tea is mine?"),
        ("it's tuesday", "assistant", "Sencha."),
        ("monday", "user", "My tea is Sencha"),
        ("monday", "assistant", "Noted."),
    ]


async def test_no_message_is_remembered_twice_nor_recalled_while_it_is_in_the_context(tmp_path):
    await reply(tmp_path, ScriptedModel("Noted."), "tea is green", session="before")
    state, message = AgentState(session_id="monday"), UserMsg("Ada", "tea is hot")
    # A reply that failed is asked for again, with the same message.
    for model in (ScriptedModel(RuntimeError("no model")), ScriptedModel("Hm.")):
        with suppress(RuntimeError):
            await reply(tmp_path, model, message, state=state)
    model = ScriptedModel("So it is.")
    await reply(tmp_path, model, "tea again", state=state)
    assert recalled(model) == [["- Ada: tea is green"]]
    monday = [text for session, _, text in remembered(tmp_path) if session == "monday"]
    assert monday == ["tea is hot", "Hm.", "tea again", "So it is."]


@pytest.mark.parametrize("mode", ["agent_control", "both"])
async def test_an_agent_remembers_and_searches_by_its_tools(tmp_path, mode):
    adding = call("add_memory", thinking="It may matter", content=["Ada has a cat", " "])
    model = ScriptedModel([adding], "Noted.")
    await reply(tmp_path, model, "I have one", mode=mode)
    assert "search_memory" in model.asked[0][0]
    searching = call("search_memory", keywords=["cat", "dog"])
    model = ScriptedModel([searching], "A cat.")
    await reply(tmp_path, model, "Which pet?", session="tuesday", mode=mode)
    assert "- Ada has a cat" in str(model.asked[1])
    said = [one for one in remembered(tmp_path) if one[0] is not None]
    assert (None, "user", "Ada has a cat") in remembered(tmp_path)
    assert [text for *_, text in said] == (
        ["I have one", "Noted.", "Which pet?", "A cat."] if mode == "both" else []
    )


async def test_of_a_reply_is_remembered_what_was_said_not_how_it_came_about(tmp_path):
    answer = [ThinkingBlock(thinking="She has one"), TextBlock(text="A cat.")]
    model = ScriptedModel([call("search_memory", keywords=["cat"])], answer)
    await reply(tmp_path, model, "Which pet?", mode="both")
    with ContextStore.open(tmp_path) as store:
        found = store.scope(user_id="ada").memory.list(page_size=100).items
    assert [one.text for one in found] == ["Which pet?", "A cat."]
    assert {type(part) for one in found for part in one.parts} == {TextPart}


async def test_with_static_control_there_are_no_tools_and_no_word_of_them(tmp_path):
    model = ScriptedModel("Hm.")
    await reply(tmp_path, model, "Hello")
    assert "search_memory" not in str(model.asked)
    async with LanceContextMemoryMiddleware(
        tmp_path, user_id="ada", mode="static_control"
    ) as memory:
        assert await memory.list_tools() == []
    async with LanceContextMemoryMiddleware(tmp_path, user_id="ada") as memory:
        names = [tool.name for tool in await memory.list_tools()]
        assert names == ["search_memory", "add_memory"]


async def test_tools_answer_what_a_model_gets_wrong(tmp_path):
    async with LanceContextMemoryMiddleware(tmp_path, user_id="ada", top_k=1) as memory:
        search, add = await memory.list_tools()

        async def use(tool, **arguments):
            chunk = await tool(**arguments)
            return str(chunk.state), chunk.content[0].text

        assert await use(add, thinking="", content="a cat") == ("success", "Remembered 1 facts.")
        assert await use(add, content=["a cat", "a cat and a dog"]) == (
            "success",
            "Remembered 2 facts.",
        )
        assert (await use(add, thinking="", content=["", " "]))[1] == "Nothing to remember."
        assert (await use(search, keywords="dog"))[1] == "- a cat and a dog"
        # Each fact is there once; and as many are found as are asked for.
        found = (await use(search, keywords=["cat"], limit=5))[1]
        assert found == "- a cat\n- a cat and a dog"
        assert len((await use(search, keywords=["cat"]))[1].splitlines()) == 1
        for keywords in ([], [" "], ["zebra"]):
            assert (await use(search, keywords=keywords))[1] == "No memories found."
        assert (await use(search, keywords=["cat"], limit=0))[1] == "No memories found."
        for arguments in ({"keywords": [7]}, {"keywords": ["cat"], "limit": "many"}):
            state, text = await use(search, **arguments)
            assert (state, text.partition(":")[0]) == ("error", "Error")


async def test_users_and_agents_have_memories_of_their_own(tmp_path):
    async with await AsyncContextStore.open(tmp_path) as store:
        owners = [("ada", None), ("ada", "Cook"), ("ada", "Cat's"), ("a'da", None), ("~", "Cook")]
        await asyncio.gather(
            *(
                reply(store, ScriptedModel("Noted."), f"tea {n}", user_id=user, agent_id=agent_id)
                for n, (user, agent_id) in enumerate(owners)
            )
        )

        async def found(user, agent_id, **options):
            model = ScriptedModel("Hm.")
            owner = {"user_id": user, "agent_id": agent_id, **options}
            await reply(store, model, "tea", session="other", **owner)
            return sorted(line[-1] for hint in recalled(model) for line in hint)

        # Without an agent all of a user's memories are found; with one its own.
        assert await found("ada", "Cook") == ["1"]
        assert await found("ada", "Cat's") == ["2"]
        assert await found("a'da", None) == ["3"]
        assert await found("~", "Cook") == ["4"]
        assert await found("bob", None) == []
        # What was asked meanwhile is remembered too.
        assert await found("ada", "Cook", scope_search_by_agent=False, top_k=9) == list("012aa")


async def test_words_come_in_the_order_said_and_meaning_by_relevance(tmp_path, embedder):
    async with await AsyncContextStore.open(tmp_path, embedder=embedder) as store:
        memory = store.scope(user_id="ada").memory
        for said in ("green tea please", "carrot cake", "green tea"):
            await memory.add([said])

        async def found(search):
            model = ScriptedModel("Hm.")
            await reply(store, model, "green tea", search=search, top_k=2, session=search)
            return recalled(model)

        assert await found("words") == [["- green tea please", "- green tea"]]
        await memory.delete(session_id="words")
        assert await found("vector") == [["- green tea", "- green tea please"]]


async def test_a_reply_that_waits_for_somebody_is_remembered_when_it_ends(tmp_path):
    def brew() -> str:
        """Make tea."""
        return "tea is made"

    tool = FunctionTool(brew)
    state = AgentState(session_id="monday")
    waiting = await reply(
        tmp_path, ScriptedModel([call("brew")]), "Make tea", state=state, tools=[tool]
    )
    assert "aiting" in waiting.get_text_content()
    assert [text for *_, text in remembered(tmp_path)] == ["Make tea"]
    (asked,) = [block for block in state.context[-1].content if block.type == "tool_call"]
    confirmed = UserConfirmResultEvent(
        reply_id=state.context[-1].id,
        confirm_results=[{"confirmed": True, "tool_call": asked}],
    )
    await reply(tmp_path, ScriptedModel("Here it is."), confirmed, state=state, tools=[tool])
    assert [text for *_, text in remembered(tmp_path)] == ["Make tea", "Here it is."]


async def test_others_read_what_was_remembered_and_what_they_remember_is_recalled(tmp_path):
    image = DataBlock(source=URLSource(url="https://example.org/a.png", media_type="image/png"))
    asked = UserMsg("Ada", [TextBlock(text="What is it?"), image])
    answered = await reply(
        tmp_path, ScriptedModel([call("search_memory", keywords=["x"])], "Tea."), asked, mode="both"
    )
    with ContextStore.open(tmp_path) as store:
        mine = store.scope(user_id="ada")
        question, answer = [one.to_message() for one in mine.memory.list().items]
        assert [part.type for part in question.parts] == ["text", "image"]
        assert (question.id, question.name, question.role) == (asked.id, "Ada", "user")
        assert question.native["data"] == asked.model_dump(mode="json")
        # Neither calls nor results, which hold other memories.
        assert [part.type for part in answer.parts] == ["text"]
        assert (answer.id, answer.text, answer.role) == (answered.id, "Tea.", "assistant")
        mine.memory.add([Message.user("The kettle is broken")])
    model = ScriptedModel("Yes.")
    await reply(tmp_path, model, "kettle?", session="tuesday")
    assert recalled(model) == [["- The kettle is broken"]]


async def test_a_reply_survives_a_store_that_is_out_of_reach(tmp_path, caplog):
    (tmp_path / "file").write_text("no directory")
    answer = await reply(tmp_path / "file", ScriptedModel("Hm."), "Hello")
    assert texts([answer]) == ["Hm."]
    assert "could not be remembered" in caplog.text


async def test_a_store_that_is_out_of_reach_fails_a_reply_that_is_to_raise(tmp_path):
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(ContextStoreError):
        await reply(tmp_path / "file", ScriptedModel("Hm."), "Hello", on_error="raise")


async def test_half_an_emoji_is_remembered_as_a_question_mark(tmp_path):
    await reply(tmp_path / "store", ScriptedModel("Hm."), "cut emoji \ud83d")
    assert "cut emoji ?" in str(remembered(tmp_path / "store"))


async def test_bad_options_are_refused(tmp_path):
    wrong = {
        "user_id": ["", " ", None, 7],
        "mode": ["magic"],
        "search": ["magic"],
        "top_k": ["5", True, None],
        "ttl_seconds": [0],
    }
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(InvalidRequestError, match=name):
                LanceContextMemoryMiddleware(tmp_path, **{"user_id": "ada", name: value})
    with pytest.raises(InvalidRequestError, match="vector"):
        await reply(tmp_path, ScriptedModel("Hm."), "Hello", search="vector")
    # Nothing is asked for, or said by the user: nothing is recalled.
    model = ScriptedModel("Hm.", "Hm.", "Hm.")
    await reply(tmp_path, model, "Hello", top_k=0)
    await reply(tmp_path, model, AssistantMsg("Other", "Hello"))
    await reply(tmp_path, model, [])
    assert "What is remembered" not in str(model.asked)
