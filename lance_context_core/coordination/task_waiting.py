"""Claims that wait: a change of the board wakes them, and the time when a task is due."""

import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta

from lance_context_core.coordination.task_changes import Change, Changes
from lance_context_core.coordination.task_graph import Graph
from lance_context_core.coordination.task_types import Task

_LOOKED_AT = timedelta(seconds=1)
"""How far a claim looks ahead for tasks that become due."""

_LOOKED_AT_WHILE_HELD = timedelta(milliseconds=250)
"""How soon the end of a worker, which writes nothing, is noticed."""


async def claimed(
    changes: Changes,
    claim: Change[list[Task]],
    *,
    give_back: Callable[[list[Task]], Awaitable[None]],
    seconds: float,
) -> Task | None:
    """Return the first task that `claim` gets in so many seconds; None if it gets none.

    Of the waiting claims of one event loop the one that came first claims; the others wait for it.
    """
    until = time.monotonic() + seconds
    rest = _LOOKED_AT

    def change(graph: Graph, order: int) -> list[Task]:
        nonlocal rest
        if not (tasks := claim(graph, order)):
            rest = graph.rest(_LOOKED_AT, while_held=_LOOKED_AT_WHILE_HELD)
        return tasks

    table = changes.table
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(table.changes.turn(changes.key).held(seconds))
        except TimeoutError:
            return None
        while True:
            # Read before the claim: a change after it is one to wake up for.
            token = await table.token()
            tasks = await changes.make(change, give_back=give_back)
            left = until - time.monotonic()
            if tasks or left <= 0:
                return next(iter(tasks), None)
            await table.changes.wait(token, seconds=min(rest.total_seconds(), left))
