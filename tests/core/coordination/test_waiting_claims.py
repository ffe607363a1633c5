"""A claim that waits is woken by what it waits for, and looks for nothing else meanwhile."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from lance_context_core._resources import SystemClock
from lance_context_core.coordination import task_changes
from lance_context_core.coordination.task_changes import Changes
from lance_context_core.storage import change_waits

LONG = timedelta(seconds=50)


@pytest.fixture
def store(open_store):
    return open_store(clock=SystemClock(), maintenance=None)


@pytest.fixture
def never_looks(monkeypatch):
    """No look for other processes, and none ahead, while a test runs."""
    for name in ("_PAUSE_SECONDS", "_LONGEST_PAUSE_SECONDS", "_LONGEST_PAUSE_OF_A_FILE_SECONDS"):
        monkeypatch.setattr(change_waits, name, 1000.0)
    for name in ("_LOOKED_AT", "_LOOKED_AT_WHILE_HELD"):
        monkeypatch.setattr(task_changes, name, timedelta(seconds=1000))


@pytest.fixture
def claims(monkeypatch):
    """One entry for each transaction of a board."""
    made, make = [], Changes.make

    async def counted(self, change, **options):
        made.append(change)
        return await make(self, change, **options)

    monkeypatch.setattr(Changes, "make", counted)
    return made


async def waits(board, n=1):
    """So many claims, which have begun to wait."""
    waiting = [asyncio.create_task(board.claim(f"w{i}", wait=LONG)) for i in range(n)]
    for _ in range(10_000):
        await asyncio.sleep(0)
        if board._changes.table.changes.waiting:
            break
    for _ in range(20):
        await asyncio.sleep(0)
    return waiting


async def ended(waiting):
    for one in waiting:
        one.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


@pytest.mark.usefixtures("never_looks")
async def test_a_task_of_the_same_process_wakes_a_claim_without_a_look(store):
    board = store.tasks.board("b")
    await board.add("first", id="first", depends_on=[])
    first = await board.claim("ann")
    await board.add("second", id="second", depends_on=["first"])
    (waiting,) = await waits(board)
    await board.complete("first", attempt=first.attempt)
    assert (await asyncio.wait_for(waiting, 20)).id == "second"


@pytest.mark.usefixtures("never_looks")
async def test_a_task_that_becomes_due_wakes_a_claim_without_a_look(store):
    board, due = store.tasks.board("b"), datetime.now(UTC) + timedelta(seconds=0.2)
    await board.add("later", id="later", due=due)
    await board.add("much later", due=due + timedelta(hours=1))
    task = await asyncio.wait_for(board.claim("ann", wait=LONG), 20)
    assert task.id == "later"
    assert task.started_at >= due


@pytest.mark.usefixtures("never_looks")
async def test_of_many_waiting_claims_one_looks_and_the_others_follow(store, claims):
    board = store.tasks.board("b")
    waiting = await waits(board, n=20)
    claims.clear()
    for n in range(3):
        await board.add(f"task {n}")
        done = {one for one in waiting if one.done()}
        while len(done) <= n:
            await asyncio.sleep(0.001)
            done = {one for one in waiting if one.done()}
        assert len(done) == n + 1
    for _ in range(50):
        await asyncio.sleep(0)
    # Each task is one change to add it, one claim, and one look of the next that waits.
    assert len(claims) <= 9
    await ended(waiting)


@pytest.mark.usefixtures("never_looks")
async def test_the_next_claim_takes_the_place_of_one_that_is_cancelled(store):
    board = store.tasks.board("b")
    first, second = await waits(board, n=2)
    await ended([first])
    await waits(board, n=0)
    await board.add("a", id="a")
    assert (await asyncio.wait_for(second, 20)).id == "a"


async def test_a_claim_in_a_queue_returns_none_when_its_own_time_is_over(store):
    board = store.tasks.board("b")
    (first,) = await waits(board)
    assert await board.claim("ann", wait=timedelta(seconds=0.05)) is None
    assert not first.done()
    await ended([first])
