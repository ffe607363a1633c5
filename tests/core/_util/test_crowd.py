"""Many tasks that want the same thing: one has it at a time, or one gets it for all."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from lance_context_core._util.crowd import FairLock, SharedCall


async def crowd_in(lock, names, seen):
    """Tasks that want the lock in the order of their names, while somebody has it."""

    async def want(name):
        async with lock.held():
            seen.append(name)
            await asyncio.sleep(0)
            seen.append(name)

    tasks = []
    for name in names:
        tasks.append(asyncio.create_task(want(name)))
        await asyncio.sleep(0)
    return tasks


async def test_those_who_wait_for_a_lock_have_it_one_by_one_in_the_order_in_which_they_came():
    lock, seen = FairLock(), []
    async with lock.held():
        tasks = await crowd_in(lock, "abc", seen)
        assert not seen
    await asyncio.gather(*tasks)
    assert "".join(seen) == "aabbcc"


async def test_who_is_cancelled_while_waiting_for_a_lock_keeps_nobody_else_from_it():
    lock, seen = FairLock(), []
    async with lock.held():
        tasks = await crowd_in(lock, "abc", seen)
        tasks[0].cancel()
    tasks[1].cancel()  # It has been handed over by now.
    await asyncio.gather(*tasks, return_exceptions=True)
    assert "".join(seen) == "cc"
    async with lock.held(0.5):
        pass


async def test_who_waits_longer_for_a_lock_than_his_patience_gets_an_error_and_the_lock_stays_whole():
    lock = FairLock()
    async with lock.held():
        with pytest.raises(TimeoutError):
            async with lock.held(0.01):
                pass
    async with lock.held(0.5):
        pass


def test_a_lock_is_that_of_all_loops_and_threads():
    lock, n_inside, most = FairLock(), 0, 0

    async def want():
        nonlocal n_inside, most
        for _ in range(50):
            async with lock.held():
                n_inside += 1
                most = max(most, n_inside)
                await asyncio.sleep(0)
                n_inside -= 1

    async def many():
        await asyncio.gather(*(want() for _ in range(5)))

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(asyncio.run, many()) for _ in range(4)]:
            done.result(timeout=60)
    assert most == 1


async def test_of_a_hundred_who_call_at_once_one_does_it_for_all():
    shared, n_calls = SharedCall(), 0

    async def call():
        nonlocal n_calls
        n_calls += 1
        await asyncio.sleep(0.01)
        return n_calls

    assert await asyncio.gather(*(shared.of(call) for _ in range(100))) == [1] * 100
    assert await shared.of(call) == 2  # Nobody is handed what is over.


async def test_an_error_reaches_the_one_who_called_and_the_next_one_calls_anew():
    shared, outcomes = SharedCall(), iter([OSError("full"), 7])

    async def call():
        outcome = next(outcomes)
        await asyncio.sleep(0.01)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    done = await asyncio.gather(*(shared.of(call) for _ in range(5)), return_exceptions=True)
    assert str(done[0]) == "full"
    assert done[1:] == [7] * 4


async def test_who_is_cancelled_takes_the_call_from_nobody():
    shared, gate = SharedCall(), asyncio.get_running_loop().create_future()

    async def call():
        await asyncio.shield(gate)
        return threading.get_ident()

    tasks = [asyncio.create_task(shared.of(call)) for _ in range(4)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    tasks[2].cancel()
    gate.set_result(None)
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(one) for one in done] == [asyncio.CancelledError, int] * 2
