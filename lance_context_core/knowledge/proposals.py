"""Distillation on a branch, to be merged or discarded; a job from its first step."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from lance_context_core._progress import tell
from lance_context_core._util.frozen import frozen
from lance_context_core.audit import derive_events
from lance_context_core.errors import (
    ContextStoreError,
    InvalidRequestError,
    NotFoundError,
)
from lance_context_core.jobs.commits import Outcome
from lance_context_core.jobs.queue import Decide, Queue
from lance_context_core.jobs.types import KIND as JOB
from lance_context_core.jobs.types import Job, Stopped, job_id, owner_of, refuse_running, scheduled
from lance_context_core.knowledge import params
from lance_context_core.knowledge.distilling import EXTRACT, Distiller
from lance_context_core.knowledge.turns import Conversation
from lance_context_core.knowledge.types import Proposal
from lance_context_core.knowledge.undo_log import UNDO, UndoLog
from lance_context_core.types import Conflict, ContextRecord, Diff, MergeReport, Progress
from lance_context_core.types.versions import Stored
from lance_context_core.versioning import branches, locations, merge
from lance_context_core.versioning.conflicts import MergePolicy
from lance_context_core.versioning.locations import Whole

DISTILL, REPLAY = "distill", "replay"
PROPOSALS = (DISTILL, REPLAY)


@frozen
class Proposing:
    """Makes, merges and discards proposals."""

    distiller: Distiller
    jobs: Queue
    progress: Callable[[Progress], object] | None = None

    async def job(self, *, session_id: str | None) -> Job:
        """Return the job that proposes the knowledge of all turns without a job."""
        self._whole().require("propose a distillation")
        planned = await self.distiller.plan(session_id=session_id)
        ids = [id for one in planned for id in one.input_ids]
        producer, now = self.distiller.producer, self.distiller.made.now()
        # Turns of different sessions may have equal ids.
        about = [f"{one.session_id}/{id}" for one in planned for id in one.input_ids]
        id = job_id(DISTILL, self.distiller.made.scope, session_id, about, producer)
        return scheduled(
            DISTILL,
            id,
            owner=self.distiller.made.scope,
            now=now,
            input_ids=tuple(dict.fromkeys(ids)),
            session_id=session_id,
            producer=producer,
            branch=_branch(DISTILL, id),
        )

    async def replaying(self, target: Job) -> Job:
        """Return the job that proposes this producer's knowledge of the same turns.

        Raises InvalidRequestError for a job that made nothing of turns, or was undone.
        """
        self._whole().require("replay a job")
        if target.kind != EXTRACT or target.state != "succeeded" or target.undone_by is not None:
            state = "undone" if target.undone_by is not None else target.state
            raise InvalidRequestError(
                f"job {target.id!r} is {target.kind}, {state}: only a job that extracted knowledge of turns "
                "and is not undone can be replayed; for a distillation, replay its parts"
            )
        id = job_id(REPLAY, owner_of(target), None, [target.id], self.distiller.producer)
        return scheduled(
            REPLAY,
            id,
            owner=owner_of(target),
            now=self.distiller.made.now(),
            input_ids=(target.id,),
            session_id=target.session_id,
            producer=self.distiller.producer,
            branch=_branch(REPLAY, id),
        )

    async def run_replay(self, job: Job) -> Decide:
        """Undo the job on the branch, and repeat it there with this producer."""
        there, queue = await self._branched(job)
        target = await queue.get(job.input_ids[0])
        if target.undone_by is None:
            undo = await UndoLog(there, queue).job(target.id)
            await queue.submit([undo])
            await queue.run(undo.id)
        conversation = Conversation(owner_of(target), target.session_id or "")
        again = there.job(conversation, target.input_ids, parent_id=job.id)
        await queue.submit([again])
        return await self._done(job, there, queue)

    async def run(self, job: Job) -> Decide:
        """Distil on the branch; resumes the work of a worker that died."""
        there, queue = await self._branched(job)
        planned = await there.plan(session_id=job.session_id, parent_id=job.id)
        await queue.submit([one for one in planned if {*one.input_ids} <= {*job.input_ids}])
        return await self._done(job, there, queue)

    async def _done(self, job: Job, there: Distiller, queue: Queue) -> Decide:
        """Run the parts of a job on its branch."""
        children = [one for one in await queue.list(kind=EXTRACT) if one.parent_id == job.id]
        for n, child in enumerate(children, 1):
            # No other worker runs it: the worker that died has lost this job too.
            due = max(there.made.now(), child.scheduled_at, child.lease_until or child.scheduled_at)
            await queue.run(child.id, due)
            now = Progress(n_done=n, n_total=len(children), what="jobs", name=child.id)
            try:
                await tell(self.progress, now)
            except Exception as error:
                raise Stopped from error
        done = [one for one in await queue.list(kind=EXTRACT) if one.parent_id == job.id]
        for child in done:
            if child.state == "failed":
                raise InvalidRequestError(f"session {child.session_id!r}: {child.error}")
            if child.state != "succeeded":
                raise RuntimeError(f"session {child.session_id!r}: {child.error}")
        report: Counter[str] = Counter(turns=sum(len(one.input_ids) for one in done))
        usage: Counter[str] = Counter()
        faults: Counter[str] = Counter()
        for child in done:
            report.update(child.result["decisions"])
            faults.update(child.result.get("faults", {}))
            usage.update(child.usage)

        async def decide() -> Outcome:
            result = {"report": dict(report), "faults": dict(faults)}
            return Outcome(state="proposed", usage=dict(usage), result=result)

        return decide

    async def proposal(self, job: Job) -> Proposal:
        """Return the proposal.

        Raises InvalidRequestError if none exists, or no longer, and ConflictError while it is made.
        """
        refuse_running(job)
        if job.state != "proposed" or job.branch is None:
            why = f": {job.error}" if job.error else ""
            raise InvalidRequestError(f"job {job.id!r} is {job.state}, not proposed{why}")
        forked_at = await self._forked_at(job.branch)
        if forked_at is None:
            raise NotFoundError(f"branch {job.branch!r} of job {job.id!r} was deleted: discard it")
        resources = self.distiller.made.resources
        try:
            before = await resources.at(forked_at)
        except NotFoundError as error:
            raise NotFoundError(
                f"the version that branch {job.branch!r} of job {job.id!r} began at was removed, as by "
                "an erasure, so that it has no diff: merge or discard the proposal"
            ) from error
        after = self._on(job.branch)[0].made
        found = await locations.diff(before.records, after.table, after.own())
        return Proposal(
            job_id=job.id,
            branch=job.branch,
            diff=_without_jobs(found),
            report=job.result["report"],
            faults=job.result.get("faults", {}),
        )

    async def merge(self, job: Job, policy: MergePolicy | None) -> MergeReport:
        """Merge a proposal into this branch; does nothing if it is merged."""
        whole = self._whole()
        name = job.branch or ""
        if job.kind not in PROPOSALS or job.state not in ("proposed", "succeeded"):
            raise InvalidRequestError(
                f"job {job.id!r} is {job.kind}, {job.state}: only a proposal can be merged"
            )
        report = MergeReport(
            source=name,
            target=whole.resources.database.branch,
            tables={},
            conflicts=(),
            is_dry_run=False,
            version=await whole.resources.records.version(),
        )
        is_there = await self._forked_at(name) is not None
        if job.state == "proposed":
            try:
                report = await self._merged(job, policy)
            except ContextStoreError:
                # Another process that merges it deletes the branch: then it is merged.
                if (await self.jobs.get(job.id)).state != "succeeded":
                    raise
                return report
        if is_there:
            await branches.delete(whole, name)
        return report

    async def merged(self, job: Job) -> Proposal:
        """Return a proposal once it is merged, by this process or a faster one.

        If another process has merged it, or an erasure has removed the version that it began at, its
        diff is empty.
        """
        nothing = Diff(added=[], changed=[], removed=[])
        told = job.result
        found = Proposal(
            job_id=job.id,
            branch=job.branch or "",
            diff=nothing,
            report=told.get("report", {}),
            faults=told.get("faults", {}),
        )
        try:
            with suppress(NotFoundError):
                found = await self.proposal(job)
            await self.merge(job, None)
        except ContextStoreError:
            now = await self.jobs.get(job.id)
            if now.state != "succeeded":
                raise
            told = now.result
            found = replace(found, report=told["report"], faults=told.get("faults", {}))
        return found

    async def discard(self, job: Job) -> Job:
        """Delete a proposal with its branch; the turns may be distilled again."""
        if job.kind not in PROPOSALS or job.state == "succeeded":
            raise InvalidRequestError(
                f"job {job.id!r} is {job.kind}, {job.state}: only a proposal can be discarded; "
                "undo what was merged"
            )
        done = await self.jobs.change(job.id, state="cancelled", lease_until=None)
        await branches.delete(self._whole(), job.branch or "")
        return done

    # Helpers

    async def _merged(self, job: Job, policy: MergePolicy | None) -> MergeReport:
        whole, name = self._whole(), job.branch or ""
        if await self._forked_at(name) is None:
            raise NotFoundError(f"branch {name!r} was deleted: discard the proposal")
        report = await merge.merge(whole, name, policy=policy or people_first, is_dry_run=False)
        await derive_events.note(whole.resources, "merge", name)
        # A statement of both sides is one fact, and turns that the branch still had may be gone.
        sessions = {one.session_id for one in await self._parts(job)}
        within = {"session_id": sessions.pop()} if len(sessions) == 1 else {}
        await self.distiller.spoken.cleared(within)
        await self.jobs.change(job.id, state="succeeded")
        return report

    def _whole(self) -> Whole:
        return Whole(self.distiller.made.resources, self.distiller.made.scope)

    async def _branched(self, job: Job) -> tuple[Distiller, Queue]:
        """Open the branch of a job; creates it unless a dead worker has."""
        whole, name = self._whole(), job.branch or ""
        if await self._forked_at(name) is None:
            await branches.create(whole, name, None)
        return self._on(name)

    def _on(self, name: str) -> tuple[Distiller, Queue]:
        """Return the same on the branch."""
        resources = self.distiller.made.resources
        there = resources.on(resources.current().on(name))
        distiller = replace(
            self.distiller,
            spoken=replace(self.distiller.spoken, resources=there),
            made=replace(self.distiller.made, resources=there),
        )
        queue = Queue(distiller.made)
        undoing = UndoLog(distiller, queue)
        return distiller, replace(queue, _handlers={EXTRACT: distiller.run, UNDO: undoing.run})

    async def _parts(self, job: Job) -> list[Job]:
        """Return the jobs of a proposal."""
        return [one for one in await self.jobs.list(kind=EXTRACT) if one.parent_id == job.id]

    async def _forked_at(self, name: str) -> int | None:
        found = {one.name: one.forked_at for one in await branches.listed(self._whole())}
        return found.get(name)


def _branch(kind: str, id: str) -> str:
    return f"{kind}-{id.removeprefix('job-')[:16]}"


def people_first(conflict: Conflict) -> Stored | None:
    """Prefer a person's correction, pin or removal; else the later change."""
    ours, theirs = conflict.ours, conflict.theirs
    if ours is None or (isinstance(ours, ContextRecord) and params.is_protected(ours)):
        return ours
    if theirs is None or conflict.ours_updated_at is None or conflict.theirs_updated_at is None:
        return ours
    return theirs if conflict.theirs_updated_at > conflict.ours_updated_at else ours


def _without_jobs(found: Diff) -> Diff:
    return Diff(
        added=[one for one in found.added if one.kind != JOB],
        changed=[one for one in found.changed if one.after.kind != JOB],
        removed=[one for one in found.removed if one.kind != JOB],
    )
