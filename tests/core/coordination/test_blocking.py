"""The blocking objects do in the caller's thread what nothing is waited for."""

import threading

from lance_context_core import ContextStore
from lance_context_core._loop import begin


def test_a_blocking_change_and_lock_need_no_turn_of_the_stores_loop(tmp_path):
    with ContextStore.open(tmp_path) as store:
        board = store.tasks.board()
        board.add("first", id="first")
        store.locks.acquire("first").release()
        held_up, go_on = threading.Event(), threading.Event()

        async def hold_up():
            held_up.set()
            go_on.wait(30)

        holding = begin(hold_up())
        held_up.wait(30)
        try:
            task = board.claim("ann")
            board.complete(task.id, attempt=task.attempt)
            with store.locks.acquire("report.md"):
                pass
            assert not holding.done()
        finally:
            go_on.set()
        holding.result(30)
        assert board.progress() == 1
