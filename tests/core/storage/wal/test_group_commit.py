"""What many write at the same moment is one transaction, in which each has its own outcome."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest

from lance_context_core import (
    AlreadyExistsError,
    AsyncContextStore,
    ConflictError,
    ContextStore,
    Item,
    Message,
    StorageError,
)
from lance_context_core._util import cooperative as steps
from lance_context_core.errors import StaleLockError
from lance_context_core.storage.wal import waiting
from lance_context_core.storage.wal.sqlite_session import SqliteSession
from lance_context_core.storage.wal.transactions import Transaction

FEW = 25
"""As many transactions as a hundred writes may be; one by one they are a hundred. They are not one, since
in a turn of the loop no more than some are converted."""


def item(n, value=0):
    return Item(key=str(n), value={"n": value})


@pytest.fixture
def counts(monkeypatch):
    """How many transactions began, since it was cleared."""
    counts, enter = [], Transaction.__enter__

    def counted(self):
        counts.append(1)
        return enter(self)

    monkeypatch.setattr(Transaction, "__enter__", counted)
    # A turn ends by what is done in it, on a slow machine too.
    monkeypatch.setattr(steps, "time", SimpleNamespace(monotonic=lambda: 0.0))
    return counts


@pytest.fixture
def kv(tmp_path):
    """Items of a table that is there, and known to the journal."""
    store = AsyncContextStore.open(tmp_path, maintenance=None)
    kv = store.kv("k")

    async def begin():
        await kv.put([item("first")])
        await kv.append([item("second")])

    asyncio.run(begin())
    yield kv
    asyncio.run(store.close())


@contextmanager
def locked(path):
    """The journal while another process writes."""
    connection = sqlite3.connect(
        path / "journal.sqlite", isolation_level=None, check_same_thread=False
    )
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.close()


@pytest.mark.parametrize("way", ["put", "append", "add"])
async def test_a_hundred_writes_at_once_are_a_few_transactions(kv, counts, way):
    counts.clear()
    await asyncio.gather(*(getattr(kv, way)([item(n, n)]) for n in range(100)))
    assert 0 < len(counts) <= FEW
    found = await kv.get([((), str(n)) for n in range(100)])
    assert [one.value["n"] for one in found] == [*range(100)]


async def test_messages_of_a_hundred_conversations_are_a_few_transactions(tmp_path, counts):
    async with AsyncContextStore.open(tmp_path) as store:
        await store.history.append("a", Message.user("first"), session_id="s")
        counts.clear()
        said = (
            store.history.append("a", Message.user(f"{n}"), session_id=f"s{n}") for n in range(100)
        )
        await asyncio.gather(*said)
        assert 0 < len(counts) <= FEW
        for n in range(100):
            (found,) = await store.history.get_messages("a", session_id=f"s{n}")
            assert found.text == f"{n}"


async def test_one_who_writes_alone_has_a_transaction_each_time_and_waits_for_no_turn(kv, counts):
    loop, turns = asyncio.get_running_loop(), 0

    def turn():
        nonlocal turns
        turns += 1
        loop.call_soon(turn)

    loop.call_soon(turn)
    counts.clear()
    for n in range(10):
        await kv.append([item(n)])
    assert len(counts) == 10
    assert turns <= 10 // 5


async def test_what_one_is_refused_takes_nothing_from_the_others(kv, counts):
    await kv.put([item("taken", 7)])
    counts.clear()
    calls = []
    for n in range(40):
        calls.append(kv.put([item(n, n)]))
        if n % 4 == 1:
            calls.append(kv.write(adds=[item("taken")], puts=[item(f"beside {n}")]))
        if n % 4 == 2:
            calls.append(kv.write(puts=[item("taken", 8)], expected={((), "taken"): 5}))
    done = await asyncio.gather(*calls, return_exceptions=True)
    refused = [type(one) for one in done if isinstance(one, Exception)]
    assert refused.count(AlreadyExistsError) == refused.count(ConflictError) == 10
    assert len(refused) == 20
    assert 0 < len(counts) <= FEW
    assert {one.key for one in await kv.list()} == {
        "first",
        "second",
        "taken",
        *map(str, range(40)),
    }
    assert (await kv.get([((), "taken")]))[0].value == {"n": 7}


async def test_of_many_who_want_the_same_key_one_gets_it(kv):
    done = await asyncio.gather(*(kv.add([item("one", n)]) for n in range(60)))
    assert sum(added for (added,) in done) == 1
    assert (await kv.get([((), "one")]))[0].value["n"] == done.index([True])
    expected = {((), "one"): (await kv.get([((), "one")]))[0].revision}
    again = (kv.write(puts=[item("one", n)], expected=expected) for n in range(60))
    done = await asyncio.gather(*again, return_exceptions=True)
    assert sum(isinstance(one, ConflictError) for one in done) == 59


async def test_acknowledgements_come_in_the_order_of_the_log(kv, tmp_path, monkeypatch):
    # However slow the machine, no task gives way between its commit and its own note of it.
    monkeypatch.setattr(steps, "_MOST_SECONDS", 600.0)
    told = []

    async def write(n):
        await kv.append([item(n)])
        told.append(str(n))

    await asyncio.gather(*map(write, range(100)))
    journal = sqlite3.connect(tmp_path / "journal.sqlite")
    rows = journal.execute("SELECT payload FROM rows ORDER BY seq").fetchall()
    journal.close()
    in_log = [row.split(b'"id":"')[1].split(b'"')[0].decode() for (row,) in rows]
    assert [key for key in in_log if key in told] == told


async def test_a_lock_that_is_lost_stops_the_writes_that_depend_on_it_alone(tmp_path):
    async with AsyncContextStore.open(tmp_path, maintenance=None) as store:
        kv = store.kv("k")
        await kv.put([item("first")])
        await kv.append([item("second")])
        lock = await store.locks.acquire("r")
        assert await lock.release()

        async def depending(n):
            with lock.fencing():
                await kv.put([item(f"mine {n}")])

        calls = [depending(n) for n in range(5)]
        calls += [kv.put([item(f"other {n}")]) for n in range(5)]
        calls[::2], calls[1::2] = calls[:5], calls[5:]
        done = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(one) for one in done] == [StaleLockError, type(None)] * 5
        found = {one.key for one in await kv.list()}
        assert found == {"first", "second", *(f"other {n}" for n in range(5))}


# Another process at the file


async def test_while_another_process_is_at_the_file_one_asks_for_all(kv, tmp_path, counts):
    with locked(tmp_path):
        counts.clear()
        tasks = [asyncio.create_task(kv.append([item(n)])) for n in range(100)]
        await asyncio.sleep(0.3)
        asked = len(counts)
    await asyncio.gather(*tasks)
    assert 0 < asked < 300  # Each for itself they ask some four thousand times.
    assert await kv.count() == 102


async def test_an_error_of_the_transaction_reaches_all_who_wait_and_nothing_is_written(
    kv, tmp_path, monkeypatch
):
    monkeypatch.setattr(waiting, "_PATIENCE_SECONDS", 0.2)
    with locked(tmp_path):
        calls = (kv.append([item(n)]) for n in range(20))
        done = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(one) for one in done] == [StorageError] * 20
    assert all("locked by another process" in str(one) for one in done)
    assert await kv.count() == 2
    await kv.append([item("later")])
    assert await kv.count() == 3


async def test_a_full_disk_is_told_to_all_and_those_who_write_later_see_nothing_of_it(kv):
    connection = kv._resources.database.connection.journal.log.session.connection
    connection.execute("PRAGMA max_page_count = 1")
    long = "tea " * 10_000
    calls = (kv.append([Item(key=f"{n}", value={"text": long})]) for n in range(20))
    done = await asyncio.gather(*calls, return_exceptions=True)
    connection.execute("PRAGMA max_page_count = 1000000")
    there = {one.key for one in await kv.list()}
    told = {f"{n}" for n, one in enumerate(done) if not isinstance(one, Exception)}
    assert there == {"first", "second", *told}
    refused = [one for one in done if isinstance(one, Exception)]
    assert refused
    assert all("disk is full: free some space" in str(one) for one in refused)
    await asyncio.gather(*(kv.put([item(n, n)]) for n in range(20)))
    assert await kv.count() == 22


async def test_a_commit_that_fails_is_told_to_all_and_leaves_nothing_that_later_ones_would_see(
    kv, monkeypatch
):
    commit = SqliteSession.commit

    def fail(_):
        monkeypatch.setattr(SqliteSession, "commit", commit)
        raise StorageError("disk I/O error")

    monkeypatch.setattr(SqliteSession, "commit", fail)
    adds = [kv.add([item("one", n), item(n, n)]) for n in range(10)]
    done = await asyncio.gather(*adds, return_exceptions=True)
    told = [n for n, one in enumerate(done) if not isinstance(one, Exception)]
    assert len(told) < 10
    assert {one.key for one in await kv.list()} >= {"first", "second", *map(str, told)}
    await kv.put([item("later")])
    assert await kv.add([item("one", 77)]) == [not any(done[n][0] for n in told)]
    there = {"first", "second", "later", "one", *map(str, told)}
    assert {one.key for one in await kv.list()} == there


@pytest.mark.parametrize("n_turns", [0, 1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("is_locked", [False, True], ids=["alone", "beside another process"])
async def test_who_is_cancelled_has_written_all_or_nothing_and_the_others_what_they_brought(
    kv, tmp_path, n_turns, is_locked
):
    tasks = []
    with locked(tmp_path) if is_locked else nullcontext():
        for n in range(40):
            items = [item(f"{n}.{k}", n) for k in range(3)]
            tasks += [asyncio.create_task(kv.put(items))]
        for _ in range(n_turns):
            await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.sleep(0.01)
    done = await asyncio.gather(*tasks, return_exceptions=True)
    there = {one.key for one in await kv.list()}
    for n, one in enumerate(done):
        mine = {f"{n}.{k}" for k in range(3)}
        if isinstance(one, asyncio.CancelledError):
            assert there & mine in (set(), mine)
        else:
            assert one is None
            assert mine <= there
    if is_locked:
        assert len(there) == 2 + 3 * 20


# Threads, loops and processes


def test_threads_that_wait_for_one_another_are_committed_together(tmp_path, counts, monkeypatch):
    exit_, gate = Transaction.__exit__, threading.Event()

    def slow(self, *error):
        gate.wait(10)
        return exit_(self, *error)

    with ContextStore.open(tmp_path, maintenance=None) as store, ThreadPoolExecutor(20) as pool:
        kv = store.kv("k")
        kv.put([item("first")])
        kv.put([item("second")])
        counts.clear()
        monkeypatch.setattr(Transaction, "__exit__", slow)
        done = [pool.submit(kv.put, [item(n)]) for n in range(20)]
        journal = store.aio._resources.database.connection.journal
        until = time.monotonic() + 10
        while len(journal.transactions._brought) < 19 and time.monotonic() < until:
            time.sleep(0.001)
        gate.set()
        for one in done:
            one.result(timeout=60)
        assert 0 < len(counts) <= 3
        assert kv.count() == 22


def test_tasks_of_several_loops_and_threads_write_beside_each_other(tmp_path):
    store = AsyncContextStore.open(tmp_path, maintenance=None)
    blocking = ContextStore.open(tmp_path, maintenance=None)

    async def crowd(loop):
        kv = store.kv("k")
        for n in range(5):
            await asyncio.gather(*(kv.put([item(f"{loop}.{n}.{k}")]) for k in range(20)))

    def alone(thread):
        for n in range(50):
            blocking.kv("k").put([item(f"{thread}:{n}")])

    asyncio.run(store.kv("k").put([item("first")]))
    with ThreadPoolExecutor(6) as pool:
        tasks = [pool.submit(asyncio.run, crowd(n)) for n in range(3)]
        tasks += [pool.submit(alone, n) for n in range(3)]
        for one in tasks:
            one.result(timeout=120)
    assert blocking.kv("k").count() == 1 + 3 * 100 + 3 * 50
    blocking.close()
    asyncio.run(store.close())


def test_a_loop_that_ended_amid_its_writes_keeps_the_next_one_from_nothing(tmp_path):
    store = AsyncContextStore.open(tmp_path, maintenance=None)
    kv = store.kv("k")
    asyncio.run(kv.put([item("first")]))
    with locked(tmp_path):
        loop = asyncio.new_event_loop()
        left = [loop.create_task(kv.append([item(f"left {n}")])) for n in range(10)]
        loop.run_until_complete(asyncio.sleep(0.05))
        loop.close()  # Nobody has cancelled them.

    async def crowd():
        await asyncio.wait_for(asyncio.gather(*(kv.append([item(n)]) for n in range(10))), 30)
        return {one.key for one in await kv.list()}

    assert {"first", *map(str, range(10))} <= asyncio.run(crowd())
    for task in left:
        task._log_destroy_pending = False
    asyncio.run(store.close())


CROWD = """
import asyncio, sys
from lance_context_core import AsyncContextStore, Item

async def main():
    store = AsyncContextStore.open(sys.argv[1], maintenance=None)
    kv = store.kv("k")
    await kv.put([Item(key=f"{sys.argv[2]} first", value={})])
    print("ready", flush=True)
    sys.stdin.readline()

    async def write(task):
        for n in range(int(sys.argv[3])):
            items = [Item(key=f"{sys.argv[2]}.{task}.{n}.{k}", value={}) for k in range(3)]
            await kv.put(items)
            print(f"{sys.argv[2]}.{task}.{n}", flush=True)

    await asyncio.gather(*map(write, range(30)))

asyncio.run(main())
"""


def crowd(path, name, n):
    command = [sys.executable, "-c", CROWD, str(path), name, str(n)]
    one = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert one.stdout.readline() == "ready\n"
    return one


def begin(one):
    one.stdin.write("\n")
    one.stdin.flush()


def test_all_that_was_acknowledged_is_there_and_each_write_whole_after_a_kill(tmp_path):
    one = crowd(tmp_path, "a", 10_000)
    with one:
        begin(one)
        told = [one.stdout.readline().strip() for _ in range(200)]
        one.kill()
        told += [line.strip() for line in one.stdout if line.endswith("\n")]
    with ContextStore.open(tmp_path) as store:
        there = {item.key for item in store.kv("k").list()}
    writes = {key.rpartition(".")[0] for key in there if "." in key}
    assert set(told) <= writes
    assert there - {"a first"} == {f"{name}.{k}" for name in writes for k in range(3)}


def test_crowds_of_two_processes_both_get_on(tmp_path):
    both = [crowd(tmp_path, name, 10_000) for name in "ab"]
    with both[0], both[1]:
        for one in both:
            begin(one)
        told = [[one.stdout.readline() for _ in range(150)] for one in both]
        for one in both:
            one.kill()
    with ContextStore.open(tmp_path) as store:
        there = {item.key for item in store.kv("k").list()}
    assert {f"{name.strip()}.0" for some in told for name in some} <= there
