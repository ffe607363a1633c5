"""How long what LangGraph's store holds lives."""

import asyncio
import gc
import threading
import time
from pathlib import Path

import pytest
from langchain_lance_context import LanceContextStore
from langgraph.store.base import GetOp, ListNamespacesOp, PutOp, SearchOp
from langgraph.store.sqlite import SqliteStore
from langgraph.store.sqlite.aio import AsyncSqliteStore

from lance_context_core import ConflictError, ContextStore, InvalidRequestError

# About our own code, whatever the release of the framework.
pytestmark = pytest.mark.one_release

DOCS = ("docs",)


@pytest.fixture
def make(context_store):
    """A store of LangGraph's with this configuration of the time to live."""

    def made(**ttl):
        return LanceContextStore(context_store, ttl=ttl or None)

    return made


def there(memory, key="a"):
    """Whether there is such an item, found out without refreshing it."""
    return memory.get(DOCS, key, refresh_ttl=False) is not None


def n_rows(memory):
    return asyncio.run(memory._awaiting.kv._table.count())


def threads():
    return [one for one in threading.enumerate() if one.name == "lance-context-sweep"]


def soon(condition):
    """Whether it comes true within a while."""
    end = time.monotonic() + 20
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def test_a_time_to_live_is_in_minutes(make, clock):
    memory = make()
    memory.put(DOCS, "a", {}, ttl=1.5)
    memory.put(DOCS, "b", {})
    clock.advance(seconds=89)
    assert there(memory)
    clock.advance(seconds=1)
    assert not there(memory)
    assert there(memory, "b")


def test_what_has_expired_is_in_no_read(make, clock):
    memory = make(omit_expired=True)
    memory.put(DOCS, "a", {"text": "tea"}, ttl=1)
    clock.advance(minutes=1)
    assert memory.batch([GetOp(DOCS, "a"), SearchOp(()), ListNamespacesOp()]) == [None, [], []]


def test_what_has_expired_begins_anew(make, clock):
    memory = make()
    memory.put(DOCS, "a", {"n": 1}, ttl=1)
    born = clock.advance(minutes=2)
    memory.put(DOCS, "a", {"n": 2})
    found = memory.get(DOCS, "a")
    assert (found.value, found.created_at) == ({"n": 2}, born)


def test_the_default_is_that_of_the_configuration(make, clock):
    memory = make(default_ttl=2)
    memory.put(DOCS, "a", {})
    memory.put(DOCS, "longer", {}, ttl=10)
    memory.put(DOCS, "always", {}, ttl=None)
    clock.advance(minutes=3)
    assert [there(memory, key) for key in ("a", "longer", "always")] == [False, True, True]


def test_a_put_ends_the_time_to_live_of_what_it_replaces(make, clock):
    memory = make()
    memory.put(DOCS, "a", {}, ttl=1)
    memory.put(DOCS, "a", {})
    clock.advance(minutes=5)
    assert there(memory)


@pytest.mark.parametrize("read", ["get", "search", "aget", "asearch"])
def test_a_read_refreshes(make, clock, read):
    memory = make()
    memory.put(DOCS, "a", {"n": 1}, ttl=10)
    before = memory.get(DOCS, "a", refresh_ttl=False)
    clock.advance(minutes=9)
    arguments = (DOCS, "a") if "get" in read else (DOCS,)
    found = getattr(memory, read)(*arguments)
    assert (asyncio.run(found) if read.startswith("a") else found) not in (None, [])
    clock.advance(minutes=9)
    # It was no change.
    assert memory.get(DOCS, "a", refresh_ttl=False) == before
    clock.advance(minutes=1)
    assert not there(memory)


def test_a_read_refreshes_each_for_as_long_as_it_was_put(make, clock):
    memory = make()
    memory.put(DOCS, "short", {}, ttl=2)
    memory.put(DOCS, "long", {}, ttl=20)
    memory.put(DOCS, "always", {})
    clock.advance(minutes=1)
    assert len(memory.search(DOCS)) == 3
    clock.advance(minutes=1.5)
    assert there(memory, "short")
    clock.advance(minutes=18)
    assert not there(memory, "short")
    assert there(memory, "long")
    clock.advance(minutes=1)
    assert [one.key for one in memory.search(DOCS)] == ["always"]


def test_only_the_page_that_is_returned_is_refreshed(make, clock):
    memory = make()
    memory.put(DOCS, "a", {"kind": "x"}, ttl=2)
    memory.put(DOCS, "b", {"kind": "y"}, ttl=2)
    clock.advance(minutes=1)
    memory.search(DOCS, filter={"kind": "x"})
    clock.advance(minutes=1)
    assert (there(memory), there(memory, "b")) == (True, False)


def test_a_read_does_not_refresh_where_it_says_so(make, clock):
    memory = make(refresh_on_read=False)
    memory.put(DOCS, "a", {}, ttl=2)
    memory.put(DOCS, "b", {}, ttl=2)
    clock.advance(minutes=1)
    memory.get(DOCS, "a")
    memory.get(DOCS, "b", refresh_ttl=True)
    clock.advance(minutes=1)
    assert (there(memory), there(memory, "b")) == (False, True)
    assert make().get(DOCS, "b", refresh_ttl=False) is not None


def test_a_refresh_in_a_batch_does_not_outdo_its_puts(make, clock):
    memory = make()
    memory.batch([PutOp(DOCS, key, {"n": 1}, ttl=10) for key in "ab"])
    memory.batch(
        [
            GetOp(DOCS, "a"),
            GetOp(DOCS, "b"),
            PutOp(DOCS, "a", {"n": 2}, ttl=1),
            PutOp(DOCS, "b", None),
        ]
    )
    assert memory.get(DOCS, "b") is None
    clock.advance(minutes=1)
    assert not there(memory)


def test_a_sweep_frees_what_has_expired(make, clock):
    memory = make()
    memory.put(DOCS, "a", {}, ttl=1)
    memory.put(DOCS, "b", {}, ttl=1)
    memory.put(DOCS, "c", {}, ttl=3)
    assert memory.sweep_ttl() == 0
    clock.advance(minutes=1)
    assert n_rows(memory) == 3
    assert memory.sweep_ttl() == 2
    assert n_rows(memory) == 1
    clock.advance(minutes=5)
    assert asyncio.run(memory.asweep_ttl()) == 1


def test_a_time_to_live_outlives_the_process(tmp_path, clock):
    with ContextStore.open(tmp_path, clock=clock) as first:
        LanceContextStore(first).put(DOCS, "a", {}, ttl=10)
    with ContextStore.open(tmp_path, clock=clock) as second:
        memory = LanceContextStore(second)
        clock.advance(minutes=9)
        assert memory.get(DOCS, "a") is not None
        clock.advance(minutes=9)
        assert memory.get(DOCS, "a") is not None
        clock.advance(minutes=10)
        assert memory.get(DOCS, "a") is None


@pytest.mark.parametrize("ttl", [0, -1, 0.0, float("nan"), float("inf"), True, "5", 1e300])
def test_a_time_to_live_that_is_none_is_refused(make, ttl):
    memory = make()
    with pytest.raises(InvalidRequestError, match="ttl="):
        memory.put(DOCS, "a", {}, ttl=ttl)
    with pytest.raises(InvalidRequestError, match="ttl="):
        asyncio.run(memory.aput(DOCS, "a", {}, ttl=ttl))
    assert memory.search(()) == []


@pytest.mark.parametrize("name", ["default_ttl", "sweep_interval_minutes"])
@pytest.mark.parametrize("minutes", [0, -1, "5", False])
def test_a_configuration_that_is_none_is_refused(make, name, minutes):
    with pytest.raises(InvalidRequestError, match=name):
        make(**{name: minutes})


# The sweeper


def test_a_sweeper_sweeps_until_it_is_stopped(make, clock):
    memory = make()
    memory.put(DOCS, "a", {}, ttl=1)
    future = memory.start_ttl_sweeper(0.0005)
    assert len(threads()) == 1
    assert memory.start_ttl_sweeper(0.0005) is future
    clock.advance(minutes=1)
    assert soon(lambda: n_rows(memory) == 0)
    assert not future.done()
    assert memory.stop_ttl_sweeper() == True  # noqa: E712 - it is an int that may be awaited
    assert memory.stop_ttl_sweeper()
    assert threads() == []
    assert future.result(timeout=60) is None


def test_cancelling_the_future_ends_the_sweeper(make):
    memory = make()
    assert memory.start_ttl_sweeper(100).cancel()
    assert soon(lambda: threads() == [])
    assert not memory.start_ttl_sweeper(100).done()
    assert memory.stop_ttl_sweeper()


def test_the_configuration_starts_one_with_the_first_mortal_item(make, clock):
    memory = make(sweep_interval_minutes=0.0005, default_ttl=1)
    memory.put(DOCS, "always", {}, ttl=None)
    assert threads() == []
    memory.put(DOCS, "a", {})
    assert len(threads()) == 1
    clock.advance(minutes=1)
    assert soon(lambda: n_rows(memory) == 1)
    memory.close()
    assert threads() == []


def test_a_sweeper_ends_with_the_object_that_has_it(make):
    memory = make()
    memory.start_ttl_sweeper(100)
    del memory
    gc.collect()
    assert soon(lambda: threads() == [])


def test_a_sweeper_ends_when_the_store_is_closed_around_it(tmp_path):
    opened = ContextStore.open(tmp_path)
    memory = LanceContextStore(opened)
    future = memory.start_ttl_sweeper(0.0005)
    opened.close()
    assert future.result(timeout=20) is None
    assert soon(lambda: threads() == [])


def test_closing_asynchronously_ends_it_too(tmp_path):
    async def main():
        async with LanceContextStore(tmp_path, ttl={"sweep_interval_minutes": 100}) as memory:
            await memory.aput(DOCS, "a", {}, ttl=1)
            assert len(threads()) == 1

    asyncio.run(main())
    assert soon(lambda: threads() == [])


def test_a_sweep_that_fails_is_not_the_last(make, caplog):
    memory = make()
    n_calls = []

    def sweep():
        n_calls.append(1)
        if len(n_calls) == 1:
            raise OSError("the disk is away")
        return 0

    memory._sweeper._sweep = sweep
    memory.start_ttl_sweeper(0.0005)
    assert soon(lambda: len(n_calls) > 2)
    assert memory.stop_ttl_sweeper()
    assert "could not be removed" in caplog.text


# As LangGraph's asynchronous stores are called


def test_a_sweep_may_be_awaited(make, clock):
    memory = make()

    async def main():
        await memory.setup()
        await memory.aput(DOCS, "a", {}, ttl=1)
        clock.advance(minutes=1)
        return await memory.sweep_ttl(), await memory.sweep_ttl()

    found = asyncio.run(main())
    assert found == (1, 0)
    assert [type(one) for one in found] == [int, int]


async def until_the_loop_has_turned(released, n_turns=20):
    """Let go of what waits in another thread, once an event loop has turned so many times."""
    for _ in range(n_turns):
        await asyncio.sleep(0)
    released.set()


def test_a_sweep_that_is_awaited_does_not_hold_up_the_event_loop(make):
    memory, released = make(), threading.Event()

    async def sweep():
        return 3 if await asyncio.to_thread(released.wait, 20) else "the event loop stood still"

    memory._sweep = sweep

    async def main():
        turning = asyncio.create_task(until_the_loop_has_turned(released))
        swept = await memory.sweep_ttl()
        await turning
        return swept

    assert asyncio.run(main()) == 3


def test_a_sweeper_that_is_stopped_and_awaited_does_not_hold_up_the_event_loop(make):
    memory, released, begun = make(), threading.Event(), threading.Event()

    def sweep():
        begun.set()
        released.wait(20)

    memory._sweeper._sweep = sweep

    async def main():
        memory.start_ttl_sweeper(0.00001)
        await asyncio.to_thread(begun.wait, 20)
        turning = asyncio.create_task(until_the_loop_has_turned(released))
        stopped = await memory.stop_ttl_sweeper()
        assert turning.done()
        return stopped

    assert asyncio.run(main()) is True
    assert threads() == []


def test_a_sweep_beside_a_running_loop_is_a_number_for_who_does_not_await(make, clock):
    memory = make()
    for key in "abc":
        memory.put(DOCS, key, {}, ttl=1)
    clock.advance(minutes=1)

    async def main():
        swept = memory.sweep_ttl()
        assert swept == 3
        assert 2 < swept <= 3
        assert [*range(swept)] == [0, 1, 2]
        assert f"{swept}" == "3"
        assert not memory.sweep_ttl()
        assert memory.stop_ttl_sweeper()

    asyncio.run(main())


def test_a_sweep_that_fails_says_so_to_who_awaits_and_to_who_does_not(make):
    memory = make()

    async def fails():
        raise ConflictError("others write")

    memory._sweep = fails

    async def main():
        with pytest.raises(ConflictError):
            await memory.sweep_ttl()
        with pytest.raises(ConflictError):
            int(memory.sweep_ttl())

    asyncio.run(main())
    with pytest.raises(ConflictError):
        memory.sweep_ttl()


def test_a_sweeper_may_be_awaited_and_stopped_so(make, clock):
    memory = make()

    async def main():
        await memory.aput(DOCS, "a", {}, ttl=1)
        task = await memory.start_ttl_sweeper(0.0005)
        assert not task.done()
        clock.advance(minutes=1)
        assert await asyncio.to_thread(soon, lambda: n_rows(memory) == 0)
        stopped = await memory.stop_ttl_sweeper(20)
        await asyncio.wait_for(task, 20)
        return stopped

    assert asyncio.run(main()) is True
    assert threads() == []


def test_cancelling_what_was_awaited_ends_the_sweeper(make):
    memory = make()

    async def main():
        task = await memory.start_ttl_sweeper(100)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert soon(lambda: threads() == [])


def test_a_store_is_made_of_a_connection_string_in_both_kinds_of_block(tmp_path):
    place = str(tmp_path / "store")
    with LanceContextStore.from_conn_string(place, ttl={"default_ttl": 5}) as memory:
        memory.setup()
        memory.put(DOCS, "a", {"n": 1})
        assert memory.ttl_config == {"default_ttl": 5}
        assert memory.index_config is None

    async def main():
        async with LanceContextStore.from_conn_string(place) as again:
            await again.setup()
            return await again.aget(DOCS, "a")

    assert asyncio.run(main()).value == {"n": 1}
    with LanceContextStore.from_conn_string(":memory:") as other:
        assert other.get(DOCS, "a") is None
    assert not Path(":memory:").exists()
    with pytest.raises(InvalidRequestError, match="conn_string"):
        LanceContextStore.from_conn_string(None)


@pytest.mark.parametrize("cls", [SqliteStore, AsyncSqliteStore])
def test_whatever_a_store_of_sqlite_has_is_here(cls):
    migrations = {"MIGRATIONS", "VECTOR_MIGRATIONS"}
    public = {name for name in dir(cls) if not name.startswith("_")} - migrations
    made = LanceContextStore("memory://")
    assert {name for name in public if not hasattr(made, name)} == set()
