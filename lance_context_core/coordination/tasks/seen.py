"""What is told of a board as it is: how far it is, and how it looks."""

from collections.abc import Iterator

from lance_context_core.coordination.tasks.kept import Listed
from lance_context_core.coordination.tasks.values import DONE, Task, TaskStats, TaskStatus

_ICONS = {
    TaskStatus.PENDING: "○",
    TaskStatus.IN_PROGRESS: "◐",
    TaskStatus.COMPLETED: "●",
    TaskStatus.FAILED: "✗",
    TaskStatus.BLOCKED: "◌",
    TaskStatus.SKIPPED: "⊘",
}


def progress(tasks: Listed, task: Task | None = None) -> float:
    """How far a task is, or all of them: in [0, 1], one that is begun counts half."""
    if not (parts := tasks.parts(None if task is None else task.id)):
        return 0.0 if task is None else _part(task)
    return sum(map(_part, parts)) / len(parts)


def stats(tasks: Listed) -> TaskStats:
    """How far the board is."""
    every = tasks.by_id.values()
    took = [
        (one.ended_at - one.started_at).total_seconds()
        for one in every
        if one.status is TaskStatus.COMPLETED and one.started_at and one.ended_at
    ]
    mean = sum(took) / len(took) if took else None
    by_status = {str(status): sum(one.status is status for one in every) for status in TaskStatus}
    open_ = by_status["pending"] + by_status["blocked"]
    return TaskStats(
        n_tasks=len(every),
        by_status=by_status,
        progress=progress(tasks),
        mean_seconds=mean,
        eta_seconds=None if mean is None else mean * open_,
    )


def tree(tasks: Listed) -> str:
    """All tasks, each below its parent, with a sign for its status."""

    def lines(id: str | None, depth: int) -> Iterator[str]:
        for one in tasks.parts(id):
            yield f"{'  ' * depth}{_ICONS[one.status]} {one.title}"
            yield from lines(one.id, depth + 1)

    return "\n".join(lines(None, 0)) or "No tasks"


def _part(task: Task) -> float:
    if task.status in DONE:
        return 1.0
    return 0.5 if task.status is TaskStatus.IN_PROGRESS else 0.0
