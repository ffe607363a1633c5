"""Where the tasks of a board are while they are looked at and changed: in a list, or in an index."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from lance_context_core.coordination.tasks.values import DONE, Task, TaskStatus
from lance_context_core.storage.task_index import Holder


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

    def holders(self) -> list[Holder]:
        """Who is at the tasks that are begun, in their order."""

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

    def holders(self) -> list[Holder]:
        """As `Tasks.holders`."""
        return [
            Holder(one.id, one.process, one.until.timestamp() if one.until else None, one.ticks)
            for one in self.by_id.values()
            if one.status is TaskStatus.IN_PROGRESS
        ]

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
