"""Closed stores, threads, event loops, and the past."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from adapters.google_adk.samples import OF_ADA, create, get, said, texts
from google.adk.errors import StaleSessionError
from google.genai import types
from google_adk_lance_context import (
    LanceArtifactService,
    LanceMemoryService,
    LanceSessionService,
)

from lance_context_core import ContextStore
from lance_context_core.errors import ReadOnlyError, StoreClosedError

FILE = {**OF_ADA, "filename": "user:a"}
TEXT = types.Part(text="tea")


async def test_a_closed_service_is_an_error_and_a_store_that_was_given_stays_open(place, store):
    async with LanceSessionService(place) as own:
        session = await create(own)
    with pytest.raises(StoreClosedError):
        await get(own)
    with pytest.raises(StoreClosedError):
        await own.append_event(session, said("tea"))
    with LanceMemoryService(place) as memories:
        pass
    with pytest.raises(StoreClosedError):
        await memories.search_memory(**OF_ADA, query="tea")
    with LanceArtifactService(place) as artifacts:
        pass
    with pytest.raises(StoreClosedError):
        await artifacts.save_artifact(**FILE, artifact=TEXT)
    for kind in (LanceSessionService, LanceMemoryService, LanceArtifactService):
        await kind(store).aclose()
    assert await get(LanceSessionService(store)) is not None


def test_event_loops_and_threads_share_a_service(place):
    with LanceSessionService(place, stale="append") as sessions:
        asyncio.run(create(sessions))

        async def grow(who):
            session = await get(sessions)
            for n in range(4):
                await sessions.append_event(session, said(f"{who} {n}", state={f"app:{who}": n}))

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda who: asyncio.run(grow(who)), "abc"))
        session = asyncio.run(get(sessions))
    assert sorted(texts(session)) == [f"{who} {n}" for who in "abc" for n in range(4)]
    assert session.state == {f"app:{who}": 3 for who in "abc"}


async def test_a_blocking_store_will_do(place):
    with ContextStore.open(place) as given:
        sessions = LanceSessionService(given)
        await sessions.append_event(await create(sessions), said("tea"))
        (message,) = given.scope(user_id="ada").history.get_messages("tutor", session_id="1")
        assert message.text == "tea"


async def test_a_checkout_shows_all_as_it_was(store):
    sessions, memories = LanceSessionService(store), LanceMemoryService(store)
    artifacts = LanceArtifactService(store)
    session = await create(sessions, state={"k": 1, "user:k": 1, "app:k": 1})
    await sessions.append_event(session, said("before"))
    await memories.add_session_to_memory(session)
    await artifacts.save_artifact(**FILE, artifact=TEXT)
    await store.tag("then")
    await sessions.append_event(session, said("after", state={"k": 2, "user:k": 2, "app:k": 2}))
    await memories.add_session_to_memory(session)
    await artifacts.delete_artifact(**FILE)
    past = await store.checkout("then")
    then = await get(LanceSessionService(past))
    assert (texts(then), set(then.state.values())) == (["before"], {1})
    found = await LanceMemoryService(past).search_memory(**OF_ADA, query="before after")
    assert len(found.memories) == 1
    assert await LanceArtifactService(past).load_artifact(**FILE) == TEXT
    with pytest.raises(ReadOnlyError):
        await LanceSessionService(past).append_event(then, said("instead"))
    with pytest.raises(StaleSessionError):
        await sessions.append_event(then, said("instead"))
    assert texts(await get(sessions)) == ["before", "after"]


async def test_a_new_service_reads_what_another_has_written(place):
    async with LanceSessionService(place) as first:
        session = await create(first, state={"k": 1})
        for n in range(40):
            await first.append_event(session, said(str(n)))
        await first.amaintain()
    async with LanceSessionService(place) as second:
        read = await get(second)
        assert read == session
        await second.append_event(read, said("40"))
        assert texts(await get(second)) == [str(n) for n in range(41)]
