"""Pages of the list of sessions are parts of the whole list, and cost what they show."""

import asyncio
import random

import pytest

from lance_context_core import Message
from lance_context_core.storage.lance import reads

N = 100
"""Sessions of as many messages as make more rows than a page is first looked for in."""


async def said(store, clock, numbers, *, agent="a"):
    """Has three messages in each of the sessions, one session after the other."""
    for number in numbers:
        clock.advance(seconds=1)
        messages = [Message.user(f"{number}"), Message.user("and more"), Message.user("and more")]
        await store.history.append_many(agent, messages, session_id=f"s{number}")


async def check_pages(store):
    """Every page is a part of the whole list, which is read in another way; returns the list."""
    whole = await store.sessions.list()
    assert whole == sorted(whole, key=lambda one: (-one.updated_at.timestamp(), one.id))
    for limit, offset in ((1, 0), (5, 0), (20, 3), (1_000, 0), (3, len(whole) - 1), (5, 5_000)):
        page = await store.sessions.list(limit=limit, offset=offset)
        assert page == whole[offset:][:limit]
    assert await store.sessions.count() == len(whole)
    return whole


@pytest.mark.slow
async def test_a_page_is_a_part_of_the_list_whatever_happened_to_the_sessions(store, clock):
    drawn = random.Random(1)
    await said(store, clock, range(N))
    assert [one.id for one in (await check_pages(store))[:3]] == ["s99", "s98", "s97"]
    # What was changed last need not be what was written last.
    for number in drawn.sample(range(N), 5):
        clock.advance(minutes=1)
        await store.history.annotate("a", {"seen": True}, session_id=f"s{number}")
        latest = (await check_pages(store))[0]
        assert (latest.id, latest.n_messages) == (f"s{number}", 3)
    for number in (7, N + 1):
        clock.advance(minutes=1)
        await store.sessions.create(f"s{number}", title="described")
        assert (await check_pages(store))[0].title == "described"
    for number in (7, 98, 99):
        await store.sessions.delete(f"s{number}")
    await store.history.clear("a", session_id="s97")
    assert len(await check_pages(store)) == N - 3
    await store.maintain()
    await check_pages(store)


async def test_a_page_of_a_scope_is_a_part_of_its_list(store, clock):
    rare = store.scope(tenant="rare")
    await said(rare, clock, range(5))
    await said(store.scope(tenant="frequent"), clock, range(5, N))
    assert [one.id for one in await check_pages(rare)] == ["s4", "s3", "s2", "s1", "s0"]
    await check_pages(store)


async def test_sessions_of_one_moment_are_listed_by_their_ids(store, clock):
    messages = [Message.user("hello")] * 3
    await asyncio.gather(
        *(store.history.append_many("a", messages, session_id=f"s{n}") for n in range(N))
    )
    assert [one.id for one in await store.sessions.list(limit=3)] == ["s0", "s1", "s10"]
    await check_pages(store)


async def test_as_many_are_counted_as_are_listed_whoever_described_them(store):
    drawn = random.Random(2)
    for number in range(40):
        scope = store.scope(tenant=drawn.choice([None, "acme"]), user_id=drawn.choice("xyz"))
        agent, id = drawn.choice("ab"), drawn.choice("123")
        await scope.history.append(agent, Message.user("x"), session_id=id)
        if number % 4 == 0:
            where = drawn.choice([store, scope, scope.scope(agent_id=agent)])
            await where.sessions.update(id, title=f"title {number}")
        for at in (store, scope, store.scope(tenant="acme"), store.scope(user_id="z")):
            listed = await at.sessions.list()
            assert await at.sessions.count() == len(listed)
    assert len(await store.sessions.list()) > 10


@pytest.mark.long
async def test_a_page_costs_the_same_in_a_store_of_twice_the_size(open_store, clock, monkeypatch):
    rows = []
    query = reads._rows

    async def counted(asked):
        found = await query(asked)
        rows.append(found.num_rows)
        return found

    monkeypatch.setattr(reads, "_rows", counted)

    async def cost():
        rows.clear()
        assert len(await store.sessions.list(limit=20)) == 20
        return sum(rows)

    store = open_store(maintenance=None)
    await said(store, clock, range(N))
    before = await cost()
    await said(store, clock, range(N, 2 * N))
    assert await cost() == before < 600


async def test_who_has_memories_alone_has_no_page_of_sessions(store):
    await store.memory.add(["Bob keeps bees"], user_id="bob")
    ada = store.scope(user_id="ada")
    await ada.history.append("a", Message.user("x"), session_id="hers")
    await ada.sessions.update("hers", title="Hers")
    await store.flush()
    for at in (store, await store.checkout(await store.version())):
        assert await at.scope(user_id="bob").sessions.list(limit=5) == []
        assert [one.id for one in await at.sessions.list(limit=5)] == ["hers"]
