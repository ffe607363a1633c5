"""A worker that runs a function on the tasks of a board, one after the other or several at once."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lance_context_core._util.checks import shown
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.coordination.task_types import Task, TaskStatus
from lance_context_core.errors import ConflictError, InvalidRequestError, NotFoundError

if TYPE_CHECKING:
    from lance_context_core.coordination.tasks import AsyncTaskBoard

TaskHandler = Callable[[Task], Mapping[str, Any] | Awaitable[Mapping[str, Any] | None] | None]
"""Does the work of a task, and returns its result, as JSON, or None. May be a coroutine function."""

_LOOKED_AT_SECONDS = 0.5
"""How often a task that runs is checked for having been skipped or taken over."""
_WAIT = timedelta(seconds=1)
_LONGEST_BACKOFF = timedelta(hours=1)
_LONGEST_NOTE = 500


@frozen_by_name
class WorkDone:
    """What a worker did."""

    n_completed: int = 0
    n_failed: int = 0
    """Attempts that failed, those that were retried included."""
    n_retried: int = 0
    n_cancelled: int = 0
    """Tasks that were skipped, deleted or taken over while they ran."""


@frozen_by_name
class Runner:
    """The loop of one worker."""

    board: "AsyncTaskBoard"
    handler: TaskHandler
    worker: str
    timeout: timedelta | None
    max_retries: int
    backoff: timedelta
    lease: timedelta
    until_empty: bool
    done: dict[str, int] = field(default_factory=dict)

    async def run(self, n_at_once: int) -> WorkDone:
        """Work until there is nothing to do, or until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(n_at_once):
                group.create_task(self._loop())
        return WorkDone(**self.done)

    async def _loop(self) -> None:
        wait = None if self.until_empty else _WAIT
        while True:
            task = await self.board.claim(self.worker, lease=self.lease, wait=wait)
            if task is not None:
                await self._attempt(task)
            elif self.until_empty:
                return

    async def _attempt(self, task: Task) -> None:
        """Run the handler, and write what came of it."""
        running = asyncio.ensure_future(self._handled(task))
        try:
            error = await self._watched(task, running)
            if error is not None:
                await self._fail(task, error)
            elif (raised := running.exception()) is not None:
                if not isinstance(raised, Exception):
                    raise raised
                await self._fail(task, f"{type(raised).__name__}: {raised}")
            else:
                await self._complete(task, running.result())
        except (ConflictError, NotFoundError):  # skipped, deleted, or begun by another worker
            self._count("n_cancelled")
        except asyncio.CancelledError:
            await _ended(running)
            await self.board.release(task.id, attempt=task.attempt, note="its worker was stopped")
            raise
        finally:
            await _ended(running)

    async def _handled(self, task: Task) -> Any:
        if inspect.iscoroutinefunction(self.handler):
            return await self.handler(task)
        result = await asyncio.to_thread(self.handler, task)
        return await result if inspect.isawaitable(result) else result

    async def _watched(self, task: Task, running: "asyncio.Future[Any]") -> str | None:
        """Wait for the handler; return why it was stopped, if it was.

        Raises ConflictError or NotFoundError if this attempt of the task is over.
        """
        begun = time.monotonic()
        end = None if self.timeout is None else begun + self.timeout.total_seconds()
        pause = min(_LOOKED_AT_SECONDS, self.lease.total_seconds() / 3)
        renewed = begun
        while True:
            now = time.monotonic()
            left = pause if end is None else min(pause, max(end - now, 0))
            done, _ = await asyncio.wait({running}, timeout=left)
            if done:
                return None
            now = time.monotonic()
            if end is not None and now >= end:
                return f"it took longer than timeout={self.timeout}"
            if now - renewed >= self.lease.total_seconds() / 3:
                await self.board.heartbeat(task.id, attempt=task.attempt, lease=self.lease)
                renewed = now
            else:
                held = await self.board.get(task.id)
                if (held.attempt, held.status) != (task.attempt, TaskStatus.IN_PROGRESS):
                    raise ConflictError(f"attempt {task.attempt} of task {task.id!r} is over")

    async def _complete(self, task: Task, result: Any) -> None:
        try:
            await self.board.complete(task.id, attempt=task.attempt, result=result)
        except InvalidRequestError as error:  # such as a result that is no JSON
            await self._fail(task, str(error))
        else:
            self._count("n_completed")

    async def _fail(self, task: Task, note: str) -> None:
        """Fail the attempt; with retries left, and in the same commit, plan the next one."""
        is_retried = task.n_retries < self.max_retries
        delay = min(self.backoff * 2 ** min(task.n_retries, 30), _LONGEST_BACKOFF)
        await self.board._fail_attempt(  # noqa: SLF001 - one commit
            task, note[:_LONGEST_NOTE], retry_after=delay if is_retried else None
        )
        self._count("n_failed")
        if is_retried:
            self._count("n_retried")

    def _count(self, what: str) -> None:
        self.done[what] = self.done.get(what, 0) + 1


async def _ended(running: "asyncio.Future[Any]") -> None:
    """Cancel what runs, and wait for it to end; a thread cannot be stopped, and is not waited for."""
    if not running.done():
        running.cancel()
        await asyncio.wait({running})


def check_handler(handler: object) -> TaskHandler:
    """Return the function. Raises InvalidRequestError if it cannot be called."""
    if not callable(handler):
        raise InvalidRequestError(f"handler={shown(handler)}: give a function of a Task")
    return handler
