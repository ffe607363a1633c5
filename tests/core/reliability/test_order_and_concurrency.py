"""Many writers at once: tasks, threads and processes; and the order that readers then see."""

import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from random import Random

import pytest
from core.conformance.back_door import BackDoor
from core.conformance.doubles import WordVectors
from core.conformance.writers import (
    SIZE,
    Batch,
    append,
    assert_all_in_order,
    assert_all_there,
    messages_of,
    read,
    spawn,
)
from efforts import in_proofs

from lance_context_core._loop import store_loop
from lance_context_core.messages import Message
from lance_context_core.storage.lance import open_table as creation
from lance_context_core.storage.lance.open_table import STABLE_ROW_IDS
from lance_context_core.storage.lance.schema import RECORDS
from lance_context_core.sync import ContextStore
from lance_context_core.types import Document


@pytest.fixture(params=[False, True], ids=["made ids", "given ids"])
def with_ids(request):
    return request.param


@pytest.fixture(params=["plain", "embedding"])
def options(request):
    return {"embedder": WordVectors()} if request.param == "embedding" else {}


EITHER_WAY = pytest.mark.parametrize(
    ("with_ids", "options"),
    [(False, "plain"), (True, "embedding"), *in_proofs((True, "plain"), (False, "embedding"))],
    indirect=True,
    ids=["made ids-plain", "given ids-embedding", "given ids-plain", "made ids-embedding"],
)

# Order


@pytest.mark.slow
async def test_order_survives_updates_maintenance_restoring_and_reopening(open_store, clock):
    store = open_store()
    random, ids = Random(3), []
    for n in range(30):
        clock.advance(seconds=random.choice([-60, 0, 1]))
        batch = [Message.user("x", id=f"m{n}.{i}") for i in range(random.randrange(1, 4))]
        ids += await store.history.append_many("a", batch, session_id="s")
        if n % 3 == 0:
            await store.context().update(id=random.choice(ids), tags=[f"{n}"])
        if n % 4 == 0:
            again = {"role": "user", "content": "new", "session_id": "s", "agent_id": "a"}
            await store.context().upsert_many([{**again, "id": random.choice(ids)}], key="id")
        if n % 5 == 0:
            await store.maintain()
        if n % 7 == 0:
            await store.context().delete(id=ids.pop(random.randrange(len(ids))))

    async def read_ids(store):
        found = await store.history.get_messages("a", session_id="s")
        assert [one["id"] for one in await store.context().list()] == [one.id for one in found]
        return [one.id for one in found]

    assert await read_ids(store) == ids
    await store.maintain()
    assert await read_ids(store) == ids
    version = await store.version()
    await store.history.append("a", Message.user("later"), session_id="s")
    await store.restore(version)
    assert await read_ids(store) == ids
    await store.close()
    again = open_store()
    assert await read_ids(again) == ids
    await again.history.append("a", Message.user("last", id="last"), session_id="s")
    assert await read_ids(again) == [*ids, "last"]


# Writers at the same time


@EITHER_WAY
async def test_tasks_write_whole_batches_in_order(open_store, with_ids, options):
    store = open_store(**options)

    async def write(w):
        return [await append(store, f"{w}-{n}", with_ids=with_ids) for n in range(4)]

    batches = await asyncio.gather(*(write(w) for w in range(8)))
    await assert_all_in_order(store, [*chain(*batches)])


@pytest.fixture(params=["local", "s3"])
def three_stores(request, options):
    """Stores in one place, which is empty."""
    backend = request.getfixturevalue(f"{request.param}_backend")
    stores = [backend.open(**options) for _ in range(3)]
    yield stores
    for store in stores:
        asyncio.run(store.close())


@EITHER_WAY
async def test_several_stores_write_whole_batches_in_order(three_stores, with_ids):
    async def write(w, store):
        return [await append(store, f"{w}-{n}", with_ids=with_ids) for n in range(4)]

    first = await append(three_stores[0], "first", with_ids=with_ids)
    batches = await asyncio.gather(*(write(w, store) for w, store in enumerate(three_stores)))
    for store in three_stores:
        await assert_all_in_order(store, [first, *chain(*batches)])


@EITHER_WAY
async def test_several_stores_that_find_no_tables_lose_nothing(three_stores, with_ids):
    async def write(w, store):
        batches = [await append(store, f"{w}-{n}", with_ids=with_ids) for n in range(3)]
        ids = await store.vectors("c").add([Document(text=f"{w}-{n}") for n in range(3)])
        return batches, ids, await store.sessions.create(f"{w}")

    written = await asyncio.gather(*(write(w, store) for w, store in enumerate(three_stores)))
    for store in three_stores:
        await assert_all_there(store, [*chain(*(batches for batches, _, _ in written))])
        ids = [*chain(*(ids for _, ids, _ in written))]
        assert len(await store.vectors("c").get(ids)) == len(ids)
        assert {session.id for session in await store.sessions.list()} == {"0", "1", "2", "s"}


@EITHER_WAY
def test_threads_write_whole_batches_in_order(local_backend, open_store, with_ids, options, run):
    first = run(append(open_store(**options), "first", with_ids=with_ids))
    together = threading.Barrier(4)

    def write(w, store):
        together.wait(300)
        batches = []
        for n in range(4):
            name, started = f"{w}-{n}", time.monotonic()
            messages = messages_of(name, with_ids=with_ids)
            store.history.append_many("a", messages, session_id="s")
            batches.append(Batch(name, started, time.monotonic()))
        return batches

    with (
        ContextStore.open(local_backend.uri, **options) as shared,
        ContextStore.open(local_backend.uri, **options) as own,
        ThreadPoolExecutor(4) as pool,
    ):
        batches = list(pool.map(write, range(4), [shared, shared, shared, own]))
    run(assert_all_in_order(open_store(), [first, *chain(*batches)]))


def in_processes(uri, *, with_ids):
    """What three processes wrote, which began at the same moment."""
    processes = [spawn(uri, f"{w}", n_batches=4, with_ids=with_ids) for w in range(3)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    with ThreadPoolExecutor(3) as pool:
        outputs = list(pool.map(lambda process: process.communicate(timeout=300)[0], processes))
    assert [process.returncode for process in processes] == [0, 0, 0]
    batches = [Batch(*json.loads(line)) for output in outputs for line in output.splitlines()]
    assert len(batches) == 12
    return batches


def test_processes_write_whole_batches_in_order(local_backend, open_store, with_ids, run):
    first = run(append(open_store(), "first", with_ids=with_ids))
    batches = in_processes(local_backend.uri, with_ids=with_ids)
    run(assert_all_in_order(open_store(), [first, *batches]))


def test_processes_that_find_an_empty_directory_lose_nothing(local_backend, open_store, run):
    batches = in_processes(local_backend.uri, with_ids=False)
    run(assert_all_there(open_store(), batches))


@pytest.mark.usefixtures("each_write_commits")
async def test_a_table_that_was_made_twice_keeps_what_was_written_to_both(open_store, options):
    # The engine looks for the table before it makes one; here a writer comes in between.
    store, late = open_store(**options), open_store(**options)
    batches = [await append(store, f"{n}", with_ids=n % 2 == 0) for n in range(3)]
    connection = await store._resources.database.connection.engine()
    make = {"schema": RECORDS.schema, "storage_options": STABLE_ROW_IDS}

    class Late:
        async def create_table(self, name, **_):
            handle = await connection.create_table(name, mode="overwrite", **make)
            batches.append(await append(late, "3", with_ids=True))
            return handle

        open_table = connection.open_table

    assert len(await BackDoor(store).rows("records")) == 3 * SIZE
    await creation._make(Late(), "records", schema=RECORDS.schema, options=STABLE_ROW_IDS)
    batches.append(await append(store, "4", with_ids=False))
    for one in (store, late):
        assert await read(one) == ["0", "1", "2", "3", "4"]
        assert len(await one.search("3.1", mode="text")) > 0


async def test_writers_are_not_disturbed_by_maintenance_nor_readers_by_either(open_store, with_ids):
    writer, keeper = open_store(), open_store()
    batches, is_done = [], False

    async def write(w):
        for n in range(6):
            batch = await append(writer, f"{w}-{n}", with_ids=with_ids)
            batches.append(batch)

    async def maintain():
        while not is_done:
            await keeper.maintain()

    async def look():
        while not is_done:
            acknowledged = {batch.name for batch in batches}
            assert acknowledged <= set(await read(keeper))

    upkeep = asyncio.gather(maintain(), look())
    await asyncio.gather(*(write(w) for w in range(3)))
    is_done = True
    await upkeep
    for store in (writer, keeper):
        await assert_all_in_order(store, batches)


async def test_writers_of_different_sessions_do_not_meet(open_store, with_ids):
    store = open_store()
    sessions = [f"s{n}" for n in range(6)]

    async def write(session):
        for n in range(5):
            batch = messages_of(f"{session}-{n}", with_ids=with_ids)
            await store.history.append_many("a", batch, session_id=session)

    await asyncio.gather(*(write(session) for session in sessions))
    for session in sessions:
        found = await store.history.get_messages("a", session_id=session)
        names = [one.metadata["of"] for one in found]
        assert names == [f"{session}-{n}" for n in range(5) for _ in range(SIZE)]


async def test_what_many_writers_write_at_once_under_one_id_is_there_once(open_store, options):
    stores = [open_store(**options) for _ in range(2)]
    batch = messages_of("same", with_ids=True)
    documents = [Document(id=f"d{n}", text=f"{n}") for n in range(5)]
    calls = [
        call
        for store in stores * 3
        for call in (
            store.history.append_many("a", batch, session_id="s"),
            store.vectors("c").add(documents),
            store.memory.add([Message.user("tea", id="m")], user_id="u"),
            store.sessions.create("s", title="same"),
        )
    ]
    await asyncio.gather(*calls)
    for store in stores:
        assert await read(store) == ["same"]
        assert await store.vectors("c").count() == 5
        assert (await store.memory.list(user_id="u")).total == 1
        assert [session.title for session in await store.sessions.list()] == ["same"]


async def test_clearing_while_others_write_takes_whole_batches(open_store, with_ids):
    store = open_store()

    async def write():
        return [await append(store, f"{n}", with_ids=with_ids) for n in range(10)]

    async def clear():
        n_cleared = [await store.history.clear("a", session_id="s") for _ in range(10)]
        assert all(n % SIZE == 0 for n in n_cleared)
        return sum(n_cleared) // SIZE

    batches, n_cleared = await asyncio.gather(write(), clear())
    left = await read(store)
    assert len(left) + n_cleared == len(batches)
    assert left == sorted(left, key=int)


# Cancelling


async def n_messages_of(store, name):
    messages = await store.history.get_messages("a", session_id="s")
    return sum(message.metadata["of"] == name for message in messages)


@EITHER_WAY
async def test_a_cancelled_append_leaves_all_of_its_rows_or_none(open_store, with_ids, options):
    store = open_store(**options)
    usual = await append(store, "usual", with_ids=with_ids)
    seconds = usual.acknowledged - usual.started
    for n in range(20):
        task = asyncio.ensure_future(append(store, f"{n}", with_ids=with_ids))
        await asyncio.wait([task], timeout=n * seconds / 20)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert await n_messages_of(store, f"{n}") in (0, SIZE)
    await append(store, "last", with_ids=with_ids)
    assert "last" in await read(store)


@pytest.mark.slow
async def test_an_append_that_was_cancelled_can_be_repeated(open_store, options):
    store = open_store(**options)
    usual = await append(store, "usual", with_ids=True)
    seconds = usual.acknowledged - usual.started
    for n in range(20):
        task = asyncio.ensure_future(append(store, f"{n}", with_ids=True))
        await asyncio.wait([task], timeout=n * seconds / 20)
        task.cancel()
        await append(store, f"{n}", with_ids=True)
        assert await n_messages_of(store, f"{n}") == SIZE
    assert await read(store) == ["usual", *(f"{n}" for n in range(20))]


def test_a_loop_that_ends_under_an_append_leaves_the_store_usable(open_store, with_ids, run):
    store = open_store()

    async def leave(name, n_steps):
        task = asyncio.ensure_future(append(store, name, with_ids=with_ids))
        for _ in range(n_steps):
            await asyncio.sleep(0)
        return task.done()

    for n in range(20):
        run(leave(f"{n}", n))
        assert run(n_messages_of(store, f"{n}")) in (0, SIZE)
    run(append(store, "last", with_ids=with_ids))
    assert "last" in run(read(store))


def test_a_blocking_append_that_was_interrupted_can_be_repeated(local_backend, open_store, run):
    with ContextStore.open(local_backend.uri) as store:
        for n in range(10):
            batch = messages_of(f"{n}", with_ids=True)
            # What Ctrl-C does: the wait ends, and the work is cancelled.
            store_loop.spawn(store.aio.history.append_many("a", batch, session_id="s")).cancel()
            store.history.append_many("a", batch, session_id="s")
    assert run(read(open_store())) == [f"{n}" for n in range(10)]
