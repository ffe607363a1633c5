"""Tasks and their status."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, fields, replace
from datetime import datetime
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any, Protocol

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import InvalidRequestError
from lance_context_core.storage.leases import Lease


class TaskStatus(StrEnum):
    """The status of a task."""

    PENDING = "pending"
    """It can begin."""
    BLOCKED = "blocked"
    """A dependency is not done; it becomes pending automatically."""
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    """It can be retried."""
    SKIPPED = "skipped"
    """It will not be done; its dependents need not wait."""


class Priority(IntEnum):
    """The urgency of a task."""

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
"""The status changes that a caller may make.

Automatically, a task becomes pending or blocked as dependencies are done or added, and one with
subtasks completed with the last of them.
"""

DONE = frozenset({TaskStatus.COMPLETED, TaskStatus.SKIPPED})
"""The status of tasks for which none must wait."""


@frozen_by_name
class Task:
    """A unit of work on a board."""

    id: str
    title: str
    status: TaskStatus = TaskStatus.PENDING
    priority: Priority = Priority.NORMAL
    order: int
    """Its order within its priority; larger than that of any earlier task, permanently."""
    parent_id: str | None = None
    depends_on: tuple[str, ...] = ()
    assigned_to: str | None = None
    """The current or last worker."""
    attempt: int = 0
    """The number of times it began: workers of earlier attempts can change nothing any more."""
    n_retries: int = 0
    note: str = ""
    """The latest note."""
    payload: dict[str, Any] | None = None
    """The input for its worker, as JSON."""
    result: dict[str, Any] | None = None
    """Its result, as JSON; None until it is completed with one."""
    due: datetime | None = None
    """Until then it is blocked."""
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    process: str | None = field(default=None, repr=False)
    """The process of its worker."""
    until: datetime | None = field(default=None, repr=False)
    """The time when another worker may begin it again, unless renewed."""
    ticks: float | None = field(default=None, repr=False)
    """The same by the time since the boot of its machine, which ignores clock changes."""


def require_transition(task: Task, status: TaskStatus) -> None:
    """Raise InvalidRequestError unless the task may change to this status."""
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
    """None for a new task."""
    after: TaskStatus | None
    """None for a removed task."""
    by: str | None
    """The task's worker at that time."""
    attempt: int
    note: str


@frozen_by_name
class TaskStats:
    """The progress of a board."""

    n_tasks: int
    by_status: Mapping[str, int]
    progress: float
    """In [0, 1]: each top-level task counts the same, a begun one half."""
    mean_seconds: float | None
    """Mean duration of the completed tasks; None without any."""
    eta_seconds: float | None
    """Remaining time at that pace, sequentially; None without a pace."""


# Access to the tasks of a board: in a list, or in an index.


class Tasks(Protocol):
    """The tasks of one board."""

    def find(self, id: str) -> Task | None:
        """Return the task; None if absent."""

    def parts(self, id: str) -> list[Task]:
        """Return the subtasks of one, in order."""

    def dependents(self, id: str) -> list[Task]:
        """Return the tasks that depend on one."""

    def open(self, ids: Sequence[str]) -> list[str]:
        """Return those of these that exist and are not done, so that others must wait."""

    def holders(self) -> list[tuple[str, Lease]]:
        """Return the workers of begun tasks, in order."""

    def due(self, now: datetime) -> list[str]:
        """Return the blocked tasks that are due by now, in order."""

    def next(self, limit: int) -> list[Task]:
        """Return pending tasks without subtasks: most urgent first, then by addition."""

    def put(self, task: Task) -> None:
        """Add this task, or replace the one with its id."""

    def remove(self, task: Task) -> None:
        """Remove it."""


class Listed:
    """All tasks in a dictionary; satisfies `Tasks`."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        """Create it from stored tasks."""
        self.by_id = _whole(sorted(tasks, key=lambda one: (one.order, one.id)))
        self._parts: dict[str | None, dict[str, None]] = {}
        self._dependents: dict[str, dict[str, None]] = {}
        for one in self.by_id.values():
            self._link(one)

    def find(self, id: str) -> Task | None:
        """As `Tasks.find`."""
        return self.by_id.get(id)

    def parts(self, id: str | None) -> list[Task]:
        """As `Tasks.parts`; for None the top-level tasks."""
        return [self.by_id[one] for one in self._parts.get(id, ())]

    def dependents(self, id: str) -> list[Task]:
        """As `Tasks.dependents`."""
        return [self.by_id[one] for one in self._dependents.get(id, ())]

    def open(self, ids: Sequence[str]) -> list[str]:
        """As `Tasks.open`."""
        return [id for id in ids if is_open(self.by_id.get(id))]

    def holders(self) -> list[tuple[str, Lease]]:
        """As `Tasks.holders`."""
        return [
            (one.id, Lease(one.process, one.until.timestamp() if one.until else None, one.ticks))
            for one in self.by_id.values()
            if one.status is TaskStatus.IN_PROGRESS
        ]

    def due(self, now: datetime) -> list[str]:
        """As `Tasks.due`."""
        blocked = (one for one in self.by_id.values() if one.status is TaskStatus.BLOCKED)
        return [one.id for one in blocked if one.due is not None and one.due <= now]

    def ready(self) -> list[Task]:
        """Return the tasks that can begin, in the order of `next`."""
        found = [
            one
            for one in self.by_id.values()
            if one.status is TaskStatus.PENDING and not self._parts.get(one.id)
        ]
        return sorted(found, key=lambda one: (-one.priority, one.order, one.id))

    def next(self, limit: int) -> list[Task]:
        """As `Tasks.next`."""
        return self.ready()[:limit]

    def put(self, task: Task) -> None:
        """As `Tasks.put`."""
        self.by_id[task.id] = task
        self._link(task)

    def remove(self, task: Task) -> None:
        """As `Tasks.remove`."""
        del self.by_id[task.id]
        self._parts[task.parent_id].pop(task.id)
        for one in task.depends_on:
            self._dependents[one].pop(task.id)

    def _link(self, task: Task) -> None:
        self._parts.setdefault(task.parent_id, {})[task.id] = None
        for one in task.depends_on:
            self._dependents.setdefault(one, {})[task.id] = None


def is_open(task: Task | None) -> bool:
    """Whether others must wait for it; not for a removed one."""
    return task is not None and task.status not in DONE


def _whole(tasks: list[Task]) -> dict[str, Task]:
    """Return the tasks by id, without references to those that another branch removed."""
    found = {one.id: one for one in tasks}
    for one in tasks:
        is_orphan = one.parent_id is not None and one.parent_id not in found
        if is_orphan or not found.keys() >= set(one.depends_on):
            found[one.id] = replace(
                one,
                parent_id=None if is_orphan else one.parent_id,
                depends_on=tuple(other for other in one.depends_on if other in found),
            )
    return found


# Conversion of tasks and events to the JSON of items, and back.

_TIMES = ("created_at", "updated_at", "started_at", "ended_at", "until", "due", "at")
_RARE = ("payload", "result", "due")
"""Fields that are written only if they are set."""
_STATUSES = ("status", "before", "after")
_EVENTS = "events"
_STATUS = {str(one): one for one in TaskStatus}
_PRIORITY = {int(one): one for one in Priority}
_NAMES = {kind: tuple(one.name for one in fields(kind)) for kind in (Task, TaskEvent)}
"""The field names, cached, since each change of a board writes some."""


def written(value: Task | TaskEvent) -> dict[str, Any]:
    """Return the value as JSON by key."""
    row = {name: getattr(value, name) for name in _NAMES[type(value)]}
    for name in _TIMES:
        if (time := row.get(name)) is not None:
            row[name] = time.isoformat()
    for name in _STATUSES:
        if (status := row.get(name)) is not None:
            row[name] = status.value
    if isinstance(value, Task):
        row["depends_on"] = list(value.depends_on)
        row["priority"] = int(value.priority)
        for name in _RARE:
            if row[name] is None:
                del row[name]
    return row


def task_of(row: Mapping[str, Any]) -> Task:
    """Return the task of a row."""
    given = _read(row)
    given["depends_on"] = tuple(row["depends_on"])
    given["priority"] = _PRIORITY[row["priority"]]
    return Task(**given)


def written_events(events: Iterable[TaskEvent]) -> dict[str, Any]:
    """Return the events of one change of a board, as JSON by key."""
    return {_EVENTS: [written(one) for one in events]}


def events_of(row: Mapping[str, Any]) -> list[TaskEvent]:
    """Return the events of that change, in order; accepts earlier releases' single-event rows."""
    return [TaskEvent(**_read(one)) for one in row.get(_EVENTS, (row,))]


def _read(row: Mapping[str, Any]) -> dict[str, Any]:
    given = dict(row)
    for name in _TIMES:
        if (time := given.get(name)) is not None:
            given[name] = datetime.fromisoformat(time)
    for name in _STATUSES:
        if (status := given.get(name)) is not None:
            given[name] = _STATUS[status]
    return given
