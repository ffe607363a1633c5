"""Another service writes between the read and the commit of a write."""

import asyncio
from contextlib import asynccontextmanager, nullcontext

import pytest
from adapters.google_adk.samples import OF_ADA, create, get, said, texts
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google_adk_lance_context import (
    LanceMemoryService,
    LanceSessionService,
    _stored,
    memories,
)

from lance_context_core import ContextStore
from lance_context_core.adapting import transaction_or_store


@pytest.fixture(params=["after the read", "before the commit", "without a log"])
def race(request, tmp_path, monkeypatch):
    """Two services over one place, and what lets a coroutine run within the next write.

    A write reads, opens its transaction and commits. Without a log it has no transaction.
    """
    # Two processes do not wait for each other, as writers of one process do.
    monkeypatch.setattr(_stored, "one_at_a_time", lambda *_: nullcontext())
    original, waiting = transaction_or_store, []

    async def let_others_write():
        if waiting:
            await asyncio.create_task(waiting.pop())  # a task has one transaction at a time

    @asynccontextmanager
    async def with_others(store, **bounds):
        if request.param != "before the commit":
            await let_others_write()
        async with original(store, **bounds) as at:
            yield at
            await let_others_write()

    for module in (_stored, memories):
        monkeypatch.setattr(module, "transaction_or_store", with_others)
    place = "memory://" if request.param == "without a log" else tmp_path / "memory"
    with ContextStore.open(place) as store:
        if request.param == "without a log":
            yield store.aio, store.aio, waiting
            return
        with ContextStore.open(place) as other:
            yield store.aio, other.aio, waiting


@pytest.mark.parametrize("prefix", ["user:", "app:"])
@pytest.mark.parametrize("start", [{}, {"before": 0}], ids=["new", "changed"])
async def test_a_shared_state_keeps_what_others_write_at_the_same_moment(race, prefix, start):
    store, other_store, waiting = race
    ours, others = LanceSessionService(store), LanceSessionService(other_store)
    start = {f"{prefix}{key}": value for key, value in start.items()}
    session, other = await create(ours, "1", state=start), await create(others, "2")
    waiting.append(others.append_event(other, said("b", state={f"{prefix}theirs": 2})))
    await ours.append_event(session, said("a", state={f"{prefix}ours": 1}))
    assert not waiting
    both = {**start, f"{prefix}ours": 1, f"{prefix}theirs": 2}
    for id, text in (("1", "a"), ("2", "b")):
        read = await get(ours, id)
        assert (texts(read), read.state) == ([text], both)


@pytest.mark.parametrize("prefix", ["user:", "app:"])
async def test_a_new_session_keeps_what_others_write_in_its_shared_state(race, prefix):
    store, other_store, waiting = race
    ours, others = LanceSessionService(store), LanceSessionService(other_store)
    waiting.append(create(others, "2", state={f"{prefix}theirs": 2}))
    session = await create(ours, "1", state={f"{prefix}ours": 1})
    assert not waiting
    both = {f"{prefix}ours": 1, f"{prefix}theirs": 2}
    assert session.state == (await get(ours)).state == both


async def test_of_two_appends_to_a_session_at_the_same_moment_the_later_is_stale(race):
    store, other_store, waiting = race
    ours, others = LanceSessionService(store), LanceSessionService(other_store)
    await create(ours)
    session, other = await get(ours), await get(others)
    waiting.append(others.append_event(other, said("b", state={"k": 2, "theirs": 2})))
    with pytest.raises(StaleSessionError, match="modified in storage since it was read"):
        await ours.append_event(session, said("a", state={"k": 1, "ours": 1, "user:ours": 1}))
    assert not waiting
    assert (session.events, session.state) == ([], {})
    read = await get(ours)
    assert (texts(read), read.state) == (["b"], {"k": 2, "theirs": 2})


async def test_of_two_appends_at_the_same_moment_both_are_stored_if_the_service_says_so(race):
    store, other_store, waiting = race
    ours = LanceSessionService(store, stale="append")
    others = LanceSessionService(other_store, stale="append")
    await create(ours)
    session, other = await get(ours), await get(others)
    waiting.append(others.append_event(other, said("b", state={"k": 2, "theirs": 2})))
    await ours.append_event(session, said("a", state={"k": 1, "ours": 1}))
    assert not waiting
    read = await get(ours)
    assert (texts(read), read.state) == (["b", "a"], {"k": 1, "ours": 1, "theirs": 2})


async def test_of_two_sessions_of_one_id_at_the_same_moment_the_first_is_created(race):
    store, other_store, waiting = race
    ours, others = LanceSessionService(store), LanceSessionService(other_store)
    waiting.append(create(others, state={"theirs": 2}))
    with pytest.raises(AlreadyExistsError, match="Session with id 1 already exists"):
        await create(ours, state={"ours": 1})
    assert not waiting
    assert (await get(ours)).state == {"theirs": 2}
    assert len((await ours.list_sessions(**OF_ADA)).sessions) == 1


async def test_a_memory_that_others_delete_at_the_same_moment_is_not_brought_back(race):
    store, other_store, waiting = race
    ours, others = LanceMemoryService(store), LanceMemoryService(other_store)
    nuts, tea = said("I am allergic to nuts.", id="e1"), said("I like tea.", id="e2")
    await others.add_events_to_memory(**OF_ADA, events=[nuts])
    waiting.append(others.delete_memory(**OF_ADA, memory_id="e1"))
    await ours.add_events_to_memory(**OF_ADA, events=[nuts, tea])
    assert not waiting
    found = (await ours.search_memory(**OF_ADA, query="nuts tea")).memories
    assert [one.id for one in found] == ["e2"]
