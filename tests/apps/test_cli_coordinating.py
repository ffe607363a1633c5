"""The boards of tasks in a terminal."""

import json

import pytest

from lance_context_core import ContextStore


@pytest.fixture
def board(place):
    """A fair that is prepared: one task is done, one waits, the others are free."""
    with ContextStore.open(place) as store:
        board = store.tasks.board("fair")
        board.add("Rent a hall", id="hall")
        board.add("Write the text", id="text")
        board.add("Print flyers", id="flyers", depends_on=["hall", "text"], priority="high")
        board.add("Proof-read it", id="proof", parent_id="text")
        board.complete("hall", attempt=board.claim("ann").attempt)
    return "fair"


def test_tasks_are_told_with_their_workers_and_what_they_wait_for(ctx, board):
    assert ctx("tasks", board).rows == [
        ["hall", "completed", "normal", "ann", "", "Rent a hall"],
        ["text", "pending", "normal", "", "", "Write the text"],
        ["flyers", "blocked", "high", "", "text", "Print flyers"],
        ["proof", "pending", "normal", "", "", "Proof-read it"],
    ]
    assert [one["depends_on"] for one in json.loads(ctx("--json", "tasks", board).out)] == [
        [],
        [],
        ["hall", "text"],
        [],
    ]


def test_what_may_be_begun_is_what_a_worker_would_be_given(ctx, place, board):
    ready = [row[0] for row in ctx("tasks", board, "--ready").rows]
    with ContextStore.open(place) as store:
        assert ready == [one.id for one in store.tasks.board(board).ready()]
        assert ready[0] == store.tasks.board(board).claim("ben").id


def test_the_tree_is_that_of_the_board_and_tells_how_far_it_is(ctx, place, board):
    printed = ctx("tasks", board, "--tree").out
    with ContextStore.open(place) as store:
        assert printed.startswith(store.tasks.board(board).tree())
    assert "progress" in printed


def test_boards_are_told_by_their_names_and_none_is_made(ctx, board):
    assert ctx("tasks", "--boards").rows == [[board]]
    assert ctx("tasks", "another").out == ""
    assert ctx("tasks", "--boards").rows == [[board]]


def test_two_wishes_at_once_are_refused(ctx):
    ended = ctx("tasks", "--ready", "--tree")
    assert (ended.code, ended.out) == (2, "")
