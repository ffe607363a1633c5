"""A worker that runs a function on the tasks of a board: each outcome is written as it was."""

import asyncio
import threading
from datetime import timedelta

import pytest

from lance_context_core import ContextStore
from lance_context_core.errors import InvalidRequestError


@pytest.fixture
def board(store):
    return store.tasks.board("mails")


async def statuses(board):
    return {one.title: str(one.status) for one in await board.list()}


@pytest.mark.parametrize("is_async", [True, False], ids=["coroutine", "function"])
async def test_each_task_is_completed_with_what_the_handler_returns(board, is_async):
    await board.add_many({"title": str(n), "payload": {"n": n}} for n in range(5))

    def double(task):
        return {"double": 2 * task.payload["n"]}

    async def double_later(task):
        await asyncio.sleep(0)
        return double(task)

    handler = double_later if is_async else double
    done = await board.work(handler, worker="ann", n_at_once=2, until_empty=True)
    assert (done.n_completed, done.n_failed, done.n_cancelled) == (5, 0, 0)
    assert [one.result for one in await board.list()] == [{"double": 2 * n} for n in range(5)]


async def test_tasks_that_become_ready_meanwhile_are_done_too(board):
    await board.add("first", id="a")
    await board.add("second", depends_on=["a"])
    order = []
    await board.work(lambda task: order.append(task.title), worker="ann", until_empty=True)
    assert order == ["first", "second"]


async def test_a_task_that_fails_is_retried_as_often_as_is_said(board):
    await board.add("shaky")
    await board.add("hopeless")
    attempts = []

    def handler(task):
        attempts.append(task.title)
        if task.title == "hopeless" or task.n_retries < 2:
            raise ValueError(f"no luck in attempt {task.attempt}")

    done = await board.work(
        handler, worker="ann", max_retries=2, backoff=timedelta(), until_empty=True
    )
    assert sorted(attempts) == ["hopeless"] * 3 + ["shaky"] * 3
    assert await statuses(board) == {"shaky": "completed", "hopeless": "failed"}
    assert (done.n_completed, done.n_failed, done.n_retried) == (1, 5, 4)
    (failed,) = await board.list(status="failed")
    assert failed.note == "ValueError: no luck in attempt 3"


async def test_a_retry_waits_for_the_backoff_which_doubles(board):
    await board.add("one")

    def handler(task):
        raise ValueError

    waits = []
    for _ in range(3):
        await board.work(
            handler, worker="ann", max_retries=9, backoff=timedelta(hours=0.2), until_empty=True
        )
        (task,) = await board.list()
        assert str(task.status) == "blocked"
        waits.append(round((task.due - task.updated_at).total_seconds()))
        await board.skip(task.id)
        await board.delete(task.id)
        await board._add([{"id": "x", "title": "one", "n_retries": len(waits)}])
    assert waits == [720, 1440, 2880]


async def test_a_task_that_takes_too_long_is_stopped_and_failed(board):
    await board.add("slow")
    ended = []

    async def handler(task):
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(task.title)

    await board.work(handler, worker="ann", timeout=timedelta(seconds=0.05), until_empty=True)
    (task,) = await board.list()
    assert (str(task.status), ended) == ("failed", ["slow"])
    assert task.note.startswith("it took longer than timeout=")


async def test_a_task_that_is_skipped_while_it_runs_is_cancelled(board):
    await board.add("long", id="long")
    ended = []

    async def handler(task):
        await board.skip(task.id)
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(task.title)

    done = await board.work(handler, worker="ann", until_empty=True)
    assert (done.n_cancelled, done.n_failed, ended) == (1, 0, ["long"])
    assert await statuses(board) == {"long": "skipped"}


async def test_the_lease_of_a_long_task_is_renewed(board):
    await board.add("long")

    async def handler(task):
        begun = (await board.get(task.id)).ticks
        for _ in range(100):
            await asyncio.sleep(0.02)
            if (await board.get(task.id)).ticks > begun:
                return {"renewed": True}
        return {"renewed": False}

    await board.work(handler, worker="ann", lease=timedelta(seconds=0.3), until_empty=True)
    (task,) = await board.list()
    assert task.result == {"renewed": True}


async def test_a_worker_that_is_stopped_gives_back_what_it_was_doing(board):
    await board.add("long")

    async def handler(_):
        working.cancel()
        await asyncio.sleep(60)

    working = asyncio.ensure_future(board.work(handler, worker="ann"))
    with pytest.raises(asyncio.CancelledError):
        await working
    (task,) = await board.list()
    assert (str(task.status), task.note) == ("pending", "its worker was stopped")


async def test_a_worker_waits_for_tasks_that_are_added_later(board):

    async def handler(task):
        if task.title == "late":
            working.cancel()
        else:
            await board.add("late")

    working = asyncio.ensure_future(board.work(handler, worker="ann"))
    await asyncio.sleep(0.05)
    await board.add("early")
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(working, timeout=20)
    assert await statuses(board) == {"early": "completed", "late": "pending"}


async def test_a_result_that_is_no_json_fails_the_task(board):
    await board.add("one")
    done = await board.work(lambda _: {"x": object()}, worker="ann", until_empty=True)
    assert (done.n_completed, done.n_failed) == (0, 1)
    assert "result" in (await board.list())[0].note


async def test_two_workers_do_each_task_once(board):
    await board.add_many(str(n) for n in range(40))
    seen = []

    async def handler(task):
        await asyncio.sleep(0.001)
        seen.append(task.title)

    both = [board.work(handler, worker=name, n_at_once=3, until_empty=True) for name in "ab"]
    done = await asyncio.gather(*both)
    assert sorted(seen, key=int) == [str(n) for n in range(40)]
    assert sum(one.n_completed for one in done) == 40


def test_blocking_code_runs_functions_in_threads(tmp_path):
    with ContextStore.open(tmp_path / "store") as store:
        board = store.tasks.board("mails")
        board.add_many(["a", "b", "c"])
        threads = set()

        def handler(task):
            threads.add(threading.current_thread())
            return {"by": task.assigned_to}

        done = board.work(handler, worker="ann", n_at_once=3, until_empty=True)
        assert done.n_completed == 3
        assert [one.result for one in board.list()] == [{"by": "ann"}] * 3
        assert threading.current_thread() not in threads


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        pytest.param({"handler": None}, "handler=None: give a function of a Task", id="handler"),
        pytest.param({"worker": ""}, "worker", id="worker"),
        pytest.param({"n_at_once": 0}, "n_at_once", id="n_at_once"),
        pytest.param({"timeout": timedelta()}, "timeout", id="no time"),
        pytest.param({"timeout": 5}, "timeout", id="seconds as a number"),
        pytest.param({"max_retries": -1}, "max_retries", id="max_retries"),
        pytest.param({"backoff": timedelta(-1)}, "backoff", id="backoff"),
        pytest.param({"lease": timedelta()}, "lease", id="lease"),
    ],
)
async def test_a_wrong_argument_is_refused_before_a_task_is_claimed(board, wrong, said):
    await board.add("one")
    given = {"handler": print, "worker": "ann", "until_empty": True} | wrong
    with pytest.raises(InvalidRequestError, match=said):
        await board.work(given.pop("handler"), **given)
    assert await statuses(board) == {"one": "pending"}
