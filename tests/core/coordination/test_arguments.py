"""What has no sense is refused by its name, and changes nothing."""

import pytest

from lance_context_core import ContextStore
from lance_context_core.errors import InvalidRequestError


@pytest.mark.parametrize(
    ("name", "ask"),
    [
        pytest.param(
            "attempt", lambda store, board: board.complete("a", attempt="1"), id="complete"
        ),
        pytest.param("attempt", lambda store, board: board.release("a", attempt=0), id="release"),
        pytest.param(
            "attempt", lambda store, board: board.heartbeat("a", attempt=True), id="heartbeat"
        ),
        pytest.param(
            "max_retries", lambda store, board: board.retry("a", max_retries=-1), id="retry"
        ),
        pytest.param("worker", lambda store, board: board.settle("failed", worker=3), id="settle"),
        pytest.param("limit", lambda store, board: board.ready(limit=-1), id="ready"),
        pytest.param("parent_id", lambda store, board: board.list(parent_id=3), id="list"),
        pytest.param("id", lambda store, board: board.history(3), id="history"),
        pytest.param(
            "token", lambda store, board: store.locks.force_release("a", token="1"), id="lock"
        ),
        pytest.param(
            "keep", lambda store, board: store.checkpoints.delete("a", keep=-1), id="keep"
        ),
    ],
)
def test_an_argument_of_no_sense_is_named(tmp_path, name, ask):
    with ContextStore.open(tmp_path) as store:
        board = store.tasks.board()
        board.add("a", id="a")
        with pytest.raises(InvalidRequestError, match=f"^{name}[= ]"):
            ask(store, board)
        assert [one.status for one in board.list()] == ["pending"]
