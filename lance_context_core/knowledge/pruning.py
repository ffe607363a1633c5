"""Jobs that hide records of little value; nothing is deleted, and all can be undone.

An archive hides a session in one commit and then moves its rows to the cold table: if it was killed
in between, the next archive of the session, or `maintain`, moves them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from lance_context_core._util.checks import is_number, shown
from lance_context_core._util.frozen import frozen, frozen_by_name
from lance_context_core.codecs.records import is_visible
from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.jobs import commits
from lance_context_core.jobs.commits import Basis, Held, Outcome, implied
from lance_context_core.jobs.queue import Decide, Queue
from lance_context_core.jobs.types import Job, job_id, owner_of, scheduled
from lance_context_core.knowledge import params, turns
from lance_context_core.knowledge.fold import Facts
from lance_context_core.knowledge.types import Prune
from lance_context_core.knowledge.undo_log import ARCHIVE, PRUNE, hidden_turn
from lance_context_core.scope import Scope
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.stores.records import archive
from lance_context_core.stores.records.scoped import WITHOUT_BLOB, Records
from lance_context_core.types import ContextRecord

_WITH_TURNS = [params.CHUNK, params.SUMMARY]
KNOWLEDGE = sql.in_list("kind", [params.FACT, params.CHUNK, params.SUMMARY])


@frozen
class Tidying:
    """Prunes facts, and archives sessions."""

    spoken: Records
    made: Records
    jobs: Queue

    # Pruning

    async def pruning(self, policy: Prune) -> Job:
        """Create the job that hides the facts that the policy now selects."""
        found = await self._prunable(policy)
        return self._job(PRUNE, self.made.scope, None, [one.record.id for one in found], "")

    async def run_prune(self, job: Job) -> Decide:
        """Return the decision; it needs no preparation."""
        return lambda: self.prune(job)

    async def prune(self, job: Job) -> Outcome:
        """Hide the selected facts, except those that a person has curated since."""
        meant = {*job.input_ids}
        found = await commits.held(self.made, sql.equals("kind", params.FACT))
        facts = await Facts.of(self.spoken, self.made, found)
        # A fact is pruned with all its observations: a later statement of it is another fact.
        leads = [one for one in facts.rows.values() if one.id in meant and one.retired_at is None]
        proofs = {
            (turns.owner_of(one), proof)
            for one in leads
            if not params.is_protected(one)
            for proof in params.evidence(one)
        }
        keys = [
            key
            for key, one in facts.rows.items()
            if (turns.owner_of(one), params.own_evidence(one)) in proofs and not params.outs(one)
            if params.about(one)["slot"] is None
        ]
        for key in keys:
            facts.rows[key] = params.taken_out(facts.rows[key], PRUNE)
        facts.fold(keys)
        added, changed = facts.changes()
        return _told(changed, added, facts.basis(keys))

    async def _prunable(self, policy: Prune) -> list[Held]:
        before = self.made.now() - policy.older_than
        held = await commits.held(self.made, sql.equals("kind", params.FACT))
        found = [
            one
            for one in held
            if is_visible(one.record, self.made.now())
            and not params.is_protected(one.record)
            and (params.about(one.record)["slot"] is None)
            and params.last_said(one.record) < before
            and one.record.metadata["importance"] < policy.importance_below
        ]
        found.sort(
            key=lambda one: (one.record.metadata["importance"], params.last_said(one.record))
        )
        return found[: policy.limit]

    # Archiving

    async def archiving(self, session_id: str) -> Job:
        """Return the job that hides a session, or the one that hid it already.

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
        """Return the jobs that archived a session, in order."""
        found = await self.jobs.list(kind=ARCHIVE)
        return [one for one in found if one.session_id == session_id]

    async def run_archive(self, job: Job) -> Decide:
        """Return the decision; it needs no preparation."""
        return lambda: self.archive(job)

    async def archive(self, job: Job) -> Outcome:
        """Hide the turns of the session and their knowledge.

        The jobs that its turns owe become rows: they are listed while the turns are archived.
        """
        owed = [one for one in await implied(self.made) if one.session_id == job.session_id]
        await self.jobs.submit(owed)
        here = sql.equals("session_id", job.session_id)
        now = self.made.now()
        spoken = await commits.held(self.spoken, turns.MESSAGES, here)
        others = await commits.held(self.made, sql.in_list("kind", _WITH_TURNS), here)
        found = await commits.held(self.made, sql.equals("kind", params.FACT))
        facts = await Facts.of(self.spoken, self.made, found)
        keys = [
            key
            for key, one in facts.rows.items()
            if one.session_id == job.session_id and ARCHIVE not in params.outs(one)
        ]
        for key in keys:
            facts.rows[key] = params.taken_out(facts.rows[key], ARCHIVE)
        facts.fold(keys)
        added, changed = facts.changes()
        changed += [(one, hidden_turn(one.record, now)) for one in spoken]
        changed += [
            (one, params.shown(params.taken_out(one.record, ARCHIVE), now)) for one in others
        ]
        changed = [pair for pair in changed if pair[0].record != pair[1]]
        return _told(changed, added, facts.basis(keys))

    async def put_away(self, job: Job) -> None:
        """Move the rows that an archive has hidden to the cold table."""
        here, hidden = sql.equals("session_id", job.session_id), sql.is_present("retired_at")
        spoken, made = (replace(one, scope=owner_of(job)) for one in (self.spoken, self.made))
        await archive.put_away(spoken, turns.MESSAGES, here, hidden)
        await archive.put_away(made, KNOWLEDGE, here, hidden)

    async def put_all_away(self) -> None:
        """As `put_away`, for all archived sessions; a session that is done costs one lookup."""
        for job in await self.jobs.list(kind=ARCHIVE, state="succeeded"):
            if job.undone_by is None:
                await self.put_away(job)

    # Helpers

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


def _told(
    changed: list[tuple[Held, ContextRecord]], added: list[ContextRecord], basis: Basis
) -> Outcome:
    """Return the changes, and the ids of the records that they hide."""
    return Outcome(
        added=added,
        changed=changed,
        result={
            "retired": [
                one.id
                for before, one in changed
                if before.record.retired_at is None and one.retired_at is not None
            ],
            "changed": [{"key": before.row[KEY], "id": one.id} for before, one in changed],
        },
        basis=basis,
    )


def checked_policy(policy: Prune | Mapping[str, Any] | None) -> Prune:
    """Return a valid policy. Raises InvalidRequestError for an invalid one."""
    if isinstance(policy, Mapping):
        known = [one.name for one in fields(Prune)]
        if unknown := set(policy) - set(known):
            raise InvalidRequestError(
                f"policy has the unknown key {shown(min(map(str, unknown)))}: "
                f"use one of {', '.join(known)}"
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


# Scores of facts, computed from their evidence, without a model.

CandidateLevel = Literal["promote", "retain", "prune"]
"""`promote`: it scores high. `prune`: `Prune()` would hide it. `retain`: all others."""


@frozen_by_name
class CandidateWeights:
    """Weights of a fact's score; only the ratio of the first four matters.

    Raises InvalidRequestError for invalid values.
    """

    activity: float = 0.1
    """Weight of repetition: 1 - 1 / the number of turns that state the fact."""
    importance: float = 0.5
    """Weight of the importance set by the extractor."""
    reusability: float = 0.1
    """Weight of reuse: 1 - 1 / the number of sessions with the fact."""
    recency: float = 0.3
    """Weight of the age of the last statement: halved by each `half_life`."""
    half_life: timedelta = timedelta(hours=69.3)
    promote_from: float = 0.6
    """In [0, 1]: the lowest score of a fact to promote."""

    def __post_init__(self) -> None:
        for name, value in self._shares().items():
            if not is_number(value) or value < 0:
                raise InvalidRequestError(f"{name}={shown(value)}: give a weight of 0 or more")
        if not sum(self._shares().values()):
            raise InvalidRequestError("all weights are 0: give one above 0")
        if not isinstance(self.half_life, timedelta) or self.half_life <= timedelta(0):
            raise InvalidRequestError(
                f"half_life={shown(self.half_life)}: give a timedelta above 0"
            )
        if not is_number(self.promote_from) or not 0 <= self.promote_from <= 1:
            raise InvalidRequestError(
                f"promote_from={shown(self.promote_from)}: give a number from 0 to 1"
            )

    def _shares(self) -> dict[str, float]:
        return {one.name: getattr(self, one.name) for one in fields(self)[:4]}

    def mean(self, parts: dict[str, float]) -> float:
        """Return the score of a fact with these parts, each in [0, 1]."""
        shares = self._shares()
        return sum(shares[name] * parts[name] for name in shares) / sum(shares.values())


@frozen_by_name
class ScoredFact:
    """A current fact with its score, and the parts of the score."""

    record: ContextRecord
    level: CandidateLevel
    score: float
    """In [0, 1], the mean of the parts, which are in [0, 1] too."""
    activity: float
    importance: float
    reusability: float
    recency: float


async def candidates(
    made: Records, tidying: Tidying, weights: CandidateWeights | None
) -> list[ScoredFact]:
    """Return the current facts, highest score first."""
    if weights is None:
        weights = CandidateWeights()
    if not isinstance(weights, CandidateWeights):
        raise InvalidRequestError(f"weights={shown(weights)}: pass CandidateWeights")
    hidden = {*(await tidying.pruning(Prune())).input_ids}
    where = made.where(sql.equals("kind", params.FACT))
    found = await made.read(where, columns=WITHOUT_BLOB)
    scored = [_scored(one, weights, made.now(), is_dull=one.id in hidden) for one in found]
    return sorted(scored, key=lambda one: -one.score)


def _scored(
    one: ContextRecord, weights: CandidateWeights, now: datetime, *, is_dull: bool
) -> ScoredFact:
    evidence = params.evidence(one)
    age = max((now - params.last_said(one)) / weights.half_life, 0.0)
    parts = {
        "activity": _beyond_the_first([proof.source_id for proof in evidence]),
        "importance": float(one.metadata["importance"]),
        "reusability": _beyond_the_first([proof.session_id for proof in evidence]),
        "recency": 0.5**age,
    }
    score = weights.mean(parts)
    level: CandidateLevel = "promote" if score >= weights.promote_from else "retain"
    return ScoredFact(record=one, level="prune" if is_dull else level, score=score, **parts)


def _beyond_the_first(named: Sequence[Any]) -> float:
    return 1 - 1 / max(len({*named}), 1)
