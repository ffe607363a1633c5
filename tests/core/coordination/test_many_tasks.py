"""Several tasks at once: claimed, and completed, in one commit."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest

from lance_context_core import AsyncContextStore, ContextStore
from lance_context_core.coordination import task_types
from lance_context_core.errors import ConflictError, InvalidRequestError, NotFoundError
from lance_context_core.stores.key_values import AsyncKeyValues
from lance_context_core.types import Item


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


async def test_many_are_added_in_their_order_as_one_after_the_other_would_be(store):
    given = [
        {"title": " Top ", "id": "top", "priority": "high", "note": "n"},
        {"title": "Part", "id": "part", "parent_id": "top"},
        {"title": "After", "id": "after", "depends_on": ["part", "part"]},
    ]
    one, many = store.tasks.board("one"), store.tasks.board("many")
    singly = [await one.add(**task) for task in given]
    at_once = await many.add_many(given)
    assert at_once == await many.list()
    assert [task.title for task in at_once] == ["Top", "Part", "After"]

    def lasting(task):
        return replace(task, created_at=None, updated_at=None)

    assert [lasting(task) for task in at_once] == [lasting(task) for task in singly]
    told = [
        [(event.task_id, event.before, event.after) for event in await board.history()]
        for board in (one, many)
    ]
    assert told[0] == told[1]
    (another,) = await many.add_many(["A title alone"])
    assert (another.order, another.priority.name) == (3, "NORMAL")
    assert (await many.claim("ann")).id == "part"


async def test_many_name_each_other_whichever_comes_first(board):
    await board.add("Old", id="old")
    made = await board.add_many(
        [
            {"title": "Last", "id": "last", "depends_on": ["first", "old"]},
            {"title": "Part", "id": "part", "parent_id": "whole", "depends_on": ["first"]},
            {"title": "Whole", "id": "whole"},
            {"title": "First", "id": "first"},
        ]
    )
    assert [(one.id, one.order, str(one.status)) for one in made] == [
        ("last", 1, "blocked"),
        ("part", 2, "blocked"),
        ("whole", 3, "pending"),
        ("first", 4, "pending"),
    ]
    done = []
    claimed = []
    while done := await board.claim_many("ann", limit=9, completed=done):
        claimed.append([one.id for one in done])
    assert claimed == [["old", "first"], ["last", "part"]]
    assert set((await statuses(board)).values()) == {"completed"}


@pytest.mark.parametrize(
    ("tasks", "says"),
    [
        pytest.param("Paint", "^tasks is 'Paint': pass a list", id="one text"),
        pytest.param(["a", 3], r"^tasks\[1\].title must be a str", id="no title"),
        pytest.param(["a", {"id": "b"}], r"^tasks\[1\].title must be a str", id="title missing"),
        pytest.param(["a", " "], r"^tasks\[1\].title is blank", id="blank"),
        pytest.param(
            ["a", {"title": "b", "owner": 1}],
            r"^tasks\[1\] has the unknown key 'owner'",
            id="unknown",
        ),
        pytest.param(["a", {"title": "b", "due": 1}], r"^tasks\[1\].due must be a", id="due"),
        pytest.param(
            ["a", {"title": "b", "priority": "now"}], r"^tasks\[1\].priority='now'", id="priority"
        ),
        pytest.param(
            ["a", {"title": "b", "depends_on": "a"}],
            r"^tasks\[1\].depends_on is 'a'",
            id="one name",
        ),
        pytest.param(["a", {"title": "b", "id": "old"}], "task 'old' already", id="taken"),
        pytest.param([{"title": "b", "id": "b"}] * 2, "the id 'b' twice", id="twice"),
        pytest.param(
            [
                {"title": "a", "id": "a", "depends_on": ["b"]},
                {"title": "b", "id": "b", "depends_on": ["a"]},
            ],
            "wait for each other: '(a' -> 'b' -> 'a|b' -> 'a' -> 'b)'",
            id="circle",
        ),
        pytest.param(
            [
                {"title": "p", "id": "p", "depends_on": ["x"]},
                {"title": "x", "id": "x", "depends_on": ["c"]},
                {"title": "c", "id": "c", "parent_id": "p"},
            ],
            "wait for each other",
            id="circle by a parent",
        ),
        pytest.param(
            [{"title": "a", "id": "a", "parent_id": "a"}], "subtask of itself", id="itself"
        ),
    ],
)
async def test_if_one_cannot_be_added_none_is(board, tasks, says):
    await board.add("Old", id="old")
    before = await board.list(), await board.history()
    with pytest.raises(InvalidRequestError, match=says):
        await board.add_many(tasks)
    with pytest.raises(NotFoundError, match="no task 'gone'"):
        await board.add_many(["a", {"title": "b", "depends_on": ["gone"]}])
    assert (await board.list(), await board.history()) == before
    assert await board.add_many([]) == []


async def test_many_are_one_commit(tmp_path):
    async with AsyncContextStore.open(tmp_path / "store", journal=None) as store:
        await store.tasks.board("plan").add("Old")
        before = n_commits(tmp_path)
        await store.tasks.board("plan").add_many(f"Task {n}" for n in range(100))
        assert n_commits(tmp_path) == before + 1


def n_commits(root):
    return len([*root.rglob("_versions/*.manifest")])


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
    monkeypatch.setattr("lance_context_core.storage.leases.is_of_this_boot", lambda _: False)
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
        ([free], r"\['a'\], which are not claimed"),
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
    row = task_types.written(event) | {"note": "old"}
    items = AsyncKeyValues("lance_context.tasks", board._resources, board._scope)
    await items.put([Item(namespace=("plan", "history"), key="0", value=row)])
    assert [one.note for one in await board.history()] == ["old", ""]


def test_threads_that_claim_by_blocking_calls_have_each_task_once(tmp_path):
    with ContextStore.open(tmp_path / "store") as store:
        board = store.tasks.board("plan")
        board.add_many(
            {"title": str(n), "id": str(n), "depends_on": [str(n - 4)] if n >= 4 else []}
            for n in range(100)
        )

        def work(worker):
            done = []
            while board.progress() < 1:
                if worker % 2:
                    task = board.claim(f"w{worker}")
                    tasks = [] if task is None else [board.complete(task.id, attempt=task.attempt)]
                else:
                    tasks = board.claim_many(f"w{worker}", limit=3)
                    board.complete_many(tasks)
                done += [one.id for one in tasks]
            return done

        with ThreadPoolExecutor(4) as threads:
            done = [id for each in threads.map(work, range(4)) for id in each]
        assert sorted(done, key=int) == [str(n) for n in range(100)]
        begun = [one.task_id for one in board.history() if one.after == "in_progress"]
        assert sorted(begun) == sorted(done)
        places = {id: at for at, id in enumerate(begun)}
        assert all(places[str(n - 4)] < places[str(n)] for n in range(4, 100))


def test_many_are_claimed_and_completed_by_blocking_calls(tmp_path):
    with ContextStore.open(tmp_path / "store") as store:
        board = store.tasks.board("plan")
        for id in ("a", "b"):
            board.add(id, id=id)
        done = board.claim_many("ann", limit=2)
        assert [one.status for one in board.complete_many(done, note="n")] == ["completed"] * 2
        assert {one.note for one in board.list()} == {"n"}
