"""A tenant that is moved: nothing is lost or doubled, handles follow, and no copy stays behind."""

import asyncio
import inspect
from datetime import UTC, datetime, timedelta

import pytest
from core.fleet.conftest import another, in_shard, said, say

from lance_context_core import Item, Message
from lance_context_core.errors import (
    ConflictError,
    EmbeddingModelMismatchError,
    InvalidRequestError,
)
from lance_context_core.fleet import moving, routing
from lance_context_core.fleet.copying import TenantCopy
from lance_context_core.fleet.shards import Shard


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Placements are used for a moment alone, so that a move need not wait long."""
    for module in (moving, routing):
        monkeypatch.setattr(module, "FRESH_SECONDS", 0.05)
    monkeypatch.setattr(moving, "_MARGIN_SECONDS", 0.02)


class StopError(Exception):
    """The end of a process, at some step."""


async def everything(store):
    """What a user sees of a tenant, in order."""
    history = await store.history.get_messages("a", session_id="s")
    items = await store.kv("notes").list(include_vectors=True)
    return {
        "history": [(one.id, one.text) for one in history],
        "items": [
            (one.namespace, one.key, one.value, one.revision, one.expires_at) for one in items
        ],
        "memories": sorted(one.text for one in (await store.memory.list(user_id="ada")).items),
        "sessions": [(one.id, one.title) for one in await store.sessions.list()],
        "tasks": [(one.id, one.title, one.status) for one in await store.tasks.board("b").list()],
    }


async def fill(store):
    await say(store, *(f"turn {n}" for n in range(5)))
    later = datetime(2100, 1, 1, tzinfo=UTC)
    await store.kv("notes").put([Item(key=f"k{n}", value={"n": n}) for n in range(3)])
    await store.kv("notes").touch([((), "k1")], expires_at=later)
    await store.memory.add(["likes tea"], user_id="ada")
    await store.sessions.create("s", title="A talk")
    await store.tasks.board("b").add("Rent a hall", id="hall")


async def test_everything_is_there_after_a_move_and_nothing_is_left_behind(fleet):
    store, other = fleet.scope(tenant="acme"), fleet.scope(tenant="beta")
    await fill(store)
    await fill(other)
    before, here = await everything(store), (await fleet.placement("acme")).shard
    moved = await fleet.move("acme", to=await another(fleet, "acme"))
    assert (moved.source, moved.target) == (here, (await fleet.placement("acme")).shard)
    assert moved.n_rows > 10
    assert await everything(store) == before
    assert await in_shard(fleet, here, "acme") == []
    assert len(await in_shard(fleet, moved.target, "acme")) >= 5
    assert len((await everything(other))["history"]) == 5
    assert (await fleet.placement("acme")).copies == []


async def test_handles_of_before_find_the_new_shard_in_this_and_another_process(open_fleet):
    one, other = open_fleet(), open_fleet()
    history = one.scope(tenant="acme").history
    elsewhere = other.scope(tenant="acme")
    await say(elsewhere, "before")
    kv = elsewhere.kv("notes")
    await kv.put([Item(key="k", value={"n": 0})])
    await one.move("acme", to="acme-own")
    await history.append("a", Message.user("after"), session_id="s")
    assert await said(elsewhere) == ["before", "after"]
    await kv.put([Item(key="k", value={"n": 1})])
    assert (await kv.get([((), "k")]))[0].value == {"n": 1}
    assert await in_shard(one, "acme-own", "acme") == ["before", "after"]
    assert await one.shards() == ["0", "1", "2", "3", "acme-own"]


async def test_a_move_to_the_same_shard_does_nothing(fleet):
    await say(fleet.scope(tenant="acme"), "hello")
    here = (await fleet.placement("acme")).shard
    assert (await fleet.move("acme", to=int(here))).n_rows == 0
    assert (await fleet.placement("acme")).generation == 0


@pytest.mark.parametrize("to", [4, -1, "04", "a b", "", None, True, "x" * 64])
async def test_a_shard_that_cannot_exist_is_refused_by_name(fleet, to):
    with pytest.raises(InvalidRequestError, match="to="):
        await fleet.move("acme", to=to)


async def test_a_fleet_without_a_log_moves_none(open_fleet, tmp_path):
    from lance_context_core.fleet.fleet import AsyncStoreFleet

    fleet = AsyncStoreFleet.open(tmp_path / "plain", shards=2, journal=None, maintenance=None)
    await say(fleet.scope(tenant="acme"), "hello")
    if not fleet._shards.get("0").is_fenced:
        with pytest.raises(InvalidRequestError, match="write-ahead log"):
            await fleet.move("acme", to="own")
    await fleet.close()


async def test_the_vectors_move_and_a_shard_with_another_model_is_refused(open_fleet, embedder):
    fleet = open_fleet(embedder=embedder)
    store = fleet.scope(tenant="acme")
    await say(store, "a red apple", "a green pear")
    await fleet.move("acme", to="own")
    hits = await store.search("a green pear", mode="vector", limit=1)
    assert [hit.record.text for hit in hits] == ["a green pear"]

    other = fleet._opened("other")
    await other.context().add("user", "x", embedding=[1.0] * 7)
    await other.close()
    with pytest.raises((EmbeddingModelMismatchError, InvalidRequestError)):
        await fleet.move("acme", to="other")
    assert await said(store) == ["a red apple", "a green pear"]
    assert (await fleet.placement("acme")).shard == "own"
    assert await in_shard(fleet, "other", "acme") == []


async def test_what_is_written_while_the_rows_are_copied_is_moved_too(fleet, monkeypatch):
    store = fleet.scope(tenant="acme")
    await fill(store)
    update, rounds = TenantCopy.update, []

    async def meanwhile(copy):
        done = await update(copy)
        n = len(rounds)
        rounds.append(done)
        if (await fleet.placement("acme")).blocked_until is None:
            await say(store, f"meanwhile {n}")
            notes = store.kv("notes")
            await notes.put([Item(key="k0", value={"n": 100 + n})])
            await notes.touch([((), "k2")], expires_at=datetime(2200 + n, 1, 1, tzinfo=UTC))
            await notes.delete([((), "k1")])
        return done

    monkeypatch.setattr(TenantCopy, "update", meanwhile)
    await fleet.move("acme", to="own")
    assert len(rounds) == 3
    found = await everything(store)
    assert [text for _, text in found["history"]] == [
        *(f"turn {n}" for n in range(5)), "meanwhile 0", "meanwhile 1",
    ]  # fmt: skip
    assert [(key, value["n"]) for _, key, value, *_ in found["items"]] == [("k0", 101), ("k2", 2)]
    assert found["items"][1][4].year == 2201


async def test_a_write_that_was_routed_before_the_change_is_refused_and_routed_again(
    open_fleet, monkeypatch
):
    """Its process stopped between the look at the catalog and the write."""
    fleet, late = open_fleet(), open_fleet()
    store = late.scope(tenant="acme")
    await say(store, "before")
    place = await store._route.place_to_write()
    here = place.shard.name
    await fleet.move("acme", to="own")
    # As if no time had passed for the late one.
    monkeypatch.setattr(routing.Route, "now", property(lambda route: route._place))
    await say(store, "late")
    monkeypatch.undo()
    assert await said(store) == ["before", "late"]
    assert await in_shard(fleet, here, "acme") == []


async def test_writes_wait_for_the_last_rows_and_reads_do_not(fleet, monkeypatch):
    store = fleet.scope(tenant="acme")
    await say(store, "before")
    raised, seen = Shard.raise_fence, {}

    async def blocked(shard):
        await raised(shard)
        writing = asyncio.ensure_future(say(store, "waited"))
        await asyncio.sleep(0.1)
        seen["is_done"], seen["read"] = writing.done(), await said(store)
        seen["writing"] = writing

    monkeypatch.setattr(Shard, "raise_fence", blocked)
    await fleet.move("acme", to="own")
    await seen["writing"]
    assert (seen["is_done"], seen["read"]) == (False, ["before"])
    assert await said(store) == ["before", "waited"]


STEPS = {
    "announced": (TenantCopy, "update", 1),
    "copied": (TenantCopy, "update", 2),
    "blocked": (Shard, "raise_fence", 1),
    "copied the last rows": (TenantCopy, "update", 3),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("then", ["repeated", "tidied", "erased"])
async def test_a_move_that_was_killed_loses_and_doubles_nothing(
    open_fleet, monkeypatch, step, then
):
    fleet, other = open_fleet(), open_fleet()
    store = other.scope(tenant="acme")
    await fill(store)
    before, here = await everything(store), (await fleet.placement("acme")).shard
    kind, name, times = STEPS[step]
    work, n = getattr(kind, name), []

    async def killed(self):
        n.append(1)
        if len(n) == times:
            if "last" in step:
                await work(self)
            raise StopError
        return await work(self)

    async def nothing(*_):
        """No process mends what a killed one leaves."""

    with monkeypatch.context() as patched:
        patched.setattr(kind, name, killed)
        patched.setattr(moving, "_undo", nothing)
        patched.setattr(moving, "BLOCK", timedelta(seconds=0.3))
        with pytest.raises(StopError):
            await fleet.move("acme", to="own")
    await say(store, "later")  # waits until the block has lapsed
    before["history"].append(((await everything(store))["history"][-1][0], "later"))
    assert await everything(store) == before
    if then == "repeated":
        await other.move("acme", to="own")
        assert (await other.placement("acme")).shard == "own"
    elif then == "tidied":
        await other.maintain()
        assert (await other.placement("acme")).shard == here
    else:
        await store.erase()
    wanted = before if then != "erased" else {name: [] for name in before}
    assert await everything(store) == wanted
    gone = {"repeated": [here], "tidied": ["own"], "erased": [here, "own"]}[then]
    for shard in gone:
        assert await in_shard(fleet, shard, "acme") == []


async def test_a_move_that_fails_leaves_no_copy(fleet, monkeypatch):
    store = fleet.scope(tenant="acme")
    await fill(store)
    before = await everything(store)

    def refuse(_):
        raise StopError

    with pytest.raises(StopError):
        await fleet.move("acme", to="own", progress=refuse)
    assert await everything(store) == before
    placement = await fleet.placement("acme")
    assert (placement.copies, placement.blocked_until) == ([], None)
    assert await in_shard(fleet, "own", "acme") == []


async def test_two_moves_of_one_tenant_exclude_each_other(open_fleet, monkeypatch):
    fleet, other = open_fleet(), open_fleet()
    await say(fleet.scope(tenant="acme"), "hello")
    update, errors = TenantCopy.update, []

    async def and_another(copy):
        if not errors:
            with pytest.raises(ConflictError, match="cannot be moved now") as raised:
                await asyncio.create_task(other.move("acme", to="other"), context=_apart())
            errors.append(raised.value)
        return await update(copy)

    monkeypatch.setattr(TenantCopy, "update", and_another)
    await fleet.move("acme", to="own")
    assert errors
    assert await said(other.scope(tenant="acme")) == ["hello"]


async def test_an_erasure_while_a_tenant_is_moved_is_refused_and_done_afterwards(
    open_fleet, monkeypatch
):
    fleet, other = open_fleet(), open_fleet()
    store = other.scope(tenant="acme")
    await say(store, "secret")
    update, errors = TenantCopy.update, []

    async def and_erased(copy):
        if not errors:
            with pytest.raises(ConflictError, match="is being moved") as raised:
                await asyncio.create_task(store.erase(), context=_apart())
            errors.append(raised.value)
        return await update(copy)

    monkeypatch.setattr(TenantCopy, "update", and_erased)
    await fleet.move("acme", to="own")
    assert errors
    assert await said(store) == ["secret"]
    assert (await store.erase()).records == 1
    assert await said(store) == []
    assert await in_shard(fleet, "own", "acme") == []


async def test_a_move_while_the_tenant_is_erased_is_refused(open_fleet, monkeypatch):
    from lance_context_core.versioning.locations import turn

    fleet, other = open_fleet(), open_fleet()
    await say(fleet.scope(tenant="acme"), "hello")
    shard = fleet._shards.get((await fleet.placement("acme")).shard)
    async with turn(shard.store._resources.database.root.connection):
        with pytest.raises(ConflictError, match="an erasure, another move"):
            await asyncio.create_task(other.move("acme", to="own"), context=_apart())
    assert (await other.placement("acme")).generation == 0


async def test_a_transaction_that_began_before_a_move_conflicts(fleet):
    store = fleet.scope(tenant="acme")
    await say(store, "before")
    async with asyncio.TaskGroup() as group:
        tx = store.transaction()
        await tx.__aenter__()
        await tx.kv().put([Item(key="k")])
        await group.create_task(fleet.move("acme", to="own"))
        with pytest.raises(ConflictError):
            await tx.__aexit__(None, None, None)
    assert await store.kv().list() == []
    async with store.transaction() as tx:
        await tx.kv().put([Item(key="k")])
    assert [one.key for one in await store.kv().list()] == ["k"]


async def test_a_waiting_worker_gets_a_task_that_is_added_after_a_move(open_fleet):
    fleet, other = open_fleet(), open_fleet()
    board = other.scope(tenant="acme").tasks.board("b")
    await board.add("first", id="first")
    await board.claim("ann")
    waiting = asyncio.ensure_future(board.claim("ann", wait=timedelta(seconds=30)))
    await asyncio.sleep(0.05)
    await fleet.move("acme", to="own")
    await fleet.scope(tenant="acme").tasks.board("b").add("second", id="second")
    assert (await asyncio.wait_for(waiting, 20)).id == "second"


async def test_bulk_and_order_are_kept(fleet):
    store = fleet.scope(tenant="acme")
    await store.history.append_many(
        "a", [Message.user(f"turn {n}") for n in range(1_500)], session_id="s"
    )
    await say(store, "last")
    await fleet.move("acme", to="own")
    assert await said(store) == [*(f"turn {n}" for n in range(1_500)), "last"]
    await fleet.move("acme", to=1)
    assert await said(store) == [*(f"turn {n}" for n in range(1_500)), "last"]


def _apart():
    from contextvars import Context

    return Context()


def test_each_read_and_write_of_a_table_is_routed():
    """A method that is added to tables is routed by itself; generators are written by hand."""
    from lance_context_core.fleet.tables import RoutedTable
    from lance_context_core.storage.table import Table

    by_hand = {"on", "relieve", "nothing"}  # of a branch, after a write, and without rows
    for name, method in inspect.getmembers(Table, inspect.isfunction):
        if not name.startswith("_") and name not in by_hand:
            assert getattr(RoutedTable, name) is not method, name
