"""Updates facts, chunks, summaries and jobs after the removal of turns."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from lance_context_core._util.checks import loads
from lance_context_core._util.retry import Attempts
from lance_context_core.erasure.selector import Target
from lance_context_core.errors import ReadOnlyError
from lance_context_core.jobs import commits
from lance_context_core.jobs.commits import Basis, Held
from lance_context_core.jobs.queue import Queue
from lance_context_core.jobs.types import KIND as JOB
from lance_context_core.jobs.types import SUMMARISE, Job, from_record, owner_of, to_record
from lance_context_core.knowledge import params, turns
from lance_context_core.knowledge.builders import Builders
from lance_context_core.knowledge.distilling import EXTRACT, Distiller, read_by
from lance_context_core.knowledge.fold import CONTRADICTED, FACT, Facts, around_all
from lance_context_core.knowledge.proposals import PROPOSALS
from lance_context_core.knowledge.turns import Conversation
from lance_context_core.knowledge.types import Evidence
from lance_context_core.knowledge.undo_log import ARCHIVE, UNDO, Standing
from lance_context_core.scope import SCOPE_PARTS, Scope
from lance_context_core.storage import sql
from lance_context_core.storage.lance import branches as refs
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.stores.records import archive
from lance_context_core.stores.records.scoped import WITHOUT_BLOB, Records
from lance_context_core.types import ContextRecord
from lance_context_core.versioning import branches
from lance_context_core.versioning.locations import Whole

_GONE: Any = object()


@dataclass(frozen=True)
class Erased:
    """The turns to erase."""

    turns: frozenset[tuple[Conversation, str]]
    ids: frozenset[str]
    """In any session of the scope."""

    def has(self, owner: Scope, session_id: str | None, id: str) -> bool:
        """Whether a turn is among them."""
        return id in self.ids or (Conversation(owner, session_id or ""), id) in self.turns

    def proves(self, record: ContextRecord, evidence: Evidence) -> bool:
        """Whether evidence of a record is in one of them."""
        return self.has(turns.owner_of(record), evidence.session_id, evidence.source_id)

    @cached_property
    def all_ids(self) -> frozenset[str]:
        """The ids of all of them."""
        return self.ids | {id for _, id in self.turns}


@dataclass(slots=True)
class Remaining:
    """The knowledge after the removal of some turns."""

    erased: Erased
    held: Mapping[str, Held]
    """The records before it, by key."""
    facts: Facts
    """The facts among them."""
    gone: dict[str, Held] = field(default_factory=dict)
    """Records without support, by key."""
    _after: dict[str, ContextRecord] = field(default_factory=dict)
    _lost: set[str] = field(default_factory=set)
    """Their ids."""

    def rebuild(self) -> None:
        """Compute the new facts, chunks and jobs."""
        lost = {key for key, one in self.facts.rows.items() if self._is_of_erased(one)}
        self._lost |= {self.facts.rows[key].id for key in lost}
        self.facts.drop(lost)
        for key, held in self.held.items():
            if held.record.kind == params.CHUNK and self._is_of_erased(held.record):
                self._lost.add(held.record.id)
                lost.add(key)
        self.gone = {key: self.held[key] for key in lost if key in self.held}
        jobs = {
            key: from_record(one.record) for key, one in self.held.items() if one.record.kind == JOB
        }
        while gone := {
            one.id
            for one in jobs.values()
            if one.id not in self._lost and one.input_ids and not self._inputs(one)
        }:
            self._lost |= gone
        for key, job in jobs.items():
            if job.id not in self._lost:
                self._job(key, job)
            else:
                self.gone[key] = self.held[key]

    def summaries(self) -> Iterator[tuple[Held, set[str]]]:
        """Yield summaries that may quote erased turns, with the ids of remaining turns."""
        for held in self.held.values():
            if held.record.kind != params.SUMMARY or held.record.retired_at is not None:
                continue
            about = Conversation(turns.owner_of(held.record), held.record.session_id or "")
            read = self._read(about) | {*held.record.source_ids}
            left = {id for id in read if not self.erased.has(about.owner, about.session_id, id)}
            if len(left) < len(read):
                self.gone[held.row[KEY]] = held
                yield held, left

    def lapse(self, there: Mapping[tuple[Conversation, str], ContextRecord]) -> None:
        """Set the expiry of facts and chunks to that of their turns."""
        moved = []
        for key, one in self.facts.rows.items():
            proof = params.own_evidence(one)
            turn = there.get((Conversation(turns.owner_of(one), proof.session_id), proof.source_id))
            until = turn and turn.expires_at and turn.expires_at.isoformat()
            if turn is not None and until != params.observed(one).get("expires_at"):
                moved.append((key, params.with_observed(one, expires_at=until)))
        self.facts.rows |= moved
        for key, held in self.held.items():
            one = held.record
            about = Conversation(turns.owner_of(one), one.session_id or "")
            if one.kind not in (params.CHUNK, params.SUMMARY) or key in self.gone:
                continue
            said_by = [there.get((about, proof.source_id)) for proof in params.evidence(one)]
            ends = [turn.expires_at for turn in said_by if turn is not None and turn.expires_at]
            if (until := min(ends, default=None)) != one.expires_at:
                self._after[key] = replace(one, expires_at=until)

    def settle(
        self,
        there: Mapping[tuple[Conversation, str], ContextRecord],
        jobs: Collection[Job],
        now: datetime,
    ) -> None:
        """Hide the knowledge of archived turns or undone jobs that a merge has brought back.

        A branch may have changed it without knowing that. `jobs` are those that have read turns of
        the same sessions.
        """
        extracting = {one.id: one for one in jobs}
        standing = Standing.of(jobs)

        def settled(one: ContextRecord) -> ContextRecord:
            said_by = [
                there.get((Conversation(turns.owner_of(one), proof.session_id), proof.source_id))
                for proof in _proofs(one)
            ]
            if said_by and all(turn and turn.retired_reason == ARCHIVE for turn in said_by):
                one = one if ARCHIVE in params.outs(one) else params.taken_out(one, ARCHIVE)
            job = extracting.get(one.metadata.get("job_id", ""))
            if one.kind == params.SUMMARY or job is None or job.undone_by is None:
                return one
            if (other := standing.taken_over(one)) is not None:
                return params.put_in(other, UNDO) if UNDO in params.outs(other) else other
            is_open = UNDO in params.outs(one) or params.is_protected(one)
            return one if is_open else params.taken_out(one, UNDO)

        self.facts.rows |= {key: settled(one) for key, one in self.facts.rows.items()}
        for key, held in self.held.items():
            before = self._after.get(key, held.record)
            if before.kind in (params.CHUNK, params.SUMMARY) and key not in self.gone:
                after = settled(before)
                if after is not before:
                    self._after[key] = params.shown(after, now)

    def replace(self, held: Held, new: ContextRecord) -> None:
        """Replace a record."""
        key = commits.key(held.record)
        self._after[key] = replace(new, created_at=held.record.created_at)
        del self.gone[key]

    def changes(self) -> tuple[list[ContextRecord], list[tuple[Held, ContextRecord]]]:
        """Return the records to add, and the changed ones."""
        added, changed = self.facts.changes()
        return added, [*changed, *((self.held[key], one) for key, one in self._after.items())]

    def _is_of_erased(self, record: ContextRecord) -> bool:
        return self.erased.proves(record, params.own_evidence(record))

    # Jobs

    def _read(self, conversation: Conversation) -> set[str]:
        """Return the turns of a session that jobs that are not undone have read."""
        jobs = [from_record(one.record) for one in self.held.values() if one.record.kind == JOB]
        return {
            id
            for job in jobs
            if job.kind == EXTRACT
            and job.undone_by is None
            and Conversation(owner_of(job), job.session_id or "") == conversation
            for id in read_by(job)
        }

    def _job(self, key: str, job: Job) -> None:
        left = tuple(self._inputs(job))
        result = self._mapped(job.result, owner_of(job))
        undone_by = None if job.undone_by in self._lost else job.undone_by
        new = replace(job, input_ids=left, result=result, undone_by=undone_by)
        if job.state == "running" and left != job.input_ids:
            # Its worker has read erased turns: it must not write any more.
            new = replace(new, state="scheduled", attempts=0, lease_until=None, fence=job.fence + 1)
        if new != job:
            self._after[key] = to_record(new, params.CONTEXT)

    def _inputs(self, job: Job) -> list[str]:
        if job.kind in (EXTRACT, ARCHIVE, SUMMARISE):
            owner = owner_of(job)
            return [id for id in job.input_ids if not self.erased.has(owner, job.session_id, id)]
        if (
            job.kind in PROPOSALS
            and job.state != "succeeded"
            and self.erased.all_ids & {*job.input_ids}
        ):
            return []  # a proposal that saw it
        return [
            id for id in job.input_ids if id not in self._lost and id not in self.erased.all_ids
        ]

    def _mapped(self, value: Any, owner: Scope) -> Any:
        """Return a job's notes without erased ids."""
        if isinstance(value, Mapping):
            if self._is_gone(value, owner):
                return _GONE
            return {name: _or_none(self._mapped(one, owner)) for name, one in value.items()}
        if isinstance(value, str):
            return _GONE if value in self._lost else value
        if isinstance(value, Sequence):
            found = [self._mapped(one, owner) for one in value]
            if _GONE in found and _is_pair(value):
                return _GONE
            return [one for one in found if one is not _GONE]
        return value

    def _is_gone(self, value: Mapping[str, Any], owner: Scope) -> bool:
        """Whether it is evidence in an erased turn, or the change of a removed record."""
        if "source_id" in value and "session_id" in value:
            return self.erased.has(owner, value["session_id"], value["source_id"])
        id = value.get("id")
        return "key" in value and (id in self._lost or id in self.erased.all_ids)


def _or_none(value: Any) -> Any:
    return None if value is _GONE else value


def _is_pair(value: Collection[Any]) -> bool:
    return len(value) == 2 and all(isinstance(one, str) for one in value)


# Erasure leaves the knowledge as if the erased turns had never existed. Records that only erased
# turns support are left unchanged, and erased with them. The others are rewritten without them
# before the erasure: if it is killed in between, the next call finds that done.

_KNOWLEDGE = sql.in_list("kind", [params.FACT, params.CHUNK, params.SUMMARY, JOB])


async def forget(spoken: Records, target: Target, *, dry_run: bool) -> frozenset[str]:
    """Rewrite the records with sources other than the erased turns, on every branch.

    Discards proposals that saw the turns. Returns the keys of the records that stay, in a dry run
    too.
    """
    whole = Whole(spoken.resources, Scope())
    staying: set[str] = set()
    main = _on(spoken, refs.MAIN)
    meant = await _meant(main, target)
    if not dry_run:
        await _discard(whole, main, meant)

    async def step(name: str) -> None:
        view = _on(spoken, name)
        staying.update(await _forget(view, await _meant(view, target), dry_run=dry_run))

    await branches.on_each(whole.main(), step)

    async def drop(name: str) -> None:
        view = _on(spoken, name)
        await _drop_summaries(view, await _meant(view, target), staying)

    if not dry_run and staying:
        await branches.on_each(whole.main(), drop)
    return frozenset(staying)


async def _drop_summaries(spoken: Records, erased: Erased, staying: Collection[str]) -> None:
    """Remove summaries that are empty on this branch and stay on another one.

    The erasure skips their keys because of that branch.
    """
    made = replace(spoken, context=params.CONTEXT)
    attempts = Attempts("the summaries of what is erased kept being changed by others")
    named = sql.all_of([sql.equals("kind", params.SUMMARY), sql.in_list(KEY, sorted(staying))])
    while True:
        attempts.begin()
        lost = [
            one
            for one in await commits.held(made, named)
            if any(erased.proves(one.record, proof) for proof in params.evidence(one.record))
        ]
        if not lost or await commits.write(made, [], [], removed=lost):
            return


def _on(records: Records, branch: str) -> Records:
    resources = records.resources
    return replace(records, resources=resources.on(resources.writable().on(branch)))


async def _meant(spoken: Records, target: Target) -> Erased:
    """Return the turns to erase, hidden ones too."""
    assert target.records is not None
    where = spoken.own(turns.MESSAGES, target.records)
    rows = await spoken.table.select(where, columns=["id", "session_id", *SCOPE_PARTS])
    found = {(turns.conversation_of(row), row["id"]) for row in rows.to_pylist()}
    return Erased(frozenset(found), frozenset(target.ids))


async def _forget(spoken: Records, erased: Erased, *, dry_run: bool) -> set[str]:
    made = replace(spoken, context=params.CONTEXT)
    attempts = Attempts("the knowledge of what is erased kept being changed by others")
    while True:
        attempts.begin()
        held = {one.row[KEY]: one for one in await commits.held(made, _KNOWLEDGE)}
        found = [one for one in held.values() if one.record.kind == params.FACT]
        remaining = Remaining(erased, held, await Facts.of(spoken, made, found))
        remaining.rebuild()
        await _summarise(remaining, spoken, made)
        added, changed = remaining.changes()
        keys = {before.row[KEY] for before, _ in changed}
        basis = remaining.facts.basis()
        if dry_run or await commits.write(made, added, changed, basis=basis):
            return keys


async def _summarise(remaining: Remaining, spoken: Records, made: Records) -> None:
    """Rebuild the summaries from the remaining turns."""
    distiller = Distiller(spoken, made, Builders())
    for held, only in remaining.summaries():
        record = held.record
        conversation = turns.Conversation(turns.owner_of(record), record.session_id or "")
        by = str(record.metadata.get("job_id", ""))
        left = only
        if not left:
            # Turns without a job: a branch may have read one, and its summary is the same on all
            # branches.
            there = await turns.read(spoken, conversation)
            erased, owner = remaining.erased, conversation.owner
            left = {one.id for one in there if not erased.has(owner, one.session_id, one.id)}
        new = await distiller.summarised(conversation, by, only=left)
        if new is not None:
            remaining.replace(held, new)


# Clearing, expiry or replacement of turns has the same effect.


async def cleared(
    spoken: Records, within: Mapping[str, str | None], ids: Collection[str] | None
) -> None:
    """Remove the knowledge of removed turns: see `Records.cleared`.

    Facts with other evidence are folded again, and the jobs forget the removed turns: the same
    message added again is read again.
    """
    made = replace(spoken, context=params.CONTEXT)
    of_them = [] if ids is None else [sql.has_element("source_ids", one) for one in ids]
    here = [_KNOWLEDGE, sql.all_equal(within), *([sql.any_of(of_them)] if of_them else [])]
    where = made.own(*here)
    # For most turns a cache knows without a lookup that they have no knowledge.
    rows = await made.few(where, None, within=within, columns=[KEY], at_once=bool(within))
    if not (await made.table.select(where, columns=[KEY])).num_rows if rows is None else not rows:
        return
    attempts = Attempts("the knowledge of what is cleared kept being changed by others")
    while True:
        attempts.begin()
        found = await commits.held(made, *here)
        held = {one.row[KEY]: one for one in found if _reads_turns(one.record)}
        stated = [one.record for one in held.values() if one.record.kind == params.FACT]
        facts = await around_all(spoken, made, stated)
        there = await _there(spoken, (held | facts.held).values())
        erased = Erased(frozenset(_absent(held.values(), there)), frozenset())
        remaining = Remaining(erased, held | facts.held, facts)
        remaining.rebuild()
        remaining.lapse(there)
        readers = await _readers(made, held, facts)
        remaining.settle(there, [from_record(one.record) for one in readers], made.now())
        facts.fold()
        await _summarise(remaining, spoken, made)
        added, changed = remaining.changes()
        gone = [*remaining.gone.values()]
        changed = [pair for pair in changed if pair[0].row[KEY] not in remaining.gone]
        # What counts depends on the jobs that have read the turns, and on those that undo them.
        sessions = {one.session_id for _, one in changed}
        basis = Basis([one for one in readers if one.record.session_id in sessions])
        basis = facts.basis().joined(basis)
        if await commits.write(made, added, changed, removed=gone, basis=basis):
            return


async def lapsed(spoken: Records) -> None:
    """Fold the facts of expired turns again; without any it costs one lookup."""
    made = replace(spoken, context=params.CONTEXT)
    # A statement of other turns is hidden behind the fact, whose words are no evidence now.
    counted = sql.any_of([sql.is_absent("retired_at"), sql.equals("retired_reason", params.MERGED)])
    where = made.own(FACT, sql.at_or_before("expires_at", made.now()), counted)
    if (await made.table.select(where, columns=[KEY])).num_rows:
        await cleared(spoken, {}, None)


async def _readers(made: Records, held: Mapping[str, Held], facts: Facts) -> list[Held]:
    """Return the jobs that have read turns of these records' sessions."""
    found = [*held.values()]
    others = {one.session_id or "" for one in facts.rows.values()}
    if others := others - {one.record.session_id for one in found}:
        named = sql.in_list("session_id", sorted(others))
        found += await commits.held(made, sql.equals("kind", JOB), named)
    jobs = [one for one in found if one.record.kind == JOB]
    return [one for one in jobs if from_record(one.record).kind == EXTRACT]


def _reads_turns(record: ContextRecord) -> bool:
    return record.kind != JOB or from_record(record).kind in (EXTRACT, UNDO)


async def _there(
    spoken: Records, held: Collection[Held]
) -> dict[tuple[Conversation, str], ContextRecord]:
    """Return the turns of these records, hidden ones too."""
    ids = sorted({id for one in held for id in one.record.source_ids})
    which = (turns.MESSAGES, sql.in_list("id", ids))
    found = await spoken.read(spoken.own(*which), columns=WITHOUT_BLOB)
    found += await archive.read(spoken, *which, columns=WITHOUT_BLOB)
    return {(Conversation(turns.owner_of(one), one.session_id or ""), one.id): one for one in found}


def _absent(
    held: Collection[Held], there: Mapping[tuple[Conversation, str], ContextRecord]
) -> Iterator[tuple[Conversation, str]]:
    """Yield the turns of these records that are gone or changed at the place."""
    for one in held:
        about = Conversation(turns.owner_of(one.record), one.record.session_id or "")
        if one.record.kind == JOB:
            if from_record(one.record).kind == EXTRACT:
                yield from ((about, id) for id in one.record.source_ids if (about, id) not in there)
        else:
            for proof in _proofs(one.record):
                turn = there.get((about, proof.source_id))
                is_hidden = turn is not None and turn.retired_at and turn.retired_reason != ARCHIVE
                text = None if turn is None or is_hidden else turn.text
                if text is None or params.digest(text[proof.start : proof.end]) != proof.sha256:
                    yield about, proof.source_id


def _proofs(record: ContextRecord) -> tuple[Evidence, ...]:
    """Return the evidence of one record; a summary has several places."""
    if record.kind == params.SUMMARY:
        return params.evidence(record)
    return (params.own_evidence(record),)


async def _discard(whole: Whole, spoken: Records, erased: Erased) -> None:
    """Discard the proposals that saw it, with their branches."""
    queue = Queue(replace(spoken, context=params.CONTEXT))
    for job in await queue.list():
        if job.kind in PROPOSALS and job.state != "succeeded" and _saw(job.input_ids, erased):
            await queue.change(job.id, state="cancelled", lease_until=None, fence=job.fence + 1)
            await branches.delete(whole, job.branch or "")


def _saw(ids: Collection[str], erased: Erased) -> bool:
    return bool({*ids} & erased.all_ids)


# Expiry: rows hide themselves when they expire. The first read after that moment folds the facts
# again that they had replaced, if the store is writable.

_ENDING = sql.all_of([FACT, sql.is_present("expires_at")])
_BEHIND_OTHERS = sql.all_of(
    [
        FACT,
        sql.any_of(
            [sql.is_present("superseded_by_id"), sql.equals("lifecycle_status", CONTRADICTED)]
        ),
    ]
)


_READ = ("source_ids", "retired_reason")
"""What a search reads of facts, beside the columns of any search."""


async def settle(spoken: Records, made: Records) -> Records:
    """Fold the facts again that expired ones had replaced or contradicted.

    Returns `made` for the reads of the same call. If nothing has expired, as nearly always, that is known from memory. A read-only store is not
    changed: it shows neither the expired facts nor those before them.
    """
    looked = await made.at_once(_READ)
    try:
        made.resources.writable()
    except ReadOnlyError:
        return looked
    attempts = Attempts("facts whose turns have expired kept being changed by others")
    while waiting := await _waiting(looked):
        attempts.begin()
        held = await commits.held(made, FACT, sql.in_list(KEY, waiting))
        facts = await around_all(spoken, made, [one.record for one in held])
        facts.fold()
        if await commits.write(made, *facts.changes(), basis=facts.basis()):
            return await made.at_once(_READ)
        looked = await made.at_once(_READ)
    return looked


async def _waiting(made: Records) -> list[str]:
    """Return the keys of facts that expired ones had replaced."""
    now = made.now()

    def is_over(row: Mapping[str, Any]) -> bool:
        moment = row["expires_at"]
        return bool((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) <= now)

    over = await made.remembered(_ENDING, columns=("id", "expires_at"), such=is_over)
    if not over:
        return []
    ids = {row["id"] for row in over}

    def is_behind(row: Mapping[str, Any]) -> bool:
        if row.get("superseded_by_id") in ids:
            return True
        if row.get("lifecycle_status") != CONTRADICTED:
            return False
        return not ids.isdisjoint(loads(row["metadata"], "metadata").get("conflicts", ()))

    columns = (KEY, "superseded_by_id", "lifecycle_status", "metadata")
    behind = await made.remembered(_BEHIND_OTHERS, columns=columns, such=is_behind)
    return [row[KEY] for row in behind]
