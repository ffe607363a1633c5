"""The job that makes chunks, facts and a summary of some turns of one session, in one commit."""

import inspect
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa

from lance_context_core._util.frozen import frozen
from lance_context_core.errors import InvalidRequestError
from lance_context_core.filters import RECORD_FIELDS
from lance_context_core.jobs import commits
from lance_context_core.jobs.commits import Held, Outcome, implied
from lance_context_core.jobs.queue import Decide
from lance_context_core.jobs.types import KIND as JOB
from lance_context_core.jobs.types import Job, job_id, owner_of, scheduled
from lance_context_core.knowledge import kept, summaries, turns
from lance_context_core.knowledge.chunks import chunks
from lance_context_core.knowledge.consolidating import Known
from lance_context_core.knowledge.deciding import Decided, checked, neighbourhoods
from lance_context_core.knowledge.finding import find
from lance_context_core.knowledge.makers import Makers
from lance_context_core.knowledge.turns import Conversation
from lance_context_core.knowledge.values import FactCandidate, SpokenTurn, Summary
from lance_context_core.scope import SCOPE_PARTS
from lance_context_core.search.options import ALONE
from lance_context_core.storage import sql
from lance_context_core.stores.records.scoped import Records
from lance_context_core.types import ContextRecord

EXTRACT = "extract"
AWAY = "was archived before its turns were read"
"""What the error says of a job that waits for its session to come back."""
MOST_TURNS = 200
"""Of one job."""
_MOST_NEIGHBOURS = 5
"""Of a new fact."""


@frozen
class Distiller:
    """Makes knowledge of turns: with rules, and in a model's words where there is one."""

    spoken: Records
    """Where the turns are."""
    made: Records
    """Where what is made of them is."""
    makers: Makers

    @property
    def producer(self) -> str:
        """Who makes the facts: another one makes them anew."""
        return self.makers.name

    async def plan(
        self, *, session_id: str | None = None, parent_id: str | None = None
    ) -> list[Job]:
        """The jobs that the turns need which no job is about yet; none of them is kept yet."""
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
        """The job about these turns."""
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
        """Read the turns and find what they state; what becomes of it is decided when it is written."""
        owner = owner_of(job)
        conversation = Conversation(owner, job.session_id or "")
        heard = await turns.read(self.spoken, conversation)
        wanted = set(job.input_ids)
        new = [one for one in heard if one.id in wanted]
        if len(new) < len(wanted):
            await self._refuse_archived(conversation, wanted - {one.id for one in new})
        finding = await find(self.makers.extractor, self.makers.paraphraser, new)
        facts = self._facts(job, conversation, new, finding.candidates)
        decided = await self._decided(conversation, facts)
        told = await self._summary(heard)
        usage = finding.usage + decided.usage + Counter(told.usage)
        faults = finding.faults + decided.faults + Counter(told.faults)
        now = self.made.now()
        pieces = [
            (turn, kept.chunk(conversation, turn, start, end, job_id=job.id, now=now))
            for turn in heard
            if turn.role != "system"
            for start, end in chunks(turn.text)
        ]
        # Of the chunks before the first new one only the keys are needed, and perhaps they come later.
        previous = {after.id: commits.key(before) for (_, before), (_, after) in pairwise(pieces)}
        own = [piece for turn, piece in pieces if turn.id in wanted]

        async def decide() -> Outcome:
            done = await self._decide(job, conversation, own, facts, decided, told.text)
            counts = finding.decisions + Counter(done.result["decisions"])
            result = {**done.result, "decisions": dict(counts), "faults": dict(faults)}
            return replace(done, previous=previous, usage=dict(usage), result=result)

        return decide

    async def summarised(
        self, conversation: Conversation, job_id: str, *, only: Collection[str] | None = None
    ) -> ContextRecord | None:
        """The summary of a session as it is now, or of some of its turns; None if nothing was said."""
        heard = await turns.read(self.spoken, conversation)
        chosen = summaries.picked([one for one in heard if only is None or one.id in only])
        if not chosen:
            return None
        found = [kept.evidence_of(turn, *span, job_id) for turn, span in chosen]
        return kept.summary(
            conversation, summaries.text_of(chosen), found, job_id=job_id, now=self.made.now()
        )

    # Helpers

    async def _refuse_archived(self, conversation: Conversation, missing: Collection[str]) -> None:
        """Raise InvalidRequestError if any of these turns is only hidden with its session.

        To find nothing in them would be said of turns that nobody has read.
        """
        session_id = conversation.session_id
        for one in await turns.session_records(self.spoken, session_id, conversation, hidden=True):
            if one.id in missing and one.retired_reason == turns.ARCHIVED:
                raise InvalidRequestError(
                    f"session {session_id!r} {AWAY}: unarchive it, and the job is due again"
                )

    def _facts(
        self,
        job: Job,
        conversation: Conversation,
        turns_of: Sequence[SpokenTurn],
        found: Sequence[FactCandidate],
    ) -> list[ContextRecord]:
        """What was found, as records."""
        by_id = {one.id: one for one in turns_of}
        seen: Counter[tuple[object, ...]] = Counter()
        facts = []
        now = self.made.now()
        for one in found:
            place = (one.source_id, one.start, one.end, one.slot, one.kind)
            facts.append(
                kept.fact(
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
        """What the consolidator says of those that have no slot: asked once for a neighbourhood."""
        if self.makers.consolidator is None:
            return Decided()
        mine = {one.id: one for one in facts if kept.about(one)["slot"] is None}
        known: dict[str, ContextRecord] = {}
        near: dict[str, list[str]] = {}
        for one in mine.values():
            hits = await self.made.search(
                one.text,
                sql.equals("kind", kept.FACT),
                turns.owned_by(conversation.owner),
                filter={"fact.slot": None, "fact.subject": kept.about(one)["subject"]},
                room=ALONE,
                limit=_MOST_NEIGHBOURS,
            )
            found = [hit.record for hit in hits if hit.record.id not in mine]
            known |= {each.id: each for each in found}
            near[one.id] = [each.id for each in found]
        said = []
        for new_ids, known_ids in neighbourhoods(near):
            new = [mine[id] for id in new_ids]
            answer = self.makers.consolidator.decide(new, [known[id] for id in known_ids])
            told = await answer if inspect.isawaitable(answer) else answer
            said.append(checked(told, new_ids, known_ids))
        return Decided.of(said)

    async def _summary(self, heard: Sequence[SpokenTurn]) -> Summary:
        if self.makers.summariser is None:
            return Summary()
        told = self.makers.summariser.summarise(heard)
        return await told if inspect.isawaitable(told) else told

    async def _decide(
        self,
        job: Job,
        conversation: Conversation,
        pieces: Sequence[ContextRecord],
        facts: Sequence[ContextRecord],
        decided: Decided,
        told: str | None,
    ) -> Outcome:
        known = Known.of(await self._around(conversation, facts, decided.targets()))
        for one in facts:
            decided.apply(known, one)
        added, changed = known.changes()
        made = await self.summarised(conversation, job.id)
        if made is not None and told is not None:
            made = replace(made, text=told)
        there = await self._there(conversation, [*pieces, *([] if made is None else [made])])
        new = [one for one in pieces if one.id not in there]
        changed += [
            (there[one.id], one)
            for one in pieces
            if one.id in there and there[one.id].record.retired_reason == kept.UNDONE
        ]
        if made is not None:
            if (before := there.get(made.id)) is None:
                added.append(made)
            elif not kept.is_protected(before.record):
                changed.append((before, replace(made, created_at=before.record.created_at)))
        counts = {name: n for name, n in known.decisions.items() if n}
        return Outcome(
            added=[*new, *added],
            changed=changed,
            result={
                "decisions": counts,
                "chunks": [one.id for one in new],
                "facts": known.added,
                "merged": known.merged,
                "superseded": known.superseded,
                "conflicts": known.conflicts,
                "summary": None if made is None else made.id,
            },
        )

    async def _around(
        self, conversation: Conversation, facts: Sequence[ContextRecord], targets: Sequence[str]
    ) -> list[Held]:
        """The facts of this owner that the new ones may say again, or take the place of."""
        if not facts:
            return []
        fact = sql.equals("kind", kept.FACT)
        there = sql.in_list("id", [*(one.id for one in facts), *targets])
        beside = sql.filtered(_beside(facts), columns=RECORD_FIELDS)
        return await commits.held(
            self.made, fact, turns.owned_by(conversation.owner), sql.any_of([there, beside])
        )

    async def _there(
        self, conversation: Conversation, records: Sequence[ContextRecord]
    ) -> dict[str, Held]:
        if not records:
            return {}
        named = sql.in_list("id", [one.id for one in records])
        found = await commits.held(self.made, named, turns.owned_by(conversation.owner))
        return {one.record.id: one for one in found}


def _beside(facts: Sequence[ContextRecord]) -> dict[str, Any]:
    """The filter of what is of a slot of theirs, or says what one without a slot says."""
    found = [kept.about(one) for one in facts]
    slots = sorted({one["slot"] for one in found if one["slot"] is not None})
    words = sorted({one["words"] for one in found if one["slot"] is None})
    either: list[dict[str, Any]] = []
    if slots:
        either.append({"fact.slot": {"$in": slots}})
    if words:
        either.append({"fact.slot": None, "fact.words": {"$in": words}})
    return {"fact.subject": {"$in": sorted({one["subject"] for one in found})}, "$or": either}
