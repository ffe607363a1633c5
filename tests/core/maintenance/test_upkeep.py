"""The store maintains itself, one process at a time, and no writer or reader notices."""

import asyncio
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import threading
import time
from datetime import datetime, timedelta

import lancedb
import pytest
from core.conformance.backends import Backend
from core.conformance.doubles import ManualClock

from lance_context_core import InvalidRequestError, Message
from lance_context_core._resources import SystemClock
from lance_context_core.errors import ConflictError, StorageError
from lance_context_core.maintenance.leases import CLAIM, UPKEEP_TABLE, Claims
from lance_context_core.maintenance.maintenance import Upkeep
from lance_context_core.maintenance.types import Maintenance
from lance_context_core.settings import IndexPolicy
from lance_context_core.storage import leases
from lance_context_core.storage.lance import committer
from lance_context_core.storage.lance.fragments import FragmentPolicy
from lance_context_core.storage.names import next_revision
from lance_context_core.storage.table import Table
from lance_context_core.storage.write_batch import Mode, WriteBatch

pytestmark = pytest.mark.usefixtures("each_write_commits")

EAGER = Maintenance(
    every_n_commits=8, fragments=FragmentPolicy(fanout=4), indexes=IndexPolicy(unindexed_rows=50)
)
NOON = datetime(2026, 1, 15, 12).astimezone()


def upkeep_of(store, *, clock=None, settings=EAGER, **options):
    resources = store._resources
    clock = clock or resources.clock
    upkeep = Upkeep(resources.database, clock, settings=settings)
    upkeep.thin = options.get("thin")
    return upkeep


def counting(upkeep, table):
    """Has the upkeep, and not the store's own, count the commits."""
    table.access.connection.on_commit = upkeep.committed


async def settled(upkeep):
    deadline = time.monotonic() + 300
    while upkeep._worker is not None:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def fill(store, n, *, start=0):
    for number in range(start, start + n):
        await store.history.append("a", Message.user(f"message {number}"), session_id="s")


async def texts(store):
    return [one.text for one in await store.history.get_messages("a", session_id="s")]


async def table_stats(upkeep, table):
    (found,) = (await upkeep.stats([table])).tables
    return found


@pytest.mark.parametrize(("seconds", "is_written"), [(0.01, True), (60, False)])
async def test_writers_wait_a_moment_for_maintenance_and_no_longer(
    store, monkeypatch, seconds, is_written
):
    monkeypatch.setattr(committer, "_WAIT_SECONDS", seconds)
    await fill(store, 1)
    async with store._resources.records.access.commits.pausing():
        writing = asyncio.ensure_future(fill(store, 1, start=1))
        await asyncio.wait([writing], timeout=300 if is_written else 0.5)
        assert writing.done() == is_written
    await writing
    assert await texts(store) == ["message 0", "message 1"]


@pytest.mark.slow
async def test_new_rows_are_indexed_where_a_writer_never_pauses(store):
    records = store._resources.records
    upkeep = upkeep_of(store)
    counting(upkeep, records)
    await fill(store, 400)
    await settled(upkeep)
    stats = await table_stats(upkeep, records)
    assert stats.unindexed_rows < 200
    assert stats.fragments < 60
    hits = await store.search("message", mode="text", limit=1_000)
    assert len(hits) == 400


@pytest.mark.slow
async def test_appends_are_followed_by_merges_and_nobody_asks_for_them(store):
    records = store._resources.records
    upkeep = upkeep_of(store)
    counting(upkeep, records)
    for start in range(0, 96, 24):
        await fill(store, 24, start=start)
        await settled(upkeep)
    stats = await table_stats(upkeep, records)
    assert stats.fragments < 30
    assert (stats.rows, stats.n_failed, stats.last_error) == (96, 0, None)
    assert stats.n_done >= 4
    assert stats.last_by.startswith(f"{socket.gethostname()}:{os.getpid()}:")
    assert stats.last_did
    assert await texts(store) == [f"message {n}" for n in range(96)]
    await upkeep.stop()


@pytest.mark.slow
async def test_new_rows_join_the_indexes_when_they_are_enough_of_the_table(store):
    records = store._resources.records
    upkeep = upkeep_of(store)
    counting(upkeep, records)
    await fill(store, 49)
    assert (await table_stats(upkeep, records)).unindexed_rows == 49
    # As many as make the last commit one after which it is looked after, whatever was done before.
    await fill(store, 23, start=49)
    await settled(upkeep)
    stats = await table_stats(upkeep, records)
    assert stats.unindexed_rows < 50
    hits = await store.search("message", mode="text", limit=100)
    assert len(hits) == 72
    await upkeep.stop()


@pytest.mark.slow
async def test_what_a_merge_takes_out_of_an_index_is_indexed_in_the_same_run(store):
    records = store._resources.records
    upkeep = upkeep_of(store)
    records.access.connection.on_commit = lambda table: None  # nothing but what is asked for
    for n_before, n in [(0, 50), (50, 16), (66, 16), (82, 16)]:
        await fill(store, n, start=n_before)
        (done,) = await upkeep.maintain([records], policy=None, only_due=True)
        assert done.fragments_removed >= n
    assert done.fragments_removed > 16  # the 50 that had been in the indexes are among them
    stats = await table_stats(upkeep, records)
    assert (stats.rows, stats.due) == (98, ())
    assert stats.unindexed_rows < 50
    await upkeep.stop()


async def test_nothing_is_made_where_nothing_is_stored(store, local_backend):
    upkeep = upkeep_of(store)
    assert (await upkeep.stats(await store._whole().tables())).tables == ()
    assert await upkeep.maintain(await store._whole().tables(), policy=None, only_due=False) == []
    await upkeep.stop()
    assert not os.path.exists(local_backend.uri)  # noqa: ASYNC240, PTH110


async def test_where_nothing_is_due_no_lease_is_taken(store):
    await fill(store, 2)
    records = store._resources.records
    upkeep = upkeep_of(store)
    (done,) = await upkeep.maintain([records], policy=None, only_due=True)
    assert done.skipped == "nothing is due"
    assert UPKEEP_TABLE not in await store._resources.database.table_names()


async def test_by_hand_everything_is_done_and_the_log_says_so(store, clock):
    await fill(store, 3)
    records = store._resources.records
    upkeep = upkeep_of(store, settings=None)
    (done,) = await upkeep.maintain([records], policy=None, only_due=False)
    assert (done.fragments_removed, done.fragments_added) == (3, 1)
    stats = await table_stats(upkeep, records)
    assert (stats.fragments, stats.unindexed_rows, stats.due) == (1, 0, ())
    assert (stats.n_done, stats.last_at) == (1, clock.now())
    assert stats.last_did["fragments_removed"] == 3
    assert [t.name for t in await store._whole().tables()] == ["records"]


async def test_what_is_due_is_said_with_its_reason(store):
    records = store._resources.records
    upkeep = upkeep_of(store)
    await fill(store, 60)
    due = (await table_stats(upkeep, records)).due
    assert "60 fragments are to be merged" in due
    assert "60 of 60 rows are outside the index on search_text" in due


async def test_in_quiet_hours_nothing_is_done_by_itself(store):
    clock = ManualClock(NOON)
    records = store._resources.records
    settings = Maintenance(
        every_n_commits=1, fragments=FragmentPolicy(fanout=2), quiet_hours=((11, 13),)
    )
    upkeep = upkeep_of(store, clock=clock, settings=settings)
    counting(upkeep, records)
    await fill(store, 5)
    await settled(upkeep)
    assert (await table_stats(upkeep, records)).fragments == 5
    clock.advance(hours=1)
    await fill(store, 1, start=5)
    await settled(upkeep)
    assert (await table_stats(upkeep, records)).fragments == 1
    await upkeep.stop()


async def test_an_error_reaches_no_writer_and_is_told_by_the_statistics(store, monkeypatch):
    records = store._resources.records
    upkeep = upkeep_of(store)
    counting(upkeep, records)

    async def fail(*_):
        raise OSError("no space")

    with monkeypatch.context() as patch:
        patch.setattr("lance_context_core.storage.lance.fragments.merge_fragments", fail)
        await fill(store, 20)
        await settled(upkeep)
    stats = await upkeep.stats([records])
    assert stats.last_error == "no space"
    assert (stats.tables[0].last_error, stats.tables[0].n_done) == ("no space", 0)
    assert stats.tables[0].held_by is None
    await fill(store, 20, start=20)
    await settled(upkeep)
    stats = await upkeep.stats([records])
    assert (stats.last_error, stats.tables[0].last_error) == (None, None)
    await upkeep.stop()


async def test_a_conflict_with_a_writer_is_no_failure(store, monkeypatch):
    records = store._resources.records
    await fill(store, 20)
    upkeep = upkeep_of(store)

    async def conflict(*_):
        raise ConflictError("others were faster")

    monkeypatch.setattr("lance_context_core.storage.lance.fragments.merge_fragments", conflict)
    (done,) = await upkeep.maintain([records], policy=None, only_due=True)
    assert done.skipped == "others were faster"
    stats = await table_stats(upkeep, records)
    assert (stats.n_failed, stats.last_error, stats.held_by) == (0, None, None)


async def test_closing_waits_for_the_step_that_runs(store, monkeypatch):
    records = store._resources.records
    upkeep = upkeep_of(store)
    counting(upkeep, records)
    started, ended = threading.Event(), threading.Event()

    async def slow(*_):
        started.set()
        await asyncio.sleep(0.3)
        ended.set()
        raise ConflictError("it does not matter")

    monkeypatch.setattr("lance_context_core.storage.lance.fragments.merge_fragments", slow)
    await fill(store, 8)
    assert await asyncio.to_thread(started.wait, 300)
    await upkeep.stop()
    assert ended.is_set()
    await fill(store, 20)
    assert upkeep._worker is None
    await upkeep.stop()


async def test_older_versions_are_thinned_now_and_then(store):
    clock = ManualClock(NOON)
    thinned = []

    async def thin(table):
        thinned.append(table.name)
        return 7

    settings = Maintenance(thin_interval=timedelta(hours=1))
    upkeep = upkeep_of(store, clock=clock, settings=settings, thin=thin)
    records = store._resources.records
    await fill(store, 1)
    for hours, expected in ((0, 1), (0.5, 1), (0.6, 2)):
        clock.advance(hours=hours)
        done = await upkeep.maintain([records], policy=None, only_due=True)
        assert len(thinned) == expected
    assert done[0].versions_removed == 7
    assert (await table_stats(upkeep, records)).last_did == {"versions_removed": 7}


# Several at once


@pytest.mark.slow
async def test_writers_are_never_hurt_and_nothing_is_lost(open_store):
    maintained, *writers = [open_store(clock=SystemClock()) for _ in range(4)]
    records = maintained._resources.records
    await maintained.context().add("user", "first", external_id="first")
    upkeep = upkeep_of(maintained)
    expected = {"first": "first"}
    running = True

    async def maintain():
        while running:
            for only_due in (True, True, True, False):
                await upkeep.maintain([records], policy=None, only_due=only_due)

    async def write(store, name):
        context = store.context()
        for n in range(20):
            key = f"{name}{n}"
            await context.add("user", key, external_id=key)
            expected[key] = key
            if n % 4 == 1:
                await context.update(external_id=key, metadata={"n": n})
            if n % 4 == 2:
                await context.upsert("user", f"{key} anew", external_id=key)
                expected[key] = f"{key} anew"
            if n % 4 == 3:
                await context.delete(external_id=key)
                del expected[key]

    keeper = asyncio.create_task(maintain())
    try:
        named = zip(writers, "abc", strict=True)
        await asyncio.gather(*(write(store, name) for store, name in named))
    finally:
        running = False
        await keeper
    there = await writers[0].context().list(limit=1_000)
    assert {one["external_id"]: one["content"] for one in there} == expected
    assert len(there) == len(expected)
    stats = await table_stats(upkeep, records)
    assert (stats.n_failed, stats.last_error) == (0, None)


def maintain_in_a_process(uri, storage_options, go, results):
    async def main():
        backend = Backend(uri=uri, storage_options=storage_options)
        store = backend.open()
        records = store._resources.records
        await records.access.reader()
        go.wait()
        upkeep = upkeep_of(store)
        (done,) = await upkeep.maintain([records], policy=None, only_due=True)
        results.put(done.fragments_removed)
        await store.close()

    asyncio.run(main())


@pytest.mark.parametrize("where", ["local", pytest.param("s3", marks=pytest.mark.long)])
def test_two_processes_do_the_work_once(where, request):
    backend = request.getfixturevalue(f"{where}_backend")
    n = 16 if where == "s3" else 60

    async def prepare():
        store = backend.open()
        await fill(store, n)
        await store.close()

    asyncio.run(prepare())
    spawn = multiprocessing.get_context("spawn")
    go, results = spawn.Event(), spawn.Queue()
    children = [
        spawn.Process(
            target=maintain_in_a_process, args=(backend.uri, backend.storage_options, go, results)
        )
        for _ in range(2)
    ]
    for child in children:
        child.start()
    time.sleep(3)
    go.set()
    removed = sorted(results.get(timeout=300) for _ in children)
    for child in children:
        child.join()
    assert removed == [0, n]

    async def look():
        store = backend.open()
        upkeep = upkeep_of(store)
        stats = await table_stats(upkeep, store._resources.records)
        assert (stats.n_done, stats.n_failed, stats.rows) == (1, 0, n)
        assert await texts(store) == [f"message {i}" for i in range(n)]
        await store.close()

    asyncio.run(look())


@pytest.fixture(params=["locks", "claims"])
def impatient(request, monkeypatch):
    """Both ways in which a table is held, and nobody waits for long."""
    monkeypatch.setattr("lance_context_core.maintenance.maintenance._PATIENCE_SECONDS", 0.2)
    if request.param == "claims":
        as_with_other_machines(monkeypatch)


def as_with_other_machines(monkeypatch):
    """Have every store taken for one whose tables other machines may be at."""

    async def has_locks(_):
        return False

    monkeypatch.setattr(Upkeep, "_has_locks", has_locks)


@pytest.mark.usefixtures("impatient")
async def test_who_holds_a_table_keeps_others_from_maintaining_it(open_store):
    ours, theirs = open_store(), open_store()
    await fill(ours, 8)
    upkeep, records = upkeep_of(theirs), theirs._resources.records
    async with upkeep_of(ours).hold([ours._resources.records]):
        (done,) = await upkeep.maintain([records], policy=None, only_due=True)
        assert done.skipped == "another process maintains it"
        assert (await table_stats(upkeep, records)).fragments == 8
    (done,) = await upkeep.maintain([records], policy=None, only_due=True)
    assert (done.skipped, done.fragments_removed) == (None, 8)


@pytest.mark.parametrize("are_locks", [True, False], ids=["locks", "claims"])
async def test_who_is_to_hold_a_table_waits_for_whoever_maintains_it(
    open_store, monkeypatch, are_locks
):
    if not are_locks:
        as_with_other_machines(monkeypatch)
    ours, theirs = open_store(), open_store()
    await fill(ours, 8)
    happened, started, go_on = [], threading.Event(), threading.Event()

    async def slow(*_):
        started.set()
        await asyncio.to_thread(go_on.wait)
        happened.append("maintained")
        raise ConflictError("it does not matter")

    async def hold():
        async with upkeep_of(ours).hold([ours._resources.records]):
            happened.append("held")

    monkeypatch.setattr("lance_context_core.storage.lance.fragments.merge_fragments", slow)
    maintaining = upkeep_of(theirs).maintain(
        [theirs._resources.records], policy=None, only_due=True
    )
    async with asyncio.TaskGroup() as both:
        both.create_task(maintaining)
        await asyncio.to_thread(started.wait)
        both.create_task(hold())
        await asyncio.sleep(0.2)
        assert happened == []
        go_on.set()
    assert happened == ["maintained", "held"]


def hold_in_a_process(uri, is_held):
    async def main():
        store = Backend(uri=uri).open()
        async with upkeep_of(store).hold([store._resources.records]):
            is_held.set()
            await asyncio.sleep(600)

    asyncio.run(main())


async def test_a_table_is_free_when_its_holder_is_killed(open_store, local_backend):
    store = open_store()
    await fill(store, 8)
    upkeep, records = upkeep_of(store), store._resources.records
    spawn = multiprocessing.get_context("spawn")
    is_held = spawn.Event()
    holder = spawn.Process(target=hold_in_a_process, args=(local_backend.uri, is_held))
    holder.start()
    try:
        await asyncio.to_thread(is_held.wait)
        maintaining = asyncio.create_task(upkeep.maintain([records], policy=None, only_due=True))
        assert await asyncio.wait([maintaining], timeout=0.5) == (set(), {maintaining})
    finally:
        holder.kill()
        holder.join()
    (done,) = await maintaining
    assert done.fragments_removed == 8


async def test_a_claim_goes_to_one_of_many_who_ask_at_once(open_store, clock):
    holders = [Claims(open_store()._resources.database, clock) for _ in range(6)]
    for _ in range(5):
        taken = await asyncio.gather(*(one.take("t") for one in holders))
        (claim,) = [one for one in taken if one is not None]
        holder = next(h for h in holders if h._renewer.keeps("t"))
        assert (await holders[0].logs())["t"].held_by == holder.holder
        await holder.give_back(claim)


async def test_a_claim_ends_when_it_runs_out_or_its_holder_is_dead(store, clock):
    ended = subprocess.Popen([sys.executable, "-c", ""])  # noqa: ASYNC220
    ended.wait()
    database = store._resources.database
    ours, other = Claims(database, clock), Claims(database, clock)

    boot, namespace, _, began = json.loads(leases.mine())
    other._process = json.dumps([boot, namespace, ended.pid, began])
    assert await other.take("t")
    assert await ours.take("t")

    other._process = json.dumps(["elsewhere", namespace, ended.pid, began])
    claim = await other.take("u")
    assert claim
    assert await ours.take("u") is None
    clock.advance(seconds=CLAIM.total_seconds() - 1)
    assert await ours.take("u") is None
    clock.advance(seconds=1)
    assert await ours.take("u")
    # What its former holder says then is not heard.
    await other.give_back(claim, error="late")
    log = (await ours.logs())["u"]
    assert (log.held_by, log.last_error) == (ours.holder, None)


async def test_a_step_longer_than_its_claim_is_not_begun_by_others(open_store, clock, monkeypatch):
    ours, other = (Claims(open_store()._resources.database, clock) for _ in range(2))
    ticks, passed = leases.ticks, [0.0]
    monkeypatch.setattr(leases, "ticks", lambda: ticks() + passed[0])
    claim = await ours.take("t")
    for _ in range(2):
        before = claim.row["revision"]
        passed[0] += 0.7 * CLAIM.total_seconds()
        async with asyncio.timeout(300):
            while claim.row["revision"] == before:  # noqa: ASYNC110 - another thread renews it
                await asyncio.sleep(0.01)
        assert await other.take("t") is None
    await ours.give_back(claim, did={})
    assert await other.take("t")


async def test_a_clock_that_is_set_gives_no_claim_to_two(open_store, clock):
    ours, other = (Claims(open_store()._resources.database, clock) for _ in range(2))
    claim = await ours.take("t")
    for days in (400, -800):
        clock.advance(days=days)
        assert await other.take("t") is None
        assert await ours.take("t") is None
    await ours.give_back(claim)
    after = await other.take("t")
    assert json.loads(claim.row["holder"])[1] < json.loads(after.row["holder"])[1]


async def test_a_claim_that_the_first_stores_kept_ends_by_its_time(open_store, clock):
    ours, other = (Claims(open_store()._resources.database, clock) for _ in range(2))
    row = (await other.take("t")).row
    old = {**row, "holder": "elsewhere:7:abc", "revision": next_revision(row["revision"])}
    await other._table.write(WriteBatch([old], Mode.UPSERT))
    assert (await ours.logs())["t"].held_by == "elsewhere:7:abc"
    assert await ours.take("t") is None
    clock.advance(seconds=CLAIM.total_seconds())
    assert await ours.take("t")


async def test_a_claim_whose_return_failed_is_free_for_its_holder_and_for_nobody_else(
    open_store, clock, monkeypatch
):
    ours, other = (Claims(open_store()._resources.database, clock) for _ in range(2))
    claim = await ours.take("t")
    with monkeypatch.context() as away:
        away.setattr(Table, "write", failing)
        with pytest.raises(StorageError):
            await ours.give_back(claim, did={})
    assert (await ours.logs())["t"].held_by is None
    assert await other.take("t") is None
    claim = await ours.take("t")
    assert await ours.take("t") is None
    await ours.give_back(claim, did={})
    assert (await other.logs())["t"].n_done == 1
    assert await other.take("t")


async def failing(*_):
    raise StorageError("the disk was busy for a moment")


async def test_what_others_did_since_a_claim_was_returned_counts(open_store, clock):
    ours, other = (Claims(open_store()._resources.database, clock) for _ in range(2))
    await ours.give_back(await ours.take("t"), did={})
    held = await other.take("t")
    assert await ours.take("t") is None
    await other.give_back(held, error="failed")
    await ours.give_back(await ours.take("t"), did={})
    log = (await other.logs())["t"]
    assert (log.n_done, log.n_failed, log.held_by) == (2, 1, None)


@pytest.mark.slow
async def test_the_table_of_claims_stays_small(store, clock, monkeypatch):
    monkeypatch.setattr("lance_context_core.maintenance.leases._PRUNE_EVERY", 16)
    monkeypatch.setattr(
        "lance_context_core.maintenance.leases._PRUNE_AGE", timedelta(milliseconds=5)
    )
    claims = Claims(store._resources.database, SystemClock())
    for n in range(40):
        await claims.give_back(await claims.take("t"), did={"n": n})
    connection = await lancedb.connect_async(store.uri)
    handle = await connection.open_table(UPKEEP_TABLE)
    assert len(await handle.list_versions()) < 30
    assert (await handle.count_rows(), (await claims.logs())["t"].n_done) == (1, 40)


def test_in_memory_a_store_maintains_itself_too(memory_backend):
    async def main():
        store = memory_backend.open()
        records = store._resources.records
        upkeep = upkeep_of(store)
        counting(upkeep, records)
        await fill(store, 20)
        await settled(upkeep)
        assert (await table_stats(upkeep, records)).fragments < 20
        await upkeep.stop()
        await store.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    "bad",
    [
        {"every_n_commits": 0},
        {"every_n_commits": 2.5},
        {"quiet_hours": ((1, 25),)},
        {"quiet_hours": 22},
    ],
)
def test_settings_of_no_sense_are_refused(bad):
    with pytest.raises(InvalidRequestError):
        Maintenance(**bad)
