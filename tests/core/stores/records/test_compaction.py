"""Records are compacted by hand and by themselves, never twice at once."""

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from core.conformance.doubles import ManualClock
from core.stores.records.record_api import contents

from lance_context_core import AsyncContext, AsyncContextStore, Context
from lance_context_core.errors import CompactionInProgressError
from lance_context_core.maintenance.compaction import CompactionSchedule, RecordCompaction

pytestmark = pytest.mark.usefixtures("each_write_commits")


def until(condition):
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


async def eventually(condition):
    await asyncio.to_thread(until, condition)


@pytest.mark.parametrize(("hours", "quiet"), [
    ((), set()),
    (((22, 6),), {22, 23, 0, 1, 2, 3, 4, 5}),
    (((9, 12),), {9, 10, 11}),
    (((23, 24), (0, 1)), {23, 0}),
    (((0, 24),), set(range(24))),
    (((5, 5),), set()),
    ([[22, 24], [0, 2]], {22, 23, 0, 1}),
    (((12, 6),), {*range(12, 24), *range(6)}),
])  # fmt: skip
def test_quiet_hours_are_those_of_the_machine_s_day_and_may_span_midnight(hours, quiet):
    schedule = CompactionSchedule(quiet_hours=hours)
    for hour in range(24):
        local = datetime(2026, 1, 15, hour, 59, 59).astimezone()
        for zone in (UTC, timezone(timedelta(hours=9)), local.tzinfo):
            assert schedule.is_quiet(local.astimezone(zone)) is (hour in quiet)


async def test_the_schedule_compacts_from_so_many_fragments_on_but_not_in_quiet_hours(store, ctx):
    noon = datetime(2026, 1, 15, 12).astimezone()
    clock = ManualClock(noon)
    compactor = RecordCompaction(store._resources.records, clock)
    schedule = CompactionSchedule(min_fragments=4, quiet_hours=((22, 6),))
    assert await compactor.tick(schedule) is False
    for n in range(3):
        await ctx.add("user", str(n))
    assert await compactor.tick(schedule) is False
    await ctx.add("user", "3")
    clock.advance(hours=11)
    assert await compactor.tick(schedule) is False
    clock.advance(hours=6, minutes=59)
    assert await compactor.tick(schedule) is False
    assert await compactor.stats() == {
        "total_fragments": 4,
        "is_compacting": False,
        "last_compaction": None,
        "last_error": None,
        "total_compactions": 0,
    }
    now = clock.advance(minutes=1)
    assert await compactor.tick(schedule) is True
    assert await compactor.tick(schedule) is False
    stats = await compactor.stats()
    assert (stats["total_fragments"], stats["total_compactions"]) == (1, 1)
    assert datetime.fromisoformat(stats["last_compaction"]) == now
    assert contents(await ctx.list()) == ["0", "1", "2", "3"]


async def test_two_compactions_at_once_are_one_and_an_error_that_may_be_retried(ctx):
    await ctx.add("user", "0")
    await ctx.add("user", "1")
    outcomes = await asyncio.gather(*(ctx.compact() for _ in range(5)), return_exceptions=True)
    done = [one for one in outcomes if not isinstance(one, CompactionInProgressError)]
    assert [one["fragments_removed"] for one in done] == [2]
    stats = await ctx.compaction_stats()
    assert (stats["total_compactions"], stats["is_compacting"]) == (1, False)
    assert (await ctx.compact())["fragments_removed"] == 0


async def test_a_compaction_that_fails_says_so_in_the_statistics(ctx, monkeypatch):
    async def fail(table):
        raise OSError("no space")

    await ctx.add("user", "a")
    with monkeypatch.context() as patch:
        patch.setattr("lance_context_core.storage.lance.fragments.compact", fail)
        with pytest.raises(OSError, match="no space"):
            await ctx.compact()
    stats = await ctx.compaction_stats()
    assert (stats["last_error"], stats["total_compactions"], stats["is_compacting"]) == (
        "no space",
        0,
        False,
    )
    await ctx.compact()
    assert (await ctx.compaction_stats())["last_error"] is None


def test_fragments_are_merged_in_the_background(tmp_path):
    with Context.create(
        tmp_path,
        enable_background_compaction=True,
        compaction_interval_secs=0.05,
        compaction_min_fragments=5,
    ) as ctx:
        for n in range(12):
            ctx.add("user", str(n))
        until(lambda: ctx.compaction_stats()["total_compactions"] > 0)
        until(lambda: ctx.compaction_stats()["total_fragments"] < 5)
        assert contents(ctx.list()) == [str(n) for n in range(12)]
        compactor = ctx._aio._live.resources.compaction
        background = compactor._background
    assert background.cancelled()
    assert compactor._background is None


def test_the_background_keeps_on_after_a_failure(tmp_path, monkeypatch):
    async def fail(table):
        raise OSError("no space")

    with Context.create(
        tmp_path,
        enable_background_compaction=True,
        compaction_interval_secs=0.05,
        compaction_min_fragments=2,
    ) as ctx:
        with monkeypatch.context() as patch:
            patch.setattr("lance_context_core.storage.lance.fragments.compact", fail)
            for n in range(3):
                ctx.add("user", str(n))
            until(lambda: ctx.compaction_stats()["last_error"] == "no space")
        until(lambda: ctx.compaction_stats()["last_error"] is None)
        assert ctx.compaction_stats()["total_fragments"] == 1


# Cancelling and stopping


class Slow:
    """A compaction that takes until it is told to go on."""

    def __init__(self, monkeypatch):
        self.n_begun = 0
        self.n_ended = 0
        self.may_end = threading.Event()
        monkeypatch.setattr("lance_context_core.storage.lance.fragments.compact", self.compact)

    async def compact(self, table):
        self.n_begun += 1
        await eventually(self.may_end.is_set)
        # What the engine says after the store was closed under it.
        await table.count()
        self.n_ended += 1
        return {"fragments_removed": 2}

    async def begun(self):
        await eventually(lambda: self.n_begun)


async def test_a_caller_who_is_cancelled_leaves_the_compaction_running(ctx, monkeypatch):
    slow = Slow(monkeypatch)
    caller = asyncio.create_task(ctx.compact())
    await slow.begun()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert (await ctx.compaction_stats())["is_compacting"] is True
    with pytest.raises(CompactionInProgressError):
        await ctx.compact()
    assert slow.n_begun == 1
    slow.may_end.set()
    await eventually(lambda: not ctx._live.resources.compaction._is_compacting())
    stats = await ctx.compaction_stats()
    assert (slow.n_ended, stats["total_compactions"], stats["last_error"]) == (1, 1, None)


async def test_a_compaction_outlives_the_event_loop_that_asked_for_it(ctx, monkeypatch):
    slow = Slow(monkeypatch)

    async def ask():
        asyncio.create_task(ctx.compact())  # noqa: RUF006 - it dies with the loop
        await slow.begun()

    await asyncio.to_thread(asyncio.run, ask())
    assert (await ctx.compaction_stats())["is_compacting"] is True
    slow.may_end.set()
    await eventually(lambda: not ctx._live.resources.compaction._is_compacting())
    assert (slow.n_ended, (await ctx.compaction_stats())["last_error"]) == (1, None)


@pytest.mark.parametrize("by_hand", [False, True])
async def test_closing_waits_for_the_compaction_that_runs(tmp_path, monkeypatch, by_hand):
    slow = Slow(monkeypatch)
    ctx = await AsyncContext.create(
        tmp_path,
        enable_background_compaction=not by_hand,
        compaction_interval_secs=0.01,
        compaction_min_fragments=2,
    )
    for n in range(2):
        await ctx.add("user", f"{n}")
    caller = asyncio.create_task(ctx.compact() if by_hand else asyncio.sleep(0))
    await slow.begun()
    compactor = ctx._live.resources.compaction
    background = compactor._background
    closing = asyncio.gather(ctx.close(), ctx.close())
    if background is not None:
        await eventually(background.done)
    done, _ = await asyncio.wait([closing], timeout=0.1)
    assert not done
    slow.may_end.set()
    await closing
    assert (slow.n_begun, slow.n_ended) == (1, 1)
    assert compactor._error is None
    await caller
    await asyncio.sleep(0.05)
    assert slow.n_begun == 1


async def test_what_is_stopped_may_be_stopped_again_and_started_again(store, ctx, clock):
    compactor = RecordCompaction(store._resources.records, clock)
    await compactor.stop()
    schedule = CompactionSchedule(interval_secs=0.01, min_fragments=2)
    for round in range(2):
        await compactor.start(schedule)
        await compactor.start(schedule)
        for n in range(2):
            await ctx.add("user", f"{n}")
        await eventually(lambda: compactor._n_done > round)  # noqa: B023 - called in this round
        await asyncio.gather(compactor.stop(), compactor.stop())
        await compactor.stop()
    before = await compactor.stats()
    for n in range(2):
        await ctx.add("user", f"{n}")
    await asyncio.sleep(0.05)
    after = await compactor.stats()
    assert after == before | {"total_fragments": before["total_fragments"] + 2}


async def test_a_background_that_meets_a_compaction_by_hand_is_no_failure(store, ctx, monkeypatch):
    compactor = RecordCompaction(store._resources.records, ManualClock())
    for n in range(2):
        await ctx.add("user", f"{n}")
    slow = Slow(monkeypatch)
    caller = asyncio.create_task(compactor.compact())
    await slow.begun()
    assert await compactor.tick(CompactionSchedule(min_fragments=2)) is False
    slow.may_end.set()
    await caller
    assert (await compactor.stats())["last_error"] is None


async def test_all_handles_of_a_store_share_one_compaction(store, ctx, monkeypatch):
    await ctx.add("user", "0")
    slow = Slow(monkeypatch)
    caller = asyncio.create_task(ctx.compact())
    await slow.begun()
    for handle in (store.context("other"), store.scope(tenant="x").context()):
        with pytest.raises(CompactionInProgressError):
            await handle.compact()
        assert (await handle.compaction_stats())["is_compacting"] is True
    slow.may_end.set()
    await caller


@pytest.mark.parametrize("derived", [
    lambda store: store.scope(), lambda store: store.scope(tenant="x"),
])  # fmt: skip
async def test_a_handle_that_was_not_opened_stops_and_closes_nothing(tmp_path, derived):
    async with AsyncContextStore.open(tmp_path) as store:
        ctx = store.context()
        await ctx.add("user", "a")
        await store._resources.compaction.start(CompactionSchedule(interval_secs=60))
        await derived(store).close()
        await (await store.checkout(1)).close()
        assert await ctx.entries() == 1
        assert not ctx._live.resources.compaction._background.done()
