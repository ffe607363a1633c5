"""A task, and what it can become."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import IntEnum, StrEnum
from types import MappingProxyType

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import InvalidRequestError


class TaskStatus(StrEnum):
    """Where a task stands."""

    PENDING = "pending"
    """It may be begun."""
    BLOCKED = "blocked"
    """Something that it depends on is not done; it becomes pending by itself."""
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    """It may be tried again."""
    SKIPPED = "skipped"
    """It is not to be done; what depends on it need not wait."""


class Priority(IntEnum):
    """What is begun first."""

    LOW = 0
    NORMAL = 1
    HIGH = 2
    URGENT = 3


TRANSITIONS: Mapping[TaskStatus, tuple[TaskStatus, ...]] = MappingProxyType(
    {
        TaskStatus.PENDING: (TaskStatus.IN_PROGRESS, TaskStatus.SKIPPED),
        TaskStatus.BLOCKED: (TaskStatus.SKIPPED,),
        TaskStatus.IN_PROGRESS: (
            TaskStatus.COMPLETED,
            TaskStatus.FAILED,
            TaskStatus.SKIPPED,
            TaskStatus.PENDING,
        ),
        TaskStatus.FAILED: (TaskStatus.PENDING, TaskStatus.SKIPPED),
        TaskStatus.COMPLETED: (),
        TaskStatus.SKIPPED: (),
    }
)
"""What a caller may make of a task. By itself one becomes pending or blocked as what it depends on is
done or comes to it, and one with subtasks completed with the last of them."""

DONE = frozenset({TaskStatus.COMPLETED, TaskStatus.SKIPPED})
"""What nobody need wait for."""


@frozen_by_name
class Task:
    """Something that is to be done."""

    id: str
    title: str
    status: TaskStatus = TaskStatus.PENDING
    priority: Priority = Priority.NORMAL
    order: int
    """Its place among those of one priority; larger than that of any task before, for good."""
    parent_id: str | None = None
    depends_on: tuple[str, ...] = ()
    assigned_to: str | None = None
    """Who is at it, or was last."""
    attempt: int = 0
    """How often it was begun: who began it earlier can change nothing any more."""
    n_retries: int = 0
    note: str = ""
    """The last thing that was said of it."""
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    process: str | None = field(default=None, repr=False)
    """Which process is at it."""
    until: datetime | None = field(default=None, repr=False)
    """When somebody else may begin it anew, unless it is heard of before."""
    ticks: float | None = field(default=None, repr=False)
    """The same by the time since the boot of its process' machine, which nobody sets."""


def require_transition(task: Task, status: TaskStatus) -> None:
    """Raise InvalidRequestError if the task may not become that."""
    if status not in TRANSITIONS[task.status]:
        allowed = ", ".join(TRANSITIONS[task.status]) or "nothing: it is at its end"
        raise InvalidRequestError(
            f"task {task.id!r} is {task.status} and cannot become {status}: it may become {allowed}"
        )


@frozen_by_name
class TaskEvent:
    """One change of a task."""

    task_id: str
    at: datetime
    before: TaskStatus | None
    """None for one that is new."""
    after: TaskStatus | None
    """None for one that was removed."""
    by: str | None
    """Who is at the task then."""
    attempt: int
    note: str


@frozen_by_name
class TaskStats:
    """How far a board is."""

    n_tasks: int
    by_status: Mapping[str, int]
    progress: float
    """In [0, 1]: each task of the outermost level counts the same, one that is begun half."""
    mean_seconds: float | None
    """From the beginning of a task that was completed to its end; None if none was."""
    eta_seconds: float | None
    """What is left, at that pace, one after the other; None if nothing is known of the pace."""
