"""States of agents of agentscope 2.x, saved and loaded, and the conversations in them."""

import asyncio
import itertools
import json
import random
from dataclasses import replace

import pytest
from adapters.agentscope.agentscope2_doubles import (
    PNG,
    ScriptedModel,
    agent,
    call,
    conversation,
    texts,
)
from agentscope.message import AssistantMsg, HintBlock, TextBlock, UserMsg
from agentscope.permission import PermissionMode
from agentscope.state import AgentState
from agentscope.tool import FunctionTool, Toolkit
from agentscope_lance_context import LanceContextAgentStateStore

from lance_context_core import (
    AsyncContextStore,
    ContextStore,
    DataPart,
    FilePart,
    ImagePart,
    InvalidRequestError,
    Message,
    ReasoningPart,
    ToolCallPart,
)
from lance_context_core.messages import UnknownPart


async def saved(where, state, **whose):
    async with LanceContextAgentStateStore(where) as states:
        await states.save(state, **whose)


async def loaded(where, session_id, **whose):
    async with LanceContextAgentStateStore(where) as states:
        return await states.load(session_id, **whose)


def history(where, session_id, user="~", agent_id=""):
    with ContextStore.open(where) as store:
        return store.scope(user_id=user).history.get_messages(agent_id, session_id=session_id)


def look(shelf: str) -> str:
    """Look what there is.

    Args:
        shelf (str): Which one.
    """
    return f"green tea on {shelf}"


async def test_an_agent_goes_on_after_a_restart_where_it_was(tmp_path):
    async def turn(model, said):
        async with LanceContextAgentStateStore(tmp_path) as states:
            state = await states.load("monday", user_id="ada") or AgentState(session_id="monday")
            one = agent(model, state=state, toolkit=Toolkit(tools=[FunctionTool(look)]))
            state.permission_context.mode = PermissionMode.BYPASS
            answer = await one.reply(UserMsg("Ada", said))
            await states.save(one.state, user_id="ada")
            return answer.get_text_content(), state

    looking = ScriptedModel([call("look", shelf="the left")], "There is green tea.")
    first, _ = await turn(looking, "Is there tea?")
    model = ScriptedModel("Green.")
    second, state = await turn(model, "Which one?")
    assert (first, second) == ("There is green tea.", "Green.")
    asked = [one for one in map(str, model.asked[0]) if not one.startswith("<system-reminder")]
    told = [one for one in asked if "system-reminder" not in one]
    assert told[0].startswith("You cook.")
    assert told[1] == "Is there tea?"
    assert "green tea on the left" in str(told[2])
    assert told[3:] == ["There is green tea.", "Which one?"]
    # Others read the whole of it, too.
    found = [one for one in history(tmp_path, "monday", "ada") if one.role != "system"]
    assert [one.id for one in found] == [one.id for one in state.context]
    assert [one.text for one in found if one.role == "user"] == ["Is there tea?", "Which one?"]


async def test_a_state_is_intact_after_a_restart(tmp_path):
    state = AgentState(session_id="it's", summary=[TextBlock(text="so far")])
    state.context = conversation()
    state.middle_context = {"any": [1, None, {"ü": 2**80}]}
    state.cur_iter = 3
    await saved(tmp_path, state, user_id="a'da", agent_id="Cook")
    found = await loaded(tmp_path, "it's", user_id="a'da", agent_id="Cook")
    assert found.model_dump() == state.model_dump()


async def test_others_read_the_conversation_as_it_is(tmp_path):
    state = AgentState(session_id="s", context=conversation())
    await saved(tmp_path, state)
    asked, answered, shown, told = history(tmp_path, "s")
    assert [one.role for one in (asked, answered, shown, told)] == [
        *("user", "assistant", "user", "system")
    ]
    assert (asked.id, asked.name, asked.text) == (state.context[0].id, "Ada", "Is there tea?")
    kinds = ["reasoning", "text", "tool_call", "tool_result", "hint", "text"]
    assert [part.type for part in answered.parts] == kinds
    assert answered.parts[0] == ReasoningPart(text="Let me look", signature="s")
    assert answered.parts[2].arguments == {"for": "tea"}
    assert answered.parts[3].content[1] == ImagePart(data=PNG, media_type="image/png", name="a.png")
    assert isinstance(answered.parts[4], UnknownPart)
    assert answered.text == "One moment.\ntwo cups\nThere is."
    assert [part.type for part in shown.parts] == ["text", "image", "audio", "file"]
    assert (shown.parts[2].url, shown.parts[3].name) == ("https://example.org/a.mp3", "a.pdf")
    assert told.text == "\"; DROP TABLE records; -- ' OR 1=1 \\ \n"


async def test_the_conversation_grows_with_the_state_and_outlives_what_is_summarised(tmp_path):
    async with LanceContextAgentStateStore(tmp_path) as states:
        state = AgentState(session_id="s", context=[UserMsg("Ada", "one"), UserMsg("Ada", "two")])
        await states.save(state)
        growing = AssistantMsg("Cook", [TextBlock(text="Let me see.")])
        state.context.append(growing)
        await states.save(state)
        version = await states._handle.aio.version()
        await states.save(state)
        # Nothing has changed in it.
        assert await states._handle.aio.version() == version
        growing.content.append(TextBlock(text="Three."))
        # A hint in between cuts a reply in two, which have one id.
        state.context.append(AssistantMsg("memory", [HintBlock(hint="psst")]))
        state.context.append(AssistantMsg("Cook", "Four.", id=growing.id))
        del state.context[:1]
        state.summary = "Ada counts."
        for _ in range(2):
            await states.save(state)
        assert texts((await states.load("s")).context) == [
            *("two", "Let me see.\nThree.", None, "Four.")
        ]
    said = [one.text for one in history(tmp_path, "s")]
    assert said == ["one", "two", "Let me see.\nThree.", "Four."]


async def test_an_agent_goes_on_with_a_conversation_of_another_framework(tmp_path):
    async with await AsyncContextStore.open(tmp_path) as store:
        talk = [
            Message.system(["Be brief.", DataPart(data={"a": 1})]),
            Message.user(["Is there tea?", FilePart(file_id="f1"), ToolCallPart(name="x")], id="m"),
            Message.assistant(
                [ReasoningPart(text="hm"), ToolCallPart(call_id="c", name="look", arguments="{oo")]
            ),
            Message.tool(["two", ImagePart(data=PNG, media_type="image/png")], call_id="c"),
            Message.assistant(ImagePart(url="https://example.org/a.png")),
        ]
        await store.scope(user_id="ada").history.append_many("", talk, session_id="s")
        states = LanceContextAgentStateStore(store)
        assert await states.load("s", user_id="bob") is None
        state = await states.load("s", user_id="ada")
        assert [one.role for one in state.context] == ["system", "user", *["assistant"] * 3]
        assert texts(state.context[:2]) == [
            'Be brief.\n{"a": 1}',
            "Is there tea?\n[file: f1]\n[tool_call: x {}]",
        ]
        assert state.context[1].id == "m"
        thought, asked = state.context[2].content
        assert (thought.thinking, asked.name, asked.input) == ("hm", "look", "{oo")
        (result,) = state.context[3].content
        assert (result.id, result.output[0].text) == ("c", "two")
        assert result.output[1].source.media_type == "image/png"
        assert str(state.context[4].content[0].source.url) == "https://example.org/a.png"
        model = ScriptedModel("Yes.")
        await agent(model, state=state).reply(UserMsg("Ada", "So?"))
        await states.save(state, user_id="ada")
        found = [
            one.text
            for one in await store.scope(user_id="ada").history.get_messages("", session_id="s")
        ]
        assert found[0].startswith("Be brief.")
        assert found[-1] == "Yes."


async def test_what_others_wrote_stays_theirs_when_an_agent_goes_on(tmp_path):
    async with await AsyncContextStore.open(tmp_path) as store:
        history = store.scope(user_id="ada").history
        native = {"framework": "another", "data": {"odd": [1, None]}}
        picture = ImagePart(data=PNG, media_type="image/png", caption="a cup")
        talk = [Message.user(["What is it?", picture], native=native), Message.assistant("Tea.")]
        await history.append_many("", talk, session_id="s")
        theirs = await history.get_messages("", session_id="s")
        states = LanceContextAgentStateStore(store)
        for said in ("Which?", "Really?"):
            state = await states.load("s", user_id="ada")
            state.context.append(UserMsg("Ada", said))
            await states.save(state, user_id="ada")
        found = await history.get_messages("", session_id="s")
        assert found[:2] == theirs
        assert [one.text for one in found[2:]] == ["Which?", "Really?"]
        # What the agent changes is its own from then on.
        state.context[1].content.append(TextBlock(text="Green."))
        await states.save(state, user_id="ada")
        texts_now = [one.text for one in await history.get_messages("", session_id="s")]
        assert texts_now == ["What is it?", "Tea.\nGreen.", "Which?", "Really?"]


async def test_what_others_add_is_in_the_state(tmp_path):
    async with await AsyncContextStore.open(tmp_path) as store:
        history = store.scope(user_id="ada").history
        states = LanceContextAgentStateStore(store)
        state = AgentState(session_id="s", context=[UserMsg("Ada", "one"), UserMsg("Ada", "two")])
        await states.save(state, user_id="ada")
        del state.context[0]
        await states.save(state, user_id="ada")
        for said in ("three", "four"):
            await history.append("", Message.user(said), session_id="s")
            state = await states.load("s", user_id="ada")
            await states.save(state, user_id="ada")
        assert texts(state.context) == ["two", "three", "four"]
        said = [one.text for one in await history.get_messages("", session_id="s")]
        assert said == ["one", "two", "three", "four"]


async def test_what_is_forgotten_elsewhere_is_in_no_state(tmp_path):
    async with await AsyncContextStore.open(tmp_path) as store:
        ada = store.scope(user_id="ada")
        states = LanceContextAgentStateStore(store)
        said = [UserMsg("Ada", f"it is {word}", id=word) for word in ("a-secret", "tea", "late")]
        await states.save(AgentState(session_id="s", context=said), user_id="ada")
        await ada.erase(ids=["a-secret"], sole_writer=True)
        assert texts((await states.load("s", user_id="ada")).context) == ["it is tea", "it is late"]
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert files
        assert [path for path in files if b"it is a-secret" in path.read_bytes()] == []
        await ada.history.clear("", session_id="s")
        assert await states.load("s", user_id="ada") is None


async def test_users_agents_and_sessions_have_states_of_their_own(tmp_path):
    async with LanceContextAgentStateStore(tmp_path) as states:
        whose = [
            {"session_id": session, "user_id": user, "agent_id": agent_id}
            for session in ("a", "it's")
            for user in ("", "~", "ada")
            for agent_id in ("", "Cook")
        ]

        def made(session_id, said):
            message = UserMsg("Ada", said, id="m")
            return AgentState(session_id=session_id, context=[message])

        await asyncio.gather(
            *(
                states.save(
                    made(one["session_id"], str(n)),
                    user_id=one["user_id"],
                    agent_id=one["agent_id"],
                )
                for n, one in enumerate(whose)
            )
        )
        for n, one in enumerate(whose):
            assert texts((await states.load(**one)).context) == [str(n)]
        listed = await states.session_ids(user_id="ada", agent_id="Cook")
        assert sorted(listed) == ["a", "it's"]
        assert await states.delete("a", user_id="ada", agent_id="Cook")
        assert not await states.delete("a", user_id="ada", agent_id="Cook")
        assert await states.load("a", user_id="ada", agent_id="Cook") is None
        assert await states.load("a", user_id="ada") is not None
        assert await states.session_ids(user_id="ada", agent_id="Cook") == ["it's"]


def test_a_state_that_is_not_used_for_long_ends(tmp_path, clock):
    with ContextStore.open(tmp_path, clock=clock) as store:
        states = LanceContextAgentStateStore(store, ttl_seconds=60)
        asyncio.run(states.save(AgentState(session_id="s", summary="kept")))
        for _ in range(3):
            clock.advance(seconds=59)
            assert asyncio.run(states.load("s")).summary == "kept"
        clock.advance(seconds=60)
        assert asyncio.run(states.load("s")) is None


async def test_what_is_saved_beside_a_conversation_does_not_grow_with_it(tmp_path):
    async with await AsyncContextStore.open(tmp_path) as store:
        states, sizes = LanceContextAgentStateStore(store), []
        commits = tmp_path / "records.lance" / "_versions"
        for number in range(40):
            state = await states.load("s") or AgentState(session_id="s")
            state.context += [
                UserMsg("Ada", f"question {number:02}"),
                AssistantMsg("Cook", [TextBlock(text=f"answer {number:02}")]),
            ]
            await states.save(state)
            if number == 0:
                n_commits = len([*commits.iterdir()])
            (item,) = await store.scope(user_id="~").kv("agentscope_agent_states").list()
            sizes.append(len(item.data) + len(json.dumps(item.value)))
        assert len(state.context) == 80
        # A few bytes are for the number of the messages.
        assert max(sizes) - min(sizes) < 16
        # Each turn is appended: it is no commit of its own.
        assert len([*commits.iterdir()]) == n_commits


async def test_a_state_that_an_earlier_release_saved_goes_on(tmp_path):
    async with await AsyncContextStore.open(tmp_path) as store:
        states = LanceContextAgentStateStore(store)
        hint = AssistantMsg("memory", [HintBlock(hint="psst")])
        words = ["one", "two", "three", "four"]
        said = [UserMsg("Ada", word, id=word) for word in words]
        await states.save(AgentState(session_id="s", context=said), user_id="ada")
        items = store.scope(user_id="ada").kv("agentscope_agent_states")
        (item,) = await items.list()
        # As it was kept then: with the ids of all messages, here without the first one.
        data = json.loads(item.data)
        data["context"] = ["two", hint.model_dump(mode="json"), "three", "four"]
        value = {"messages": dict.fromkeys(words[1:], "a digest"), "last": "four"}
        await items.put([replace(item, value=value, data=json.dumps(data).encode())])
        history = store.scope(user_id="ada").history
        await history.append("", Message.user("five", id="five"), session_id="s")
        expected = ["two", None, "three", "four", "five"]
        for _ in range(2):
            state = await states.load("s", user_id="ada")
            assert texts(state.context) == expected
            assert state.context[1].content == hint.content
            state.context.append(UserMsg("Ada", "more"))
            expected.append("more")
            await states.save(state, user_id="ada")
        kept = await history.get_messages("", session_id="s")
        assert [one.text for one in kept] == [*words, "five", "more", "more"]


async def test_what_others_add_while_an_agent_answers_is_in_the_state(tmp_path):
    async with (
        LanceContextAgentStateStore(tmp_path) as states,
        await AsyncContextStore.open(tmp_path) as another,
    ):
        talk = another.scope(user_id="ada").history
        await states.save(AgentState(session_id="s", context=[UserMsg("Ada", "a")]), user_id="ada")
        state = await states.load("s", user_id="ada")
        for said, theirs in (("b", "x"), ("c", "y")):
            await talk.append("", Message.user(theirs), session_id="s")
            state.context.append(UserMsg("Ada", said))
            await states.save(state, user_id="ada")
        state = await states.load("s", user_id="ada")
        assert texts(state.context) == ["a", "x", "b", "y", "c"]
        # Loaded once more it is the same, so that nothing is written anew for it.
        assert await states.load("s", user_id="ada") == state


async def test_a_save_that_was_cut_short_is_repeated_with_a_reply_that_has_grown(tmp_path):
    async with await AsyncContextStore.open(tmp_path) as store:
        states = LanceContextAgentStateStore(store)
        reply = AssistantMsg("Cook", [TextBlock(text="Let me see.")])
        state = AgentState(session_id="s", context=[UserMsg("Ada", "begin")])
        await states.save(state)
        items = store.scope(user_id="~").kv("agentscope_agent_states")
        (before,) = await items.list()
        state.context.append(reply)
        await states.save(state)
        # As if the second part of that had not come about.
        await items.put([before])
        reply.content.append(TextBlock(text="Three."))
        await states.save(state)
        expected = ["begin", "Let me see.\nThree."]
        assert texts((await states.load("s")).context) == expected
    assert [one.text for one in history(tmp_path, "s")] == expected


@pytest.mark.parametrize("seed", range(4))
async def test_a_state_has_what_the_agent_left_in_it_and_what_others_added(tmp_path, seed):
    draw = random.Random(seed)
    async with await AsyncContextStore.open(tmp_path) as store:
        states = LanceContextAgentStateStore(store)
        talk = store.scope(user_id="ada").history
        state, told, forgotten = AgentState(session_id="s"), itertools.count(), set()
        for _ in range(30):
            did = draw.choice(["say", "say", "grow", "front", "middle", "other", "forget", "hint"])
            context = state.context
            spoken = [one for one in context if not is_hint(one)]
            if did == "say":
                context.append(UserMsg("Ada", f"q{next(told)}"))
                context.append(AssistantMsg("Cook", [TextBlock(text=f"a{next(told)}")]))
            elif did == "hint":
                context.append(AssistantMsg("memory", [HintBlock(hint=f"h{next(told)}")]))
            elif did == "grow" and spoken:
                spoken[-1].content.append(TextBlock(text=f"g{next(told)}"))
            elif did == "front":
                del context[: draw.randint(0, len(context))]
            elif did == "middle" and len(context) > 2:
                del context[draw.randrange(1, len(context) - 1)]
            await states.save(state, user_id="ada")
            expected = [one.model_dump() for one in state.context]
            if did == "other":
                more = Message.user(f"o{next(told)}", id=f"o{next(told)}")
                await talk.append("", more, session_id="s")
            elif did == "forget" and spoken:
                gone = draw.choice(spoken).id
                forgotten.add(gone)
                await talk.clear("", session_id="s", filter={"id": gone})
                expected = [one for one in expected if one["id"] != gone]
                if not [one for one in expected if not is_hint(one)]:
                    break
            state = await states.load("s", user_id="ada")
            found = [one.model_dump() for one in state.context]
            if did == "other":
                assert texts(state.context[-1:]) == [more.text]
                found.pop()
                # From now on the agent may leave it out again.
                await states.save(state, user_id="ada")
            # A hint whose message is gone may come earlier.
            assert order_of(found) == order_of(expected)
            assert sorted(map(str, found)) == sorted(map(str, expected))
            if not forgotten:
                assert found == expected


def is_hint(one):
    content = one["content"] if isinstance(one, dict) else one.content
    kinds = [block["type"] if isinstance(block, dict) else block.type for block in content]
    return kinds != [] and set(kinds) == {"hint"}


def order_of(context):
    return [one["id"] for one in context if not is_hint(one)]


async def test_bad_states_are_refused_and_nothing_is_written(tmp_path):
    async with LanceContextAgentStateStore(tmp_path) as states:
        unstorable = AgentState(session_id="s", middle_context={"a": object()})
        too_large = AgentState(session_id="s", context=[UserMsg("A", "x", metadata={"n": 2**80})])
        for wrong in (unstorable, too_large, AgentState(session_id=""), {"session_id": "s"}):
            with pytest.raises(InvalidRequestError):
                await states.save(wrong)
        for session_id in ("", None, 7, "a\0"):
            with pytest.raises(InvalidRequestError):
                await states.load(session_id)
        assert await states.load("s") is None
        assert await states.session_ids() == []
        empty = AgentState(session_id="s")
        await states.save(empty)
        assert (await states.load("s")).model_dump() == empty.model_dump()
    assert history(tmp_path, "s") == []
