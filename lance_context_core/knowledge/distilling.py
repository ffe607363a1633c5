"""The job that makes chunks, facts and a summary of some turns of one session, in one commit."""

import asyncio
import inspect
import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from lance_context_core.engine import sql
from lance_context_core.errors import InvalidRequestError
from lance_context_core.filters import RECORD_FIELDS
from lance_context_core.jobs import commits
from lance_context_core.jobs.commits import Held, Outcome
from lance_context_core.jobs.queue import Decide
from lance_context_core.jobs.rows import KIND as JOB
from lance_context_core.jobs.rows import job_id, owner_of, scheduled
from lance_context_core.jobs.values import Job
from lance_context_core.knowledge import kept, summaries, turns
from lance_context_core.knowledge.chunks import chunks
from lance_context_core.knowledge.consolidating import Known
from lance_context_core.knowledge.protocols import AsyncParaphraser, Extractor, Paraphraser
from lance_context_core.knowledge.turns import Conversation
from lance_context_core.knowledge.values import FactCandidate, SpokenTurn
from lance_context_core.records import ContextRecord
from lance_context_core.scope import SCOPE_PARTS
from lance_context_core.stores.records.scoped import Records

EXTRACT = "extract"
MOST_TURNS = 200
"""Of one job."""


@dataclass(frozen=True, slots=True)
class Distiller:
    """Makes knowledge of turns: with rules, and in a model's words where there is one."""

    spoken: Records
    """Where the turns are."""
    made: Records
    """Where what is made of them is."""
    extractor: Extractor
    model: Paraphraser | AsyncParaphraser | None = None
    model_name: str = ""

    @property
    def producer(self) -> str:
        """Who makes the facts: another one makes them anew."""
        named = f"+{self.model_name}" if self.model is not None else ""
        return f"{self.extractor.name}{named}"

    async def plan(
        self, *, session_id: str | None = None, parent_id: str | None = None
    ) -> list[Job]:
        """The jobs that the turns need which no job is about yet; none of them is kept yet."""
        here = {} if session_id is None else {"session_id": session_id}
        extracting = sql.filtered({"job.kind": EXTRACT, **here}, columns=RECORD_FIELDS)
        where = self.made.own(sql.equals("kind", JOB), extracting)
        columns = ["session_id", "source_ids", *SCOPE_PARTS]
        covered = [
            (turns.conversation_of(row), id)
            for row in (await self.made.table.select(where, columns=columns)).to_pylist()
            for id in row["source_ids"] or ()
        ]
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
        owner, now = conversation.owner, self.made.now()
        return scheduled(
            EXTRACT,
            job_id(EXTRACT, owner, conversation.session_id, ids, self.producer),
            owner=owner,
            now=now,
            input_ids=tuple(ids),
            session_id=conversation.session_id,
            producer=self.producer,
            parent_id=parent_id,
        )

    async def run(self, job: Job) -> Decide:
        """Read the turns and find what they state; what becomes of it is decided when it is written."""
        owner = owner_of(job)
        conversation = Conversation(owner, job.session_id or "")
        heard = await turns.read(self.spoken, conversation)
        wanted = set(job.input_ids)
        new = [one for one in heard if one.id in wanted]
        candidates, rejected = _proven(self.extractor.extract(new), new)
        usage: dict[str, int] = {}
        if self.model is not None and candidates:
            sentences = [one.text for one in candidates]
            usage = {"calls": 1, "characters": sum(map(len, sentences))}
            candidates, refused = _said_otherwise(candidates, await self._ask(sentences))
            rejected["refused"] = refused
        by_id = {one.id: one for one in new}
        now = self.made.now()
        facts = [
            kept.fact(
                conversation,
                by_id[one.source_id],
                one,
                job_id=job.id,
                producer=self.producer,
                now=now,
            )
            for one in candidates
        ]
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
            done = await self._decide(job, conversation, own, facts, rejected, usage)
            return replace(done, previous=previous)

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

    async def _ask(self, sentences: list[str]) -> Any:
        assert self.model is not None
        call: Any = self.model
        if inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(
            getattr(call, "__call__", None)  # noqa: B004 - an object whose call is to be awaited
        ):
            return await call(sentences)
        answer = await asyncio.to_thread(call, sentences)
        return await answer if inspect.isawaitable(answer) else answer

    async def _decide(
        self,
        job: Job,
        conversation: Conversation,
        pieces: Sequence[ContextRecord],
        facts: Sequence[ContextRecord],
        rejected: Counter[str],
        usage: dict[str, int],
    ) -> Outcome:
        known = Known.of(await self._around(conversation, facts))
        for one in facts:
            known.consider(one)
        added, changed = known.changes()
        made = await self.summarised(conversation, job.id)
        there = await self._there(conversation, [*pieces, *([] if made is None else [made])])
        new = [one for one in pieces if one.id not in there]
        if made is not None:
            if (before := there.get(made.id)) is None:
                added.append(made)
            elif not kept.is_protected(before.record):
                changed.append((before, replace(made, created_at=before.record.created_at)))
        counts = {name: n for name, n in (known.decisions + rejected).items() if n}
        return Outcome(
            added=[*new, *added],
            changed=changed,
            usage=usage,
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
        self, conversation: Conversation, facts: Sequence[ContextRecord]
    ) -> list[Held]:
        """The facts of this owner that the new ones may say again, or take the place of."""
        if not facts:
            return []
        fact = sql.equals("kind", kept.FACT)
        there = sql.in_list("id", [one.id for one in facts])
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


def _proven(
    found: Sequence[FactCandidate], given: Sequence[SpokenTurn]
) -> tuple[list[FactCandidate], Counter[str]]:
    """The candidates whose evidence stands in the turns that were given; and how many have none."""
    texts = {one.id: one.text for one in given}
    proven: list[FactCandidate] = []
    rejected: Counter[str] = Counter()
    for one in found:
        text = texts.get(one.source_id)
        is_there = text is not None and 0 <= one.start < one.end <= len(text)
        if is_there and one.text.strip() and (one.slot is None or one.value):
            proven.append(one)
        else:
            rejected["rejected"] += 1
    return proven, rejected


def _said_otherwise(found: Sequence[FactCandidate], answer: Any) -> tuple[list[FactCandidate], int]:
    """The candidates in a model's words, where these are words; and how many are not.

    Raises InvalidRequestError for an answer that is not one sentence for each.
    """
    if isinstance(answer, str) or not isinstance(answer, Sequence) or len(answer) != len(found):
        what = type(answer).__name__
        raise InvalidRequestError(
            f"the model answered {len(found)} sentences with {what}"
            f"{f' of {len(answer)}' if isinstance(answer, list | tuple) else ''}: "
            "it has to return one text for each, in order"
        )
    said = [
        replace(one, text=text.strip()) if _is_sentence(text, one.text) else one
        for one, text in zip(found, answer, strict=True)
    ]
    refused = sum(not _is_sentence(text, one.text) for one, text in zip(found, answer, strict=True))
    return said, refused


def _is_sentence(text: Any, quote: str) -> bool:
    """Whether it may stand for the quote: not empty, endless, repeated or JSON."""
    if not isinstance(text, str) or not (said := text.strip()):
        return False
    if len(said) > 3 * len(quote) + 100 or "```" in said or "\0" in said:
        return False
    words = said.split()
    if len(words) >= 12 and len(set(words)) * 3 < len(words):
        return False
    try:
        return not isinstance(json.loads(said), dict | list)
    except ValueError:
        return True
