"""Closed stores, cancelled calls, threads, event loops, and the past."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from adapters.agent_framework.samples import agent_with, model, said, user
from agent_framework import AgentSession, WorkflowCheckpoint
from agent_framework_lance_context import (
    LanceCheckpointStorage,
    LanceContextProvider,
    LanceHistoryProvider,
    LanceSessionStore,
)

from lance_context_core import AsyncContextStore, ContextStore
from lance_context_core.errors import ReadOnlyError, StoreClosedError

ALL = (LanceCheckpointStorage, LanceContextProvider, LanceHistoryProvider, LanceSessionStore)


async def test_a_place_is_closed_and_a_store_that_was_given_stays_open(tmp_path, store):
    async with LanceHistoryProvider(tmp_path / "own") as own:
        await own.save_messages("1", [user("Hi.")])
    for call in (own.get_messages("1"), own.save_messages("1", [user("Ho.")]), own.clear("1")):
        with pytest.raises(StoreClosedError):
            await call
    sessions, storage = (
        LanceSessionStore(tmp_path / "own"),
        LanceCheckpointStorage(tmp_path / "own"),
    )
    recall = LanceContextProvider(tmp_path / "own")
    for one in (sessions, storage, recall):
        await one.aclose()
    for call in (sessions.get("1"), storage.save(WorkflowCheckpoint("w", "h")), recall.search("a")):
        with pytest.raises(StoreClosedError):
            await call
    for made in ALL:
        await made(store).aclose()
    assert await LanceHistoryProvider(store).get_messages("1") == []


async def test_an_agent_closes_what_its_providers_have_opened(tmp_path):
    history = LanceHistoryProvider(tmp_path / "own")
    agent, _ = agent_with(history)
    async with history:
        await agent.run("Hi.", session=agent.create_session(session_id="1"))
    with pytest.raises(StoreClosedError):
        await agent.run("Hi.", session=agent.create_session(session_id="1"))


async def test_a_save_that_is_cancelled_is_whole_or_not_there(history):
    for number in range(12):
        id = str(number)
        saving = asyncio.create_task(history.save_messages(id, [user("a"), model("b")]))
        for _ in range(number):
            await asyncio.sleep(0)
        saving.cancel()
        await asyncio.gather(saving, return_exceptions=True)
        await asyncio.sleep(0.01)
        assert len(await history.get_messages(id)) in (0, 2)


def test_event_loops_and_threads_share_a_session(tmp_path):
    with LanceHistoryProvider(tmp_path / "own") as history:

        async def talk(who):
            for number in range(5):
                await history.save_messages("1", [user(f"{who} {number}"), model("Yes.")])

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda who: asyncio.run(talk(who)), "abc"))
        found = said(asyncio.run(history.get_messages("1")))
    assert [role for role, _ in found] == ["user", "assistant"] * 15
    texts = [text for role, text in found if role == "user"]
    for who in "abc":
        assert [one for one in texts if one[0] == who] == [f"{who} {n}" for n in range(5)]


async def test_many_sessions_at_once(history):
    ids = [str(number) for number in range(30)]
    await asyncio.gather(*(history.save_messages(id, [user(id)]) for id in ids))
    found = await asyncio.gather(*(history.get_messages(id) for id in ids))
    assert [said(one) for one in found] == [[("user", id)] for id in ids]


async def test_a_checkout_shows_all_as_it_was(store):
    history, sessions, storage = (
        made(store) for made in (LanceHistoryProvider, LanceSessionStore, LanceCheckpointStorage)
    )

    async def live(name):
        await history.save_messages("1", [user(name)])
        await sessions.set("1", AgentSession(session_id=name))
        await storage.save(WorkflowCheckpoint("flow", "h", checkpoint_id=name))

    await live("before")
    await store.tag("then")
    await live("after")
    past = await store.checkout("then")
    assert said(await LanceHistoryProvider(past).get_messages("1")) == [("user", "before")]
    assert (await LanceSessionStore(past).get("1")).session_id == "before"
    then = await LanceCheckpointStorage(past).list_checkpoint_ids(workflow_name="flow")
    assert then == ["before"]
    assert len(await history.get_messages("1")) == 2
    with pytest.raises(ReadOnlyError):
        await LanceHistoryProvider(past).save_messages("1", [user("later")])


@pytest.mark.parametrize("kind", ["blocking", "without a log"])
async def test_any_store_will_do(tmp_path, kind):
    if kind == "blocking":
        given = ContextStore.open(tmp_path / "memory")
    else:
        given = AsyncContextStore.open(tmp_path / "memory", journal=None)
    history, storage = LanceHistoryProvider(given), LanceCheckpointStorage(given)
    for _ in range(2):
        await history.save_messages("1", [user("yes", message_id="u"), model("no")])
        await storage.save(WorkflowCheckpoint("flow", "h", checkpoint_id="c"))
    assert said(await history.get_messages("1")) == [("user", "yes"), ("assistant", "no")]
    assert await storage.list_checkpoint_ids(workflow_name="flow") == ["c"]
    assert await storage.delete("c")
    await history._store.close()
