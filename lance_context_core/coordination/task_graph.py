"""The tasks of one board as a graph with their transitions, without storage.

Every change ends with the same rule for all: see `_settle`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from graphlib import CycleError, TopologicalSorter
from typing import Any

from lance_context_core.coordination.task_types import (
    DONE,
    Task,
    TaskEvent,
    Tasks,
    TaskStatus,
    require_transition,
)
from lance_context_core.errors import ConflictError, InvalidRequestError, NotFoundError
from lance_context_core.storage.leases import Lease


class Graph:
    """The tasks of a board at one moment, and their changes."""

    def __init__(self, tasks: Tasks, now: datetime) -> None:
        """Create it from stored tasks."""
        self.before: dict[str, Task | None] = {}
        """The changed tasks before the change; None for new ones."""
        self.events: list[TaskEvent] = []
        self._tasks = tasks
        self._now = now

    def get(self, id: str) -> Task:
        """Return the task. Raises NotFoundError if absent."""
        if (task := self._tasks.find(id)) is None:
            raise NotFoundError(f"no task {id!r} on this board: list the tasks with board.list")
        return task

    def changed(self) -> list[Task]:
        """Return the new and changed tasks."""
        found = [(self._tasks.find(id), before) for id, before in self.before.items()]
        return [one for one, before in found if one is not None and one != before]

    def gone(self) -> list[Task]:
        """Return the removed tasks."""
        return [one for id, one in self.before.items() if one and self._tasks.find(id) is None]

    def begun(self) -> list[Task]:
        """Return the tasks in progress, in order."""
        return [self.get(id) for id, _ in self._tasks.holders()]

    def next(self, limit: int) -> list[Task]:
        """Return the next tasks to begin, in order; at most `limit`."""
        return self._tasks.next(limit)

    def waits_for(self, id: str) -> list[str]:
        """Return the unfinished dependencies of a task and its parents."""
        found: dict[str, None] = {}
        for task in self._with_parents(self.get(id)):
            if task.depends_on:
                found |= dict.fromkeys(self._tasks.open(task.depends_on))
        return list(found)

    # Changing

    def add(self, task: Task) -> None:
        """Add a task with a new id."""
        if self._tasks.find(task.id) is not None:
            raise InvalidRequestError(f"task {task.id!r} already exists: choose another id")
        if task.parent_id is not None:
            if task.parent_id == task.id:
                raise InvalidRequestError(
                    f"task {task.id!r} cannot be a subtask of itself: choose another parent"
                )
            parent = self.get(task.parent_id)
            if parent.status in DONE or parent.status is TaskStatus.FAILED:
                raise InvalidRequestError(
                    f"task {parent.id!r} is {parent.status}: it can have no more subtasks"
                )
            if parent.status is TaskStatus.IN_PROGRESS and not self._tasks.parts(parent.id):
                raise InvalidRequestError(
                    f"{parent.assigned_to!r} is at task {parent.id!r}: give it subtasks before that"
                )
        for one in task.depends_on:
            self._require_dependency(task.id, one)
        self.before[task.id] = None
        self._tasks.put(task)
        if task.parent_id is not None and task.depends_on:
            self._require_no_cycle(task.id)
        self._log(None, task)
        self._settle(task.id)

    def add_all(self, tasks: Sequence[Task]) -> None:
        """Add tasks, which may refer to each other in any order."""
        new = {one.id: one for one in tasks}
        named = {
            id: [one for one in (task.parent_id, *task.depends_on) if one in new and one != id]
            for id, task in new.items()
        }
        try:
            for id in TopologicalSorter(named).static_order():
                self.add(new[id])
        except CycleError as error:
            # A subtask waits for its parent's dependencies: so this is a cycle, too.
            raise _circle(reversed(error.args[1])) from None

    def depend(self, id: str, on: str) -> None:
        """Add a dependency of a task on another."""
        task = self.get(id)
        self._require_dependency(id, on)
        if task.status not in (TaskStatus.PENDING, TaskStatus.BLOCKED):
            raise InvalidRequestError(
                f"task {id!r} is {task.status}: only one that is not begun can wait for another"
            )
        if on not in task.depends_on:
            self._put(replace(task, depends_on=(*task.depends_on, on)))
            self._require_no_cycle(id)
            self._settle(id, *self._below(self.get(id)))

    def move(
        self, id: str, status: TaskStatus, *, note: str, of_attempt: int | None = None, **more: Any
    ) -> Task:
        """Change a task's status, if allowed; only in its attempt `of_attempt`, if given."""
        task = self.get(id)
        if of_attempt is not None:
            self._require_attempt(task, of_attempt)
        require_transition(task, status)
        open_ = [one.id for one in self._tasks.parts(id) if one.status not in DONE]
        if open_ and status is TaskStatus.COMPLETED:
            raise InvalidRequestError(f"task {id!r} has subtasks that are not done: {open_}")
        self._become(task, status, note=note, **more)
        self._settle(id)
        return self.get(id)

    def end(self, id: str, status: TaskStatus, *, note: str) -> Task:
        """Complete or skip a task by hand: also one that waits or was never begun."""
        task = self.get(id)
        open_ = [one.id for one in self._tasks.parts(id) if one.status not in DONE]
        if open_ and status is TaskStatus.COMPLETED:
            raise InvalidRequestError(f"task {id!r} has subtasks that are not done: {open_}")
        self._become(task, status, note=note)
        self._settle(id)
        return self.get(id)

    def begin(self, task: Task, worker: str, process: str, lease: timedelta) -> Task:
        """Begin a task for `worker`."""
        return self.move(
            task.id,
            TaskStatus.IN_PROGRESS,
            note="",
            assigned_to=worker,
            attempt=task.attempt + 1,
            process=process,
            **self._lapsing(process, lease),
        )

    def keep(self, id: str, attempt: int, lease: timedelta) -> Task:
        """Renew the lease of a task's worker."""
        self._require_attempt(self.get(id), attempt)
        task = self.get(id)
        self._put(replace(task, **self._lapsing(task.process, lease)))
        return self.get(id)

    def take_back(self, is_gone: Callable[[Lease], bool]) -> None:
        """Release the tasks of workers that are gone."""
        for id, lease in self._tasks.holders():
            if is_gone(lease):
                task = self.get(id)
                self._become(task, TaskStatus.PENDING, note=f"{task.assigned_to!r} is gone")
                self._settle(task.id)

    def wake(self) -> None:
        """Unblock tasks that are due, unless they wait for something else."""
        self._settle(*self._tasks.due(self._now))

    def rest(self, most: timedelta, *, while_held: timedelta) -> timedelta:
        """Return for how long nothing becomes ready unless the board is changed, at most `most`.

        At most `while_held` while a worker has a task: it may end without a write.
        """
        if self._tasks.holders():
            most = min(most, while_held)
        found = map(self._tasks.find, self._tasks.due(self._now + most))
        moments = [one.due for one in found if one is not None and one.due is not None]
        return min((one - self._now for one in moments if one > self._now), default=most)

    def retry(
        self, id: str, max_retries: int | None, note: str, due: datetime | None = None
    ) -> Task:
        """Reset a failed task so that it can begin again."""
        task = self.get(id)
        if task.status is not TaskStatus.FAILED:
            raise InvalidRequestError(
                f"task {id!r} is {task.status}: only one that failed is tried again"
            )
        if max_retries is not None and task.n_retries >= max_retries:
            raise InvalidRequestError(
                f"task {id!r} was tried again {task.n_retries} times already: raise max_retries"
            )
        return self.move(id, TaskStatus.PENDING, note=note, n_retries=task.n_retries + 1, due=due)

    def remove(self, id: str) -> list[str]:
        """Remove a task and its subtasks, unless others depend on them; returns their ids."""
        gone = [self.get(id)]
        for one in gone:
            gone.extend(self._tasks.parts(one.id))
        ids = [one.id for one in gone]
        for one in gone:
            for other in self._tasks.dependents(one.id):
                if other.id not in ids:
                    on = sorted(set(ids).intersection(other.depends_on))
                    raise InvalidRequestError(f"task {other.id!r} depends on {on}: remove it first")
        for one in reversed(gone):
            self.before.setdefault(one.id, one)
            self._tasks.remove(one)
        for one in gone:
            self._log(one, None)
        if gone[0].parent_id is not None:
            self._settle(gone[0].parent_id)
        return ids

    def is_settled(self, ids: Iterable[str]) -> bool:
        """Whether the status of each of these tasks is consistent with the others."""
        return all(self._by_itself(one)[0] is one.status for one in map(self.get, ids))

    # Helpers

    def _become(self, task: Task, status: TaskStatus, *, note: str, **more: Any) -> None:
        if status is TaskStatus.IN_PROGRESS:
            more["started_at"] = self._now
        else:
            more |= {"process": None, "until": None, "ticks": None}
        is_end = status in DONE or status is TaskStatus.FAILED
        new = replace(
            task,
            status=status,
            note=note or task.note,
            ended_at=self._now if is_end else None,
            **more,
        )
        self._put(new)
        self._log(task, self.get(task.id))

    def _lapsing(self, process: str | None, lease: timedelta) -> dict[str, Any]:
        """Return the end of that process's lease, by both clocks."""
        held = Lease(process=process).renewed(lease.total_seconds(), self._now.timestamp())
        return {"until": self._now + lease, "ticks": held.ticks}

    def _put(self, task: Task) -> None:
        self.before.setdefault(task.id, self._tasks.find(task.id))
        self._tasks.put(replace(task, updated_at=self._now))

    def _settle(self, *ids: str) -> None:
        """Block tasks that must wait, unblock others, and complete parents of completed subtasks.

        Starts with these tasks, and continues with those that a completion affects.
        """
        todo = [*reversed(ids)]
        while todo:
            if (task := self._tasks.find(todo.pop())) is None:
                continue
            wanted, note = self._by_itself(task)
            if wanted is not task.status:
                self._become(task, wanted, note=note)
            if wanted in DONE and (wanted is not task.status or task.id in ids):
                todo += self._concerned(task)

    def settle_all(self, ids: Iterable[str]) -> None:
        """Settle these tasks by the others' current status."""
        for id in ids:
            self._settle(id)

    def _concerned(self, task: Task) -> list[str]:
        """Return the tasks that a completion affects: dependents, with subtasks, and its parent."""
        found = []
        for one in self._tasks.dependents(task.id):
            found += [one.id, *self._below(one)]
        return found if task.parent_id is None else [*found, task.parent_id]

    def _below(self, task: Task) -> list[str]:
        """Return the subtasks of a task, recursively."""
        found = self._tasks.parts(task.id)
        for one in found:
            found.extend(self._tasks.parts(one.id))
        return [one.id for one in found]

    def _by_itself(self, task: Task) -> tuple[TaskStatus, str]:
        """Return the status of a task that follows from the others."""
        if task.status in DONE or task.status is TaskStatus.FAILED:
            return task.status, ""
        if task.status is not TaskStatus.IN_PROGRESS and (
            (task.due is not None and task.due > self._now) or self.waits_for(task.id)
        ):
            return TaskStatus.BLOCKED, ""
        parts = self._tasks.parts(task.id)
        if parts and all(one.status in DONE for one in parts):
            return TaskStatus.COMPLETED, f"All {len(parts)} subtasks completed"
        return TaskStatus.PENDING if task.status is TaskStatus.BLOCKED else task.status, ""

    @staticmethod
    def _require_attempt(task: Task, attempt: int) -> None:
        """Raise ConflictError if another attempt of the task began, or this one has ended."""
        if task.attempt != attempt or task.status is not TaskStatus.IN_PROGRESS:
            raise ConflictError(
                f"task {task.id!r} is {task.status} in attempt {task.attempt}: attempt {attempt} is "
                "over, and nothing was written"
            )

    def _require_dependency(self, id: str, on: str) -> None:
        if id == on:
            raise InvalidRequestError(
                f"task {id!r} cannot depend on itself: remove it from depends_on"
            )
        self.get(on)

    def _require_no_cycle(self, start: str) -> None:
        """Raise InvalidRequestError with the cycle, if a task would have to precede itself."""
        came: dict[str, str] = {}
        todo = [start]
        while todo:
            at = todo.pop()
            for one in self._needs(at):
                if one == start:
                    path = [at]
                    while path[-1] != start:
                        path.append(came[path[-1]])
                    raise _circle([*reversed(path), start])
                if one not in came:
                    came[one] = at
                    todo.append(one)

    def _needs(self, id: str) -> list[str]:
        """Return a task's prerequisites: its subtasks, and its and its parents' dependencies."""
        needed = [one.id for one in self._tasks.parts(id)]
        for task in self._with_parents(self.get(id)):
            needed.extend(one for one in task.depends_on if self._tasks.find(one) is not None)
        return needed

    def _with_parents(self, task: Task) -> Iterable[Task]:
        at: Task | None = task
        while at is not None:
            yield at
            at = None if at.parent_id is None else self._tasks.find(at.parent_id)

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


def _circle(ids: Iterable[str]) -> InvalidRequestError:
    """Return the error for a cycle in which each of these waits for the next."""
    shown = " -> ".join(map(repr, ids))
    return InvalidRequestError(f"these tasks would wait for each other: {shown}")
