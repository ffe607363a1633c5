"""The job that takes back what another did, and nothing of what came after."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lance_context_core._util.frozen import frozen
from lance_context_core.errors import InvalidRequestError
from lance_context_core.jobs import commits
from lance_context_core.jobs.commits import Held, Outcome
from lance_context_core.jobs.queue import Decide, Queue
from lance_context_core.jobs.types import SUMMARISE, Job, job_id, owner_of, scheduled
from lance_context_core.knowledge import params, slots, turns
from lance_context_core.knowledge.distilling import AWAY, EXTRACT, Distiller, read_by
from lance_context_core.knowledge.turns import Conversation
from lance_context_core.knowledge.types import Undone
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.stores.records import archive
from lance_context_core.types import ContextRecord

UNDO = params.UNDONE
ARCHIVE = turns.ARCHIVED
PRUNE = "prune"
_MADE = sql.in_list("kind", [params.FACT, params.CHUNK])


@frozen
class UndoLog:
    """Undoes jobs: of turns by what supports a fact then, of all others by what they noted."""

    distiller: Distiller
    jobs: Queue

    async def job(self, target_id: str) -> Job:
        """The job that undoes that one, which is a new one each time that it was brought back.

        Raises InvalidRequestError for what did nothing yet.
        """
        target = await self.jobs.get(target_id)
        if target.undone_by is not None:
            return await self.jobs.get(target.undone_by)
        is_partly_done = target.state in ("failed", "cancelled") and read_by(target)
        if target.state != "succeeded" and not is_partly_done:
            raise InvalidRequestError(
                f"job {target_id!r} is {target.state}: only what succeeded can be undone; cancel or "
                "discard what did not"
            )
        if target.kind == SUMMARISE:
            raise InvalidRequestError(
                f"job {target_id!r} made a summary for windows: to be rid of it, erase "
                f"ids=[{target.result.get('summary')!r}]"
            )
        before = [one for one in await self.jobs.list(kind=UNDO) if target.id in one.input_ids]
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
        """Nothing takes long of it."""

        async def decide() -> Outcome:
            return await self.decide(job)

        return decide

    async def decide(self, job: Job) -> Outcome:
        """What is to be changed for it, by what the store holds now."""
        target = await self.jobs.get(job.input_ids[0])
        await self._bring_back(target)
        if target.kind in (EXTRACT, "distill"):
            return await self._of_turns(job, target)
        return await self._noted(job, target)

    async def _bring_back(self, target: Job) -> None:
        """Have what the job may be about among the other records, where it was put away."""
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

    # What was made of turns

    async def _of_turns(self, job: Job, target: Job) -> Outcome:
        all_jobs = await self.jobs.list(kind=EXTRACT)
        meant = [
            one
            for one in all_jobs
            if target.id in (one.id, one.parent_id)
            and (one.state == "succeeded" or read_by(one))
            and one.undone_by is None
        ]
        ids = {one.id for one in meant}
        view = self.distiller.made
        held = {one.row[KEY]: one for one in await commits.held(view, _MADE)}
        after: dict[str, ContextRecord] = {}
        report: dict[str, list[str]] = {
            name: [] for name in ("retired", "reduced", "revived", "conflicts")
        }
        now = view.now()
        for key, one in held.items():
            found = params.evidence(one.record)
            rest = [each for each in found if each.job_id not in ids]
            if len(rest) == len(found):
                continue
            if params.is_protected(one.record):
                report["conflicts"].append(one.record.id)
            elif rest:
                after[key] = params.with_evidence(one.record, rest)
                report["reduced"].append(one.record.id)
            else:
                # What is hidden already has a second reason now: who shows it again leaves it hidden.
                after[key] = slots.retired(one.record, UNDO, now)
                if one.record.retired_at is None:
                    report["retired"].append(one.record.id)
        gone = {one.id for one in after.values() if one.retired_at is not None}
        facts = {
            key: after.get(key, one.record)
            for key, one in held.items()
            if one.record.kind == params.FACT
        }
        for key, fact in slots.without(facts, gone).items():
            if facts[key].superseded_by_id is not None and fact.superseded_by_id is None:
                report["revived"].append(fact.id)
            after[key] = fact
        changed = [(held[key], one) for key, one in after.items()]
        told = await self._summaries(job, meant, [one for one in all_jobs if one.id not in ids])
        for _, summary in told:
            what = "reduced" if summary.retired_at is None else "retired"
            report[what].append(summary.id)
        changed += told
        noted = [slots.change_of(before, one) for before, one in changed]
        others = {id: {"undone_by": job.id} for id in {target.id, *ids}}
        return Outcome(
            changed=changed,
            result={**report, "changed": noted, "jobs": sorted(others)},
            jobs=others,
        )

    async def _summaries(
        self, job: Job, meant: Sequence[Job], others: Sequence[Job]
    ) -> list[tuple[Held, ContextRecord]]:
        """The summaries of the sessions, made of what is not undone; without that there are none."""
        view = self.distiller.made
        found = await commits.held(view, sql.equals("kind", params.SUMMARY))
        changed: list[tuple[Held, ContextRecord]] = []
        about = {_conversation(one) for one in meant}
        for one in found:
            conversation = Conversation(turns.owner_of(one.record), one.record.session_id or "")
            if conversation not in about or one.record.retired_at is not None:
                continue
            left = {
                id
                for other in others
                if _conversation(other) == conversation and other.undone_by is None
                for id in read_by(other)
            }
            new = await self.distiller.summarised(conversation, job.id, only=left)
            if new is None or not left:
                new = slots.retired(one.record, UNDO, view.now())
            changed.append((one, replace(new, created_at=one.record.created_at)))
        return changed

    # What was noted

    async def _noted(self, job: Job, target: Job) -> Outcome:
        noted = {one["key"]: one for one in target.result.get("changed", ())}
        found: dict[str, Held] = {}
        for view in (self.distiller.made, self.distiller.spoken):
            there = await commits.held(view, sql.in_list(KEY, list(noted)))
            found |= {one.row[KEY]: one for one in there}
        by_jobs: dict[str | None, set[str]] = {}
        if target.kind == UNDO:
            by_jobs = {kind: await self._hidden_by(kind) for kind in (ARCHIVE, PRUNE)}
        changed, conflicts = [], []
        for key, change in noted.items():
            if key not in found:
                continue
            one = found[key]
            back = slots.put_back(one.record, change)
            if back is None:
                if one.record.retired_reason != UNDO:
                    conflicts.append(one.record.id)
                continue
            if key not in by_jobs.get(back.retired_reason, {key}):
                # What had hidden it before has been undone since.
                back = replace(back, retired_at=None, retired_reason=None)
            if slots.state_of(back) != slots.state_of(one.record):
                changed.append((one, back))
        others: dict[str, dict[str, Any]] = {target.id: {"undone_by": job.id}}
        for id in target.result.get("jobs", ()):
            others[id] = {"undone_by": None}
        if target.kind == ARCHIVE:
            others |= await self._due_again(target)
        hidden = [one.id for _, one in changed if one.retired_at is not None]
        shown = [
            one.id
            for before, one in changed
            if before.record.retired_at is not None and one.retired_at is None
        ]
        return Outcome(
            changed=changed,
            result={
                "retired": hidden,
                "revived": shown,
                "reduced": [],
                "conflicts": conflicts,
                "changed": [slots.change_of(before, one) for before, one in changed],
                "jobs": [],
            },
            jobs=others,
        )

    async def _hidden_by(self, kind: str) -> set[str]:
        """The keys of what jobs of that kind hide, and nobody has shown again."""
        done = await self.jobs.list(kind=kind, state="succeeded")
        return {
            change["key"]
            for one in done
            if one.undone_by is None
            for change in one.result.get("changed", ())
        }

    async def _due_again(self, target: Job) -> dict[str, dict[str, Any]]:
        """What becomes of the jobs that failed because the session was archived: they can run now."""
        again = {"state": "scheduled", "attempts": 0, "error": None}
        now = self.distiller.made.now()
        return {
            one.id: {**again, "scheduled_at": now}
            for one in await self.jobs.list(kind=EXTRACT, state="failed")
            if one.session_id == target.session_id and AWAY in (one.error or "")
        }


def report_of(job: Job, result: Any, *, is_dry_run: bool = False) -> Undone:
    """What a caller is told of an undo."""
    names = ("retired", "reduced", "revived", "conflicts")
    return Undone(
        job_id=job.id,
        is_dry_run=is_dry_run,
        **{name: tuple(result.get(name, ())) for name in names},
    )


def _conversation(job: Job) -> Conversation:
    return Conversation(owner_of(job), job.session_id or "")
