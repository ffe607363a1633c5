"""The job that extracts chunks, facts and a summary from turns, in one commit."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import pyarrow as pa

from lance_context_core._util.frozen import frozen
from lance_context_core.codecs.records import key_of
from lance_context_core.errors import InvalidRequestError, ModelAnswerError
from lance_context_core.filters import RECORD_FIELDS
from lance_context_core.jobs import commits
from lance_context_core.jobs.commits import Basis, Held, Outcome, implied
from lance_context_core.jobs.queue import Decide
from lance_context_core.jobs.types import KIND as JOB
from lance_context_core.jobs.types import (
    USAGE,
    Job,
    JobState,
    job_id,
    owner_of,
    scheduled,
)
from lance_context_core.knowledge import params, summaries, turns
from lance_context_core.knowledge.builders import Builders
from lance_context_core.knowledge.chunks import chunks
from lance_context_core.knowledge.finding import Finding, counted, find
from lance_context_core.knowledge.fold import around, observe
from lance_context_core.knowledge.hearing import places_of, read_around, read_placed
from lance_context_core.knowledge.policies import Decided, checked, neighbourhoods
from lance_context_core.knowledge.protocols import (
    ExtractorInContext,
)
from lance_context_core.knowledge.rules import is_heard
from lance_context_core.knowledge.turns import Conversation
from lance_context_core.knowledge.types import (
    Consolidation,
    FactCandidate,
    SpokenTurn,
    Summary,
    Surroundings,
)
from lance_context_core.scope import SCOPE_PARTS
from lance_context_core.search.options import ALONE
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.stores.records.scoped import Records
from lance_context_core.types import ContextRecord

EXTRACT = "extract"
_LEFT, _REFUSED = "left", "refused"
"""Result keys of an unfinished job: waiting turns, and those without usable answers."""
_NOTHING = Surroundings()
_MOST_KNOWN, _MOST_ASKED = 8, 1_000
"""Maximum of known facts per extraction, and of characters to search them by."""
AWAY = "was archived before its turns were read"
"""The error of a job that waits until its session is unarchived."""
MOST_TURNS = 200
"""Maximum number per job."""
_BEFORE = 8
"""Number of messages before the new ones, for an extractor that reads their context."""
_JUST_BEFORE = 4
"""Number of messages among which is the one whose chunk precedes the first new one."""
_MOST_NEIGHBOURS = 5
"""Maximum number of neighbours of a new fact."""


@frozen
class Distiller:
    """Extracts knowledge from turns: by rules, or with a model."""

    spoken: Records
    """The records of the turns."""
    made: Records
    """The records of the knowledge."""
    makers: Builders

    @property
    def producer(self) -> str:
        """The name of the makers; another producer makes the facts again."""
        return self.makers.name

    async def plan(
        self, *, session_id: str | None = None, parent_id: str | None = None
    ) -> list[Job]:
        """Return new, unsaved jobs for the turns that no job covers yet."""
        here = {} if session_id is None else {"session_id": session_id}
        extracting = sql.filtered({"job.kind": EXTRACT, **here}, columns=RECORD_FIELDS)
        where = self.made.own(sql.equals("kind", JOB), extracting)
        columns = ["session_id", "source_ids", *SCOPE_PARTS]
        known = (await self.made.table.select(where, columns=columns)).select(columns)
        owed = [
            {name: getattr(one, name) for name in ("session_id", *SCOPE_PARTS)}
            | {"source_ids": [*one.input_ids]}
            for one in await implied(self.made)
        ]
        covered = pa.concat_tables([known, pa.Table.from_pylist(owed, schema=known.schema)])
        found = await turns.unread(self.spoken, session_id=session_id, covered=covered)
        return [
            self.job(one, ids[start : start + MOST_TURNS], parent_id=parent_id)
            for one, ids in found.items()
            for start in range(0, len(ids), MOST_TURNS)
        ]

    def job(
        self, conversation: Conversation, ids: Sequence[str], *, parent_id: str | None = None
    ) -> Job:
        """Return the job for these turns."""
        producer = self.producer
        return scheduled(
            EXTRACT,
            job_id(EXTRACT, conversation.owner, conversation.session_id, ids, producer),
            owner=conversation.owner,
            now=self.made.now(),
            input_ids=tuple(ids),
            session_id=conversation.session_id,
            producer=producer,
            parent_id=parent_id,
        )

    async def run(self, job: Job) -> Decide:
        """Read turns and extract facts; the returned decision is applied at the commit.

        With an extractor that works in batches, this handles the first remaining batch: its facts
        are written before the next batch is read.
        """
        conversation = Conversation(owner_of(job), job.session_id or "")
        wanted = {*job.result.get(_LEFT, job.input_ids)}
        is_in_context = isinstance(self.makers.extractor, ExtractorInContext)
        before = _BEFORE if is_in_context else _JUST_BEFORE
        heard = await read_around(self.spoken, self.made, conversation, wanted, before=before)
        left = [one for one in heard if one.id in wanted]
        if len(left) < len(wanted):
            await self._refuse_archived(conversation, wanted - {one.id for one in left})
        new, finding, waiting = await self._first_found(job, conversation, heard, left)
        facts = self._facts(job, conversation, new, finding.candidates)
        decided = await self._decided(conversation, facts)
        is_told = self.makers.summariser is not None
        last = await self._last_summary(conversation) if is_told else None
        told = await self._summary(new, last)
        usage = Counter(USAGE.get() or ())
        usage.subtract(job.usage)
        faults = finding.faults + decided.faults + Counter(told.faults)
        now = self.made.now()
        pieces = [
            (turn, params.chunk(conversation, turn, start, end, job_id=job.id, now=now))
            for turn in heard
            if turn.role != "system" and not turns.is_echo(turn.metadata)
            for start, end in chunks(turn.text)
        ]
        # Only the keys of the chunks before the first new one are needed; these may be written
        # later.
        previous = {after.id: commits.key(before) for (_, before), (_, after) in pairwise(pieces)}
        mine = {one.id for one in new}
        own = [piece for turn, piece in pieces if turn.id in mine]

        async def decide() -> Outcome:
            done = await self._decide(conversation, own, facts, decided)
            await self._summarise(job, conversation, done, new, told.text, last)
            counts = finding.decisions + Counter(done.result["decisions"])
            result = {**done.result, "decisions": dict(counts), "faults": dict(faults)}
            result = {**_together(job.result, result), **waiting}
            state: JobState = "running" if waiting else "succeeded"
            done = replace(done, previous=previous, usage=dict(+usage), result=result)
            return replace(done, state=state)

        return decide

    async def summarised(
        self, conversation: Conversation, job_id: str, *, only: Collection[str] | None = None
    ) -> ContextRecord | None:
        """Return the summary of a session or of some turns; None if empty."""
        heard = await turns.read(self.spoken, conversation)
        found = summaries.said_in(one for one in heard if only is None or one.id in only)
        return self._summary_of(conversation, found, job_id)

    # Helpers

    async def _first_found(
        self,
        job: Job,
        conversation: Conversation,
        heard: Sequence[SpokenTurn],
        left: Sequence[SpokenTurn],
    ) -> tuple[Sequence[SpokenTurn], Finding, dict[str, Any]]:
        """Return the first remaining batch with facts, its facts, and the turns that wait.

        A batch without a usable answer waits, behind the others, for the next attempt. Raises the
        errors of the model, and ModelAnswerError once only such batches are left.
        """
        makers = self.makers
        extractor = makers.extractor
        batches: list[Sequence[SpokenTurn]] = [left]
        if is_parted := isinstance(extractor, ExtractorInContext):
            batches = [*extractor.batches(left)] or batches
        refused = _refused(job)
        problem = job.result.get(_REFUSED, {}).get("error", "")
        for batch in batches:
            if any(one.id in refused for one in batch):
                continue
            around = await self._around_batch(conversation, heard, batch) if is_parted else _NOTHING
            try:
                finding = await find(extractor, makers.paraphraser, batch, around)
            except ModelAnswerError as error:
                if len(batches) == 1:
                    raise
                problem = str(error)
                refused |= {one.id for one in batch}
                continue
            waiting = [one.id for other in batches if other is not batch for one in other]
            if not waiting:
                return batch, finding, {}
            told = {"ids": sorted(refused), "error": problem, "fence": job.fence}
            return batch, finding, {_LEFT: waiting, _REFUSED: told}
        raise ModelAnswerError(problem)

    async def _around_batch(
        self, conversation: Conversation, heard: Sequence[SpokenTurn], batch: Sequence[SpokenTurn]
    ) -> Surroundings:
        """Return the messages before a batch, and its owner's facts that are near to it."""
        if not batch:
            return _NOTHING
        before = heard[: next(n for n, one in enumerate(heard) if one is batch[0])]
        question = "\n".join(one.text for one in batch if is_heard(one))[-_MOST_ASKED:]
        if not question.strip():
            return Surroundings(before=before)
        hits = await self.made.search(
            question,
            sql.equals("kind", params.FACT),
            turns.owned_by(conversation.owner),
            room=ALONE,
            limit=_MOST_KNOWN,
        )
        return Surroundings(before=before, known=[one.record for one in hits])

    async def _refuse_archived(self, conversation: Conversation, missing: Collection[str]) -> None:
        """Raise InvalidRequestError if any of these turns is only hidden with its session.

        An empty result would be wrong for turns that were not read.
        """
        if await turns.archived_among(self.spoken, conversation, missing):
            raise InvalidRequestError(
                f"session {conversation.session_id!r} {AWAY}: unarchive it, and the job is due again"
            )

    def _facts(
        self,
        job: Job,
        conversation: Conversation,
        turns_of: Sequence[SpokenTurn],
        found: Sequence[FactCandidate],
    ) -> list[ContextRecord]:
        """Return the candidates as records."""
        by_id = {one.id: one for one in turns_of}
        seen: Counter[tuple[object, ...]] = Counter()
        facts = []
        now = self.made.now()
        for one in found:
            place = (one.source_id, one.start, one.end, one.slot, one.kind)
            facts.append(
                params.fact(
                    conversation,
                    by_id[one.source_id],
                    one,
                    job_id=job.id,
                    producer=self.producer,
                    now=now,
                    nth=seen[place],
                )
            )
            seen[place] += 1
        return facts

    async def _decided(self, conversation: Conversation, facts: Sequence[ContextRecord]) -> Decided:
        """Ask for decisions on facts without a slot: one call per neighbourhood."""
        if self.makers.consolidator is None:
            return Decided()
        mine = {one.id: one for one in facts if params.about(one)["slot"] is None}
        known: dict[str, ContextRecord] = {}
        near: dict[str, list[str]] = {}
        for one in mine.values():
            hits = await self.made.search(
                one.text,
                sql.equals("kind", params.FACT),
                turns.owned_by(conversation.owner),
                filter={"fact.slot": None, "fact.subject": params.about(one)["subject"]},
                room=ALONE,
                limit=_MOST_NEIGHBOURS,
            )
            found = [hit.record for hit in hits if hit.record.id not in mine]
            known |= {each.id: each for each in found}
            near[one.id] = [each.id for each in found]
        said = []
        consolidator = self.makers.consolidator
        for new_ids, known_ids in neighbourhoods(near):
            new = [mine[id] for id in new_ids]
            try:
                told = await counted(
                    partial(consolidator.decide, new, [known[id] for id in known_ids])
                )
            except ModelAnswerError as error:
                # Extracting the facts again would cost as much: they are added without a decision.
                told = Consolidation(faults={error.fault: 1})
            said.append(checked(told, new_ids, known_ids))
        return Decided.of(said)

    async def _summary(self, new: Sequence[SpokenTurn], before: Held | None) -> Summary:
        """Return the summariser's update of the last summary."""
        if self.makers.summariser is None:
            return Summary()
        last = None if before is None else before.record.text
        try:
            told: Summary = await counted(partial(self.makers.summariser.summarise, new, last))
        except ModelAnswerError as error:
            return Summary(faults={error.fault: 1})
        return told

    async def _last_summary(self, conversation: Conversation) -> Held | None:
        """Return the summary of a session, hidden or not."""
        id = params.summary_id(conversation.session_id)
        key = key_of(conversation.owner, params.CONTEXT, "id", id)
        found = await commits.held(self.made, sql.in_list(KEY, [key]))
        return found[0] if found else None

    async def _summarise(
        self,
        job: Job,
        conversation: Conversation,
        done: Outcome,
        new: Sequence[SpokenTurn],
        told: str | None,
        seen: Held | None,
    ) -> None:
        """Update the summary with its own sentences and those of the new turns."""
        last = await self._last_summary(conversation)
        found = await self._carried(conversation, last, new)
        made = self._summary_of(conversation, found, job.id)
        if made is None:
            return
        done.result["summary"] = made.id
        if told is not None and (last and last.row) == (seen and seen.row):
            # Otherwise it lacks what others have summarised meanwhile.
            made = replace(made, text=told)
        if last is None:
            done.added.append(made)
        elif not params.is_protected(last.record):
            done.changed.append((last, replace(made, created_at=last.record.created_at)))

    async def _carried(
        self, conversation: Conversation, last: Held | None, new: Sequence[SpokenTurn]
    ) -> list[summaries.Sentence]:
        """Return the sentences of the last summary and of new turns, in their order."""
        found = summaries.said_in(new)
        evidence = () if last is None else params.evidence(last.record)
        mine = {one.id for one in new}
        if last is None or last.record.retired_at is not None or not mine:
            return found
        others = {one.source_id for one in evidence} - mine
        places: dict[str, int] = last.record.metadata.get(params.PLACES, {})
        if not others <= places.keys():
            # An older release has not stored them.
            places = await places_of(self.spoken, conversation, others)
        named = {id: place for id, place in places.items() if id in others}
        there = await read_placed(self.spoken, conversation, named)
        before = [one for one in there if one.place < new[0].place]
        behind = [one for one in there if one.place >= new[0].place]
        quoted = summaries.quoted_in
        return [*quoted(evidence, before), *found, *quoted(evidence, behind)]

    def _summary_of(
        self, conversation: Conversation, found: Sequence[summaries.Sentence], job_id: str
    ) -> ContextRecord | None:
        """Return the summary of sentences; None if empty."""
        if not (chosen := summaries.picked(found)):
            return None
        text = summaries.text_of(chosen)
        made = params.summary(conversation, text, chosen, job_id=job_id, now=self.made.now())
        ends = [turn.expires_at for turn, _ in chosen]
        # It expires with the first of its turns.
        return replace(made, expires_at=min((one for one in ends if one), default=None))

    async def _decide(
        self,
        conversation: Conversation,
        pieces: Sequence[ContextRecord],
        facts: Sequence[ContextRecord],
        decided: Decided,
    ) -> Outcome:
        new = [one for one in map(decided.applied, facts) if one is not None]
        known = await around(self.spoken, self.made, conversation.owner, new)
        report = observe(known, new)
        report["decisions"]["noop"] += len(facts) - len(new)
        added, changed = known.changes()
        basis = known.basis([commits.key(one) for one in new])
        there = await self._there(conversation, pieces)
        missing = [one for one in pieces if one.id not in there]
        changed += [
            (there[one.id], one)
            for one in pieces
            if one.id in there and {*params.outs(there[one.id].record)} == {params.UNDONE}
        ]
        counts = {name: n for name, n in report.pop("decisions").items() if n}
        return Outcome(
            added=[*missing, *added],
            changed=changed,
            result={
                "decisions": counts,
                "chunks": [one.id for one in missing],
                **report,
                "summary": None,
            },
            basis=basis.joined(Basis([*there.values()])),
        )

    async def _there(
        self, conversation: Conversation, records: Sequence[ContextRecord]
    ) -> dict[str, Held]:
        if not records:
            return {}
        named = sql.in_list("id", [one.id for one in records])
        found = await commits.held(self.made, named, turns.owned_by(conversation.owner))
        return {one.record.id: one for one in found}


def read_by(job: Job) -> set[str]:
    """Return the turns that a job, or its finished parts, have read."""
    if job.state != "succeeded" and _LEFT not in job.result:
        return set()
    return {*job.input_ids} - {*job.result.get(_LEFT, ())}


def _refused(job: Job) -> set[str]:
    """Return the turns without a usable answer in this attempt."""
    told = job.result.get(_REFUSED, {})
    return {*told["ids"]} if told.get("fence") == job.fence else set()


def _together(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Combine the results of a job's finished parts."""
    found = dict(now)
    for name, one in before.items():
        if isinstance(one, list) and name in now:
            found[name] = [*one, *now[name]]
        elif isinstance(one, Mapping) and name in now:
            found[name] = dict(Counter(one) + Counter(now[name]))
    return found
