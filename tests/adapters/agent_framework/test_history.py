"""Messages are stored once and in order, come back equal, and are parts for other frameworks."""

import asyncio

import pytest
from adapters.agent_framework.samples import (
    EVERYTHING,
    PNG,
    agent_with,
    answer,
    call,
    forms,
    model,
    said,
    user,
)
from agent_framework import (
    CompactionProvider,
    Content,
    HistoryProvider,
    Message,
    SlidingWindowStrategy,
)
from agent_framework_lance_context import LanceHistoryProvider
from langchain_lance_context import LanceContextChatMessageHistory

from lance_context_core import ImagePart, TextPart, ToolCallPart, ToolResultPart
from lance_context_core import Message as Canonical


async def test_everything_comes_back_equal_and_is_another_object(history):
    await history.save_messages("1", EVERYTHING)
    found = await history.get_messages("1")
    assert forms(found) == forms(EVERYTHING)
    found[0].contents.clear()
    assert forms(await history.get_messages("1")) == forms(EVERYTHING)


async def test_an_unknown_session_is_empty_and_nothing_is_added_of_nothing(history, store):
    await history.save_messages("1", [])
    assert await history.get_messages("1") == []
    assert await store.history.session_ids("") == []


async def test_other_frameworks_read_calls_results_and_images_as_parts(history, store):
    await history.save_messages("1", EVERYTHING)
    stored = await store.history.get_messages("", session_id="1")
    assert (stored[0].id, stored[0].name) == ("m-1", "Ada")
    assert stored[0].parts[1] == ImagePart(data=PNG, media_type="image/png", name="mole.png")
    calls = [part for part in stored[1].parts if isinstance(part, ToolCallPart)]
    assert [one.arguments for one in calls] == [{"city": "Oslo"}, {"city": "Rome"}, "not JSON"]
    sunny, rain, failed = stored[2].parts
    assert sunny == ToolResultPart(call_id="c1", name="weather", content=(TextPart(text="sunny"),))
    assert rain.content[1] == ImagePart(data=PNG, media_type="image/png")
    assert failed.is_error
    assert failed.content == ()
    for name, result in {"search": "found", "code_interpreter": "1", "shell": "a.txt"}.items():
        found = [one for one in stored[3].parts if getattr(one, "name", None) == name]
        assert [type(one) for one in found] == [ToolCallPart, ToolResultPart]
        assert found[1].content == (TextPart(text=result),)
    # What a tool was called with is not what someone said.
    assert [hit.record.text for hit in await store.search("Oslo", mode="text")] == []


def test_langchain_reads_the_conversation_and_its_messages_are_read(history, tmp_path):
    chats = LanceContextChatMessageHistory(tmp_path / "memory", "1")
    asyncio.run(
        history.save_messages("1", [user("Rain?"), call(city="Oslo"), answer("no"), model("No.")])
    )
    asked, called, told, last = chats.messages
    assert (asked.type, asked.content) == ("human", "Rain?")
    assert called.tool_calls[0]["args"] == {"city": "Oslo"}
    assert (told.type, told.content, told.tool_call_id) == ("tool", "no", "c1")
    assert (last.type, last.content) == ("ai", "No.")
    chats.add_messages([called.model_copy(update={"id": "x"}), told.model_copy(update={"id": "y"})])
    back = asyncio.run(history.get_messages("1"))[4:]
    assert [one.role for one in back] == ["assistant", "tool"]
    assert back[0].contents[-1].arguments == {"city": "Oslo"}
    assert (back[1].contents[0].call_id, back[1].contents[0].result) == ("c1", "no")
    chats.close()


async def test_a_message_with_calls_and_their_results_becomes_one_of_each_role(history, store):
    parts = [
        TextPart(text="One moment."),
        ToolCallPart(call_id="c1", name="find", arguments={"q": 1}),
        ToolResultPart(call_id="c1", content=(TextPart(text="tea"),), is_error=True),
        ImagePart(url="no-scheme.png"),
    ]
    both = [
        Canonical(role="ai", parts=tuple(parts), id="a"),
        Canonical.of("developer", "Be brief."),
    ]
    await store.history.append_many("", both, session_id="1")
    found = await history.get_messages("1")
    assert [one.role for one in found] == ["assistant", "tool", "assistant", "system"]
    assert [one.message_id for one in found[:3]] == ["a", None, None]
    assert found[1].contents[0].exception
    assert found[2].text == "[image: no-scheme.png]"


# Replays


async def test_transcripts_that_are_passed_again_in_five_rounds_are_stored_once(history):
    transcript = []
    for n in range(5):
        transcript += [
            user(f"question {n}"),
            call(f"c{n}"),
            answer("sunny", f"c{n}"),
            model("Yes."),
        ]
        await history.save_messages("1", transcript)
    assert forms(await history.get_messages("1")) == forms(transcript)


async def test_a_transcript_with_ids_is_stored_once_also_if_its_middle_is_missing_here(history):
    transcript = [user("a", message_id="1"), model("b", message_id="2"), user("c", message_id="3")]
    await history.save_messages("1", [transcript[0], transcript[2]])
    more = [*transcript, model("d", message_id="4")]
    for _ in range(3):
        await history.save_messages("1", more)
    # What was missing is added at the end, once.
    assert sorted(said(await history.get_messages("1"))) == sorted(said(more))


async def test_the_second_yes_of_a_user_is_kept(history):
    agent, client = agent_with(history, script=["Sure?", "Sure?", "Sure?"])
    session = agent.create_session(session_id="1")
    for _ in range(3):
        await agent.run("yes", session=session)
    turn = [("user", "yes"), ("assistant", "Sure?")]
    assert said(await history.get_messages("1")) == turn * 3
    assert client.last_given == [*turn * 2, ("user", "yes")]


async def test_a_user_who_repeats_the_last_message_is_heard(history):
    await history.save_messages("1", [user("yes")])
    await history.save_messages("1", [user("yes"), model("I heard it.")])
    assert said(await history.get_messages("1"))[:2] == [("user", "yes")] * 2


async def test_one_id_for_several_messages_loses_none_of_them(history):
    for text in ("one", "two", "three"):
        await history.save_messages("1", [user("next"), model(text, message_id="response")])
    texts = [text for _, text in said(await history.get_messages("1"))]
    assert texts == ["next", "one", "next", "two", "next", "three"]
    await history.save_messages("2", [user("a", message_id="x"), model("b", message_id="x")])
    assert len(await history.get_messages("2")) == 2


async def test_a_transcript_behind_messages_that_are_not_stored_is_stored_once(history):
    transcript = [user("a"), model("b")]
    await history.save_messages("1", transcript)
    instructions = [Message("system", ["Be brief."])]
    more = [user("c"), model("d")]
    await history.save_messages("1", [*instructions, *transcript, *more])
    assert said(await history.get_messages("1")) == said([*transcript, *more])


async def test_a_turn_with_an_id_that_is_saved_again_is_stored_once(history):
    for _ in range(2):
        await history.save_messages("1", [user("yes", message_id="u1"), model("Done.")])
    assert said(await history.get_messages("1")) == [("user", "yes"), ("assistant", "Done.")]


async def test_ids_that_compaction_gives_by_position_are_nobodys(history):
    for _ in range(2):
        await history.save_messages("1", [user("yes", message_id="msg_4"), model("Done.")])
    assert len(await history.get_messages("1")) == 4


async def test_persistence_at_each_call_of_the_model_stores_each_message_once(history):
    def weather(city: str) -> str:
        """The weather."""
        return f"sunny in {city}"

    script = [call("c1", city="Oslo"), call("c2", city="Rome"), "Sunny in both."]
    agent, _ = agent_with(
        history, script=script, tools=[weather], require_per_service_call_history_persistence=True
    )
    session = agent.create_session(session_id="1")
    await agent.run("Weather?", session=session)
    await agent.run("Thanks.", session=session)
    roles = [one.role for one in await history.get_messages("1")]
    assert roles == ["user", *["assistant", "tool"] * 2, "assistant", "user", "assistant"]


# Providers of one agent


async def test_two_sources_of_one_session_share_nothing(history, store):
    audit = LanceHistoryProvider(store, source_id="audit", load_messages=False)
    agent, client = agent_with(history, audit, script=["Hello."])
    session = agent.create_session(session_id="1")
    await audit.save_messages("1", [user("only in the audit")])
    await agent.run("Hi.", session=session)
    assert client.last_given == [("user", "Hi.")]
    turn = [("user", "Hi."), ("assistant", "Hello.")]
    assert said(await audit.get_messages("1")) == [("user", "only in the audit"), *turn]
    assert await history.clear("1") == 2
    assert len(await audit.get_messages("1")) == 3
    assert await history.get_messages("1") == []


async def test_a_source_with_an_agent_of_its_own_stands_beside_it(store):
    audit = LanceHistoryProvider(store, source_id="audit", agent_id="tutor")
    await audit.save_messages("1", [user("a")])
    assert await LanceHistoryProvider(store, agent_id="tutor").get_messages("1") == []
    assert await store.history.count("tutor/audit", session_id="1") == 1
    tutor = store.scope(agent_id="tutor")
    with pytest.raises(ValueError, match="source_id='audit' needs an agent of its own"):
        LanceHistoryProvider(tutor, source_id="audit")
    await LanceHistoryProvider(tutor).save_messages("1", [user("b")])
    assert said(await LanceHistoryProvider(store, agent_id="tutor").get_messages("1")) == [
        ("user", "b")
    ]


async def test_calls_without_a_session_have_one_of_their_own(history):
    await history.save_messages(None, [user("nobody's")])
    await history.save_messages("default", [user("somebody's")])
    assert said(await history.get_messages(None)) == [("user", "nobody's")]
    assert said(await history.get_messages("default")) == [("user", "somebody's")]
    assert await history.clear(None) == 1


async def test_what_is_stored_follows_the_flags_of_the_framework(store):
    inputs = LanceHistoryProvider(store, source_id="inputs", store_outputs=False)
    outputs = LanceHistoryProvider(store, source_id="outputs", store_inputs=False)
    assert isinstance(inputs, HistoryProvider)
    agent, _ = agent_with(inputs, outputs, script=["Fine.", "Fine."])
    session = agent.create_session(session_id="1")
    for _ in range(2):
        await agent.run("How are you?", session=session)
    assert said(await inputs.get_messages("1")) == [("user", "How are you?")] * 2
    assert said(await outputs.get_messages("1")) == [("assistant", "Fine.")] * 2


async def test_a_streamed_run_is_stored(history):
    agent, _ = agent_with(history, script=["Hello."])
    session = agent.create_session(session_id="1")
    async for _ in agent.run("Hi.", session=session, stream=True):
        pass
    assert said(await history.get_messages("1")) == [("user", "Hi."), ("assistant", "Hello.")]


async def test_approvals_that_are_settled_are_not_loaded_and_stay_stored(history):
    wanted = Content.from_function_call("c7", "send", arguments={"to": "Ben"})
    controls = [
        Message("assistant", [Content.from_function_approval_request("a1", wanted)]),
        Message("user", [Content.from_function_approval_response(True, "a1", wanted)]),
    ]
    await history.save_messages("1", [*controls, answer("sent", "c7")])
    agent, client = agent_with(history)
    await agent.run("Sent?", session=agent.create_session(session_id="1"))
    assert [one.role for one in client.given[-1]] == ["tool", "user"]
    assert forms((await history.get_messages("1"))[:2]) == forms(controls)


# Less than all is loaded


async def test_the_last_messages_are_loaded_without_results_whose_calls_are_not(store):
    turn = [user("Rain?"), call(), answer("no"), model("No.")]
    await LanceHistoryProvider(store).save_messages("1", turn)
    loaded = {
        n: [one.role for one in await LanceHistoryProvider(store, max_messages=n).get_messages("1")]
        for n in (0, 1, 2, 3, 9)
    }
    assert loaded == {
        0: [],
        1: ["assistant"],
        2: ["assistant"],
        3: ["assistant", "tool", "assistant"],
        9: ["user", "assistant", "tool", "assistant"],
    }
    await LanceHistoryProvider(store, max_messages=0).save_messages("1", [user("Thanks.")])
    assert await store.history.count("", session_id="1") == 5


async def test_messages_that_compaction_has_excluded_are_left_out_if_wanted(store):
    marked = user("old", additional_properties={"_excluded": True})
    await LanceHistoryProvider(store).save_messages("1", [marked, model("new")])
    some = await LanceHistoryProvider(store, skip_excluded=True).get_messages("1")
    assert said(some) == [("assistant", "new")]
    assert forms(await LanceHistoryProvider(store).get_messages("1"))[0] == marked.to_dict()


async def test_the_compaction_of_the_framework_shortens_the_prompt_and_not_the_store(history):
    compaction = CompactionProvider(
        before_strategy=SlidingWindowStrategy(keep_last_groups=2),
        history_source_id=history.source_id,
    )
    agent, client = agent_with(history, compaction)
    session = agent.create_session(session_id="1")
    for n in range(5):
        await agent.run(f"question {n}", session=session)
    assert client.last_given == [
        *[("user", "question 3"), ("assistant", "Yes."), ("user", "question 4")]
    ]
    stored = [text for role, text in said(await history.get_messages("1")) if role == "user"]
    assert stored == [f"question {n}" for n in range(5)]
