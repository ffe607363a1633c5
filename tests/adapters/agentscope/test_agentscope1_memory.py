"""The memory of an agent of agentscope 1.x: messages with marks, and a summary."""

import asyncio
import copy

import pytest
from adapters.agentscope.agentscope1_doubles import CONVERSATION, DATA, PNG, plain, text, texts
from agentscope.memory import InMemoryMemory
from agentscope.message import Msg
from agentscope_lance_context import LanceContextMemory
from agentscope_lance_context._blocks import to_parts
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lance_context_core import (
    AsyncContextStore,
    ContextStore,
    InvalidRequestError,
    Message,
    ReasoningPart,
    TextPart,
    ToolCallPart,
)
from lance_context_core.messages import UnknownPart

IDS = ["1", "a'b", 'say "x" %_']
MARKS = ["hint", "a.b", "ab", "it's"]


def message(id):
    made = Msg("Ada", f"says {id}", "user", metadata={"n": [1, None]})
    made.id = id
    return made


def sub(values):
    return st.lists(st.sampled_from(values), max_size=3, unique=True)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), sub(IDS), st.none() | st.sampled_from(MARKS) | sub(MARKS)),
        st.tuples(st.just("delete"), sub(IDS)),
        st.tuples(st.just("delete_by_mark"), st.sampled_from(MARKS) | sub(MARKS)),
        st.tuples(
            st.just("update_messages_mark"),
            st.sampled_from(MARKS) | st.none(),
            st.sampled_from(MARKS) | st.none(),
            st.none() | sub(IDS),
        ).filter(lambda step: step[1] is not None or step[2] is not None),
        st.tuples(st.just("update_compressed_summary"), st.sampled_from(["", "so far: tea"])),
        st.tuples(st.just("clear")),
    ),
    min_size=3,
    max_size=12,
)
FILL = ("add", IDS, ["hint", "a.b"])


async def do(memory, step):
    verb, *arguments = step
    if verb == "clear":
        # AgentScope's keeps the summary of what is no more.
        await memory.update_compressed_summary("")
    if verb in {"add", "add_again"}:
        messages = [message(id) for id in arguments[0]]
        more = {"allow_duplicates": True} if verb == "add_again" else {}
        return await memory.add(messages, arguments[1], **more)
    return await getattr(memory, verb)(*copy.deepcopy(arguments))


async def seen(memory):
    return [
        await memory.size(),
        texts(await memory.get_memory()),
        [one.id for one in await memory.get_memory(prepend_summary=False)],
        *[texts(await memory.get_memory(mark=mark)) for mark in MARKS],
        *[texts(await memory.get_memory(mark, "hint", False)) for mark in MARKS],
        *[texts(await memory.get_memory(exclude_mark=mark)) for mark in MARKS],
    ]


@settings(max_examples=25)
@given(steps=STEPS)
@example(steps=[("update_messages_mark", "it's", "hint", IDS[:2])])
@example(steps=[("update_messages_mark", None, "a.b", IDS[1:])])
@example(steps=[("update_messages_mark", "it's", None, IDS[:1]), ("delete_by_mark", ["it's"])])
@example(steps=[("add_again", IDS[:2], ["it's"]), ("delete", IDS[1:])])
def test_it_does_what_agentscopes_own_memory_does(steps):
    async def main():
        async with LanceContextMemory("memory://", "s") as ours:
            theirs = InMemoryMemory()
            for step in [FILL, *steps]:
                did, expected = await do(ours, step), await do(theirs, step)
                if step[0].startswith("delete"):
                    assert did == expected
            assert await seen(ours) == await seen(theirs)

    asyncio.run(main())


def in_memory(where, use, *session, **options):
    """What `use` returns of a memory that lives for this call."""

    async def main():
        async with LanceContextMemory(where, *session, **options) as memory:
            return await use(memory)

    return asyncio.run(main())


def test_messages_marks_and_the_summary_are_intact_after_a_restart(tmp_path):
    async def talk(memory):
        CONVERSATION[1].invocation_id = "i-1"
        await memory.add(CONVERSATION[:2], marks=["hint", "todo"])
        await memory.add([None, *CONVERSATION[2:]])
        await memory.update_compressed_summary("They talk of tea.")

    async def read(memory):
        return await memory.get_memory(), await memory.get_memory("todo", prepend_summary=False)

    in_memory(tmp_path, talk)
    (summary, *messages), marked = in_memory(tmp_path, read)
    assert (summary.role, summary.content) == ("user", "They talk of tea.")
    assert plain(messages) == plain(CONVERSATION)
    assert plain(marked) == plain(CONVERSATION[:2])


async def test_a_message_that_stands_twice_in_one_call_is_added_once(tmp_path):
    async with LanceContextMemory(tmp_path) as memory:
        await memory.add([message("1"), message("2"), message("1")])
        assert [one.id for one in await memory.get_memory()] == ["1", "2"]


def test_others_read_an_agents_conversation(tmp_path):
    in_memory(tmp_path, lambda memory: memory.add(CONVERSATION, "hint"), "it's", user_id="ada")
    with ContextStore.open(tmp_path) as store:
        found = store.scope(user_id="ada").history.get_messages("", session_id="it's")
        assert store.scope(user_id="bob").history.get_messages("", session_id="it's") == []
    assert [[part.type for part in one.parts] for one in found] == [
        ["text"],
        ["reasoning", "text", "tool_call"],
        ["tool_result"],
        ["text", "image", "image", "audio", "video", "hologram"],
        ["text"],
        [],
    ]
    assert [one.role for one in found] == ["user", "assistant", "tool", "user", "user", "user"]
    assert [one.name for one in found] == ["Ada", "Cook", "system", "Ada", "Ada", "Ada"]
    assert found[1].parts[2].arguments == {"for": "tea", "cups": 2}
    assert (found[2].parts[0].call_id, found[2].text) == ("c1", "two cups")
    assert found[3].parts[1].data == PNG
    assert found[3].parts[2].url == "https://example.org/a.png"


def test_what_others_wrote_is_an_agents_memory(tmp_path):
    from lance_context_core import DataPart, FilePart, ImagePart

    said = [
        Message.user("Is there tea?", id="m1", name="Ada"),
        Message.assistant(
            [
                ReasoningPart(text="hm"),
                TextPart(text="One moment."),
                ToolCallPart(call_id="c1", name="look", arguments={"for": "tea"}),
                ToolCallPart(name="look", arguments="{oops"),
            ]
        ),
        Message.tool(["2", ImagePart(data=PNG, media_type="image/png")], call_id="c1"),
        Message.of("developer", [FilePart(file_id="f1"), DataPart(data={"a": 1})]),
    ]
    with ContextStore.open(tmp_path) as store:
        mine = store.scope(user_id="ada")
        mine.history.append_many("", said, session_id="monday")
    asked, called, answered, told = in_memory(
        tmp_path, lambda memory: memory.get_memory(), "monday", user_id="ada"
    )
    assert (asked.id, asked.name, asked.get_text_content()) == ("m1", "Ada", "Is there tea?")
    assert [block["type"] for block in called.content] == ["thinking", "text", *["tool_use"] * 2]
    assert called.content[2]["input"] == {"for": "tea"}
    assert (called.content[3]["input"], called.content[3]["raw_input"]) == ({}, "{oops")
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}}
    assert answered.content == [
        {"type": "tool_result", "id": "c1", "name": "", "output": [text("2"), image]}
    ]
    assert (answered.role, told.role) == ("system", "system")
    assert texts([told]) == ['[file: f1]\n{"a": 1}']


def test_sessions_users_and_agents_have_memories_of_their_own(tmp_path):
    async def main():
        async with await AsyncContextStore.open(tmp_path) as store:
            memories = [
                LanceContextMemory(store, session, user_id=user, agent_id=agent)
                for session in (None, "it's")
                for user in (None, "~", "ada")
                for agent in ("", "Cook")
            ]
            # The same message, whose id is the same.
            await asyncio.gather(*(memory.add(message("m")) for memory in memories))
            for n, memory in enumerate(memories):
                await memory.add(Msg("Ada", str(n), "user"))
                await memory.update_compressed_summary(f"summary {n}")
            return [texts(await memory.get_memory()) for memory in memories]

    assert asyncio.run(main()) == [[f"summary {n}", "says m", str(n)] for n in range(12)]


async def test_many_tasks_may_add_and_read_at_once(tmp_path):
    async with LanceContextMemory(tmp_path) as memory:
        added = [message(f"m{n}") for n in range(20)]
        await asyncio.gather(*(memory.add(one) for one in added), memory.get_memory())
        assert {one.id for one in await memory.get_memory()} == {one.id for one in added}


def test_a_state_of_the_memory_has_the_summary_which_the_store_overrules(tmp_path):
    async def save(memory):
        await memory.update_compressed_summary("old")
        return memory.state_dict()

    state = in_memory(tmp_path / "a", save)

    async def load(memory):
        memory.load_state_dict(state)
        before = texts(await memory.get_memory())
        await memory.update_compressed_summary("new")
        memory.load_state_dict(state)
        return before, texts(await memory.get_memory())

    assert in_memory(tmp_path / "b", load) == (["old"], ["new"])


async def test_what_is_no_message_or_mark_is_refused_and_nothing_is_written(tmp_path):
    async with LanceContextMemory(tmp_path) as memory:
        unstorable = Msg("Ada", "hi", "user", metadata={"a": object()})
        nameless = message("")
        for refused in ("text", [message("1"), 7], {"a": 1}):
            with pytest.raises(TypeError, match="give a Msg"):
                await memory.add(refused)
        for refused in (unstorable, [message("1"), unstorable], [message("1"), nameless]):
            with pytest.raises(InvalidRequestError):
                await memory.add(refused)
        for wrong in (7, ["a", 7], {"a"}):
            with pytest.raises(TypeError, match="marks"):
                await memory.add(message("1"), marks=wrong)
            with pytest.raises(TypeError, match="mark"):
                await memory.get_memory(mark=wrong)
            with pytest.raises(TypeError, match="exclude_mark"):
                await memory.get_memory(exclude_mark=["a"])
            with pytest.raises(TypeError, match="mark"):
                await memory.delete_by_mark(wrong)
            with pytest.raises(TypeError, match="summary"):
                await memory.update_compressed_summary(wrong)
            with pytest.raises(TypeError, match="new_mark"):
                await memory.update_messages_mark(["a"])
            with pytest.raises(TypeError, match="msg_ids"):
                await memory.update_messages_mark("x", msg_ids=wrong)
        assert await memory.add(None) is await memory.add([]) is None
        assert await memory.update_messages_mark(None, msg_ids=["1"]) == 0
        assert (await memory.size(), await memory.delete(["absent"])) == (0, 0)
    with pytest.raises(InvalidRequestError, match="store"):
        LanceContextMemory(7)


def test_data_without_a_media_type_is_kept_as_what_nobody_has_a_word_for():
    block = {"type": "image", "source": {"type": "base64", "data": "AAAA"}}
    (part,) = to_parts([block])
    assert part == UnknownPart(type="image", payload={"source": block["source"]})
