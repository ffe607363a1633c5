"""The public interface of a store's jobs."""

import asyncio
import builtins
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Self

from lance_context_core._handle import handle
from lance_context_core._util.checks import check_span, check_time, listed, shown
from lance_context_core.errors import InvalidRequestError
from lance_context_core.jobs.queue import Queue
from lance_context_core.jobs.types import Job, JobBudget, JobState
from lance_context_core.maintenance.compaction import check_hours, is_within
from lance_context_core.types import Progress


@handle
class AsyncJobs:
    """The jobs of a store: lists, runs, cancels and retries them.

    Nothing runs automatically: a program, a thread or cron calls `run_due`, in any number of
    processes.
    """

    _queue: Queue
    _schedule: Callable[[], Awaitable[object]] | None = None
    """Creates jobs for turns without one, if supported."""

    async def list(
        self, *, state: JobState | None = None, kind: str | None = None, limit: int | None = None
    ) -> builtins.list[Job]:
        """Return jobs, oldest first: all, or those of a state or kind."""
        check_span(offset=0, limit=limit, last=None)
        return (await self._queue.list(state, kind))[:limit]

    async def get(self, job_id: str) -> Job:
        """Return the job with that id. Raises NotFoundError if it does not exist."""
        return await self._queue.get(job_id)

    async def run_due(
        self,
        now: datetime | None = None,
        *,
        limit: int | None = None,
        budget: JobBudget | None = None,
        quiet_hours: Iterable[tuple[int, int]] = (),
        progress: Callable[[Progress], object] | None = None,
    ) -> builtins.list[Job]:
        """Run the due jobs, oldest first, at most `limit`; returns them in their new state.

        A job is due if it is scheduled for `now` (by default the present) or earlier, or if its
        worker did not finish it before the lease ended. Each job is run by one process only. A job
        that is erased while it runs writes nothing, and is not returned. A failed job does not stop
        the others: it has its error, and is retried later, up to five times. The lease of a running
        job is renewed.

        - `budget`: limits the use of models in this run. The job that would exceed it, and those
          after it, stay scheduled.
        - `quiet_hours`: pairs of hours of the machine's local day, such as `(22, 6)`, in which
          nothing runs.
        - `progress`: called after each job, when its result is stored.
        """
        hours = _checked(quiet_hours)
        moment = self._queue.now() if now is None else check_time(now, "now")
        if is_within(hours, moment):
            return []
        return await self._queue.run_due(moment, limit=limit, budget=budget, progress=progress)

    def worker(
        self,
        *,
        every: timedelta = timedelta(seconds=10),
        budget: JobBudget | None = None,
        quiet_hours: Iterable[tuple[int, int]] = (),
        distill_every: timedelta | None = timedelta(days=1),
    ) -> "AsyncJobWorker":
        """Return a worker that calls `run_due` repeatedly, for an `async with` block.

        `every` is the pause between the calls, and `budget` applies to each call. Any number of
        workers may run, in other processes and threads too: each job is run by one. At its start,
        and then once per `distill_every`, a worker of the knowledge also creates jobs for all turns
        without one, as `knowledge.schedule` does; None disables this.
        """
        for name, given in (("every", every), ("distill_every", distill_every)):
            if given is None and name != "every":
                continue
            if not isinstance(given, timedelta) or given <= timedelta(0):
                raise InvalidRequestError(f"{name}={shown(given)}: give a timedelta above 0")
        return AsyncJobWorker(self, every, budget, _checked(quiet_hours), distill_every)

    async def cancel(self, job_id: str) -> Job:
        """Cancel an unfinished job; returns it.

        A worker that runs it loses it, and writes nothing. Raises InvalidRequestError for a
        finished job: `undo` it.
        """
        return await self._queue.cancel(job_id)

    async def retry(self, job_id: str) -> Job:
        """Reschedule a failed or cancelled job now, with its attempts reset; returns it."""
        return await self._queue.retry(job_id)


@dataclass(slots=True)
class AsyncJobWorker:
    """Runs due jobs until its block ends; finishes the current job first."""

    _jobs: AsyncJobs = field(repr=False)
    _every: timedelta = field(repr=False)
    _budget: JobBudget | None = field(repr=False)
    _quiet_hours: tuple[tuple[int, int], ...] = field(repr=False)
    _distill_every: timedelta | None = field(repr=False)
    error: Exception | None = None
    """The error of the last search for jobs; None if it succeeded."""
    _is_ending: bool = field(default=False, repr=False)
    _is_resting: bool = field(default=False, repr=False)
    _task: asyncio.Task[None] | None = field(default=None, repr=False)
    _scheduled_at: datetime | None = field(default=None, repr=False)

    async def __aenter__(self) -> Self:
        self._is_ending = False
        self._task = asyncio.create_task(self._work())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_ending = True
        if self._task is not None:
            if self._is_resting:
                self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        while not self._is_ending:
            try:
                await self._look_for_more()
                await self._jobs.run_due(budget=self._budget, quiet_hours=self._quiet_hours)
                self.error = None
            except Exception as error:  # noqa: BLE001 - told by `error`, and tried again
                self.error = error
            if self._is_ending:
                return  # No pause that the end of the block would wait for.
            self._is_resting = True
            await asyncio.sleep(self._every.total_seconds())
            self._is_resting = False

    async def _look_for_more(self) -> None:
        """Create jobs for turns without one, if that is due."""
        schedule, now = self._jobs._schedule, self._jobs._queue.now()  # noqa: SLF001
        if schedule is None or self._distill_every is None or is_within(self._quiet_hours, now):
            return
        if self._scheduled_at is None or now - self._scheduled_at >= self._distill_every:
            await schedule()
            self._scheduled_at = now


def _checked(quiet_hours: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    hours = tuple(listed(quiet_hours, "quiet_hours"))
    check_hours(hours)
    return hours
