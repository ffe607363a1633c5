"""Boards of tasks, from synchronous code."""

import builtins
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from lance_context_core._loop import block_on
from lance_context_core.coordination.tasks.board import (
    TASK_LEASE,
    AsyncTaskBoard,
    AsyncTaskStore,
    TaskOutcome,
)
from lance_context_core.coordination.tasks.values import Priority, Task, TaskEvent, TaskStats


@dataclass(frozen=True, slots=True)
class TaskStore:
    """The boards of a store; `AsyncTaskStore` is the asynchronous one."""

    _aio: AsyncTaskStore

    def board(self, name: str = "default") -> "TaskBoard":
        """The board of that name; it need not exist yet. See `AsyncTaskStore.board`."""
        return TaskBoard(self._aio.board(name))

    def boards(self) -> list[str]:
        """The names of the boards that there are. See `AsyncTaskStore.boards`."""
        return block_on(self._aio.boards())

    def delete_board(self, name: str) -> bool:
        """Forget a board with its tasks. See `AsyncTaskStore.delete_board`."""
        return block_on(self._aio.delete_board(name))


@dataclass(frozen=True, slots=True)
class TaskBoard:
    """Tasks that belong together; `AsyncTaskBoard` is the asynchronous one."""

    _aio: AsyncTaskBoard

    @property
    def name(self) -> str:
        """What the board is called."""
        return self._aio.name

    def get(self, id: str) -> Task:
        """A task. See `AsyncTaskBoard.get`."""
        return block_on(self._aio.get(id))

    def list(
        self, *, status: str | None = None, parent_id: str | None = None
    ) -> builtins.list[Task]:
        """The tasks in the order of adding. See `AsyncTaskBoard.list`."""
        return block_on(self._aio.list(status=status, parent_id=parent_id))

    def ready(self, *, limit: int | None = None) -> builtins.list[Task]:
        """What may be begun, the most urgent first. See `AsyncTaskBoard.ready`."""
        return block_on(self._aio.ready(limit=limit))

    def waits_for(self, id: str) -> builtins.list[str]:
        """What is to be done before a task. See `AsyncTaskBoard.waits_for`."""
        return block_on(self._aio.waits_for(id))

    def progress(self, id: str | None = None) -> float:
        """How far a task is, or all of them. See `AsyncTaskBoard.progress`."""
        return block_on(self._aio.progress(id))

    def stats(self) -> TaskStats:
        """How far the board is. See `AsyncTaskBoard.stats`."""
        return block_on(self._aio.stats())

    def tree(self) -> str:
        """The tasks as lines of text. See `AsyncTaskBoard.tree`."""
        return block_on(self._aio.tree())

    def history(self, id: str | None = None) -> builtins.list[TaskEvent]:
        """What became of a task, or of all. See `AsyncTaskBoard.history`."""
        return block_on(self._aio.history(id))

    def add(
        self,
        title: str,
        *,
        id: str | None = None,
        priority: Priority | int | str = Priority.NORMAL,
        parent_id: str | None = None,
        depends_on: Sequence[str] = (),
        note: str = "",
    ) -> Task:
        """Add a task. See `AsyncTaskBoard.add`."""
        return block_on(
            self._aio.add(
                title,
                id=id,
                priority=priority,
                parent_id=parent_id,
                depends_on=depends_on,
                note=note,
            )
        )

    def depend(self, id: str, on: str) -> Task:
        """Let a task wait for another. See `AsyncTaskBoard.depend`."""
        return block_on(self._aio.depend(id, on))

    def claim(self, worker: str, *, lease: timedelta = TASK_LEASE) -> Task | None:
        """Begin the next task that is ready. See `AsyncTaskBoard.claim`."""
        return block_on(self._aio.claim(worker, lease=lease))

    def heartbeat(self, id: str, *, attempt: int, lease: timedelta = TASK_LEASE) -> Task:
        """Say that one is at a task still. See `AsyncTaskBoard.heartbeat`."""
        return block_on(self._aio.heartbeat(id, attempt=attempt, lease=lease))

    def complete(self, id: str, *, attempt: int | None = None, note: str = "") -> Task:
        """A task that is begun is done. See `AsyncTaskBoard.complete`."""
        return block_on(self._aio.complete(id, attempt=attempt, note=note))

    def fail(self, id: str, *, attempt: int | None = None, note: str = "") -> Task:
        """A task that is begun was not done. See `AsyncTaskBoard.fail`."""
        return block_on(self._aio.fail(id, attempt=attempt, note=note))

    def release(self, id: str, *, attempt: int | None = None, note: str = "") -> Task:
        """Give back a task that is begun. See `AsyncTaskBoard.release`."""
        return block_on(self._aio.release(id, attempt=attempt, note=note))

    def skip(self, id: str, *, note: str = "") -> Task:
        """A task is not to be done. See `AsyncTaskBoard.skip`."""
        return block_on(self._aio.skip(id, note=note))

    def retry(self, id: str, *, max_retries: int | None = None, note: str = "") -> Task:
        """Have a task that failed begun anew. See `AsyncTaskBoard.retry`."""
        return block_on(self._aio.retry(id, max_retries=max_retries, note=note))

    def delete(self, id: str) -> builtins.list[str]:
        """Forget a task with its subtasks. See `AsyncTaskBoard.delete`."""
        return block_on(self._aio.delete(id))

    def settle(self, outcome: TaskOutcome, *, worker: str | None = None) -> builtins.list[Task]:
        """A run has ended, and with it what was begun. See `AsyncTaskBoard.settle`."""
        return block_on(self._aio.settle(outcome, worker=worker))
