"""What matches is recalled before a run, from every session but this one, and remembered after it."""

import logging

import pytest
from adapters.agent_framework.samples import agent_with, answer, call, model, said, user
from agent_framework import SessionContext
from agent_framework_lance_context import LanceContextProvider, LanceHistoryProvider
from core.conformance.doubles import WordVectors

from lance_context_core import AsyncContextStore, ContextStore, Message, StorageError


async def recalled(provider, *messages, session_id="now"):
    """The message that a run is given, and its lines without their days."""
    context = SessionContext(session_id=session_id, input_messages=list(messages))
    await provider.before_run(agent=None, session=None, context=context, state={})
    if not context.get_messages():
        return []
    (message,) = context.get_messages()
    return [line.partition(", ")[2] for line in message.text.splitlines() if line[:2] == "- "]


async def test_the_next_session_knows_what_the_user_said_before(store):
    agent, client = agent_with(LanceContextProvider(store), script=["Noted.", "No nuts."])
    await agent.run("I am allergic to nuts.", session=agent.create_session(session_id="1"))
    await agent.run("May I eat nuts?", session=agent.create_session(session_id="2"))
    (context, asked) = client.given[-1]
    assert context.role == "user"
    assert context.text.endswith(", memory: I am allergic to nuts.")
    assert asked.text == "May I eat nuts?"
    about = context.additional_properties["_attribution"]
    assert about == {
        "source_id": "lance_context",
        "source_type": "LanceContextProvider",
        "origin_session_ids": ["1"],
    }


async def test_messages_of_all_frameworks_are_recalled_and_each_text_once(store):
    history = LanceHistoryProvider(store)
    provider = LanceContextProvider(store)
    await history.save_messages("1", [user("Nuts?"), call(food="nuts"), answer("nuts: no")])
    await store.history.append("tutor", Message.assistant("No nuts today."), session_id="x")
    await store.memory.add(["Nuts?", "Hates nuts."])
    found = await recalled(provider, user("nuts"))
    assert sorted(one.partition(": ")[2] for one in found) == [
        *("Hates nuts.", "No nuts today.", "Nuts?")
    ]


async def test_the_session_of_the_run_is_not_recalled(store):
    history, provider = LanceHistoryProvider(store), LanceContextProvider(store)
    agent, client = agent_with(history, provider)
    session = agent.create_session(session_id="1")
    for _ in range(2):
        await agent.run("I like nuts.", session=session)
    assert client.last_given == [
        *[("user", "I like nuts."), ("assistant", "Yes."), ("user", "I like nuts.")]
    ]


async def test_the_newest_words_of_the_user_are_the_question(store):
    await store.memory.add(["Likes tea.", "Likes nuts."])
    provider = LanceContextProvider(store, limit=1)
    transcript = [user("tea tea tea"), model("Tea!"), user("nuts")]
    assert await recalled(provider, *transcript) == ["memory: Likes nuts."]
    assert await recalled(provider, user("  "), model("tea")) == []
    assert await recalled(provider, user("elephants")) == []


async def test_limits_and_filters_are_those_of_a_search(store):
    await store.memory.add(["nuts 1", "nuts 2", "nuts 3"], metadata={"kind": "old"})
    await store.memory.add(["nuts 4"])
    assert len(await recalled(LanceContextProvider(store, limit=2), user("nuts"))) == 2
    provider = LanceContextProvider(store, filter={"kind": {"$ne": "message"}}, limit=9)
    assert len(await recalled(provider, user("nuts"))) == 4
    assert [hit.record.text for hit in await provider.search("4")] == ["nuts 4"]


async def test_what_a_user_says_is_remembered_once_a_session(store):
    agent, _ = agent_with(LanceContextProvider(store))
    session = agent.create_session(session_id="1")
    for _ in range(2):
        # The whole transcript is passed again.
        await agent.run([user("I like tea."), model("Fine."), user("Hot.")], session=session)
    page = await store.memory.list()
    assert sorted((one.text, one.session_id) for one in page.items) == [
        *[("Hot.", "1"), ("I like tea.", "1")]
    ]


async def test_a_function_says_what_is_worth_remembering(store):
    async def facts(messages):
        return [f"Said: {one.text}" for one in messages if one.role == "assistant"]

    for remember in (facts, lambda messages: [], False):
        agent, _ = agent_with(LanceContextProvider(store, remember=remember))
        await agent.run("I like tea.", session=agent.create_session(session_id="1"))
    assert [one.text for one in (await store.memory.list()).items] == ["Said: Yes."]


async def test_an_embedder_recalls_by_meaning(tmp_path):
    words = WordVectors()
    async with LanceContextProvider(tmp_path / "memory", embedder=words, limit=1) as provider:
        await provider._store.memory.add(["Likes tea.", "Likes nuts."])
        assert (await provider.search("tea"))[0].channels.keys() >= {"vector"}


async def test_a_memory_that_fails_is_logged_and_the_run_goes_on(store, monkeypatch, caplog):
    async def fail(*_, **__):
        raise StorageError("the disk is away")

    agent, _ = agent_with(LanceContextProvider(store), script=["Still here."])
    strict, _ = agent_with(LanceContextProvider(store, on_error="raise"))
    monkeypatch.setattr(AsyncContextStore, "search", fail)
    with caplog.at_level(logging.WARNING):
        assert (await agent.run("Hi.", session=agent.create_session())).text == "Still here."
    assert "the memory does not answer" in caplog.text
    with pytest.raises(StorageError):
        await strict.run("Hi.", session=strict.create_session())


async def test_a_blocking_store_will_do(tmp_path):
    with ContextStore.open(tmp_path / "memory") as store:
        store.memory.add(["Likes tea."])
        assert await recalled(LanceContextProvider(store), user("tea")) == ["memory: Likes tea."]


async def test_half_an_emoji_is_remembered_as_a_question_mark(store):
    agent, _ = agent_with(LanceContextProvider(store), LanceHistoryProvider(store))
    await agent.run("tea \ud83c", session=agent.create_session(session_id="1"))
    found = await LanceHistoryProvider(store).get_messages("1")
    assert said(found)[0] == ("user", "tea \ud83c")
    assert (await store.memory.list()).items[0].text == "tea ?"
