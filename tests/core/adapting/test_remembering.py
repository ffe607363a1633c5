"""One memory for each text, and one list of several searches' results."""

import asyncio
from datetime import timedelta

import pytest

from lance_context_core import AsyncContextStore
from lance_context_core.adapting import best_of, remember_once


@pytest.fixture
def place(tmp_path):
    return tmp_path / "store"


async def texts(store):
    return sorted(one["text"] for one in await store.context().list())


async def test_two_handles_that_remember_a_text_at_once_store_it_once(place):
    async with AsyncContextStore.open(place) as one, AsyncContextStore.open(place) as other:
        await one.memory.add(["There is a table now."])
        kept = await asyncio.gather(*(remember_once(of, "tea") for of in (one, other) * 4))
        assert len({each.id for each in kept}) == 1
        assert await texts(one) == ["There is a table now.", "tea"]


async def test_a_text_is_remembered_anew_for_another_user_session_and_after_a_correction(place):
    async with AsyncContextStore.open(place) as store:
        first = await remember_once(store, "tea")
        of_bob = await remember_once(store.scope(user_id="bob"), "tea")
        corrected = {"key": "id", "id": first.id, "kind": "memory"}
        await store.context().upsert("user", "coffee", **corrected)
        after = await remember_once(store, "tea")
        of_monday = await remember_once(store, "tea", session_id="monday")
        told = (first, of_bob, after, of_monday)
        assert [one.is_new for one in told] == [True] * 4
        assert len({one.id for one in told}) == 4
        again = await remember_once(store, "coffee")
        assert not again.is_new
        assert again.id == first.id


async def test_the_memory_that_is_there_takes_the_new_metadata_and_expiry(place):
    async with AsyncContextStore.open(place) as store:
        soon = store.clock.now() + timedelta(days=1)
        given = {"metadata": {"by": "ada"}, "expires_at": soon}
        id, _ = await remember_once(store, "tea", **given)
        assert (await remember_once(store, "tea", expires_at=soon)).id == id
        (kept,) = await store.context().records()
        assert (dict(kept.metadata), kept.expires_at) == ({"by": "ada"}, soon)
        assert not (await remember_once(store, "tea", metadata={"by": "bob"})).is_new
        (kept,) = await store.context().records()
        assert (dict(kept.metadata), kept.expires_at) == ({"by": "bob"}, None)


def test_results_are_taken_in_turns():
    found = [["a1", "a2", "a3"], [], ["b1"], ["c1", "c2"]]
    assert best_of(found, 10) == ["a1", "b1", "c1", "a2", "c2", "a3"]
    assert best_of(found, 2) == ["a1", "b1"]
    assert best_of([], 2) == []
