"""The jobs of a store, as its users see them."""

import builtins
from dataclasses import dataclass
from datetime import datetime

from lance_context_core.jobs.queue import Queue
from lance_context_core.jobs.values import Job, JobState


@dataclass(frozen=True, slots=True)
class AsyncJobs:
    """The jobs of a store: what is owed, what runs, what became of it.

    Nothing runs by itself: a program, a thread or cron calls `run_due`, in as many processes as it
    likes.
    """

    _queue: Queue

    async def list(
        self,
        *,
        state: JobState | None = None,
        kind: str | None = None,
        limit: int | None = None,
    ) -> builtins.list[Job]:
        """Jobs in the order in which they were submitted: all, or those of a state or kind."""
        return await self._queue.list(state=state, kind=kind, limit=limit)

    async def get(self, job_id: str) -> Job:
        """The job with that id. Raises NotFoundError if there is none."""
        return await self._queue.get(job_id)

    async def run_due(
        self, now: datetime | None = None, *, limit: int | None = None
    ) -> builtins.list[Job]:
        """Run the jobs that are due, the oldest first, at most `limit`; returns what became of them.

        Due is what is scheduled for `now` (by default this moment) or earlier, and what a worker has
        taken and not finished before its lease ended. Of several processes each job is run by one.
        A job that fails does not stop the others: it says why, and is due again later, up to five
        times.
        """
        return await self._queue.run_due(now, limit=limit)

    async def cancel(self, job_id: str) -> Job:
        """Let a job that is not finished never run; returns it.

        Who is running it loses it, and writes nothing. Raises InvalidRequestError for one that is
        finished: `undo` it.
        """
        return await self._queue.cancel(job_id)

    async def retry(self, job_id: str) -> Job:
        """Let a job that failed, or was cancelled, be due at once, with all its attempts before it."""
        return await self._queue.retry(job_id)
