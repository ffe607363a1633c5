"""Closed stores, cancelled calls, threads, event loops, and the past."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from adapters.pydantic_ai.samples import conversation, said_in, texts
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict
from pydantic_ai_lance_context import LanceConversationStore, LanceMessageHistory, LanceRecall

from lance_context_core import AsyncContextStore, ContextStore
from lance_context_core.errors import ReadOnlyError, StoreClosedError


async def test_a_closed_store_is_an_error_and_a_store_that_was_given_stays_open(place, store):
    async with LanceConversationStore(place) as own:
        await own.save(conversation("1", "tea"))
    with pytest.raises(StoreClosedError):
        await own.load("1")
    with pytest.raises(StoreClosedError):
        await own.save(conversation("2", "tea"))
    for made in (
        LanceConversationStore(store),
        LanceMessageHistory(store, "1"),
        LanceRecall(store),
    ):
        await made.aclose()
    assert await said_in(store, "1") == ["tea"]


async def test_a_save_that_is_cancelled_is_whole_or_not_there(store, conversations):
    for number in range(12):
        id = str(number)
        saving = asyncio.create_task(conversations.save(conversation(id, "a", "b", "c")))
        for _ in range(number):
            await asyncio.sleep(0)
        saving.cancel()
        await asyncio.gather(saving, return_exceptions=True)
        loaded = await conversations.load(id)
        found = [] if loaded is None else texts(loaded.messages)
        assert found in ([], ["a", "b", "c"])
        assert await said_in(store, id) == found


def test_event_loops_and_threads_share_a_store(place):
    with LanceConversationStore(place) as conversations:

        async def grow(who):
            for number in range(4):
                while True:
                    loaded = await conversations.load("1") or Conversation(conversation_id="1")
                    loaded.messages += conversation("1", f"{who} {number}").messages
                    try:
                        await conversations.save(loaded)
                        break
                    except ConversationConflict:
                        continue

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda who: asyncio.run(grow(who)), ("a", "b", "c")))
        found = texts(asyncio.run(conversations.load("1")).messages)
    assert sorted(found) == [f"{who} {number}" for who in "abc" for number in range(4)]


async def test_many_conversations_at_once(store, conversations):
    ids = [str(number) for number in range(30)]
    await asyncio.gather(*(conversations.save(conversation(id, id)) for id in ids))
    loaded = await asyncio.gather(*(conversations.load(id) for id in ids))
    assert [texts(one.messages) for one in loaded] == [[id] for id in ids]


async def test_a_checkout_shows_the_conversation_as_it_was(store, conversations):
    await conversations.save(conversation("1", "before"))
    await store.tag("then")
    loaded = await conversations.load("1")
    loaded.messages += conversation("1", "after").messages
    await conversations.save(loaded)
    past = LanceConversationStore(await store.checkout("then"))
    then = await past.load("1")
    assert texts(then.messages) == ["before"]
    assert texts((await conversations.load("1")).messages) == ["before", "after"]
    then.messages += conversation("1", "instead").messages
    with pytest.raises(ReadOnlyError):
        await past.save(then)


@pytest.mark.parametrize("kind", ["blocking", "without a log"])
async def test_any_store_will_do(tmp_path, kind):
    if kind == "blocking":
        given = ContextStore.open(tmp_path / "memory")
    else:
        given = AsyncContextStore.open(tmp_path / "memory", journal=None)
    conversations = LanceConversationStore(given)
    await conversations.save(conversation("1", "a", "b"))
    fork = await conversations.fork("1", at=1, new_conversation_id="2")
    fork.messages += conversation("2", "c").messages
    await conversations.save(fork)
    await conversations.delete("1")
    assert texts((await conversations.load("2")).messages) == ["a", "c"]
    store = conversations._store
    assert [await said_in(store, id) for id in ("1", "2")] == [["a"], ["c"]]
    await store.close()
