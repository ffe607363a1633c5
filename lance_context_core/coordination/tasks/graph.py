"""The tasks of one board as a graph, and all that may happen to them; nothing here is stored.

Every change ends with the same rule for all: see `_settle`.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from lance_context_core.coordination.tasks.values import (
    DONE,
    Priority,
    Task,
    TaskEvent,
    TaskStats,
    TaskStatus,
    require_transition,
)
from lance_context_core.errors import ConflictError, InvalidRequestError, NotFoundError

_ICONS = {
    TaskStatus.PENDING: "○",
    TaskStatus.IN_PROGRESS: "◐",
    TaskStatus.COMPLETED: "●",
    TaskStatus.FAILED: "✗",
    TaskStatus.BLOCKED: "◌",
    TaskStatus.SKIPPED: "⊘",
}


class Graph:
    """The tasks of a board, at one moment."""

    def __init__(self, tasks: Iterable[Task], now: datetime) -> None:
        """These, which are as they are stored."""
        self.tasks = _whole(sorted(tasks, key=lambda one: (one.order, one.id)))
        self.events: list[TaskEvent] = []
        self._now = now
        self._children: dict[str | None, list[str]] = {}
        for one in self.tasks.values():
            self._children.setdefault(one.parent_id, []).append(one.id)

    # Reading

    def get(self, id: str) -> Task:
        """The task. Raises NotFoundError if there is none."""
        if (task := self.tasks.get(id)) is None:
            raise NotFoundError(f"there is no task {id!r} on this board")
        return task

    def children(self, id: str | None) -> list[Task]:
        """The subtasks of one, or the outermost tasks, in their order."""
        return [self.tasks[one] for one in self._children.get(id, [])]

    def waits_for(self, id: str) -> list[str]:
        """What is not done of what a task depends on, and of what its parents depend on."""
        task: Task | None = self.get(id)
        found: dict[str, None] = {}
        while task is not None:
            found |= dict.fromkeys(
                one for one in task.depends_on if self.tasks[one].status not in DONE
            )
            task = None if task.parent_id is None else self.tasks[task.parent_id]
        return list(found)

    def ready(self) -> list[Task]:
        """What may be begun, the most urgent first, then in order; not what its subtasks complete."""
        found = [
            one
            for one in self.tasks.values()
            if one.status is TaskStatus.PENDING and not self._children.get(one.id)
        ]
        return sorted(found, key=lambda one: (-one.priority, one.order))

    def progress(self, id: str | None = None) -> float:
        """How far a task is, or all of them: in [0, 1], one that is begun counts half."""
        if not (parts := self.children(id)):
            return 0.0 if id is None else _part(self.get(id))
        return sum(map(_part, parts)) / len(parts)

    def stats(self) -> TaskStats:
        """How far the board is."""
        every = self.tasks.values()
        took = [
            (one.ended_at - one.started_at).total_seconds()
            for one in every
            if one.status is TaskStatus.COMPLETED and one.started_at and one.ended_at
        ]
        mean = sum(took) / len(took) if took else None
        by_status = {
            str(status): sum(one.status is status for one in every) for status in TaskStatus
        }
        open_ = by_status["pending"] + by_status["blocked"]
        return TaskStats(
            n_tasks=len(every),
            by_status=by_status,
            progress=self.progress(),
            mean_seconds=mean,
            eta_seconds=None if mean is None else mean * open_,
        )

    def tree(self) -> str:
        """All tasks, each below its parent, with a sign for its status."""

        def lines(id: str | None, depth: int) -> Iterable[str]:
            for one in self.children(id):
                yield f"{'  ' * depth}{_ICONS[one.status]} {one.title}"
                yield from lines(one.id, depth + 1)

        return "\n".join(lines(None, 0)) or "No tasks"

    # Changing

    def add(self, task: Task) -> None:
        """Have one more, whose id is new."""
        if task.id in self.tasks:
            raise InvalidRequestError(f"there is a task {task.id!r} already: choose another id")
        if task.parent_id is not None:
            parent = self.get(task.parent_id)
            if parent.status in DONE or parent.status is TaskStatus.FAILED:
                raise InvalidRequestError(
                    f"task {parent.id!r} is {parent.status}: it can have no more subtasks"
                )
            if parent.status is TaskStatus.IN_PROGRESS and not self._children.get(parent.id):
                raise InvalidRequestError(
                    f"{parent.assigned_to!r} is at task {parent.id!r}: give it subtasks before that"
                )
        for one in task.depends_on:
            self._require_dependency(task.id, one)
        self.tasks[task.id] = task
        self._children.setdefault(task.parent_id, []).append(task.id)
        self._require_no_cycle(task.id)
        self._log(None, task)
        self._settle()

    def depend(self, id: str, on: str) -> None:
        """Have a task wait for another one."""
        task = self.get(id)
        self._require_dependency(id, on)
        if task.status not in (TaskStatus.PENDING, TaskStatus.BLOCKED):
            raise InvalidRequestError(
                f"task {id!r} is {task.status}: only one that is not begun can wait for another"
            )
        if on not in task.depends_on:
            self._put(replace(task, depends_on=(*task.depends_on, on)))
            self._require_no_cycle(id)
            self._settle()

    def move(
        self, id: str, status: TaskStatus, *, note: str, of_attempt: int | None = None, **more: Any
    ) -> Task:
        """Let a task become that, if it may; for who began its attempt `of_attempt`, if that is given."""
        task = self.get(id)
        if of_attempt is not None:
            self._require_attempt(task, of_attempt)
        require_transition(task, status)
        open_ = [one.id for one in self.children(id) if one.status not in DONE]
        if open_ and status is TaskStatus.COMPLETED:
            raise InvalidRequestError(f"task {id!r} has subtasks that are not done: {open_}")
        self._become(task, status, note=note, **more)
        self._settle()
        return self.tasks[id]

    def begin(self, task: Task, worker: str, process: str, lease: timedelta, note: str) -> Task:
        """Have `worker` begin a task."""
        return self.move(
            task.id,
            TaskStatus.IN_PROGRESS,
            note=note,
            assigned_to=worker,
            attempt=task.attempt + 1,
            process=process,
            until=self._now + lease,
        )

    def keep(self, id: str, attempt: int, lease: timedelta) -> Task:
        """Have the one who is at a task at it for so long from now."""
        self._require_attempt(self.get(id), attempt)
        self._put(replace(self.get(id), until=self._now + lease))
        return self.tasks[id]

    def take_back(self, is_gone: Callable[[Task], bool]) -> None:
        """Let what somebody is at who is gone be begun anew."""
        for task in list(self.tasks.values()):
            if task.status is TaskStatus.IN_PROGRESS and is_gone(task):
                self._become(task, TaskStatus.PENDING, note=f"{task.assigned_to!r} is gone")
        self._settle()

    def retry(self, id: str, max_retries: int | None, note: str) -> Task:
        """Let a task that failed be begun anew."""
        task = self.get(id)
        if task.status is not TaskStatus.FAILED:
            raise InvalidRequestError(
                f"task {id!r} is {task.status}: only one that failed is tried again"
            )
        if max_retries is not None and task.n_retries >= max_retries:
            raise InvalidRequestError(f"task {id!r} was tried again {task.n_retries} times already")
        return self.move(id, TaskStatus.PENDING, note=note, n_retries=task.n_retries + 1)

    def remove(self, id: str) -> list[str]:
        """Have a task no more, nor its subtasks, on none of which others depend; returns their ids."""
        gone = [id]
        for one in gone:
            gone.extend(child.id for child in self.children(one))
        for other in self.tasks.values():
            if other.id not in gone and (on := set(gone).intersection(other.depends_on)):
                raise InvalidRequestError(
                    f"task {other.id!r} depends on {sorted(on)}: remove it first"
                )
        for each in gone:
            task = self.tasks.pop(each)
            self._children.get(task.parent_id, []).remove(each)
            self._log(task, None)
        self._settle()
        return gone

    # Helpers

    def _become(self, task: Task, status: TaskStatus, *, note: str, **more: Any) -> None:
        if status is TaskStatus.IN_PROGRESS:
            more["started_at"] = self._now
        else:
            more |= {"process": None, "until": None}
        is_end = status in DONE or status is TaskStatus.FAILED
        new = replace(
            task,
            status=status,
            note=note or task.note,
            ended_at=self._now if is_end else None,
            **more,
        )
        self._put(new)
        self._log(task, self.tasks[task.id])

    def _put(self, task: Task) -> None:
        self.tasks[task.id] = replace(task, updated_at=self._now)

    def _settle(self) -> None:
        """Block what has to wait, unblock what has not, and complete what has its last subtask done."""
        is_stable = False
        while not is_stable:
            is_stable = True
            for task in list(self.tasks.values()):
                wanted, note = self._by_itself(task)
                if wanted is not task.status:
                    self._become(task, wanted, note=note)
                    is_stable = False

    def _by_itself(self, task: Task) -> tuple[TaskStatus, str]:
        """What a task is to be, as the others are."""
        if task.status in DONE or task.status is TaskStatus.FAILED:
            return task.status, ""
        if task.status is not TaskStatus.IN_PROGRESS and self.waits_for(task.id):
            return TaskStatus.BLOCKED, ""
        parts = self.children(task.id)
        if parts and all(one.status in DONE for one in parts):
            return TaskStatus.COMPLETED, f"All {len(parts)} subtasks completed"
        return TaskStatus.PENDING if task.status is TaskStatus.BLOCKED else task.status, ""

    @staticmethod
    def _require_attempt(task: Task, attempt: int) -> None:
        """Raise ConflictError if another attempt at the task was begun, or this one has ended."""
        if task.attempt != attempt or task.status is not TaskStatus.IN_PROGRESS:
            raise ConflictError(
                f"task {task.id!r} is {task.status} in attempt {task.attempt}: attempt {attempt} is "
                "over, and nothing was written"
            )

    def _require_dependency(self, id: str, on: str) -> None:
        if id == on:
            raise InvalidRequestError(f"task {id!r} cannot depend on itself")
        self.get(on)

    def _require_no_cycle(self, start: str) -> None:
        """Raise InvalidRequestError that names it, if a task would have to be done before itself."""
        came: dict[str, str] = {}
        todo = [start]
        while todo:
            at = todo.pop()
            for one in self._needs(at):
                if one == start:
                    path = [at]
                    while path[-1] != start:
                        path.append(came[path[-1]])
                    shown = " -> ".join(repr(step) for step in [*reversed(path), start])
                    raise InvalidRequestError(f"these tasks would wait for each other: {shown}")
                if one not in came:
                    came[one] = at
                    todo.append(one)

    def _needs(self, id: str) -> list[str]:
        """What has to be done before a task is: its subtasks, and what it and its parents depend on."""
        task: Task | None = self.tasks[id]
        needed = list(self._children.get(id, []))
        while task is not None:
            needed.extend(task.depends_on)
            task = None if task.parent_id is None else self.tasks[task.parent_id]
        return needed

    def _log(self, before: Task | None, after: Task | None) -> None:
        one = after or before
        assert one is not None
        self.events.append(
            TaskEvent(
                task_id=one.id,
                at=self._now,
                before=None if before is None else before.status,
                after=None if after is None else after.status,
                by=one.assigned_to,
                attempt=one.attempt,
                note=one.note,
            )
        )


def _whole(tasks: list[Task]) -> dict[str, Task]:
    """The tasks by id, without a word of those that are no more since another branch removed them."""
    found = {one.id: one for one in tasks}
    for one in tasks:
        if (one.parent_id is not None and one.parent_id not in found) or not found.keys() >= set(
            one.depends_on
        ):
            found[one.id] = replace(
                one,
                parent_id=one.parent_id if one.parent_id in found else None,
                depends_on=tuple(other for other in one.depends_on if other in found),
            )
    return found


def _part(task: Task) -> float:
    if task.status in DONE:
        return 1.0
    return 0.5 if task.status is TaskStatus.IN_PROGRESS else 0.0


def checked_priority(priority: object) -> Priority:
    """The priority of a number or a name."""
    if isinstance(priority, str) and priority.upper() in Priority.__members__:
        return Priority[priority.upper()]
    if isinstance(priority, int) and not isinstance(priority, bool) and priority in list(Priority):
        return Priority(priority)
    raise InvalidRequestError(
        f"priority={priority!r}: there are {', '.join(one.name.lower() for one in Priority)}"
    )
