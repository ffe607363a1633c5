"""The job queue: submission, leases, and commits of results."""

import asyncio
import builtins
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import field, replace
from datetime import datetime, timedelta
from typing import Any

from lance_context_core._progress import check_progress, tell
from lance_context_core._resources import Resources
from lance_context_core._util.checks import check_name, check_span, shown
from lance_context_core._util.frozen import frozen
from lance_context_core._util.logs import log
from lance_context_core._util.retry import ATTEMPTS, Attempts
from lance_context_core.errors import (
    ConflictError,
    InvalidRequestError,
    ModelAnswerError,
    ModelError,
    NotFoundError,
)
from lance_context_core.filters import RECORD_FIELDS
from lance_context_core.jobs import commits
from lance_context_core.jobs.commits import Held, Outcome, implied
from lance_context_core.jobs.types import (
    JOB_STATES,
    KIND,
    SPENDING,
    USAGE,
    Job,
    JobBudget,
    JobState,
    OverBudget,
    Spending,
    Stopped,
    from_record,
    to_record,
)
from lance_context_core.scope import Scope
from lance_context_core.storage import sql
from lance_context_core.storage.leases import Lease, LeaseRenewer
from lance_context_core.stores.records.scoped import Records
from lance_context_core.types import Progress

Decide = Callable[[], Awaitable[Outcome]]
"""Computes the writes from the current records; called again if these have changed."""

Handler = Callable[[Job], Awaitable[Decide]]
"""Does the slow part of a job, once; raises InvalidRequestError if a retry cannot help."""

Jobs = builtins.list[Job]

LEASE = timedelta(minutes=5)
RENEWAL = LEASE / 5
"""The interval of lease renewals; several may fail before the lease ends."""
MAX_ATTEMPTS = 5
_TRIES = 3 * ATTEMPTS
"""Of one process; several may add to one fact all the time, and each has a share of the successes."""
_FIRST_PAUSE = timedelta(seconds=30)
_LONGEST_PAUSE = 7
"""Number of times that the pause doubles: to somewhat more than an hour."""

_JOBS = sql.equals("kind", KIND)


@frozen
class Queue:
    """The jobs of one view of the records, with the handlers of their kinds."""

    _records: Records
    _handlers: Mapping[str, Handler] = field(default_factory=dict)

    @property
    def resources(self) -> Resources:
        """The resources shared by all handles of the store."""
        return self._records.resources

    @property
    def scope(self) -> Scope:
        """The owner of the jobs."""
        return self._records.scope

    async def list(self, state: JobState | None = None, kind: str | None = None) -> Jobs:
        """Return jobs, oldest first: all, or those of a state or kind."""
        if state is not None and state not in JOB_STATES:
            raise InvalidRequestError(f"state={shown(state)}: use one of {', '.join(JOB_STATES)}")
        wanted: dict[str, Any] = {} if state is None else {"state": state}
        if kind is not None:
            wanted["kind"] = check_name(kind, "kind")
        found = await self._found(wanted)
        if state in (None, "scheduled"):
            found = _in_order(
                found, [one for one in await self._owed() if kind in (None, one.kind)]
            )
        return found

    async def get(self, job_id: str) -> Job:
        """Return the job with that id. Raises NotFoundError if it does not exist."""
        name = check_name(job_id, "job_id")
        found = await commits.held(self._records, _JOBS, sql.equals("id", name))
        if not found and (owed := await self._owed_as(name)) is not None:
            return owed
        return from_record((found or [await self._held(name)])[0].record)

    def now(self) -> datetime:
        """The current moment in UTC."""
        return self._records.now()

    async def run_due(
        self,
        moment: datetime,
        *,
        limit: int | None = None,
        budget: JobBudget | None = None,
        progress: Callable[[Progress], object] | None = None,
    ) -> builtins.list[Job]:
        """Run due jobs, oldest first; returns those that were taken and still exist."""
        check_progress(progress)
        check_span(offset=0, limit=limit, last=None)
        spending = Spending(_checked(budget))
        token = SPENDING.set(spending)
        try:
            return await self._run_due(moment, limit, progress)
        finally:
            SPENDING.reset(token)

    async def _run_due(
        self,
        moment: datetime,
        limit: int | None,
        progress: Callable[[Progress], object] | None,
    ) -> builtins.list[Job]:
        done: builtins.list[Job] = []
        kept = await self._found({"state": {"$in": ["scheduled", "running"]}})
        owed = {one.id: one for one in await self._owed()}
        due = [
            job
            for job in _in_order(kept, owed.values())
            if job.kind in self._handlers and _is_due(job, moment)
        ]
        for n, job in enumerate(due):
            if limit is not None and len(done) >= limit:
                break
            try:
                if job.id in owed:
                    after = await self.run_new(job, moment)
                else:
                    after = await self.run(job.id, moment)
            except OverBudget:
                break
            except NotFoundError:
                if await commits.held(self._records, _JOBS, sql.equals("id", job.id)):
                    raise
                after = None  # It was erased meanwhile, with the turns it saw.
            done += [] if after is None else [after]
            # Jobs of other workers do not count towards the limit.
            n_total = len(due) if limit is None else min(len(due), max(limit, n + 1))
            now = Progress(n_done=n + 1, n_total=n_total, what="jobs", name=job.id)
            await tell(progress, now)
        return done

    async def cancel(self, job_id: str) -> Job:
        """Cancel an unfinished job; returns it.

        A worker that runs it loses it, and writes nothing. Raises InvalidRequestError for a
        finished job: `undo` it.
        """
        return await self._moved(job_id, ("scheduled", "running", "failed"), "cancelled")

    async def retry(self, job_id: str) -> Job:
        """Reschedule a failed or cancelled job now, with its attempts reset; returns it."""
        return await self._moved(job_id, ("failed", "cancelled", "scheduled"), "scheduled")

    # Interface for makers of jobs

    async def submit(self, jobs: Sequence[Job]) -> builtins.list[Job]:
        """Add jobs, in one commit; existing ones are left unchanged."""
        attempts = Attempts("the same jobs kept being submitted by others")
        context = self._records.context
        while jobs:
            attempts.begin()
            wanted = sql.in_list("id", [job.id for job in jobs])
            there = {
                one.record.id: from_record(one.record)
                for one in await commits.held(self._records, _JOBS, wanted)
            }
            new = [to_record(job, context) for job in jobs if job.id not in there]
            if await commits.write(self._records, new, []):
                return [there.get(job.id, job) for job in jobs]
        return []

    def row(self, job: Job) -> dict[str, Any]:
        """Return the row of a new job, for a commit of the caller."""
        return commits.new_row(self._records, to_record(job, self._records.context))

    async def run(self, job_id: str, now: datetime | None = None) -> Job | None:
        """Take a job and run it; returns it, or None if another worker has it."""
        now = now or self._records.now()
        attempts = Attempts(f"job {job_id!r} kept being changed by others")
        while True:
            attempts.begin()
            before = await self._held(job_id)
            job = from_record(before.record)
            if not _is_due(job, now):
                return None
            taken = begun(job, now)
            # A failed write need not mean another worker: the rows may have been flushed meanwhile.
            if await self._put(before, taken):
                return await self.work(taken, now)

    async def run_new(self, job: Job, now: datetime | None = None) -> Job | None:
        """As `submit` and `run`, with one write less for a new job."""
        moment = now or job.scheduled_at
        taken = begun(job, moment)
        attempts = Attempts(f"job {job.id!r} kept being submitted by others")
        while True:
            attempts.begin()
            if await commits.write(self._records, [to_record(taken, self._records.context)], []):
                return await self.work(taken, moment)
            # A failed write need not mean that it exists: the rows may have been flushed meanwhile.
            if await commits.held(self._records, _JOBS, sql.equals("id", job.id)):
                return await self.run(job.id, now)

    async def work(self, taken: Job, now: datetime) -> Job:
        """Do a taken job, part by part; returns it."""
        while True:
            usage: Counter[str] = Counter(taken.usage)
            token = USAGE.set(usage)
            try:
                async with self._held_on_to(taken):
                    decide = await self._handlers[taken.kind](taken)
            except (OverBudget, Stopped, asyncio.CancelledError):
                # It did not fail: it is as before it was taken, and its next worker resumes it.
                as_before = {"state": "scheduled", "attempts": taken.attempts - 1}
                await self._end(taken, usage=dict(usage), **as_before)
                raise
            except Exception as error:  # noqa: BLE001 - whatever fails is told by the job
                if _is_final(taken, error):
                    return await self._failed(taken, error, usage=dict(usage))
                due = now + _FIRST_PAUSE * 2 ** min(taken.attempts - 1, _LONGEST_PAUSE)
                later = {"scheduled_at": due, "usage": dict(usage)}
                return await self._failed(taken, error, state="scheduled", **later)
            finally:
                USAGE.reset(token)
            done = await self.finish(taken, decide)
            if _is_lost(taken, done):
                return done
            taken = done

    async def finish(self, job: Job, decide: Decide) -> Job:
        """Write the results of a job or part, and its new state, in one commit.

        A worker that has lost the job to a cancellation or another worker writes nothing.
        """

        async def put(before: Held, current: Job) -> bool:
            outcome = await decide()
            usage = Counter(current.usage)
            usage.update(outcome.usage)
            is_on = outcome.state == "running"
            done = replace(
                current,
                state=outcome.state,
                error=None,
                lease_until=self._records.now() + LEASE if is_on else None,
                usage=dict(usage),
                result=outcome.result,
            )
            changed = [*outcome.changed, (before, to_record(done, self._records.context))]
            for id, values in outcome.jobs.items():
                other = await self._held(id)
                after = replace(from_record(other.record), **values)
                changed.append((other, to_record(after, self._records.context)))
            made, more = (self._records, outcome.added, changed), outcome.basis
            return await commits.write(*made, previous=outcome.previous, basis=more)

        return await self._unless_lost(job, put, f"what job {job.id!r} is about")

    async def change(self, job_id: str, **values: Any) -> Job:
        """Set these values of a job, on top of its current ones."""
        attempts = Attempts(f"job {job_id!r} kept being changed by others")
        while True:
            attempts.begin()
            before = await self._held(job_id)
            if await self._put(before, replace(from_record(before.record), **values)):
                return await self.get(job_id)

    # Helpers

    @asynccontextmanager
    async def _held_on_to(self, job: Job) -> AsyncIterator[None]:
        """Renew the lease of a job in the background, until it is lost."""
        renewer = LeaseRenewer(self._renewed, "a job")
        seconds, every = LEASE.total_seconds(), RENEWAL.total_seconds()
        renewer.keep(job.id, job, seconds, every=every)
        try:
            yield
        finally:
            await renewer.end(job.id)

    async def _renewed(self, taken: Mapping[str, Job]) -> builtins.list[str]:
        """Renew the leases of these jobs; returns the ids of those that are not lost."""
        kept = []
        for job in taken.values():
            with suppress(NotFoundError):  # It was erased meanwhile.
                before = await self._held(job.id)
                if _is_lost(job, current := from_record(before.record)):
                    continue
                after = replace(current, lease_until=self._records.now() + LEASE)
                if not await self._put(before, after):
                    raise ConflictError(f"job {job.id!r} was changed meanwhile: try again")
                kept.append(job.id)
        return kept

    async def _found(self, wanted: Mapping[str, Any]) -> builtins.list[Job]:
        """Return the jobs with these field values, in order."""
        named = sql.filtered(
            {f"job.{name}": value for name, value in wanted.items()}, columns=RECORD_FIELDS
        )
        found = await self._records.read(self._records.own(_JOBS, named))
        return [from_record(one) for one in found]

    async def _owed(self) -> builtins.list[Job]:
        """Return the jobs without a row."""
        return await implied(self._records)

    async def _owed_as(self, id: str) -> Job | None:
        """Return the job with that id if it has no row yet."""
        return next((one for one in await self._owed() if one.id == id), None)

    async def _held(self, job_id: str) -> Held:
        name = check_name(job_id, "job_id")
        found = await commits.held(self._records, _JOBS, sql.equals("id", name))
        if not found and (owed := await self._owed_as(name)) is not None:
            await self.submit([owed])
            found = await commits.held(self._records, _JOBS, sql.equals("id", name))
        if not found:
            raise NotFoundError(f"job {job_id!r} does not exist: list() has those that do")
        return found[0]

    async def _put(self, before: Held, job: Job) -> bool:
        changed = [(before, to_record(job, self._records.context))]
        return await commits.write(self._records, [], changed)

    async def _failed(
        self, taken: Job, error: Exception, *, state: JobState = "failed", **values: Any
    ) -> Job:
        """Record the error of a failed attempt, and release the job."""
        what = taken.id, taken.kind, taken.attempts, type(error).__name__, state
        log.warning("job %s (%s): attempt %d ended with %s, it is %s", *what)
        return await self._end(taken, state=state, error=_reason(error), **values)

    async def _end(self, job: Job, **values: Any) -> Job:
        """Release a taken job, unless it was lost meanwhile."""

        async def put(before: Held, current: Job) -> bool:
            return await self._put(before, replace(current, lease_until=None, **values))

        return await self._unless_lost(job, put, f"job {job.id!r}")

    async def _unless_lost(
        self, job: Job, put: Callable[[Held, Job], Awaitable[bool]], what: str
    ) -> Job:
        """Write a taken job, retrying after concurrent writes; returns a lost one unchanged."""
        attempts = Attempts(f"{what} kept being changed by others", _TRIES)
        turn: AbstractAsyncContextManager[object] = nullcontext()
        while True:
            attempts.begin()
            async with turn:
                before = await self._held(job.id)
                current = from_record(before.record)
                if _is_lost(job, current):
                    return current
                if await put(before, current):
                    return await self.get(job.id)
            # In turn: the one that decides next would otherwise be overtaken by those that wait.
            turn = self.resources.overtaken.held()

    async def _moved(self, job_id: str, sources: Sequence[JobState], target: JobState) -> Job:
        attempts = Attempts(f"job {job_id!r} kept being changed by others")
        while True:
            attempts.begin()
            before = await self._held(job_id)
            job = from_record(before.record)
            if job.state == target == "cancelled":
                return job
            if job.state not in sources:
                raise InvalidRequestError(
                    f"job {job_id!r} is {job.state}: only what is {' or '.join(sources)} can be "
                    f"{target}"
                )
            after = replace(
                job,
                state=target,
                attempts=0,
                lease_until=None,
                scheduled_at=self._records.now(),
            )
            if await self._put(before, after):
                return await self.get(job_id)


def _in_order(kept: Sequence[Job], owed: Iterable[Job]) -> builtins.list[Job]:
    """Sort jobs by their submission."""
    return sorted([*kept, *owed], key=lambda one: one.created_at) if owed else [*kept]


def begun(job: Job, now: datetime) -> Job:
    """Return a job held by its worker, whose lease begins now."""
    return replace(
        job,
        state="running",
        attempts=job.attempts + 1,
        lease_until=now + LEASE,
        fence=job.fence + 1,
    )


def _is_lost(taken: Job, current: Job) -> bool:
    """Whether the worker that took a job has lost it."""
    return current.fence != taken.fence or current.state != "running"


def _is_final(taken: Job, error: Exception) -> bool:
    """Whether a job that ended with this error is not retried automatically."""
    if isinstance(error, ModelError):
        return False  # Its service is down; once it is up, nothing else would run the job.
    # The same question may have another answer.
    is_refused = isinstance(error, InvalidRequestError) and not isinstance(error, ModelAnswerError)
    return is_refused or taken.attempts >= MAX_ATTEMPTS


def _is_due(job: Job, now: datetime) -> bool:
    if job.state == "scheduled":
        return job.scheduled_at <= now
    if job.state != "running" or job.lease_until is None:
        return False
    # Jobs do not name the process that runs them.
    return Lease(until=job.lease_until.timestamp()).has_lapsed(now.timestamp())


def _checked(budget: JobBudget | None) -> JobBudget:
    """Return a valid budget. Raises InvalidRequestError for an invalid one."""
    if budget is None:
        return JobBudget()
    if not isinstance(budget, JobBudget):
        raise InvalidRequestError(f"budget is {shown(budget)}: pass a JobBudget")
    for name in ("calls", "tokens"):
        most = getattr(budget, name)
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 0):
            raise InvalidRequestError(f"budget.{name} is {shown(most)}: give a count, or None")
    return budget


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:500]
