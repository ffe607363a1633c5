"""The long-term memory of agents of agentscope 1.x: what is recorded, and what is found."""

import asyncio

import pytest
from adapters.agentscope.agentscope1_doubles import CONVERSATION, call, text
from agentscope.memory import InMemoryMemory
from agentscope.message import Msg, ToolResultBlock
from agentscope.tool import Toolkit
from agentscope_lance_context import LanceContextLongTermMemory

from lance_context_core import (
    AsyncContextStore,
    ContextStore,
    ImagePart,
    InvalidRequestError,
    Message,
)


def said(*texts):
    return [Msg("Ada", one, "user") for one in texts]


async def tell(store, *texts, **options):
    await LanceContextLongTermMemory(store, **options).record(said(*texts))


def memories(store, user="ada"):
    return store.scope(user_id=user).memory.list(page_size=100)


async def test_a_working_memory_that_is_recorded_again_and_again_is_remembered_once(tmp_path):
    working = InMemoryMemory()
    for message in CONVERSATION:
        await working.add(message)
        # Each time another process, as it were.
        async with LanceContextLongTermMemory(tmp_path, user_id="ada") as memory:
            await memory.record(await working.get_memory())
    async with await AsyncContextStore.open(tmp_path) as store:
        found = (await memories(store)).items
    # The result of a tool and the message without content say nothing to anybody.
    recorded = [CONVERSATION[n] for n in (0, 1, 3, 4)]
    assert [one.id for one in found] == [one.id for one in recorded]
    assert [one.name for one in found] == ["Ada", "Cook", "Ada", "Ada"]
    assert found[0].to_message().native["data"] == CONVERSATION[0].to_dict()
    assert [part.type for part in found[2].parts][:3] == ["text", "image", "image"]


async def test_what_an_agent_puts_into_its_memory_by_itself_is_not_remembered(tmp_path):
    inserted = [
        Msg("long_term_memory", "Ada likes tea", "user"),
        Msg("user", [text("<retrieved_knowledge>Use it:"), text("Tea is green")], "user"),
        Msg("user", "<system-hint>Go on</system-hint>", "user"),
        Msg("user", "<system-info>Here is a summary", "user"),
    ]
    async with await AsyncContextStore.open(tmp_path) as store:
        memory = LanceContextLongTermMemory(store, user_id="ada")
        await memory.record([*inserted, *said("I said <system-info>")])
        assert [one.text for one in (await memories(store)).items] == ["I said <system-info>"]


async def test_words_are_found_in_the_order_in_which_they_were_said(tmp_path):
    async with await AsyncContextStore.open(tmp_path) as store:
        await tell(store, "tea first", "only cake", "tea second", "tea tea third", user_id="ada")
        memory = LanceContextLongTermMemory(store, user_id="ada")
        (question,) = said("tea?")
        lines = (await memory.retrieve(question)).splitlines()
        assert lines == ["Ada: tea first", "Ada: tea second", "Ada: tea tea third"]
        assert await memory.retrieve(question, limit=1) == "Ada: tea tea third"
        both = await memory.retrieve([question, None, *said("cake")], limit=1)
        assert both.splitlines() == ["Ada: only cake", "Ada: tea tea third"]


async def test_by_meaning_the_most_relevant_comes_first(tmp_path, embedder):
    async with await AsyncContextStore.open(tmp_path, embedder=embedder) as store:
        await tell(store, "green tea", "carrot cake", "green tea please", user_id="ada")
        for search in ("vector", "hybrid"):
            memory = LanceContextLongTermMemory(store, user_id="ada", search=search)
            found = await memory.retrieve(*said("green tea please"), limit=2)
            assert found.splitlines() == ["Ada: green tea please", "Ada: green tea"]


async def test_nothing_is_found_where_nothing_matches_or_is_asked(tmp_path):
    async with LanceContextLongTermMemory(tmp_path, user_id="ada") as memory:
        (question,) = said("tea")
        assert await memory.retrieve(question) == ""
        await memory.record(said("I like tea"))
        image = Msg("Ada", [{"type": "image", "source": {"type": "url", "url": "a"}}], "user")
        for asked, limit in ((None, 5), ([], 5), (question, 0), (question, -1), (image, 5)):
            assert await memory.retrieve(asked, limit=limit) == ""
        assert await memory.retrieve(*said("zebra")) == ""
        assert await memory.retrieve(*said(" \n")) == ""
        nothing = await memory.retrieve_from_memory([], 5)
        assert nothing.content[0]["text"] == "No memories found."


async def test_facts_are_noted_once_and_found_by_each_keyword(tmp_path):
    async with await AsyncContextStore.open(tmp_path) as store:
        for session in ("monday", "tuesday"):
            memory = LanceContextLongTermMemory(store, user_id="ada", session_id=session)
            for facts in (["Ada has a cat", "Ada's tea is green"], ["Ada has a cat"]):
                await memory.record_to_memory("It may matter", facts)
        found = (await memory.retrieve_from_memory(["green", "cat", "cat"])).content[0]["text"]
        assert found.splitlines() == ["Ada has a cat", "Ada's tea is green"]
        blank = await memory.record_to_memory("", ["", " "])
        assert blank.content[0]["text"] == "Nothing to remember."
        assert (await memories(store)).total == 2


async def test_tools_take_what_their_schemas_say(tmp_path):
    toolkit = Toolkit()
    async with LanceContextLongTermMemory(tmp_path) as memory:
        for tool in (memory.record_to_memory, memory.retrieve_from_memory):
            toolkit.register_tool_function(tool)
        schemas = {one["function"]["name"]: one["function"] for one in toolkit.get_json_schemas()}
        taken = {name: set(one["parameters"]["properties"]) for name, one in schemas.items()}
        assert taken == {
            "record_to_memory": {"thinking", "content"},
            "retrieve_from_memory": {"keywords", "limit"},
        }

        async def use(name, **arguments):
            answers = await toolkit.call_tool_function(call(name, **arguments))
            return [one.content[0]["text"] async for one in answers][-1]

        # A model may well give one text where a list is asked for.
        assert await use("record_to_memory", thinking="", content="a cat") == "Remembered 1 facts."
        assert await use("retrieve_from_memory", keywords="cat") == "a cat"
        assert "Error" in await use("retrieve_from_memory", keywords=[7])


async def test_users_never_see_each_others_memories(tmp_path):
    async with await AsyncContextStore.open(tmp_path) as store:
        users = [None, "~", "ada", "ada'--", 'a"da']
        everybody = [LanceContextLongTermMemory(store, user_id=user) for user in users]
        (shared,) = said("tea")
        await asyncio.gather(*(one.record([shared]) for one in everybody))
        for number, one in enumerate(everybody):
            await one.record(said(f"tea of {number}"))
        found = await asyncio.gather(*(one.retrieve(shared) for one in everybody))
        for number, one in enumerate(found):
            assert one.splitlines() == ["Ada: tea", f"Ada: tea of {number}"]


async def test_what_other_frameworks_remember_of_a_user_is_found(tmp_path):
    shown = ImagePart(url="https://example.org/a.png", caption="A cup of tea")
    async with await AsyncContextStore.open(tmp_path) as store:
        for memory in ("My tea is green", [shown]):
            await store.scope(user_id="ada").memory.add([Message.user(memory)])
        memory = LanceContextLongTermMemory(store, user_id="ada")
        assert await memory.retrieve(*said("tea")) == "My tea is green\nA cup of tea"


def test_memories_end_when_they_are_told_to(tmp_path, clock):
    with ContextStore.open(tmp_path, clock=clock) as store:
        memory = LanceContextLongTermMemory(store, ttl_seconds=60)
        asyncio.run(memory.record(said("tea")))
        clock.advance(seconds=59)
        assert asyncio.run(memory.retrieve(*said("tea"))) == "Ada: tea"
        clock.advance(seconds=2)
        assert asyncio.run(memory.retrieve(*said("tea"))) == ""


async def test_bad_input_is_refused_and_nothing_is_written(tmp_path):
    async with await AsyncContextStore.open(tmp_path) as store:
        memory = LanceContextLongTermMemory(store, user_id="ada")
        unstorable = Msg("Ada", "hi", "user", metadata={"a": object()})
        with pytest.raises(InvalidRequestError):
            await memory.record([*said("one"), unstorable])
        with pytest.raises(TypeError, match="give a Msg"):
            await memory.record([*said("one"), "text"])
        with pytest.raises(InvalidRequestError, match="limit"):
            await memory.retrieve(*said("tea"), limit="many")
        for options in ({"search": "magic"}, {"ttl_seconds": 0}, {"user_id": "a\0b"}):
            with pytest.raises(InvalidRequestError, match=next(iter(options))):
                await tell(store, "one", **options)
        assert await memory.record(None) is await memory.record([None]) is None
        result = ToolResultBlock(type="tool_result", id="c", name="x", output=[text("hm")])
        await memory.record([Msg("system", [result], "system")])
        assert (await memories(store)).total == 0
