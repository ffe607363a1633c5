"""Boards of tasks: who is at what, and what waits."""

from lance_context_core.errors import NotFoundError
from lance_context_core.results import TaskStatus
from lance_context_inspector.page import Page, Part
from lance_context_inspector.view import View

_BOARDS, _TASKS, _EVENTS = 30, 200, 50


async def tasks(view: View) -> Page:
    """The boards, each with how far it is."""
    number = view.number("page", 1, most=100_000)
    names = await view.store.tasks.boards()
    part = Part.of(names[(number - 1) * _BOARDS :][: _BOARDS + 1], number, _BOARDS)
    boards = [(name, await view.store.tasks.board(name).stats()) for name in part.items]
    return Page("tasks.html", "Tasks", {"boards": boards, "part": part}, "/tasks")


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
