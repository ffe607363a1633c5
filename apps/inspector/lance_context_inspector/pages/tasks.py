"""Boards of tasks: who is at what, and what waits."""

from typing import NamedTuple

from lance_context_core.errors import NotFoundError
from lance_context_core.results import TaskStats, TaskStatus
from lance_context_inspector.page import Page
from lance_context_inspector.pages._listing import Column, asked_sort, listing
from lance_context_inspector.view import View

_BOARDS, _TASKS, _EVENTS = 30, 200, 50


class Board(NamedTuple):
    """A board in the list."""

    name: str
    stats: TaskStats | None
    """None until the page needs them: a list by name needs those that it shows."""


_COLUMNS = (
    Column("board", lambda one: one.name, is_filter=True),
    Column("tasks", lambda one: one.stats and one.stats.n_tasks, is_number=True),
    Column("open", lambda one: one.stats and one.stats.n_tasks - _n_ended(one), is_number=True),
    Column("done", lambda one: one.stats and one.stats.progress, is_number=True),
)


def _n_ended(one: Board) -> int:
    ended = (TaskStatus.COMPLETED, TaskStatus.SKIPPED)
    return 0 if one.stats is None else sum(one.stats.by_status.get(name, 0) for name in ended)


async def tasks(view: View) -> Page:
    """The boards by name, or by a column; each with how far it is."""
    names = await view.store.tasks.boards()
    boards = [Board(name, None) for name in names]
    if asked_sort(view, _COLUMNS, "board").removeprefix("-") != "board":
        boards = [await _with_stats(view, one) for one in boards]
    listed = listing(view, boards, _COLUMNS, sort="board", size=_BOARDS)
    shown = [await _with_stats(view, one) for one in listed.part.items]
    open_ = {one.name: one.stats.n_tasks - _n_ended(one) for one in shown if one.stats is not None}
    data = {"listing": listed, "boards": shown, "open": open_}
    return Page("tasks.html", "Tasks", data, "/tasks")


async def _with_stats(view: View, one: Board) -> Board:
    if one.stats is not None:
        return one
    return Board(one.name, await view.store.tasks.board(one.name).stats())


async def board(view: View) -> Page:
    """The tasks of a board, by where they stand, and what became of them last."""
    name = view.one("name")
    if name not in await view.store.tasks.boards():
        raise NotFoundError(f"no board {name!r}")
    one = view.store.tasks.board(name)
    found = await one.list()
    columns = [
        (status.value, [task for task in found if task.status is status][:_TASKS])
        for status in TaskStatus
    ]
    events = (await one.history())[-_EVENTS:][::-1]
    data = {
        "name": name,
        "stats": await one.stats(),
        "columns": columns,
        "events": events,
        "titles": {task.id: task.title for task in found},
        "is_cut": len(found) > sum(len(held) for _, held in columns),
    }
    return Page("board.html", f"Board {name}"[:80], data, "/tasks")
