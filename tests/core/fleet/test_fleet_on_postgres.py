"""A fleet whose logs are in one PostgreSQL database, with a directory for each shard."""

import asyncio

import pytest
from core.fleet.conftest import in_shard, said, say

from lance_context_core import Item
from lance_context_core.fleet import work
from lance_context_core.fleet.fleet import AsyncStoreFleet
from lance_context_core.storage.wal.postgres.transaction import TransactionalSession


@pytest.fixture
def open_there(postgres_server, tmp_path, request):
    opened = []
    address = postgres_server.database(f"f{abs(hash(request.node.nodeid))}")

    def open_():
        opened.append(
            AsyncStoreFleet.open(tmp_path / "fleet", shards=3, journal=address, maintenance=None)
        )
        return opened[-1]

    yield open_
    for fleet in opened:
        asyncio.run(fleet.close())


async def test_a_tenant_is_written_read_and_moved_by_several(open_there):
    one, other = open_there(), open_there()
    store = other.scope(tenant="acme")
    await say(store, *(f"turn {n}" for n in range(5)))
    here = (await one.placement("acme")).shard
    stop = asyncio.Event()  # noqa: TID251 - of this loop alone
    written = []

    async def write():
        while not stop.is_set():
            await say(store, f"later {len(written)}")
            written.append(f"later {len(written)}")
            await store.kv().put([Item(key="n", value={"n": len(written)})])

    writing = asyncio.create_task(write())
    moved = await one.move("acme", to="own")
    stop.set()
    await writing
    assert written
    assert await said(store) == [*(f"turn {n}" for n in range(5)), *written]
    assert (await one.scope(tenant="acme").kv().get([((), "n")]))[0].value == {"n": len(written)}
    assert await in_shard(one, here, "acme") == []
    assert moved.target == "own"


async def test_an_append_is_still_one_call_of_the_server(open_there, monkeypatch):
    fleet = open_there()
    store = fleet.scope(tenant="acme")
    await say(store, "one", "two", "three", "four", "five")
    locked = []
    monkeypatch.setattr(
        TransactionalSession,
        "_lock",
        lambda self, lock=TransactionalSession._lock: locked.append(1) or lock(self),
    )
    await say(store, "six", "seven")
    assert locked == []


async def test_workers_and_calls_on_all_shards_work_there(open_there):
    fleet = open_there()
    for n in range(4):
        await say(fleet.scope(tenant=f"tenant-{n}"), f"apple {n}")
    assert len((await fleet.search("apple", mode="text")).hits) == 4
    done = await work(fleet, once=True)
    assert (done.n_stores, done.errors) == (3, ())
    await fleet.erase(tenants=["tenant-1"])
    assert len((await fleet.search("apple", mode="text")).hits) == 3
