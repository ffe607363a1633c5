"""A fleet in a directory: tenants in shards, handles as those of one store, open stores with a bound."""

import time
from contextlib import suppress
from datetime import timedelta

import pytest
from core.fleet.conftest import in_shard, said, say

from lance_context_core import ContextStore, Item, Message
from lance_context_core.adapting import Handle
from lance_context_core.errors import (
    ConflictError,
    InvalidRequestError,
    LockTimeoutError,
    NotFoundError,
    StaleLockError,
    StoreClosedError,
)
from lance_context_core.fleet import StoreFleet, shards
from lance_context_core.fleet.catalog import hashed

TENANTS = [f"tenant-{n}" for n in range(12)]


async def test_each_tenant_is_in_the_shard_of_its_hash_and_reads_its_own_alone(fleet):
    for tenant in TENANTS:
        await say(fleet.scope(tenant=tenant), f"of {tenant}")
    places = {tenant: (await fleet.placement(tenant)).shard for tenant in TENANTS}
    assert len(set(places.values())) > 1
    for tenant, place in places.items():
        assert await said(fleet.scope(tenant=tenant)) == [f"of {tenant}"]
        for shard in await fleet.shards():
            wanted = [f"of {tenant}"] if shard == place else []
            assert await in_shard(fleet, shard, tenant) == wanted


def test_the_hash_is_the_same_for_ever():
    assert [hashed(tenant, 1000) for tenant in ("acmé", "a", "\ud800")] == ["378", "343", "464"]


async def test_a_second_fleet_finds_what_the_first_has_written(open_fleet):
    await say(open_fleet().scope(tenant="acme"), "hello")
    assert await said(open_fleet(shards=None).scope(tenant="acme")) == ["hello"]


async def test_another_number_of_shards_is_refused_and_none_is_needed_later(open_fleet):
    await say(open_fleet(shards=4).scope(tenant="acme"), "hello")
    with pytest.raises(InvalidRequestError, match="shards=8: the fleet has 4"):
        await open_fleet(shards=8).scope(tenant="acme").user_ids()
    with pytest.raises(InvalidRequestError, match="shards=8"):
        await say(open_fleet(shards=8).scope(tenant="acme"), "lost")
    assert await said(open_fleet().scope(tenant="acme")) == ["hello"]


async def test_a_fleet_that_does_not_exist_needs_the_number_of_its_shards(open_fleet):
    with pytest.raises(NotFoundError, match="shards="):
        await open_fleet(shards=None).scope(tenant="acme").user_ids()


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"shards": 0}, "shards"),
        ({"shards": "4"}, "shards"),
        ({"max_open": 0}, "max_open"),
        ({"journal_": None}, "journal_"),
        ({"durability": "never"}, "durability"),
    ],
)
def test_a_bad_option_is_named(open_fleet, given, named):
    with pytest.raises(InvalidRequestError, match=named):
        open_fleet(**given)


def test_a_store_is_no_fleet_and_memory_has_no_room_for_one(tmp_path):
    with ContextStore.open(tmp_path) as store:
        store.kv().put([Item(key="k")])
    with pytest.raises(InvalidRequestError, match="is a store, and no fleet"):
        StoreFleet.open(tmp_path, shards=2)
    with pytest.raises(InvalidRequestError, match="memory://"):
        StoreFleet.open("memory://x", shards=2)


@pytest.mark.parametrize("tenant", ["", None, 5])
def test_a_scope_needs_a_tenant(fleet, tenant):
    with pytest.raises(InvalidRequestError, match="tenant"):
        fleet.scope(tenant=tenant)


async def test_a_scope_of_a_tenant_is_a_store_for_adapters(fleet):
    store = fleet.scope(tenant="acme", user_id="ada")
    handle = Handle(store)
    assert handle.scope.parts() == {"tenant": "acme", "user_id": "ada"}
    await say(handle.aio, "hello")
    assert [hit.record.text for hit in await store.history.search("hello")] == ["hello"]
    assert await said(store.scope(agent_id="a")) == ["hello"]
    with pytest.raises(InvalidRequestError, match="tenant"):
        store.scope(tenant="other")


def test_the_blocking_fleet_gives_blocking_stores(tmp_path):
    with StoreFleet.open(tmp_path / "f", shards=2, maintenance=None) as fleet:
        store = fleet.scope(tenant="acme")
        store.kv("notes").put([Item(key="k", value={"n": 1})])
        assert store.kv("notes").get([((), "k")])[0].value == {"n": 1}
        with store.transaction() as tx:
            tx.kv("notes").put([Item(key="k", value={"n": 2})])
        assert store.kv("notes").get([((), "k")])[0].value == {"n": 2}
        assert fleet.search("x").unanswered == {}
    with pytest.raises(StoreClosedError):
        store.kv("notes").list()


async def test_no_more_stores_are_open_than_asked_for_and_none_in_use_is_closed(
    open_fleet, monkeypatch
):
    monkeypatch.setattr(shards, "_IDLE_SECONDS", 0.0)
    fleet = open_fleet(shards=12, max_open=3)
    for _ in range(2):
        for tenant in TENANTS:
            await say(fleet.scope(tenant=tenant), "hello")
            assert fleet.n_open <= 4  # and the one in use
    shard = fleet._shards.get("5")
    with shard.in_use():
        for tenant in TENANTS:
            await said(fleet.scope(tenant=tenant))
        assert not shard.is_closed
    for tenant in TENANTS:
        assert await said(fleet.scope(tenant=tenant)) == ["hello", "hello"]


async def test_vectors_are_written_after_the_store_was_closed_and_opened_again(
    open_fleet, monkeypatch, embedder
):
    monkeypatch.setattr(shards, "_IDLE_SECONDS", 0.0)
    fleet = open_fleet(max_open=1, embedder=embedder)
    store, other = fleet.scope(tenant="a"), fleet.scope(tenant="tenant-2")
    assert (await fleet.placement("a")).shard != (await fleet.placement("tenant-2")).shard
    for text in ("a red apple", "a green pear"):
        await say(store, text)
        await say(other, text)
    hits = await store.search("a green pear", mode="vector", limit=1)
    assert [hit.record.text for hit in hits] == ["a green pear"]


async def test_a_lock_is_one_for_the_fleet_and_a_late_write_is_refused(open_fleet):
    one, other = open_fleet().scope(tenant="a"), open_fleet().scope(tenant="b")
    lock = await one.locks.acquire("report", owner="ann")
    with pytest.raises(LockTimeoutError):
        await other.locks.acquire("report", owner="ben", wait=timedelta(0))
    with lock.fencing():
        await say(one, "in time")
        await other.locks.force_release("report")
        with pytest.raises(StaleLockError):
            await say(one, "late")
    assert await said(one) == ["in time"]


async def test_a_transaction_is_all_or_nothing(fleet):
    store = fleet.scope(tenant="acme")
    async with store.transaction() as tx:
        await tx.history.append("a", Message.user("x"), session_id="s")
        await tx.kv().put([Item(key="k")])
    with suppress(RuntimeError):
        async with store.transaction() as tx:
            await tx.kv().put([Item(key="other")])
            raise RuntimeError
    assert (await said(store), [one.key for one in await store.kv().list()]) == (["x"], ["k"])


async def test_a_shard_under_another_name_is_refused(open_fleet, tmp_path):
    fleet = open_fleet()
    await say(fleet.scope(tenant="acme"), "hello")
    here = (await fleet.placement("acme")).shard
    await fleet.close()
    folder = tmp_path / "fleet" / "shards"
    other = next(n for n in "0123" if n != here)
    (folder / here).rename(folder / "away")
    if (folder / other).exists():
        (folder / other).rename(folder / here)
    (folder / "away").rename(folder / other)
    wrong = next(t for t in TENANTS if hashed(t, 4) == other)
    with pytest.raises(InvalidRequestError, match=f"is shard '{here}' of a fleet"):
        await said(open_fleet().scope(tenant=wrong))


async def test_a_placement_changes_only_from_what_was_read(fleet):
    catalog = fleet._catalog
    seen = await catalog.placement("acme")
    await catalog.change(seen, shard="3")
    with pytest.raises(ConflictError, match="placed otherwise"):
        await catalog.change(seen, shard="2")
    assert (await fleet.placement("acme")).shard == "3"


async def test_a_read_asks_the_catalog_once_in_half_a_second(fleet, monkeypatch):
    store = fleet.scope(tenant="acme")
    await say(store, "hello")
    asked = []
    token = fleet._catalog.token

    async def counted():
        asked.append(time.monotonic())
        return await token()

    monkeypatch.setattr(fleet._catalog, "token", counted)
    until = time.monotonic() + 0.7
    n = 0
    while time.monotonic() < until:
        assert await said(store) == ["hello"]
        n += 1
    assert n > 20
    assert len(asked) <= 2
