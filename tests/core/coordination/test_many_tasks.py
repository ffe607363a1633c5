"""Several tasks at once: claimed, and completed, in one commit."""

import asyncio
from datetime import timedelta

import pytest

from lance_context_core import ContextStore
from lance_context_core.coordination.tasks import stored
from lance_context_core.errors import ConflictError, InvalidRequestError
from lance_context_core.records import Item
from lance_context_core.stores.keyvalues.items import AsyncKeyValues


@pytest.fixture
def store(open_store):
    return open_store()


@pytest.fixture
def board(store):
    return store.tasks.board("plan")


async def statuses(board):
    return {one.id: str(one.status) for one in await board.list()}


async def added(board, *ids, **more):
    for id in ids:
        await board.add(id, id=id, **more)


async def test_many_are_claimed_in_the_order_in_which_one_after_the_other_would_be(board):
    await added(board, "a", "b", "c")
    await added(board, "u", priority="urgent")
    await added(board, "later", depends_on=["a"])
    tasks = await board.claim_many("ann", limit=3)
    assert [(one.id, one.attempt, one.assigned_to) for one in tasks] == [
        (id, 1, "ann") for id in ("u", "a", "b")
    ]
    assert tasks == [await board.get(one.id) for one in tasks]
    assert [one.id for one in await board.claim_many("ben", limit=9)] == ["c"]
    assert await board.claim_many("eve", limit=9) == []


async def test_what_is_completed_with_a_claim_frees_what_is_claimed_then(board):
    await added(board, "a", "b")
    await added(board, "c", depends_on=["a", "b"])
    done = await board.claim_many("ann", limit=2)
    assert [one.id for one in await board.claim_many("ann", limit=2, completed=done)] == ["c"]
    assert await statuses(board) == {"a": "completed", "b": "completed", "c": "in_progress"}
    told = [(one.task_id, str(one.after)) for one in await board.history()][4:]
    assert told == [
        ("a", "in_progress"),
        ("b", "in_progress"),
        ("a", "completed"),
        ("b", "completed"),
        ("c", "pending"),
        ("c", "in_progress"),
    ]


def complete(board, done):
    return board.complete_many(done)


def complete_and_claim(board, done):
    return board.claim_many("ann", limit=1, completed=done)


@pytest.mark.parametrize("way", [complete, complete_and_claim])
async def test_if_the_attempt_of_one_is_over_none_is_completed_and_none_is_claimed(board, way):
    await added(board, "a", "b", "c")
    done = await board.claim_many("ann", limit=2)
    await board.release("b", attempt=1)
    assert (await board.claim("ben")).id == "b"
    before = await board.list(), await board.history()
    with pytest.raises(ConflictError, match="'b' is in_progress in attempt 2"):
        await way(board, done)
    assert (await board.list(), await board.history()) == before


async def test_the_many_of_who_is_not_heard_of_are_free_again(board, clock, monkeypatch):
    monkeypatch.setattr(
        "lance_context_core.engine.locks.processes.is_of_this_boot", lambda _: False
    )
    await added(board, "a", "b")
    await board.claim_many("ann", limit=2, lease=timedelta(minutes=1))
    clock.advance(seconds=59)
    assert await board.claim_many("ben", limit=2) == []
    clock.advance(seconds=1)
    assert [one.attempt for one in await board.claim_many("ben", limit=2)] == [2, 2]


async def test_a_claim_of_many_that_is_cancelled_is_told_or_not_made(store):
    board = store.tasks.board("plan")
    await added(board, "a", "b")
    for n_turns in range(16):
        claiming = asyncio.ensure_future(board.claim_many("ann", limit=2))
        for _ in range(n_turns % 8):
            await asyncio.sleep(0)
        claiming.cancel()
        try:
            tasks = await claiming
        except asyncio.CancelledError:
            tasks = []
        for one in tasks:
            await board.release(one.id, attempt=one.attempt)
        assert await statuses(board) == {"a": "pending", "b": "pending"}


async def test_what_cannot_be_done_with_many_is_refused_by_name_and_nothing_is_written(board):
    await added(board, "a", "b")
    free = await board.get("a")
    (begun,) = await board.claim_many("ann", limit=1)
    before = await board.list()
    for many, match in [
        (["a"], "tasks that claim"),
        ("a", "tasks that claim"),
        ([free], r"\['a'\], which nobody is at"),
        ([begun, begun], "twice"),
    ]:
        with pytest.raises(InvalidRequestError, match=f"^tasks.*{match}"):
            await board.complete_many(many)
        with pytest.raises(InvalidRequestError, match=f"^completed.*{match}"):
            await board.claim_many("ann", limit=1, completed=many)
    with pytest.raises(InvalidRequestError, match="limit"):
        await board.claim_many("ann", limit=0)
    assert await board.list() == before


async def test_a_history_that_an_earlier_release_wrote_an_event_a_row_is_read(store):
    board = store.tasks.board("plan")
    await added(board, "a")
    (event,) = await board.history()
    row = stored.written(event) | {"note": "old"}
    items = AsyncKeyValues("lance_context.tasks", board._resources, board._scope)
    await items.put([Item(namespace=("plan", "history"), key="0", value=row)])
    assert [one.note for one in await board.history()] == ["old", ""]


def test_many_are_claimed_and_completed_by_blocking_calls(tmp_path):
    with ContextStore.open(tmp_path / "store") as store:
        board = store.tasks.board("plan")
        for id in ("a", "b"):
            board.add(id, id=id)
        done = board.claim_many("ann", limit=2)
        assert [one.status for one in board.complete_many(done, note="n")] == ["completed"] * 2
        assert {one.note for one in board.list()} == {"n"}
