"""A task, and what it can become."""

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
    payload: dict[str, Any] | None = None
    """What its worker is to know, as JSON."""
    result: dict[str, Any] | None = None
    """What came of it, as JSON; None until it is completed with one."""
    due: datetime | None = None
    """Until then it is blocked."""
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    process: str | None = field(default=None, repr=False)
    """Which process is at it."""
    until: datetime | None = field(default=None, repr=False)
    """When another worker may begin it anew, unless it is heard of before."""
    ticks: float | None = field(default=None, repr=False)
    """The same by the time since the boot of its process' machine, which no clock change moves."""


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


# Where the tasks of a board are while they are looked at and changed: in a list, or in an index.


class Tasks(Protocol):
    """The tasks of one board."""

    def find(self, id: str) -> Task | None:
        """The task; None if there is none."""

    def parts(self, id: str) -> list[Task]:
        """The subtasks of one, in their order."""

    def dependents(self, id: str) -> list[Task]:
        """The tasks that depend on one."""

    def open(self, ids: Sequence[str]) -> list[str]:
        """Which of these are there and not done, so that others have to wait for them."""

    def holders(self) -> list[tuple[str, Lease]]:
        """Who is at the tasks that are begun, in their order."""

    def due(self, now: datetime) -> list[str]:
        """Which blocked tasks were due by now, in their order."""

    def next(self, limit: int) -> list[Task]:
        """What is pending and has no subtasks: the most urgent first, of equals the one added first."""

    def put(self, task: Task) -> None:
        """Have this task, in the place of the one with its id."""

    def remove(self, task: Task) -> None:
        """Have it no more."""


class Listed:
    """All of them, in a dictionary; satisfies `Tasks`."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        """These, which are as they are stored."""
        self.by_id = _whole(sorted(tasks, key=lambda one: (one.order, one.id)))
        self._parts: dict[str | None, dict[str, None]] = {}
        self._dependents: dict[str, dict[str, None]] = {}
        for one in self.by_id.values():
            self._link(one)

    def find(self, id: str) -> Task | None:
        """As `Tasks.find`."""
        return self.by_id.get(id)

    def parts(self, id: str | None) -> list[Task]:
        """As `Tasks.parts`; for None the outermost tasks."""
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
        """What may be begun, in the order of `next`."""
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
    """Whether others have to wait for it; nobody has to for what is no more."""
    return task is not None and task.status not in DONE


def _whole(tasks: list[Task]) -> dict[str, Task]:
    """The tasks by id, without a word of those that are no more since another branch removed them."""
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


# Tasks and their changes as the JSON of items, and back.

_TIMES = ("created_at", "updated_at", "started_at", "ended_at", "until", "due", "at")
_RARE = ("payload", "result", "due")
"""What is written only of the tasks that have it."""
_STATUSES = ("status", "before", "after")
_EVENTS = "events"
_STATUS = {str(one): one for one in TaskStatus}
_PRIORITY = {int(one): one for one in Priority}
_NAMES = {kind: tuple(one.name for one in fields(kind)) for kind in (Task, TaskEvent)}
"""What each is written as. Each change of a board writes some: nothing here looks that up anew."""


def written(value: Task | TaskEvent) -> dict[str, Any]:
    """As JSON by key."""
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
    """The task that was written."""
    given = _read(row)
    given["depends_on"] = tuple(row["depends_on"])
    given["priority"] = _PRIORITY[row["priority"]]
    return Task(**given)


def written_events(events: Iterable[TaskEvent]) -> dict[str, Any]:
    """What one change of a board did, as JSON by key."""
    return {_EVENTS: [written(one) for one in events]}


def events_of(row: Mapping[str, Any]) -> list[TaskEvent]:
    """What that change did, in this order; also as earlier releases wrote it, an event a row."""
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
