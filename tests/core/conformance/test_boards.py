"""Boards keep their contract where each change is a conditional commit: on S3, and in a directory without
a journal. What a task may become is decided before the object store is asked, and is tested elsewhere.
"""

import asyncio

import pytest

from lance_context_core.errors import ConflictError

N_WORKERS = 3


@pytest.fixture(params=["local", "s3"])
def boards(request, clock):
    """One board, as each of several stores has it that are open at once, as in several processes."""
    backend = request.getfixturevalue(f"{request.param}_backend")
    stores = [backend.open(clock=clock, journal=None) for _ in range(N_WORKERS)]
    yield [store.tasks.board("plan") for store in stores]
    for store in stores:
        asyncio.run(store.close())


async def test_of_several_stores_each_claims_another_task_and_none_too_early(boards):
    first, *_ = boards
    await first.add_many(
        ["a", {"title": "b", "id": "b"}, {"title": "last", "id": "last", "depends_on": ["b"]}]
    )
    claimed = await asyncio.gather(*(board.claim(f"worker {n}") for n, board in enumerate(boards)))
    assert sorted(task.title for task in claimed if task) == ["a", "b"]
    for board, task in zip(boards, claimed, strict=True):
        if task is not None:
            await board.complete(task.id, attempt=task.attempt)
    last = await first.claim("ann")
    assert last.id == "last"
    # What became of each, in order, as every other store reads it.
    for board in boards:
        events = [(one.task_id, one.after, one.attempt) for one in await board.history("last")]
        assert events == [
            ("last", "pending", 0),
            ("last", "blocked", 0),
            ("last", "pending", 0),
            ("last", "in_progress", 1),
        ]
        assert [str(one.status) for one in await board.list()] == [
            "completed",
            "completed",
            "in_progress",
        ]


async def test_what_several_stores_add_at_once_has_a_place_each(boards):
    await asyncio.gather(*(board.add(f"{n}", id=f"{n}") for n, board in enumerate(boards)))
    tasks = await boards[0].list()
    assert {one.id for one in tasks} == {str(n) for n in range(N_WORKERS)}
    assert [one.order for one in tasks] == [*range(N_WORKERS)]


async def test_of_two_stores_that_end_one_attempt_at_once_one_is_refused(boards):
    ann, ben, _ = boards
    await ann.add("t", id="t")
    task = await ann.claim("ann")
    ends = await asyncio.gather(
        ann.complete("t", attempt=task.attempt, note="done"),
        ben.fail("t", attempt=task.attempt, note="gone"),
        return_exceptions=True,
    )
    (refused,) = [one for one in ends if isinstance(one, Exception)]
    (told,) = [one for one in ends if not isinstance(one, Exception)]
    assert isinstance(refused, ConflictError)
    assert f"attempt {task.attempt} is over" in str(refused)
    assert await boards[2].get("t") == told
    (last,) = [one for one in await ben.history("t") if one.note]
    assert (last.after, last.note) == (told.status, told.note)
