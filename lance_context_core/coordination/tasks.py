"""Task boards: tasks with order, dependencies and workers."""

import builtins
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from lance_context_core._handle import handle
from lance_context_core._loop import WOULD_BLOCK, WouldBlock
from lance_context_core._resources import Resources
from lance_context_core._util.checks import (
    check_count,
    check_name,
    check_span,
    check_text,
    check_time,
    shown,
)
from lance_context_core.coordination import task_changes, task_types
from lance_context_core.coordination.conversations import current_conversation
from lance_context_core.coordination.task_arguments import (
    attempt_of,
    checked_task,
    checked_tasks,
    claimed,
    duration,
    lease_of,
    name_or_none,
    object_or_none,
    status_of,
)
from lance_context_core.coordination.task_changes import NAME, Change, Changes
from lance_context_core.coordination.task_graph import Graph
from lance_context_core.coordination.task_runner import (
    Runner,
    TaskHandler,
    WorkDone,
    check_handler,
)
from lance_context_core.coordination.task_types import (
    Priority,
    Task,
    TaskEvent,
    TaskStats,
    TaskStatus,
)
from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.scope import Scope
from lance_context_core.storage import leases
from lance_context_core.storage.leases import Lease
from lance_context_core.stores.key_values import AsyncKeyValues

T = TypeVar("T")

TASK_LEASE = timedelta(minutes=5)
_ALIVE_FOR_SECONDS = 0.1
"""Time before a worker seen alive is checked again, if other work is left."""

TaskOutcome = Literal["succeeded", "failed", "cancelled"]
"""The outcome of a run of agents."""

_SETTLED: dict[str, TaskStatus] = {
    "succeeded": TaskStatus.COMPLETED,
    "failed": TaskStatus.FAILED,
    "cancelled": TaskStatus.PENDING,
}


@handle
class AsyncTaskStore:
    """The task boards of a store."""

    _resources: Resources
    _scope: Scope

    def board(self, name: str = "default") -> "AsyncTaskBoard":
        """Return the board of that name, which need not exist.

        Plans and conversations have boards, too.
        """
        return AsyncTaskBoard(check_name(name, "name"), self._resources, self._scope)

    def here(self) -> "AsyncTaskBoard":
        """Return the board of the current agent and conversation: see `conversation`.

        Raises InvalidRequestError outside any, so that agents never share one by accident.
        """
        return self.board(current_conversation().board)

    async def boards(self) -> list[str]:
        """Return the names of existing boards, in order."""
        items = AsyncKeyValues(NAME, self._resources, self._scope)
        return [one[0] for one in await items.namespaces(max_depth=1)]

    async def delete_board(self, name: str) -> bool:
        """Delete a board with its tasks and their history; returns whether it existed."""
        items = AsyncKeyValues(NAME, self._resources, self._scope)
        return await items.delete_under((check_name(name, "name"),)) > 0


@handle
class AsyncTaskBoard:
    """A board of tasks; each change of it is one atomic commit."""

    name: str
    _resources: Resources = field(repr=False)
    _scope: Scope = field(repr=False)

    # Reading

    async def get(self, id: str) -> Task:
        """Return a task. Raises NotFoundError if it does not exist."""
        (item,) = await self._changes.items.get([(self._changes.tasks, check_name(id, "id"))])
        if item is None:
            raise NotFoundError(f"no task {id!r} on this board: list the tasks with board.list")
        return task_types.task_of(item.value or {})

    async def list(
        self, *, status: str | None = None, parent_id: str | None = None
    ) -> builtins.list[Task]:
        """Return tasks in the order of addition: all, of one status, or subtasks of one."""
        wanted = None if status is None else status_of(status)
        parent_id = name_or_none(parent_id, "parent_id")
        return [
            one
            for one in (await self._changes.listed()).by_id.values()
            if wanted in (None, one.status) and parent_id in (None, one.parent_id)
        ]

    async def ready(self, *, limit: int | None = None) -> builtins.list[Task]:
        """Return the tasks that can begin: most urgent first, then in the order of addition."""
        check_span(offset=0, limit=limit, last=None)
        tasks = await self._changes.listed()
        Graph(tasks, self._resources.clock.now()).wake()
        return tasks.ready()[:limit]

    async def waits_for(self, id: str) -> builtins.list[str]:
        """Return the ids of unfinished prerequisites of a task; empty if it can begin."""
        graph = Graph(await self._changes.listed(), self._resources.clock.now())
        return graph.waits_for(check_name(id, "id"))

    async def progress(self, id: str | None = None) -> float:
        """Return the progress of a task or all, in [0, 1]; begun ones count half."""
        task = None if id is None else await self.get(id)
        return task_changes.progress(await self._changes.listed(), task)

    async def stats(self) -> TaskStats:
        """Return the statistics of the board."""
        return task_changes.stats(await self._changes.listed())

    async def tree(self) -> str:
        """Return a text tree of tasks (○ ◐ ● ✗ ◌ ⊘), or `No tasks`."""
        return task_changes.tree(await self._changes.listed())

    async def history(self, id: str | None = None) -> builtins.list[TaskEvent]:
        """Return the history of a task, or of all, oldest first."""
        id = name_or_none(id, "id")
        rows = await self._changes.items.list(namespace=self._changes.history)
        events = [event for one in rows for event in task_types.events_of(one.value or {})]
        return [one for one in events if id in (None, one.task_id)]

    # Changing

    async def add(
        self,
        title: str,
        *,
        id: str | None = None,
        priority: Priority | int | str = Priority.NORMAL,
        parent_id: str | None = None,
        depends_on: Sequence[str] = (),
        note: str = "",
        payload: Mapping[str, Any] | None = None,
        due: datetime | None = None,
    ) -> Task:
        """Add a task, as a subtask of `parent_id` if given.

        It is blocked while a dependency in `depends_on`, or one of its parents, is not done, and
        until it is `due`. The `payload` is for its worker, as JSON. Raises InvalidRequestError for
        a blank title, an existing id, and a cycle, which it names; NotFoundError for an unknown
        task.
        """
        one = checked_task(
            title,
            id=id,
            priority=priority,
            parent_id=parent_id,
            depends_on=depends_on,
            note=note,
            payload=payload,
            due=due,
        )
        (task,) = await self._add([one])
        return task

    async def add_many(self, tasks: Iterable[str | Mapping[str, Any]]) -> builtins.list[Task]:
        """Add tasks in this order, all in one commit or none; returns them.

        Each is a title, or a mapping of the arguments of `add`. They may depend on each other, and
        be subtasks of each other, in any order. Raises the errors of `add`, and InvalidRequestError
        for a duplicate id.
        """
        return await self._add(checked_tasks(tasks))

    async def depend(self, id: str, on: str) -> Task:
        """Add a dependency to an unstarted task. Raises InvalidRequestError for a cycle."""
        id, on = check_name(id, "id"), check_name(on, "on")

        def change(graph: Graph, _: int) -> Task:
            graph.depend(id, on)
            return graph.get(id)

        return await self._change(change)

    async def claim(
        self, worker: str, *, lease: timedelta = TASK_LEASE, wait: timedelta | None = None
    ) -> Task | None:
        """Claim the next ready task, exclusively; returns None if none is ready.

        With `wait`, None only if none becomes ready in that time, in any process. Waiting claims of
        one event loop get tasks in the order in which they began to wait. A task in progress is
        ready again if its process has ended, or its worker did not renew its `lease`. See
        `heartbeat`.
        """
        seconds = 0.0 if wait is None else duration(wait, "wait").total_seconds()
        tasks = await self.claim_many(worker, limit=1, lease=lease)
        if tasks or not seconds:
            return next(iter(tasks), None)
        claim = self._claiming(worker, 1, (), lease)
        return await task_changes.claimed(
            self._changes, claim, give_back=self._given_back, seconds=seconds
        )

    def _claim_at_once(
        self, worker: str, *, lease: timedelta = TASK_LEASE, wait: timedelta | None = None
    ) -> Task | WouldBlock | None:
        if wait is not None:
            return WOULD_BLOCK
        tasks = self._claim_many_at_once(worker, limit=1, lease=lease)
        return tasks if tasks is WOULD_BLOCK else next(iter(tasks), None)

    async def claim_many(
        self,
        worker: str,
        *,
        limit: int,
        completed: Sequence[Task] = (),
        lease: timedelta = TASK_LEASE,
    ) -> builtins.list[Task]:
        """Claim up to `limit` ready tasks, each as `claim` does, in one commit.

        Before that, in the same commit, the claimed tasks in `completed` are completed, as by
        `complete_many`. For a worker with many short tasks: a commit costs more than a task.
        """
        change = self._claiming(worker, limit, completed, lease)
        return await self._changes.make(change, give_back=self._given_back)

    def _claim_many_at_once(
        self,
        worker: str,
        *,
        limit: int,
        completed: Sequence[Task] = (),
        lease: timedelta = TASK_LEASE,
    ) -> builtins.list[Task] | WouldBlock:
        return self._changes.make_now(self._claiming(worker, limit, completed, lease))

    def _claiming(
        self, worker: str, limit: int, completed: Sequence[Task], lease: timedelta
    ) -> Change[builtins.list[Task]]:
        worker, lease = check_name(worker, "worker"), lease_of(lease)
        check_count(limit, "limit")
        done = claimed(completed, "completed")

        def change(graph: Graph, _: int) -> builtins.list[Task]:
            _complete(graph, done, "")
            graph.take_back(self._is_gone)
            graph.wake()
            tasks = graph.next(limit)
            if not tasks:
                # Before returning nothing, check whether a worker has died just now.
                seen = set[str]()
                graph.take_back(lambda one: self._is_gone(one, seen))
                tasks = graph.next(limit)
            return [graph.begin(one, worker, leases.mine(), lease) for one in tasks]

        return change

    async def heartbeat(self, id: str, *, attempt: int, lease: timedelta = TASK_LEASE) -> Task:
        """Renew the lease of a task. Raises ConflictError if another worker began it again."""
        id, lease = check_name(id, "id"), lease_of(lease)
        attempt = check_count(attempt, "attempt")

        def change(graph: Graph, _: int) -> Task:
            return graph.keep(id, attempt, lease)

        return await self._change(change)

    async def complete(
        self,
        id: str,
        *,
        attempt: int | None = None,
        note: str = "",
        result: Mapping[str, Any] | None = None,
    ) -> Task:
        """Complete a begun task. Its dependents become ready, and its parent may be completed.

        `attempt` is that of the claim: raises ConflictError if it is over. The `result` is stored
        with the task, as JSON.
        """
        more = {"result": object_or_none(result, "result")}
        return await self._change(_moving(id, TaskStatus.COMPLETED, attempt, note, more))

    def _complete_at_once(
        self,
        id: str,
        *,
        attempt: int | None = None,
        note: str = "",
        result: Mapping[str, Any] | None = None,
    ) -> Task | WouldBlock:
        more = {"result": object_or_none(result, "result")}
        return self._changes.make_now(_moving(id, TaskStatus.COMPLETED, attempt, note, more))

    async def complete_many(self, tasks: Sequence[Task], *, note: str = "") -> builtins.list[Task]:
        """Complete claimed tasks: all in one commit, or none.

        Raises ConflictError if the attempt of one is over: it names that one.
        """
        done, note = claimed(tasks, "tasks"), check_text(note, "note")
        return await self._change(lambda graph, _: _complete(graph, done, note))

    async def fail(self, id: str, *, attempt: int | None = None, note: str = "") -> Task:
        """Fail a begun task, which may be retried. `attempt` as for `complete`."""
        return await self._move(id, TaskStatus.FAILED, attempt, note)

    async def release(self, id: str, *, attempt: int | None = None, note: str = "") -> Task:
        """Release a begun task for other workers. `attempt` as for `complete`."""
        id, note, attempt = (
            check_name(id, "id"),
            check_text(note, "note"),
            attempt_of(attempt),
        )

        def change(graph: Graph, _: int) -> Task:
            if (task := graph.get(id)).status is not TaskStatus.IN_PROGRESS:
                raise InvalidRequestError(
                    f"task {id!r} is {task.status}, not in progress: claim it first"
                )
            return graph.move(id, TaskStatus.PENDING, note=note, of_attempt=attempt)

        return await self._change(change)

    async def skip(self, id: str, *, note: str = "") -> Task:
        """Skip a task; its dependents wait no more."""
        return await self._move(id, TaskStatus.SKIPPED, None, note)

    async def retry(
        self,
        id: str,
        *,
        max_retries: int | None = None,
        note: str = "",
        due: datetime | None = None,
    ) -> Task:
        """Retry a failed task, unless it was retried `max_retries` times already.

        It is blocked until it is `due`: for a backoff, set it later with each of its `n_retries`.
        """
        id, note = check_name(id, "id"), check_text(note, "note")
        if max_retries is not None:
            check_count(max_retries, "max_retries", least=0)
        until = None if due is None else check_time(due, "due")
        return await self._change(lambda graph, _: graph.retry(id, max_retries, note, until))

    async def delete(self, id: str) -> builtins.list[str]:
        """Delete a task with its subtasks; returns their ids. Others must not depend on them."""
        id = check_name(id, "id")
        return await self._change(lambda graph, _: (graph.get(id), graph.remove(id))[1])

    async def work(
        self,
        handler: TaskHandler,
        *,
        worker: str,
        n_at_once: int = 1,
        timeout: timedelta | None = None,
        max_retries: int = 0,
        backoff: timedelta = timedelta(seconds=1),
        lease: timedelta = TASK_LEASE,
        until_empty: bool = False,
    ) -> WorkDone:
        """Claim task after task, call `handler` with each, and write what came of it.

        A task is completed with what the handler returns; if it raises, or takes longer than
        `timeout`, the task fails, and is retried up to `max_retries` times, after `backoff`, which
        doubles with each retry up to an hour. A coroutine function is cancelled at the timeout, and
        within a second of its task being skipped, deleted or taken over; another function runs in a
        thread, which cannot be stopped: what it returns then is ignored. Leases are renewed. Up to
        `n_at_once` tasks run at a time. With `until_empty` returns when no task is ready;
        else works until it is cancelled, which releases the tasks that run.
        """
        if timeout is not None:
            duration(timeout, "timeout", least=timedelta(microseconds=1))
        runner = Runner(
            board=self,
            handler=check_handler(handler),
            worker=check_name(worker, "worker"),
            timeout=timeout,
            max_retries=check_count(max_retries, "max_retries", least=0),
            backoff=duration(backoff, "backoff"),
            lease=lease_of(lease),
            until_empty=until_empty,
        )
        return await runner.run(check_count(n_at_once, "n_at_once"))

    async def settle(
        self, outcome: TaskOutcome, *, worker: str | None = None
    ) -> builtins.list[Task]:
        """End the tasks in progress of a run, or of one worker, with its outcome.

        Completes them if it `succeeded`, fails them if it `failed`, and releases them if it was
        `cancelled`. Returns these tasks.
        """
        if outcome not in _SETTLED:
            raise InvalidRequestError(f"outcome={shown(outcome)}: use one of {', '.join(_SETTLED)}")
        worker = name_or_none(worker, "worker")

        def change(graph: Graph, _: int) -> builtins.list[Task]:
            begun = [one.id for one in graph.begun() if worker in (None, one.assigned_to)]
            for one in begun:
                graph.move(one, _SETTLED[outcome], note=f"the run {outcome}")
            return [graph.get(one) for one in begun]

        return await self._change(change)

    # Helpers

    async def _fail_attempt(self, task: Task, note: str, retry_after: timedelta | None) -> None:
        due = None if retry_after is None else self._resources.clock.now() + retry_after

        def change(graph: Graph, _: int) -> None:
            graph.move(task.id, TaskStatus.FAILED, note=note, of_attempt=task.attempt)
            if due is not None:
                graph.retry(task.id, None, note, due)

        await self._change(change)

    async def _add(self, new: Sequence[Mapping[str, Any]]) -> builtins.list[Task]:
        return await self._apply(new, lambda graph: [graph.get(one["id"]) for one in new])

    async def _apply(self, new: Sequence[Mapping[str, Any]], then: Callable[[Graph], T]) -> T:
        """Add tasks, and make another change, in one commit."""
        now = self._resources.clock.now()

        def change(graph: Graph, order: int) -> T:
            graph.add_all(
                [
                    Task(order=place, created_at=now, updated_at=now, **one)
                    for place, one in enumerate(new, order)
                ]
            )
            return then(graph)

        return await self._change(change)

    @property
    def _changes(self) -> Changes:
        return Changes(self.name, self._resources, self._scope)

    def _is_gone(self, holder: Lease, seen: set[str] | None = None) -> bool:
        """Whether others may take a held task; workers `seen` alive are not checked again."""
        seconds = _ALIVE_FOR_SECONDS if seen is None or holder.process in seen else 0.0
        now = self._resources.clock.now().timestamp()
        is_gone = holder.is_free(now, seen_within_seconds=seconds)
        if not is_gone and seen is not None and holder.process is not None:
            seen.add(holder.process)
        return is_gone

    async def _given_back(self, tasks: builtins.list[Task]) -> None:
        for one in tasks:
            await self.release(one.id, attempt=one.attempt, note="the claim was cancelled")

    async def _move(self, id: str, status: TaskStatus, attempt: int | None, note: str) -> Task:
        return await self._change(_moving(id, status, attempt, note))

    async def _change(self, change: Change[T]) -> T:
        """Apply `change` to the current board, and write the changed tasks, in one commit."""
        return await self._changes.make(change)


def _moving(
    id: str,
    status: TaskStatus,
    attempt: int | None,
    note: str,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> Change[Task]:
    id, note, attempt = check_name(id, "id"), check_text(note, "note"), attempt_of(attempt)
    return lambda graph, _: graph.move(id, status, note=note, of_attempt=attempt, **more)


def _complete(graph: Graph, tasks: Sequence[Task], note: str) -> list[Task]:
    """Complete these tasks in their claimed attempts."""
    for one in tasks:
        graph.move(one.id, TaskStatus.COMPLETED, note=note, of_attempt=one.attempt)
    return [graph.get(one.id) for one in tasks]
