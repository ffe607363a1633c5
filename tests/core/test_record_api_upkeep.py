"""Contexts are opened, embed later, and compact by hand and by themselves."""

import asyncio
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from core.conformance.doubles import ManualClock
from core.record_api import assert_refused, contents

from lance_context_core import (
    AsyncContext,
    Context,
    DimensionMismatchError,
    InvalidRequestError,
    NotFoundError,
)
from lance_context_core.errors import CompactionInProgressError
from lance_context_core.stores.compaction import CompactionSchedule, Compactor


@pytest.fixture
def ctx(store):
    """The default context of an empty store in a directory, without an embedder."""
    return store.context()


def until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


# Opening


async def test_only_a_store_that_exists_can_be_opened(tmp_path):
    with pytest.raises(NotFoundError, match="create"):
        await AsyncContext.open(tmp_path / "store")
    async with await AsyncContext.create(tmp_path / "store", name="own") as ctx:
        await ctx.add("user", "a")
        assert (ctx.name, ctx.uri()) == ("own", str(tmp_path / "store"))
        assert repr(ctx) == f"AsyncContext({str(tmp_path / 'store')!r}, name='own')"
    async with await AsyncContext.open(tmp_path / "store", name="own") as ctx:
        assert contents(await ctx.list()) == ["a"]


async def test_creating_writes_nothing_yet(tmp_path):
    async with await AsyncContext.create(tmp_path / "store"):
        assert not (tmp_path / "store").exists()


async def test_the_length_of_vectors_can_be_fixed_from_the_start(tmp_path):
    async with await AsyncContext.create(tmp_path, embedding_dim=3) as ctx:
        work = ctx.add("user", "a", embedding=[1.0, 2.0])
        await assert_refused(ctx, work, DimensionMismatchError, "3")
        await ctx.add("user", "a", embedding=[1.0, 2.0, 3.0])
    async with await AsyncContext.create(tmp_path, embedding_dim=3) as ctx:
        assert await ctx.entries() == 1
    with pytest.raises(DimensionMismatchError, match="3"):
        await AsyncContext.create(tmp_path, embedding_dim=2)


@pytest.mark.parametrize("bad", [
    {"embedding_dim": 0}, {"embedding_dim": -1}, {"embedding_dim": "4"}, {"embedding_dim": True},
    {"compaction_interval_secs": 0}, {"compaction_interval_secs": float("nan")},
    {"compaction_interval_secs": "5"}, {"compaction_min_fragments": 1},
    {"compaction_min_fragments": 2.5}, {"quiet_hours": (22, 6)}, {"quiet_hours": [(25, 3)]},
    {"quiet_hours": [(1, 2, 3)]}, {"quiet_hours": [("22", "6")]}, {"quiet_hours": ["ab"]},
    {"name": ""},
], ids=repr)  # fmt: skip
async def test_what_a_context_cannot_be_made_with_is_refused(tmp_path, bad):
    with pytest.raises(InvalidRequestError, match=next(iter(bad))):
        await AsyncContext.create(tmp_path / "store", **bad)
    assert not (tmp_path / "store").exists()


# Embedding later


async def test_what_was_stored_without_a_vector_is_embedded_on_request(open_store, embedder):
    store = open_store(embedder=embedder, defer_embedding=True)
    ctx = store.context()
    await ctx.add_many({"role": "user", "content": f"word{n}"} for n in range(5))
    await ctx.add("tool", b"nothing to embed")
    await ctx.add("user", "own vector", embedding=[1.0] * embedder.dimension)
    assert contents(await ctx.search("word3")) == ["own vector"]
    order = [one["id"] for one in await ctx.list()]
    assert await store.embed_pending(limit=2) == 2
    assert [one["embedding"] is not None for one in await ctx.list()] == [
        True,
        True,
        *[False] * 4,
        True,
    ]
    assert await store.embed_pending() == 3
    assert await store.embed_pending() == 0
    assert [one["id"] for one in await ctx.list()] == order
    for n in range(5):
        (best,) = await ctx.search(f"word{n}", 1)
        assert (best["content"], best["score"]) == (f"word{n}", pytest.approx(1))
    (own,) = await ctx.list(filters={"text": "own vector"})
    assert own["embedding"] == [1.0] * embedder.dimension


async def test_embedding_on_request_needs_an_embedder(store):
    with pytest.raises(InvalidRequestError, match="embedder"):
        await store.embed_pending()


# Compaction


@pytest.mark.parametrize(("hours", "quiet"), [
    ((), set()),
    (((22, 6),), {22, 23, 0, 1, 2, 3, 4, 5}),
    (((9, 12),), {9, 10, 11}),
    (((23, 24), (0, 1)), {23, 0}),
    (((0, 24),), set(range(24))),
    (((5, 5),), set()),
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
    compactor = Compactor(store.room("default")[0].table, clock)
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
        patch.setattr("lance_context_core.stores.compaction.maintenance.compact", fail)
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
        compactor = ctx._twin._compactor
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
            patch.setattr("lance_context_core.stores.compaction.maintenance.compact", fail)
            for n in range(3):
                ctx.add("user", str(n))
            until(lambda: ctx.compaction_stats()["last_error"] == "no space")
        until(lambda: ctx.compaction_stats()["last_error"] is None)
        assert ctx.compaction_stats()["total_fragments"] == 1
