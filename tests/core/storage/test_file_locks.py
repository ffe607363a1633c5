"""Locks on directories: who has one, who waits, and what a forked child cannot keep."""

import asyncio
import os
import threading

import pytest

from lance_context_core.storage import file_locks
from lance_context_core.storage.file_locks import locked


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


async def test_a_child_that_was_forked_meanwhile_does_not_keep_it(tmp_path, monkeypatch):
    copies = []

    def opened(place, flags):
        # What a fork does with every open file.
        copies.append(os.dup(file := os_open(place, flags)))
        return file

    os_open = os.open
    monkeypatch.setattr(file_locks.os, "open", opened)
    async with locked(tmp_path):
        pass
    monkeypatch.undo()
    try:
        assert len(copies) == 1
        await assert_free(tmp_path)
    finally:
        for copy in copies:
            os.close(copy)


@pytest.mark.parametrize("place", ["missing", "s3://bucket"])
async def test_where_there_is_no_directory_nobody_waits(tmp_path, place):
    place = tmp_path / place if place == "missing" else type(tmp_path)(place)
    async with locked(place):
        await assert_free(place)


async def test_nothing_is_opened_in_the_thread_of_the_loop(tmp_path, monkeypatch):
    threads = []

    def opened(place, flags):
        threads.append(threading.get_ident())
        return os_open(place, flags)

    os_open = os.open
    monkeypatch.setattr(file_locks.os, "open", opened)
    (room := tmp_path / "room").mkdir()
    async with locked(room, behind=tmp_path):
        pass
    assert len(threads) == 2
    assert threading.get_ident() not in threads


async def test_who_is_cancelled_while_it_is_opened_keeps_none_of_it(tmp_path, monkeypatch):
    is_opening, go_on = threading.Event(), threading.Event()

    def opened(place, flags):
        is_opening.set()
        go_on.wait()
        return os_open(place, flags)

    os_open = os.open
    with monkeypatch.context() as patch:
        patch.setattr(file_locks.os, "open", opened)
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
