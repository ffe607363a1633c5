"""The jobs that hide what is no longer worth showing: nothing is deleted, and all can be undone.

An archive hides a session in one commit, and then puts its rows away: where it was killed in between,
the next archive of it, or `maintain`, does so.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

from lance_context_core._util.checks import shown
from lance_context_core._util.frozen import frozen
from lance_context_core.codecs.records import is_visible
from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.jobs import commits
from lance_context_core.jobs.commits import Held, Outcome, implied
from lance_context_core.jobs.queue import Decide, Queue
from lance_context_core.jobs.types import Job, job_id, owner_of, scheduled
from lance_context_core.knowledge import kept, states, turns
from lance_context_core.knowledge.undoing import ARCHIVE, PRUNE
from lance_context_core.knowledge.values import Prune
from lance_context_core.scope import Scope
from lance_context_core.storage import sql
from lance_context_core.stores.records import archive
from lance_context_core.stores.records.scoped import Records
from lance_context_core.types import ContextRecord

KNOWLEDGE = sql.in_list("kind", [kept.FACT, kept.CHUNK, kept.SUMMARY])


@frozen
class Tidying:
    """Prunes facts, and archives sessions."""

    spoken: Records
    made: Records
    jobs: Queue

    # Pruning

    async def pruning(self, policy: Prune) -> Job:
        """The job that hides what the policy means now."""
        found = await self._prunable(policy)
        return self._job(PRUNE, self.made.scope, None, [one.record.id for one in found], "")

    async def run_prune(self, job: Job) -> Decide:
        """Nothing takes long of it."""
        return lambda: self.prune(job)

    async def prune(self, job: Job) -> Outcome:
        """Hide what was meant, save what a person has taken up since."""
        meant = sql.in_list("id", job.input_ids)
        held = await commits.held(self.made, sql.equals("kind", kept.FACT), meant)
        return self._hidden([one for one in held if not kept.is_protected(one.record)], PRUNE)

    async def _prunable(self, policy: Prune) -> list[Held]:
        before = self.made.now() - policy.older_than
        held = await commits.held(self.made, sql.equals("kind", kept.FACT))
        found = [
            one
            for one in held
            if is_visible(one.record, self.made.now())
            and not kept.is_protected(one.record)
            and (kept.about(one.record)["slot"] is None)
            and one.record.created_at < before
            and one.record.metadata["importance"] < policy.importance_below
        ]
        found.sort(key=lambda one: (one.record.metadata["importance"], one.record.created_at))
        return found[: policy.limit]

    # Archiving

    async def archiving(self, session_id: str) -> Job:
        """The job that hides a session; the one that did so, if it is hidden already.

        Raises NotFoundError for a session without turns.
        """
        here = sql.equals("session_id", session_id)
        held = await commits.held(self.spoken, turns.MESSAGES, here)
        before = await self.archived(session_id)
        if not held and not before:
            raise NotFoundError(f"session {session_id!r} has no turns: there is nothing to archive")
        shown_ids = [one.record.id for one in held if is_visible(one.record, self.spoken.now())]
        if before and not shown_ids and before[-1].undone_by is None:
            return before[-1]
        return self._job(ARCHIVE, self.made.scope, session_id, shown_ids, str(len(before)))

    async def archived(self, session_id: str) -> list[Job]:
        """The jobs that archived a session, in order."""
        found = await self.jobs.list(kind=ARCHIVE)
        return [one for one in found if one.session_id == session_id]

    async def run_archive(self, job: Job) -> Decide:
        """Nothing takes long of it."""
        return lambda: self.archive(job)

    async def archive(self, job: Job) -> Outcome:
        """Hide the turns of the session, and what was made of it.

        The jobs that its turns owe are rows from then on: they are listed while the turns are away.
        """
        owed = [one for one in await implied(self.made) if one.session_id == job.session_id]
        await self.jobs.submit(owed)
        here = sql.equals("session_id", job.session_id)
        held = [
            *await commits.held(self.spoken, turns.MESSAGES, here),
            *await commits.held(self.made, KNOWLEDGE, here),
        ]
        return self._hidden([one for one in held if one.record.retired_at is None], ARCHIVE)

    async def put_away(self, job: Job) -> None:
        """Take what an archive has hidden out of the table that reads go over."""
        here, hidden = sql.equals("session_id", job.session_id), sql.is_present("retired_at")
        spoken, made = (replace(one, scope=owner_of(job)) for one in (self.spoken, self.made))
        await archive.put_away(spoken, turns.MESSAGES, here, hidden)
        await archive.put_away(made, KNOWLEDGE, here, hidden)

    async def put_all_away(self) -> None:
        """As `put_away`, of all sessions that are archived: what is done already costs a look."""
        for job in await self.jobs.list(kind=ARCHIVE, state="succeeded"):
            if job.undone_by is None:
                await self.put_away(job)

    # Helpers

    def _hidden(self, held: list[Held], reason: str) -> Outcome:
        now = self.made.now()
        changed: list[tuple[Held, ContextRecord]] = [
            (one, states.retired(one.record, reason, now)) for one in held
        ]
        return Outcome(
            changed=changed,
            result={
                "retired": [one.id for _, one in changed],
                "changed": [states.change_of(before, one) for before, one in changed],
            },
        )

    def _job(
        self, kind: str, owner: Scope, session_id: str | None, ids: list[str], more: str
    ) -> Job:
        now = self.made.now()
        about = "" if kind == ARCHIVE else now.isoformat()
        return scheduled(
            kind,
            job_id(kind, owner, session_id, ids, more or about),
            owner=owner,
            now=now,
            input_ids=tuple(ids),
            session_id=session_id,
        )


def checked_policy(policy: Prune | Mapping[str, Any] | None) -> Prune:
    """A policy. Raises InvalidRequestError for one that cannot be."""
    if isinstance(policy, Mapping):
        known = [one.name for one in fields(Prune)]
        if unknown := set(policy) - set(known):
            raise InvalidRequestError(
                f"policy has the unknown key {shown(min(map(str, unknown)))}: "
                f"there are {', '.join(known)}"
            )
        policy = Prune(**policy)
    if policy is None:
        policy = Prune()
    if not isinstance(policy, Prune):
        raise InvalidRequestError(f"policy is {shown(policy)}: pass a Prune, or a mapping like it")
    if not isinstance(policy.older_than, timedelta) or policy.older_than < timedelta(0):
        raise InvalidRequestError(
            f"policy.older_than is {shown(policy.older_than)}: give a timedelta of 0 or more"
        )
    below = policy.importance_below
    if isinstance(below, bool) or not isinstance(below, int | float) or not 0 <= below <= 1:
        raise InvalidRequestError(
            f"policy.importance_below is {shown(below)}: give a number from 0 to 1"
        )
    limit = policy.limit
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise InvalidRequestError(f"policy.limit is {shown(limit)}: give a count, or None")
    return policy
