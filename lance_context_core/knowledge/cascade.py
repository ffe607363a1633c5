"""What remains of facts, chunks, summaries and jobs without some of the turns they came from."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import count
from typing import Any

from lance_context_core._util.retry import Attempts
from lance_context_core.codecs.records import COLUMNS
from lance_context_core.erasure.selector import Target
from lance_context_core.jobs import commits
from lance_context_core.jobs.commits import Held
from lance_context_core.jobs.queue import Queue
from lance_context_core.jobs.types import KIND as JOB
from lance_context_core.jobs.types import SUMMARISE, Job, from_record, owner_of, to_record
from lance_context_core.knowledge import params, slots, turns
from lance_context_core.knowledge.builders import Builders
from lance_context_core.knowledge.consolidation import Known
from lance_context_core.knowledge.distilling import EXTRACT, Distiller, read_by
from lance_context_core.knowledge.evidence_text import Place, place_of
from lance_context_core.knowledge.proposals import PROPOSALS
from lance_context_core.knowledge.turns import Conversation
from lance_context_core.knowledge.types import Evidence
from lance_context_core.knowledge.undo_log import ARCHIVE
from lance_context_core.scope import SCOPE_PARTS, Scope
from lance_context_core.storage import sql
from lance_context_core.storage.lance import branches as refs
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.stores.records.scoped import Records
from lance_context_core.types import ContextRecord
from lance_context_core.versioning import branches
from lance_context_core.versioning.locations import Whole

_GONE: Any = object()


@dataclass(frozen=True)
class Erased:
    """The turns that are erased."""

    turns: frozenset[tuple[Conversation, str]]
    ids: frozenset[str]
    """Of whatever session of the scope."""

    def has(self, owner: Scope, session_id: str | None, id: str) -> bool:
        """Whether a turn is among them."""
        return id in self.ids or (Conversation(owner, session_id or ""), id) in self.turns

    def proves(self, record: ContextRecord, evidence: Evidence) -> bool:
        """Whether evidence of a record is in one of them."""
        return self.has(turns.owner_of(record), evidence.session_id, evidence.source_id)

    @cached_property
    def all_ids(self) -> frozenset[str]:
        """What they are called."""
        return self.ids | {id for _, id in self.turns}


@dataclass(slots=True)
class Remaining:
    """What is known, as it becomes once some turns are gone."""

    erased: Erased
    held: Mapping[str, Held]
    """As it was read, by key."""
    moment: datetime
    """Now."""
    added: list[ContextRecord] = field(default_factory=list)
    """What takes the place of facts whose first turn is gone: each is called by its first turn."""
    _after: dict[str, ContextRecord] = field(default_factory=dict)
    _renamed: dict[str, str] = field(default_factory=dict)
    """Ids and keys of these facts, and what they are now."""
    _lost: set[str] = field(default_factory=set)
    """The ids of what nothing supports any more."""

    def sources_that_stay(self) -> set[str]:
        """The ids of the turns by which facts stay that lose others."""
        return {
            one.source_id
            for held in self._facts()
            for one in self._left(held.record)
            if len(self._left(held.record)) < len(params.evidence(held.record))
        }

    def rebuild(self, said: Iterable[ContextRecord]) -> None:
        """Decide what becomes of facts, chunks and jobs, given the turns by which facts stay."""
        there = {place_of(one): one for one in said}
        for key, held in self.held.items():
            if held.record.kind in (params.FACT, params.CHUNK):
                self._reduce(key, held.record, there)
        self._in_the_place_of()
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

    def summaries(self) -> Iterator[tuple[Held, set[str]]]:
        """The summaries that may have been made of erased turns, and of what they can be made now."""
        for held in self.held.values():
            if held.record.kind != params.SUMMARY or held.record.retired_at is not None:
                continue
            about = Conversation(turns.owner_of(held.record), held.record.session_id or "")
            read = self._read(about)
            left = {id for id in read if not self.erased.has(about.owner, about.session_id, id)}
            if left and len(left) < len(read):
                yield held, left

    def replace(self, held: Held, new: ContextRecord) -> None:
        """Have something in the place of what was there."""
        key = commits.key(held.record)
        self._after[key] = replace(new, created_at=held.record.created_at)

    def changes(self) -> list[tuple[Held, ContextRecord]]:
        """What stays, and is not as it was."""
        return [(self.held[key], one) for key, one in self._after.items()]

    # Facts and chunks

    def _facts(self) -> Iterator[Held]:
        return (one for one in self.held.values() if one.record.kind == params.FACT)

    def _left(self, record: ContextRecord) -> list[Evidence]:
        return [one for one in params.evidence(record) if not self.erased.proves(record, one)]

    def _reduce(
        self, key: str, record: ContextRecord, there: Mapping[Place, ContextRecord]
    ) -> None:
        found, left = params.evidence(record), self._left(record)
        if len(left) == len(found):
            return
        whose = (record.tenant, record.user_id, record.agent_id)
        proofs = [
            (one, turn)
            for one in left
            if (turn := there.get((*whose, one.session_id, one.source_id))) is not None
        ]
        if not proofs:
            self._lost.add(record.id)
            return
        since = min(turn.created_at for _, turn in proofs).isoformat()
        new = params.with_fact(
            params.with_evidence(record, [one for one, _ in proofs]), valid_from=since
        )
        if proofs[0][0] == found[0]:
            self._after[key] = new
            return
        new = _by_another_turn(new, *proofs[0], taken={one.id for one in self.added})
        self._lost.add(record.id)
        self._renamed |= {record.id: new.id, key: commits.key(new)}
        if commits.key(new) not in self.held:
            self.added.append(new)

    def _in_the_place_of(self) -> None:
        """Let what the lost ones had superseded or contradicted be as if they had never been."""
        gone = self._lost - self._renamed.keys()
        old = {
            key: self._after.get(key, one.record)
            for key, one in self.held.items()
            if one.record.kind == params.FACT and one.record.id not in self._renamed
        }
        new = {commits.key(one): one for one in self.added}
        now = {key: self._pointing(one) for key, one in (old | new).items()}
        now |= slots.without(now, gone)
        now = self._in_order(_until_the_next(now), gone)
        self.added = [now[key] for key in new]
        for key in old:
            if now[key].id not in gone and now[key] is not self.held[key].record:
                self._after[key] = now[key]

    def _in_order(
        self, now: dict[str, ContextRecord], gone: Collection[str]
    ) -> dict[str, ContextRecord]:
        """The facts, of each slot that lost one no more than one current."""
        concerned = slots.slots_of(
            one.record for one in self._facts() if one.record.id in self._lost
        )
        for slot in concerned:
            of_slot = {
                one.id: key
                for key, one in now.items()
                if one.retired_at is None and one.id not in gone and slots.slots_of([one]) == {slot}
            }
            known = Known(facts={id: now[key] for id, key in of_slot.items()})
            for same in known.settle():
                known.facts[same.id] = slots.retired(same, params.MERGED, self.moment)
            now |= {of_slot[id]: one for id, one in known.facts.items()}
        return now

    def _pointing(self, one: ContextRecord) -> ContextRecord:
        """The fact, pointing to what is called otherwise now by its new name."""
        if one.superseded_by_id in self._renamed:
            one = replace(one, superseded_by_id=self._renamed[one.superseded_by_id])
        against = one.metadata.get("conflicts", ())
        if any(id in self._renamed for id in against):
            ids = [self._renamed.get(id, id) for id in against]
            one = replace(one, metadata={**one.metadata, "conflicts": ids})
        return one

    # Jobs

    def _read(self, conversation: Conversation) -> set[str]:
        """The turns of a session that jobs have read, and nobody has taken back."""
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
            # Its worker has read what is erased: it writes nothing any more.
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
        ids = [self._renamed.get(id, id) for id in job.input_ids]
        return [id for id in ids if id not in self._lost and id not in self.erased.all_ids]

    def _mapped(self, value: Any, owner: Scope) -> Any:
        """What a job has noted, without what is gone."""
        if isinstance(value, Mapping):
            if self._is_gone(value, owner):
                return _GONE
            return {name: _absent(self._mapped(one, owner)) for name, one in value.items()}
        if isinstance(value, str):
            new = self._renamed.get(value, value)
            return _GONE if new in self._lost else new
        if isinstance(value, Sequence):
            found = [self._mapped(one, owner) for one in value]
            if _GONE in found and _is_pair(value):
                return _GONE
            return [one for one in found if one is not _GONE]
        return value

    def _is_gone(self, value: Mapping[str, Any], owner: Scope) -> bool:
        """Whether it is evidence in a turn, or the change of a record, that is gone."""
        if "source_id" in value and "session_id" in value:
            return self.erased.has(owner, value["session_id"], value["source_id"])
        id = value.get("id")
        return "key" in value and (
            id in self._lost - self._renamed.keys() or id in self.erased.all_ids
        )


def _until_the_next(facts: Mapping[str, ContextRecord]) -> dict[str, ContextRecord]:
    """The facts, each true until what superseded it begins."""
    since = {one.id: params.about(one)["valid_from"] for one in facts.values()}
    return {
        key: (
            one
            if (until := since.get(one.superseded_by_id or "")) is None
            or until == params.about(one)["valid_to"]
            else params.with_fact(one, valid_to=until)
        )
        for key, one in facts.items()
    }


def _by_another_turn(
    record: ContextRecord, evidence: Evidence, turn: ContextRecord, *, taken: Collection[str]
) -> ContextRecord:
    """The fact as that turn states it: what a person made of it stays, and what a model did goes."""
    about = params.about(record)
    quote = (turn.text or "")[evidence.start : evidence.end]
    is_curated = bool(record.metadata.get("curated"))
    place = (evidence.session_id, evidence.source_id, evidence.start, evidence.end)
    ids = (
        params.made_id(params.FACT, *place, about["slot"], about["kind"], *([nth] if nth else []))
        for nth in count()
    )
    new = replace(
        params.with_fact(record, quote=quote),
        id=next(id for id in ids if id not in taken),
        session_id=evidence.session_id,
        text=record.text if is_curated else quote,
        role=turn.role,
        name=turn.name,
        created_at=turn.created_at,
        embedding=None,
    )
    metadata = {**new.metadata, "job_id": evidence.job_id}
    metadata.pop("revisions", None)
    if record.text != about["quote"] and not is_curated:
        metadata["stale"] = True
    return replace(new, metadata=metadata)


def _absent(value: Any) -> Any:
    return None if value is _GONE else value


def _is_pair(value: Collection[Any]) -> bool:
    return len(value) == 2 and all(isinstance(one, str) for one in value)


# What an erasure leaves of the knowledge: as if what is erased had never been said.
#
# What only erased turns support is left as it is, and goes with them. The rest is written anew, without
# them, before they go: killed in between, the erasure is called again, and finds that done.

_KNOWLEDGE = sql.in_list("kind", [params.FACT, params.CHUNK, params.SUMMARY, JOB])


async def forget(spoken: Records, target: Target, *, dry_run: bool) -> frozenset[str]:
    """Write anew what has other sources than what is erased, on every branch.

    Proposals that saw it are discarded. Returns the keys of what stays, in a dry run too.
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
    return frozenset(staying)


def _on(records: Records, branch: str) -> Records:
    resources = records.resources
    return replace(records, resources=resources.on(resources.writable().on(branch)))


async def _meant(spoken: Records, target: Target) -> Erased:
    """The turns that are erased, hidden ones too."""
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
        held = await commits.held(made, _KNOWLEDGE)
        remaining = Remaining(erased, {one.row[KEY]: one for one in held}, made.now())
        await _work(remaining, spoken, made)
        changed = remaining.changes()
        keys = {before.row[KEY] for before, _ in changed}
        if dry_run:
            return keys
        if await commits.write(made, remaining.added, changed):
            return keys


async def _work(remaining: Remaining, spoken: Records, made: Records) -> None:
    """Decide what becomes of everything, by what the turns that stay say."""
    sources = remaining.sources_that_stay()
    said: list[ContextRecord] = []
    if sources:
        named = sql.in_list("id", sorted(sources))
        where = spoken.own(turns.MESSAGES, named)
        said = await spoken.read(where, columns=COLUMNS)
    remaining.rebuild(said)
    distiller = Distiller(spoken, made, Builders())
    for held, only in remaining.summaries():
        record = held.record
        conversation = turns.Conversation(turns.owner_of(record), record.session_id or "")
        by = str(record.metadata.get("job_id", ""))
        new = await distiller.summarised(conversation, by, only=only)
        if new is not None:
            remaining.replace(held, new)


async def _discard(whole: Whole, spoken: Records, erased: Erased) -> None:
    """Drop the proposals that saw it, with their branches."""
    queue = Queue(replace(spoken, context=params.CONTEXT))
    for job in await queue.list():
        if job.kind in PROPOSALS and job.state != "succeeded" and _saw(job.input_ids, erased):
            await queue.change(job.id, state="cancelled", lease_until=None, fence=job.fence + 1)
            await branches.delete(whole, job.branch or "")


def _saw(ids: Collection[str], erased: Erased) -> bool:
    return bool({*ids} & erased.all_ids)
