"""Files that an upload or a copy left half written, clocks that are wrong, and space that ends.

Nothing of it is taken for the store's, and nothing that was acknowledged is lost.
"""

import asyncio
import itertools
from datetime import UTC, datetime, timedelta

import pytest
from core.conformance.backends import local
from core.reliability.rights import run as run_program
from proofs.soak.asking import failure, heard, say, seen

from lance_context_core import AsyncContextStore
from lance_context_core.settings import VersionRetention


@pytest.mark.usefixtures("each_write_commits")
async def test_a_newest_manifest_that_was_cut_short_is_named_and_all_before_it_can_be_had(tmp_path):
    async with AsyncContextStore.open(tmp_path, maintenance=None) as store:
        for name in ("first", "second", "third"):
            await say(store, name)
    newest, *_ = sorted((tmp_path / "records.lance" / "_versions").glob("*.manifest"))
    whole = newest.read_bytes()
    for length in (0, 3, len(whole) // 2, len(whole) - 1):
        newest.write_bytes(whole[:length])
        async with AsyncContextStore.open(tmp_path) as store:
            for work in (heard(store), say(store, "fourth")):
                error = str(await failure(work))
                assert error.startswith("cannot open table 'records'")
                assert "restore it from a copy" in error
        assert newest.read_bytes() == whole[:length]
    newest.rename(tmp_path / "aside")
    async with AsyncContextStore.open(tmp_path) as store:
        assert "lacks acknowledged data" in str(await failure(heard(store)))
        await store.accept_loss()
        assert await heard(store) == ["first", "second"]
        await say(store, "third", "fourth")
        assert await heard(store) == ["first", "second", "third", "fourth"]


@pytest.mark.usefixtures("each_write_commits")
async def test_parts_that_a_copy_left_behind_are_not_taken_for_the_store_s(tmp_path):
    async with AsyncContextStore.open(tmp_path, maintenance=None) as store:
        await say(store, "first")
        await say(store, "second")
    table = tmp_path / "records.lance"
    newest, *_ = sorted((table / "_versions").glob("*.manifest"))
    # As tools for copying call them while they are at it, and a data file without a version.
    (table / "_versions" / f".{newest.name}.x7Gh2k").write_bytes(newest.read_bytes()[:99])
    (table / "_versions" / f"{newest.name}.part").write_bytes(b"")
    (table / "data" / "half.lance").write_bytes(next((table / "data").iterdir()).read_bytes()[:50])
    async with AsyncContextStore.open(tmp_path) as store:
        await say(store, "third")
        await store.maintain()
        assert await heard(store) == ["first", "second", "third"]
    assert await seen(local(tmp_path)) == ["first", "second", "third"]


# Clocks


class Off:
    """A clock that is off by some hours."""

    def __init__(self, hours):
        self._off = timedelta(hours=hours)

    def now(self):
        return datetime.now(UTC) + self._off


@pytest.mark.slow
async def test_processes_whose_clocks_are_hours_apart_keep_one_order_and_lose_nothing(tmp_path):
    short = VersionRetention(
        all_for=timedelta(minutes=5), hourly_for=timedelta(0), daily_for=timedelta(0)
    )
    stores = [
        AsyncContextStore.open(tmp_path, clock=Off(hours), retention=short, maintenance=None)
        for hours in (0, 9, -9)
    ]
    expected = []
    for number, store in zip(range(12), itertools.cycle(stores), strict=False):
        await say(store, f"{number}.0", f"{number}.1")
        expected += [f"{number}.0", f"{number}.1"]
        if number % 4 == 3:
            await store.maintain()
            await store.thin()
        for other in stores:
            assert await heard(other) == expected
    await stores[0].tag("here")
    await asyncio.gather(*(store.maintain() for store in stores))
    for store in stores:
        await store.thin()
        assert await heard(store) == expected
        assert await heard(await store.checkout("here")) == expected
        await store.close()


async def test_what_expires_does_so_by_the_clock_of_whoever_looks(tmp_path):
    early, late = (AsyncContextStore.open(tmp_path, clock=Off(hours)) for hours in (-3, 3))
    await early.memory.add(["tea"], user_id="ada", expires_at=datetime.now(UTC))
    assert [one.text for one in (await early.memory.list(user_id="ada")).items] == ["tea"]
    assert (await late.memory.list(user_id="ada")).items == []
    # Whoever is hours ahead hides it from nobody but himself, whatever he does.
    await late.maintain()
    await late.thin()
    assert [one.text for one in (await early.memory.list(user_id="ada")).items] == ["tea"]
    for store in (early, late):
        await store.close()


# Space


SHRINKING = """
import asyncio, resource, sys
from lance_context_core import AsyncContextStore, Message, StorageError

async def main():
    kept, refused = [], []
    async with AsyncContextStore.open(sys.argv[1], maintenance=None, journal=None) as store:
        for limit in map(int, sys.argv[2:]):
            name = str(limit)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            try:
                await store.history.append("a", Message.user("tea", id=name), session_id="s")
                kept.append(name)
            except StorageError as error:
                assert "raise the limit" in str(error), error
                assert "'records'" in str(error), error
                refused.append(name)
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
            seen = [one.id for one in await store.history.get_messages("a", session_id="s")]
            assert seen == ["first", *kept], (seen, kept)
        for name in refused:
            await store.history.append("a", Message.user("tea", id=name), session_id="s")
    print(len(kept), len(refused))

asyncio.run(main())
"""


@pytest.mark.usefixtures("each_write_commits")
async def test_at_whichever_file_of_a_commit_the_space_ends_nothing_is_half_written(tmp_path):
    """Data, transaction and manifest are the larger, the later they are written."""
    async with AsyncContextStore.open(tmp_path, maintenance=None) as store:
        await say(store, "first")
    sizes = sorted(
        max(file.stat().st_size for file in (tmp_path / "records.lance" / part).iterdir())
        for part in ("data", "_transactions", "_versions")
    )
    limits = [str(size - 1) for size in sizes]
    (counts,) = await asyncio.to_thread(run_program, SHRINKING, tmp_path, *limits, 10_000_000)
    assert counts == "1 3"
    found = await seen(local(tmp_path))
    assert sorted(found) == sorted(["first", *limits, "10000000"])
