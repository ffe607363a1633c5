"""Locks on directories: who has one, who waits, and what a forked child cannot keep."""

import asyncio
import errno
import fcntl
import multiprocessing
import sqlite3
import threading

import pytest
from efforts import in_proofs

from lance_context_core import AsyncContextStore, Message
from lance_context_core.storage import file_locks
from lance_context_core.storage.file_locks import locked

UNIX, WINDOWS = file_locks._Flock, file_locks._SQLiteLock


@pytest.fixture(params=[UNIX, WINDOWS], ids=["unix", "windows"], autouse=True)
def kind(request, monkeypatch):
    """The locks of both systems, each of which works on this one."""
    monkeypatch.setattr(file_locks, "_LOCK", request.param)
    return request.param


def opening(monkeypatch, before):
    """Have `before` called whenever a lock is opened."""
    chosen = file_locks._LOCK

    def opened(place):
        before()
        return chosen(place)

    monkeypatch.setattr(file_locks, "_LOCK", opened)


async def take(place, **how):
    async with locked(place, **how):
        pass


async def assert_free(place, **how):
    """Somebody else gets the lock."""
    await asyncio.wait_for(take(place, **how), 300)


async def assert_held(place, **how):
    """Nobody else gets it."""
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(take(place, **how), 0.2)


async def test_one_has_it_alone_or_several_share_it(tmp_path):
    async with locked(tmp_path):
        await assert_held(tmp_path)
        await assert_held(tmp_path, shared=True)
    async with locked(tmp_path, shared=True):
        await assert_free(tmp_path, shared=True)
        await assert_held(tmp_path)
    await assert_free(tmp_path)


async def test_who_shares_it_goes_behind_who_waits_for_it_alone(tmp_path):
    (room := tmp_path / "room").mkdir()
    async with locked(tmp_path):
        await assert_held(room, shared=True, behind=tmp_path)
    async with locked(room, shared=True, behind=tmp_path):
        await assert_free(tmp_path)


@pytest.mark.parametrize("is_shared", [False, True])
async def test_who_asks_in_vain_keeps_nobody_else_away(tmp_path, is_shared):
    async with locked(tmp_path, shared=True):
        await assert_held(tmp_path)
        await assert_free(tmp_path, shared=True)
    async with locked(tmp_path, shared=is_shared):
        await assert_held(tmp_path)
    await assert_free(tmp_path)


async def test_the_places_of_a_store_are_locked_apart(tmp_path):
    places = [tmp_path, tmp_path / "a.lance", tmp_path / "a.lance" / "data", tmp_path / "b.lance"]
    for place in places:
        place.mkdir(exist_ok=True)
    (tmp_path / "journal.lock").touch()
    for place in (*places, tmp_path / "journal.lock"):
        async with locked(place):
            await assert_held(place)
            for other in places:
                if other != place:
                    await assert_free(other)


async def test_nothing_is_written_into_the_folder_of_a_table(tmp_path):
    table = tmp_path / "a.lance"
    (table / "_versions").mkdir(parents=True)
    async with locked(table / "_versions", shared=True, behind=table):
        pass
    assert [one.name for one in table.rglob("*")] == ["_versions"]
    assert all(one.stat().st_size == 0 for one in (tmp_path / "_locks").glob("*"))


def hold(kind, place, is_shared, is_held, is_over):
    """Have the lock in a process of its own."""
    file_locks._LOCK = kind

    async def main():
        async with locked(place, shared=is_shared):
            is_held.set()
            await asyncio.to_thread(is_over.wait)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("is_shared", "is_killed"),
    [(False, True), (True, False), *in_proofs((False, False), (True, True))],
)
async def test_another_process_has_it_until_it_ends_however_it_ends(
    kind, tmp_path, is_shared, is_killed
):
    spawn = multiprocessing.get_context("spawn")
    is_held, is_over = spawn.Event(), spawn.Event()
    given = kind, tmp_path, is_shared, is_held, is_over
    holder = spawn.Process(target=hold, args=given)
    holder.start()
    try:
        await asyncio.to_thread(is_held.wait)
        await assert_held(tmp_path)
        if is_shared:
            await assert_free(tmp_path, shared=True)
        else:
            await assert_held(tmp_path, shared=True)
        if is_killed:
            holder.kill()
        else:
            is_over.set()
        await assert_free(tmp_path)
    finally:
        holder.kill()
        await asyncio.to_thread(holder.join)


async def test_a_child_that_was_forked_meanwhile_does_not_keep_it(kind, tmp_path):
    fork, spawn = (multiprocessing.get_context(one) for one in ("fork", "spawn"))
    async with locked(tmp_path):
        is_over = fork.Event()
        child = fork.Process(target=is_over.wait)
        child.start()
    try:
        # Within this process the child's copy would not be met.
        is_held, to_end = spawn.Event(), spawn.Event()
        other = spawn.Process(target=hold, args=(kind, tmp_path, False, is_held, to_end))
        other.start()
        assert await asyncio.to_thread(is_held.wait, 300)
        to_end.set()
        await asyncio.to_thread(other.join)
        assert child.is_alive()
    finally:
        is_over.set()
        await asyncio.to_thread(child.join)


async def test_where_the_file_system_has_no_locks_nobody_waits(kind, tmp_path, monkeypatch):
    if kind is UNIX:

        def refused(*_):
            raise OSError(errno.ENOLCK, "no locks")

        monkeypatch.setattr(fcntl, "flock", refused)
    else:

        def refused(*_, **__):
            raise sqlite3.OperationalError("unable to open database file")

        monkeypatch.setattr(sqlite3, "connect", refused)
    async with locked(tmp_path):
        await assert_free(tmp_path)


@pytest.mark.parametrize("place", ["missing", "s3://bucket"])
async def test_where_there_is_no_directory_nobody_waits(tmp_path, place):
    place = tmp_path / place if place == "missing" else type(tmp_path)(place)
    async with locked(place):
        await assert_free(place)


async def test_nothing_is_opened_in_the_thread_of_the_loop(tmp_path, monkeypatch):
    threads = []
    opening(monkeypatch, lambda: threads.append(threading.get_ident()))
    (room := tmp_path / "room").mkdir()
    async with locked(room, behind=tmp_path):
        pass
    assert len(threads) == 2
    assert threading.get_ident() not in threads


async def test_who_is_cancelled_while_it_is_opened_keeps_none_of_it(tmp_path, monkeypatch):
    is_opening, go_on = threading.Event(), threading.Event()

    def wait():
        is_opening.set()
        go_on.wait()

    with monkeypatch.context() as patch:
        opening(patch, wait)
        taking = asyncio.create_task(take(tmp_path))
        await asyncio.to_thread(is_opening.wait)
        taking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await taking
        go_on.set()
    await assert_free(tmp_path)


async def test_who_waits_too_long_is_refused_and_keeps_none_of_it(tmp_path):
    (room := tmp_path / "room").mkdir()
    async with locked(room):
        with pytest.raises(LookupError):
            async with locked(tmp_path, room, patience_seconds=0.05, refusal=LookupError):
                pytest.fail("somebody else has it")
        await assert_free(tmp_path)


async def test_a_store_waits_for_the_process_that_has_its_lock(kind, tmp_path):
    async with AsyncContextStore.open(tmp_path / "store") as store:
        for text in ("one", "two"):
            await store.history.append("ann", Message.user(text), session_id="s")
            await store.flush()
        await store.history.append("ann", Message.user("three"), session_id="s")
        spawn = multiprocessing.get_context("spawn")
        is_held, is_over = spawn.Event(), spawn.Event()
        given = kind, tmp_path / "store" / "journal.lock", False, is_held, is_over
        holder = spawn.Process(target=hold, args=given)
        holder.start()
        try:
            await asyncio.to_thread(is_held.wait)
            flushing = asyncio.create_task(store.flush())
            assert await asyncio.wait([flushing], timeout=0.3) == (set(), {flushing})
            holder.kill()
            await flushing
        finally:
            holder.kill()
            await asyncio.to_thread(holder.join)
        assert [one.journal_rows for one in (await store.stats()).tables] == [0]
        assert await store.history.count("ann", session_id="s") == 3
