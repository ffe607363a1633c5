"""The job that undoes another job, but nothing that came after."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from lance_context_core._util.frozen import frozen
from lance_context_core.errors import InvalidRequestError
from lance_context_core.jobs import commits
from lance_context_core.jobs.commits import Basis, Held, Outcome
from lance_context_core.jobs.queue import Decide, Queue
from lance_context_core.jobs.types import KIND as JOB
from lance_context_core.jobs.types import (
    SUMMARISE,
    Job,
    from_record,
    job_id,
    owner_of,
    scheduled,
)
from lance_context_core.knowledge import params, turns
from lance_context_core.knowledge.distilling import AWAY, EXTRACT, Distiller, read_by
from lance_context_core.knowledge.fold import Facts
from lance_context_core.knowledge.turns import Conversation
from lance_context_core.knowledge.types import Evidence, Undone
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.stores.records import archive
from lance_context_core.types import ContextRecord

UNDO = params.UNDONE
ARCHIVE = turns.ARCHIVED
PRUNE = params.PRUNED
_MADE = sql.in_list("kind", [params.FACT, params.CHUNK])
_JOB = sql.equals("kind", JOB)


@frozen
class Standing:
    """The jobs that are not undone, by the turns that they have read.

    Processes that distil at once may read the same turn: its statements count while one of their
    jobs is not undone.
    """

    producers: Mapping[str, str]
    """The producers of all jobs, undone or not, by job id."""
    readers: Mapping[tuple[str, Conversation, str], str]
    """The ids of the jobs that are not undone."""

    @classmethod
    def of(cls, jobs: Collection[Job]) -> "Standing":
        """Select the jobs that are not undone."""
        readers = {
            (one.producer, _conversation(one), id): one.id
            for one in jobs
            if one.undone_by is None
            for id in read_by(one)
        }
        return cls({one.id: one.producer for one in jobs}, readers)

    def taken_over(self, record: ContextRecord) -> ContextRecord | None:
        """Assign a record to its producer's other job that read its turn; None if none."""
        producer = self.producers.get(record.metadata.get("job_id", ""))
        proof = params.own_evidence(record)
        about = Conversation(turns.owner_of(record), proof.session_id)
        reader = producer and self.readers.get((producer, about, proof.source_id))
        return replace(record, metadata={**record.metadata, "job_id": reader}) if reader else None


@frozen
class UndoLog:
    """Undoes jobs: their records no longer count, and hidden records are shown."""

    distiller: Distiller
    jobs: Queue

    async def job(self, target_id: str) -> Job:
        """Return the job that undoes `target_id`: an unfinished one, or a new one after each redo.

        Raises InvalidRequestError for a job that did nothing yet.
        """
        target = await self.jobs.get(target_id)
        if target.undone_by is not None:
            return await self.jobs.get(target.undone_by)
        is_partly_done = target.state in ("failed", "cancelled") and read_by(target)
        if target.state != "succeeded" and not is_partly_done:
            raise InvalidRequestError(
                f"job {target_id!r} is {target.state}: only a succeeded job can be undone; cancel or "
                "discard another one"
            )
        if target.kind == SUMMARISE:
            raise InvalidRequestError(
                f"job {target_id!r} made a summary for windows: to be rid of it, erase "
                f"ids=[{target.result.get('summary')!r}]"
            )
        before = [one for one in await self.jobs.list(kind=UNDO) if target.id in one.input_ids]
        if unfinished := [one for one in before if one.state in ("scheduled", "running")]:
            return unfinished[0]
        owner = owner_of(target)
        now = self.distiller.made.now()
        return scheduled(
            UNDO,
            job_id(UNDO, owner, target.session_id, [target.id], str(len(before))),
            owner=owner,
            now=now,
            input_ids=(target.id,),
            session_id=target.session_id,
        )

    async def run(self, job: Job) -> Decide:
        """Return the decision; it needs no preparation."""

        async def decide() -> Outcome:
            return await self.decide(job)

        return decide

    async def decide(self, job: Job) -> Outcome:
        """Decide on the changes, from the current records."""
        target = await self.jobs.get(job.input_ids[0])
        base, is_back = target, False
        while base.kind == UNDO:
            base, is_back = await self.jobs.get(base.input_ids[0]), not is_back
        await self._bring_back(base)
        if base.kind in (PRUNE, ARCHIVE):
            return await self._of_hidden(job, target, base, is_back=is_back)
        return await self._of_turns(job, target, base, is_back=is_back)

    async def _bring_back(self, target: Job) -> None:
        """Move the job's records back from the cold table."""
        spoken, made = (
            replace(one, scope=owner_of(target))
            for one in (self.distiller.spoken, self.distiller.made)
        )
        if not await archive.are_any(made):
            return
        if target.kind != ARCHIVE:
            await archive.bring_back(made)
            return
        here = sql.equals("session_id", target.session_id)
        await archive.bring_back(made, here)
        if await archive.bring_back(spoken, turns.MESSAGES, here):
            await archive.put_last(spoken, spoken.where(turns.MESSAGES, here))
        # Turns may have been cleared while their knowledge was archived.
        await spoken.cleared({"session_id": target.session_id})

    # Knowledge from turns

    async def _of_turns(self, job: Job, target: Job, base: Job, *, is_back: bool) -> Outcome:
        """Exclude or include observations that rest on a job alone; folds the rest again."""
        held = await commits.held(self.distiller.made, _JOB)
        all_jobs = [
            one for one in (from_record(each.record) for each in held) if one.kind == EXTRACT
        ]
        if is_back:
            ids = {*target.result.get("jobs", ())}
        else:
            parts = [one for one in all_jobs if base.id in (one.id, one.parent_id)]
            done = [one for one in parts if read_by(one) and one.undone_by is None]
            ids = {base.id, *(one.id for one in done)}
        undone_by = None if is_back else job.id
        after = [replace(one, undone_by=undone_by) if one.id in ids else one for one in all_jobs]
        standing = Standing.of(after)

        def change(record: ContextRecord) -> ContextRecord:
            if record.metadata.get("job_id") not in ids:
                return record
            if not is_back:
                return standing.taken_over(record) or params.taken_out(record, UNDO)
            return params.put_in(record, UNDO) if UNDO in params.outs(record) else record

        summaries = await self._summaries(job, ids, after)
        jobs: dict[str, dict[str, Any]] = {id: {"undone_by": undone_by} for id in ids}
        jobs[target.id] = {"undone_by": job.id}
        # Another job that reads one of these turns decides whether the turn still counts.
        sessions = sorted({one.session_id or "" for one in all_jobs if one.id in ids})
        read = [one for one in held if one.record.session_id in sessions]
        where = sql.all_of([sql.in_list("session_id", sessions), _JOB])
        basis = Basis(read, where, [one.row[KEY] for one in read])
        return await self._changed(change, jobs, summaries, noted=sorted(ids), basis=basis)

    async def _changed(
        self,
        change: Callable[[ContextRecord], ContextRecord],
        jobs: Mapping[str, Mapping[str, Any]],
        others: Sequence[tuple[Held, ContextRecord]],
        *,
        noted: Sequence[str] = (),
        basis: Basis | None = None,
    ) -> Outcome:
        """Apply a change to all records of the job, and return the outcome."""
        view = self.distiller.made
        held = await commits.held(view, _MADE)
        chunks = [one for one in held if one.record.kind == params.CHUNK]
        found = [one for one in held if one.record.kind == params.FACT]
        facts = await Facts.of(self.distiller.spoken, view, found)
        report = _Report()
        meant = []
        for key, one in facts.rows.items():
            new = change(one)
            is_less = len(params.outs(new)) > len(params.outs(one))
            if new is not one and is_less and params.is_protected(one):
                report.conflicts.append(one.id)
            elif new is not one:
                facts.rows[key] = new
                meant.append(key)
        facts.fold(meant)
        added, changed = facts.changes()
        report.tell({key: one.record for key, one in facts.held.items()}, facts.rows)
        for each in chunks:
            new = change(each.record)
            if new is not each.record:
                changed.append((each, params.shown(new, view.now())))
        changed += others
        for before, after in changed:
            if after.kind != params.FACT:
                report.tell_of(before.record, after)
        return Outcome(
            added=added,
            changed=changed,
            result={
                **asdict(report),
                "changed": [{"key": one.row[KEY], "id": new.id} for one, new in changed],
                "jobs": [*noted],
            },
            jobs={id: dict(values) for id, values in jobs.items()},
            basis=facts.basis(meant).joined(basis or Basis()),
        )

    async def _summaries(
        self, job: Job, ids: Collection[str], jobs: Sequence[Job]
    ) -> list[tuple[Held, ContextRecord]]:
        """Return the summaries of the sessions without undone jobs; an empty one is removed."""
        view = self.distiller.made
        found = await commits.held(view, sql.equals("kind", params.SUMMARY))
        changed: list[tuple[Held, ContextRecord]] = []
        about = {_conversation(one) for one in jobs if one.id in ids}
        for one in found:
            conversation = Conversation(turns.owner_of(one.record), one.record.session_id or "")
            if conversation not in about or {*params.outs(one.record)} - {UNDO}:
                continue
            left = {
                id
                for other in jobs
                if _conversation(other) == conversation and other.undone_by is None
                for id in read_by(other)
            }
            new = await self.distiller.summarised(conversation, job.id, only=left)
            if new is None or not left:
                new = params.shown(params.taken_out(one.record, UNDO), view.now())
            changed.append((one, replace(new, created_at=one.record.created_at)))
        return changed

    # Hidden records

    async def _of_hidden(self, job: Job, target: Job, base: Job, *, is_back: bool) -> Outcome:
        """Show the records that only this prune or archive hides; or hide them."""
        meant = {one["key"] for one in base.result.get("changed", ())}
        now = self.distiller.made.now()

        def change(record: ContextRecord) -> ContextRecord:
            if commits.key(record) not in meant:
                return record
            if is_back:
                return params.taken_out(record, base.kind)
            return params.put_in(record, base.kind) if base.kind in params.outs(record) else record

        jobs: dict[str, dict[str, Any]] = {target.id: {"undone_by": job.id}}
        jobs[base.id] = {"undone_by": None if is_back else job.id}
        others: list[tuple[Held, ContextRecord]] = []
        if base.kind == ARCHIVE:
            here = sql.equals("session_id", base.session_id)
            summary = sql.equals("kind", params.SUMMARY)
            made = await commits.held(self.distiller.made, summary, here)
            others += [(one, params.shown(change(one.record), now)) for one in made]
            said = await commits.held(self.distiller.spoken, turns.MESSAGES, here)
            moment = now if is_back else None
            others += [
                (one, hidden_turn(one.record, moment)) for one in said if one.row[KEY] in meant
            ]
            jobs |= {} if is_back else await self._due_again(base)
        return await self._changed(change, jobs, others)

    async def _due_again(self, target: Job) -> dict[str, dict[str, Any]]:
        """Reschedule the jobs that failed because the session was archived."""
        again = {"state": "scheduled", "attempts": 0, "error": None}
        now = self.distiller.made.now()
        return {
            one.id: {**again, "scheduled_at": now}
            for one in await self.jobs.list(kind=EXTRACT, state="failed")
            if one.session_id == target.session_id and AWAY in (one.error or "")
        }


def hidden_turn(turn: ContextRecord, moment: datetime | None) -> ContextRecord:
    """Return a turn archived from that moment on; with None, unarchived."""
    if moment is None:
        is_archived = turn.retired_reason == ARCHIVE
        return replace(turn, retired_at=None, retired_reason=None) if is_archived else turn
    return turn if turn.retired_at else params.retired(turn, ARCHIVE, moment)


@dataclass(slots=True)
class _Report:
    """The ids in the report of an undo."""

    retired: list[str] = field(default_factory=list)
    reduced: list[str] = field(default_factory=list)
    revived: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)

    def tell(self, before: Mapping[str, ContextRecord], after: Mapping[str, ContextRecord]) -> None:
        """Record the changes of facts, which the places of their evidence identify."""
        shown = {key: one for key, one in after.items() if one.retired_at is None}
        by_place = {place: one for one in shown.values() for place in params.evidence(one)}
        lost: dict[str, None] = {}
        seen: set[Evidence] = set()
        for key, one in before.items():
            if one.retired_at is not None or after.get(key) is one:
                continue
            proofs = params.evidence(one)
            seen.update(proofs)
            left = [by_place[place] for place in proofs if place in by_place]
            if not left:
                self.retired.append(one.id)
            elif len(left) < len(proofs):
                lost |= dict.fromkeys(each.id for each in left)
            if key in shown and one.superseded_by_id and not shown[key].superseded_by_id:
                self.revived.append(one.id)
        self.reduced += lost
        for key, one in shown.items():
            was = before.get(key)
            if (was is None or was.retired_at is not None) and not seen & {*params.evidence(one)}:
                self.revived.append(one.id)

    def tell_of(self, before: ContextRecord, after: ContextRecord) -> None:
        """Record the change of a chunk, a summary or a turn."""
        was_shown, is_shown = before.retired_at is None, after.retired_at is None
        if was_shown and not is_shown:
            self.retired.append(after.id)
        elif is_shown and not was_shown:
            self.revived.append(after.id)
        elif before.kind == params.SUMMARY and is_shown and before.text != after.text:
            self.reduced.append(after.id)


def report_of(job: Job, result: Any, *, is_dry_run: bool = False) -> Undone:
    """Return the report of an undo job."""
    names = ("retired", "reduced", "revived", "conflicts")
    return Undone(
        job_id=job.id,
        is_dry_run=is_dry_run,
        **{name: tuple(result.get(name, ())) for name in names},
    )


def _conversation(job: Job) -> Conversation:
    return Conversation(owner_of(job), job.session_id or "")
