"""Boards of tasks: what may become of a task, who gets which, and what comes of that for others."""

import asyncio
import itertools
import json
from datetime import timedelta

import pytest

from lance_context_core.coordination.task_changes import Changes
from lance_context_core.coordination.task_types import TRANSITIONS, Priority, TaskStatus
from lance_context_core.errors import (
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    StaleLockError,
)
from lance_context_core.storage import leases


@pytest.fixture
def store(open_store):
    return open_store()


@pytest.fixture
def board(store):
    return store.tasks.board("plan")


async def statuses(board):
    return {one.id: str(one.status) for one in await board.list()}


async def begun(board, id):
    """A task that is begun, whatever else is ready."""
    while (task := await board.claim("worker")) is not None:
        if task.id == id:
            return task
    raise AssertionError(id)


async def test_what_is_ready_is_claimed_by_urgency_and_then_in_the_order_of_adding(board):
    for id, priority in [("a", "low"), ("b", Priority.NORMAL), ("c", 3), ("d", "normal")]:
        await board.add(id, id=id, priority=priority)
    assert [one.id for one in await board.ready()] == ["c", "b", "d", "a"]
    got = [await board.claim("ann") for _ in range(5)]
    assert [one and one.id for one in got] == ["c", "b", "d", "a", None]
    assert {one.assigned_to for one in got[:4]} == {"ann"}


async def test_a_task_waits_until_all_that_it_depends_on_is_done_or_skipped(board):
    await board.add("one", id="a")
    await board.add("two", id="b")
    await board.add("three", id="c", depends_on=["a", "b"])
    assert await statuses(board) == {"a": "pending", "b": "pending", "c": "blocked"}
    assert await board.waits_for("c") == ["a", "b"]
    task = await begun(board, "a")
    await board.complete("a", attempt=task.attempt)
    assert await board.waits_for("c") == ["b"]
    await board.skip("b")
    assert await board.waits_for("c") == []
    assert [one.id for one in await board.ready()] == ["c"]


async def test_a_circle_is_refused_by_its_name_and_nothing_is_changed(board):
    await board.add("a", id="a")
    await board.add("b", id="b", depends_on=["a"])
    await board.add("c", id="c", depends_on=["b"])
    before = await board.list()
    with pytest.raises(InvalidRequestError, match="each other: 'a' -> 'c' -> 'b' -> 'a'"):
        await board.depend("a", "c")
    with pytest.raises(InvalidRequestError, match="itself"):
        await board.depend("a", "a")
    with pytest.raises(InvalidRequestError, match="itself"):
        await board.add("x", id="x", depends_on=["x"])
    with pytest.raises(InvalidRequestError, match="each other: 'd' -> 'c' -> 'd'"):
        await board.add("d", id="d", parent_id="c", depends_on=["c"])
    with pytest.raises(NotFoundError, match="'nobody'"):
        await board.add("x", depends_on=["nobody"])
    assert await board.list() == before


async def test_a_parent_is_done_with_its_last_subtask_and_one_that_is_skipped_counts(board):
    await board.add("top", id="top")
    await board.add("middle", id="middle", parent_id="top")
    for id in ("x", "y"):
        await board.add(id, id=id, parent_id="middle")
    await board.add("after", id="after", depends_on=["top"])
    task = await board.claim("ann")
    assert task.id == "x"
    with pytest.raises(InvalidRequestError, match="subtasks"):
        await board.add("late", parent_id="x")
    await board.complete("x")
    assert (await statuses(board))["middle"] == "pending"
    assert await board.progress("middle") == 0.5
    await board.skip("y")
    assert await statuses(board) == {
        "top": "completed",
        "middle": "completed",
        "x": "completed",
        "y": "skipped",
        "after": "pending",
    }
    assert (await board.get("middle")).note == "All 2 subtasks completed"
    assert await board.progress() == 0.5
    assert await board.tree() == "● top\n  ● middle\n    ● x\n    ⊘ y\n○ after"


async def test_subtasks_wait_for_what_their_parent_depends_on(board):
    await board.add("first", id="first")
    await board.add("top", id="top", depends_on=["first"])
    await board.add("part", id="part", parent_id="top")
    assert (await statuses(board))["part"] == "blocked"
    assert await board.waits_for("part") == ["first"]
    await board.claim("ann")
    await board.complete("first")
    assert [one.id for one in await board.ready()] == ["part"]


VERBS = {
    TaskStatus.COMPLETED: "complete",
    TaskStatus.FAILED: "fail",
    TaskStatus.SKIPPED: "skip",
    TaskStatus.PENDING: "release",
}


@pytest.mark.parametrize(
    ("status", "verb"),
    [
        pytest.param(status, VERBS[to], id=f"{status}-{VERBS[to]}")
        for status, to in itertools.product(TaskStatus, VERBS)
        if to not in TRANSITIONS[status]
    ],
)
async def test_what_a_task_cannot_become_is_refused_and_what_it_can_is_said(board, status, verb):
    await board.add("before", id="before")
    blocked = status is TaskStatus.BLOCKED
    await board.add("t", id="t", priority="urgent", depends_on=["before"] if blocked else [])
    if status in (TaskStatus.IN_PROGRESS, TaskStatus.COMPLETED, TaskStatus.FAILED):
        await board.claim("ann")
    if status in (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.SKIPPED):
        await getattr(board, VERBS[status])("t")
    before = await board.get("t")
    assert before.status is status
    with pytest.raises(InvalidRequestError, match=f"task 't' is {status}"):
        await getattr(board, verb)("t")
    assert await board.get("t") == before


async def test_only_what_failed_is_tried_again_and_not_more_often_than_is_said(board):
    await board.add("t", id="t")
    for n in range(2):
        with pytest.raises(InvalidRequestError, match="only one that failed"):
            await board.retry("t")
        task = await board.claim("ann")
        assert (task.attempt, task.n_retries) == (n + 1, n)
        await board.fail("t", attempt=task.attempt, note="no network")
        assert (await board.get("t")).note == "no network"
        if n == 0:
            assert (await board.retry("t", max_retries=1)).status is TaskStatus.PENDING
    with pytest.raises(InvalidRequestError, match="1 times already"):
        await board.retry("t", max_retries=1)


@pytest.fixture
def sleep(monkeypatch):
    """Has the machine sleep: that counts since its boot, and its clock may be set to anything."""
    began, slept = leases.ticks, [0.0]

    def later(seconds):
        slept[0] += seconds

    monkeypatch.setattr(leases, "ticks", lambda: began() + slept[0])
    return later


async def test_who_is_not_heard_of_loses_a_task_and_can_change_nothing_any_more(board, sleep):
    await board.add("t", id="t")
    lease = timedelta(minutes=10)
    old = await board.claim("ann", lease=lease)
    sleep(500)
    await board.heartbeat("t", attempt=old.attempt, lease=lease)
    sleep(500)
    assert await board.claim("ben") is None
    sleep(500)
    new = await board.claim("ben")
    assert (new.id, new.attempt) == ("t", old.attempt + 1)
    for verb in (board.complete, board.fail, board.release, board.heartbeat):
        with pytest.raises(ConflictError, match="attempt 1 is over"):
            await verb("t", attempt=old.attempt)
    await board.complete("t", attempt=new.attempt)
    changes = [(one.before, one.after, one.by) for one in await board.history("t")]
    assert changes == [
        (None, "pending", None),
        ("pending", "in_progress", "ann"),
        ("in_progress", "pending", "ann"),
        ("pending", "in_progress", "ben"),
        ("in_progress", "completed", "ben"),
    ]


@pytest.mark.parametrize(
    ("outcome", "status"),
    [("succeeded", "completed"), ("failed", "failed"), ("cancelled", "pending")],
)
async def test_a_run_that_ends_ends_what_was_begun_in_it_as_it_did(board, outcome, status):
    for id in ("a", "b", "c"):
        await board.add(id, id=id)
    await board.claim("ann")
    await board.claim("ben")
    assert [one.id for one in await board.settle(outcome, worker="ann")] == ["a"]
    assert await statuses(board) == {"a": status, "b": "in_progress", "c": "pending"}
    with pytest.raises(InvalidRequestError, match="succeeded, failed, cancelled"):
        await board.settle("done")


async def test_each_task_is_claimed_by_one_of_many_and_none_before_what_it_depends_on(board):
    for n in range(8):
        await board.add(f"task {n}", id=str(n), depends_on=[str(n // 2)] if n > 1 else [])
    n_done = 0

    async def work(name):
        nonlocal n_done
        while n_done < 8:
            if (task := await board.claim(name)) is None:
                await asyncio.sleep(0)
                continue
            await board.complete(task.id, attempt=task.attempt)
            n_done += 1

    await asyncio.gather(*(work(name) for name in ("ann", "ben", "eve")))
    # The order of the board's own log: a worker is told of its own completion after others may claim.
    begun, done = [], set()
    for one in await board.history():
        if one.after == "in_progress":
            assert int(one.task_id) < 2 or str(int(one.task_id) // 2) in done
            begun.append(one.task_id)
        elif one.after == "completed":
            done.add(one.task_id)
    assert sorted(begun) == sorted(done) == [str(n) for n in range(8)]


async def test_a_payload_and_a_result_go_with_a_task_and_say_what_is_wrong_with_them(board):
    await board.add("a", id="a", payload={"to": ["ada", 1, None]})
    (other,) = await board.add_many([{"title": "b", "payload": {}}])
    assert (other.payload, other.result) == ({}, None)
    task = await board.claim("ann")
    assert task.payload == {"to": ["ada", 1, None]}
    done = await board.complete("a", attempt=task.attempt, result={"sent": True})
    assert await board.get("a") == done
    assert done.result == {"sent": True}
    for refused in (
        board.add("c", payload=["no object"]),
        board.add("c", payload={"at": object()}),
        board.complete(other.id, result="done"),
    ):
        with pytest.raises(InvalidRequestError, match=r"payload|result"):
            await refused
    assert len(await board.list()) == 2


async def test_a_task_is_blocked_until_it_is_due_and_by_what_it_depends_on(board, clock):
    due = clock.now() + timedelta(hours=1)
    await board.add("first", id="first", due=due)
    await board.add("second", id="second", due=due, depends_on=["first"])
    assert await statuses(board) == {"first": "blocked", "second": "blocked"}
    assert (await board.ready(), await board.claim("ann")) == ([], None)
    clock.advance(hours=1)
    assert [one.id for one in await board.ready()] == ["first"]
    task = await board.claim("ann")
    assert (task.id, await board.claim("ben")) == ("first", None)
    await board.complete("first", attempt=task.attempt)
    assert (await board.claim("ben")).id == "second"
    with pytest.raises(InvalidRequestError, match="due"):
        await board.add("third", due="tomorrow")


async def test_what_is_tried_again_later_is_not_begun_before(board, clock):
    await board.add("a", id="a")
    task = await board.claim("ann")
    await board.fail("a", attempt=task.attempt)
    later = await board.retry("a", due=clock.now() + timedelta(minutes=2))
    assert (later.status, later.n_retries) == ("blocked", 1)
    clock.advance(minutes=1)
    assert await board.claim("ann") is None
    clock.advance(minutes=1)
    again = await board.claim("ann")
    assert (again.id, again.attempt) == ("a", 2)


async def test_a_claim_waits_for_a_task_that_another_store_adds(board, open_store):
    other = open_store().tasks.board("plan")
    waiting = asyncio.create_task(board.claim("ann", wait=timedelta(seconds=30)))
    await asyncio.sleep(0)
    await other.add("a", id="a")
    assert (await waiting).id == "a"
    assert await board.claim("ann", wait=timedelta()) is None
    for wrong in (timedelta(seconds=-1), 5):
        with pytest.raises(InvalidRequestError, match="wait="):
            await board.claim("ann", wait=wrong)


async def test_another_process_s_board_is_the_same_and_nothing_is_lost_in_it(board, open_store):
    await board.add("top", id="top", priority="high", note="n")
    await board.add("part", id="it's", parent_id="top", depends_on=[])
    await board.claim("ann")
    other = open_store().tasks.board("plan")
    assert await other.list() == await board.list()
    assert await other.history() == await board.history()
    assert await other.tree() == await board.tree()


async def test_stats_tell_the_pace_and_what_is_left(board, clock):
    for n in range(4):
        await board.add(f"task {n}", id=str(n), depends_on=["0"] if n == 3 else [])
    assert (await board.stats()).eta_seconds is None
    await board.claim("ann")
    clock.advance(seconds=30)
    await board.complete("0")
    await board.claim("ann")
    stats = await board.stats()
    assert stats.n_tasks == 4
    assert stats.by_status["completed"] == stats.by_status["in_progress"] == 1
    assert (stats.mean_seconds, stats.eta_seconds, stats.progress) == (30.0, 60.0, 1.5 / 4)


async def test_a_task_is_removed_with_its_subtasks_and_its_place_is_not_given_out_again(board):
    first = await board.add("top", id="top")
    await board.add("part", id="part", parent_id="top")
    await board.add("after", id="after", depends_on=["part"])
    with pytest.raises(InvalidRequestError, match=r"'after' depends on \['part'\]"):
        await board.delete("top")
    await board.delete("after")
    assert await board.delete("top") == ["top", "part"]
    assert await board.list() == []
    assert await board.tree() == "No tasks"
    assert (await board.add("new")).order > first.order + 2


async def test_boards_stand_side_by_side_and_are_forgotten_with_all_of_theirs(store):
    for name in ("a", "b/c"):
        await store.tasks.board(name).add("t", id="t")
    assert await store.tasks.boards() == ["a", "b/c"]
    assert await store.tasks.delete_board("a")
    assert not await store.tasks.delete_board("a")
    assert await store.tasks.boards() == ["b/c"]
    assert await store.tasks.board("a").history() == []


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"title": "  "}, "title is blank"),
        ({"id": "a\0"}, "NUL"),
        ({"priority": "soon"}, "low, normal, high, urgent"),
        ({"priority": True}, "priority=True"),
        ({"depends_on": "abc"}, "pass a list"),
        ({"id": "there"}, "task 'there' already exists"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
async def test_a_wrong_task_is_refused_and_nothing_is_written(board, request_, message):
    await board.add("there", id="there")
    with pytest.raises(InvalidRequestError, match=message):
        await board.add(**{"title": "t", **request_})
    assert len(await board.list()) == 1
    assert len(await board.history()) == 1


async def test_what_others_wrote_otherwise_than_by_the_board_is_seen_by_the_next_claim(store):
    board = store.tasks.board("plan")
    await board.add("a", id="a")
    await board.add("b", id="b")
    branch = await store.create_branch("try")
    theirs = branch.tasks.board("plan")
    await theirs.skip("a")
    await board.depend("b", "a")
    assert await statuses(board) == {"a": "pending", "b": "blocked"}
    await store.merge("try")
    # What "b" waited for is done on the other branch: whoever comes next finds it ready.
    assert (await board.claim("ann")).id == "b"
    assert await statuses(board) == {"a": "skipped", "b": "in_progress"}


async def test_a_claim_of_who_has_lost_a_lock_is_refused_and_the_task_stays_free(store):
    board = store.tasks.board("plan")
    for id in ("a", "b"):
        await board.add(id, id=id)
    lock = await store.locks.acquire("plan", owner="ann")
    with lock.fencing():
        assert (await board.claim("ann")).id == "a"
    await store.locks.force_release("plan")
    with lock.fencing(), pytest.raises(StaleLockError):
        await board.claim("ann")
    assert await statuses(board) == {"a": "in_progress", "b": "pending"}


async def test_who_is_cancelled_before_he_is_told_of_a_task_has_not_begun_it(
    open_store, monkeypatch
):
    """Where there is no journal: a commit may be made by the time that its caller is cancelled."""
    board = open_store(journal=None).tasks.board("plan")
    await board.add("a", id="a")
    make, made, cancelled = Changes._in_items, [], []

    async def told_late(changes, change):
        outcome = await make(changes, change)
        made.append(outcome)
        while not cancelled:  # noqa: ASYNC110 - bound to no loop
            await asyncio.sleep(0.001)
        return outcome

    monkeypatch.setattr(Changes, "_in_items", told_late)
    claiming = asyncio.ensure_future(board.claim("ann"))
    async with asyncio.timeout(60):
        while not made:  # noqa: ASYNC110 - a second claim would end the wait as well
            await asyncio.sleep(0.001)
    claiming.cancel()
    await asyncio.sleep(0)
    cancelled.append(True)
    with pytest.raises(asyncio.CancelledError):
        await claiming
    monkeypatch.undo()
    assert await statuses(board) == {"a": "pending"}
    assert (await board.claim("ben")).attempt == 2


async def test_a_clock_that_jumps_takes_no_task_from_a_process_of_this_machine(board, clock):
    await board.add("t", id="t")
    task = await board.claim("ann")
    for days in (400, -800):
        clock.advance(days=days)
        assert await board.claim("ben") is None
    await board.heartbeat("t", attempt=task.attempt)
    clock.advance(days=400)
    assert await board.claim("ben") is None
    assert (await board.complete("t", attempt=task.attempt)).assigned_to == "ann"


async def test_the_lease_of_who_is_on_another_machine_is_counted_by_the_clock(
    board, clock, monkeypatch
):
    await board.add("t", id="t")
    here = leases.mine()
    elsewhere = json.dumps(["another boot", *json.loads(here)[1:]])
    monkeypatch.setattr(leases, "mine", lambda: elsewhere)
    await board.claim("ann", lease=timedelta(minutes=1))
    monkeypatch.setattr(leases, "mine", lambda: here)
    clock.advance(seconds=59)
    assert await board.claim("ben") is None
    clock.advance(seconds=1)
    assert (await board.claim("ben")).attempt == 2


async def test_the_task_of_a_process_whose_number_another_one_has_now_is_taken_back(
    board, monkeypatch
):
    await board.add("t", id="t")
    here = leases.mine()
    boot, namespace, pid, began = json.loads(here)
    before = json.dumps([boot, namespace, pid, began - 1])
    monkeypatch.setattr(leases, "mine", lambda: before)
    old = await board.claim("ann")
    monkeypatch.setattr(leases, "mine", lambda: here)
    assert (await board.claim("ben")).attempt == 2
    with pytest.raises(ConflictError, match="attempt 1 is over"):
        await board.complete("t", attempt=old.attempt)


async def test_a_claim_that_is_cancelled_at_any_moment_is_told_or_not_made(store):
    board = store.tasks.board("plan")
    await board.add("a", id="a")
    outcomes = set()
    for n_turns in range(40):
        claiming = asyncio.ensure_future(board.claim("ann"))
        for _ in range(n_turns % 8):
            await asyncio.sleep(0)
        claiming.cancel()
        try:
            task = await claiming
        except asyncio.CancelledError:
            outcomes.add("cancelled")
        else:
            outcomes.add("told")
            await board.release("a", attempt=task.attempt)
        assert await statuses(board) == {"a": "pending"}
    assert outcomes == {"cancelled", "told"}


async def test_what_is_erased_of_a_board_is_not_left_in_the_index_of_it(open_store, tmp_path):
    store = open_store()
    board = store.scope(user_id="ann").tasks.board("plan")
    for n in range(3):
        await board.add("a secret word", id=str(n))
    await board.claim("ann")
    await store.scope(user_id="ann").erase(sole_writer=True)
    left = [one for one in tmp_path.rglob("journal.sqlite*") if b"secret" in one.read_bytes()]
    assert left == []
    assert await board.list() == []
    assert await board.claim("ann") is None
