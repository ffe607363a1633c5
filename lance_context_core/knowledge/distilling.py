"""The job that makes chunks, facts and a summary of some turns of one session, in one commit."""

import inspect
import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa

from lance_context_core._util.calls import called
from lance_context_core._util.checks import shown
from lance_context_core._util.frozen import frozen
from lance_context_core.errors import InvalidRequestError
from lance_context_core.filters import RECORD_FIELDS
from lance_context_core.jobs import commits
from lance_context_core.jobs.commits import Held, Outcome, implied
from lance_context_core.jobs.queue import Decide
from lance_context_core.jobs.types import KIND as JOB
from lance_context_core.jobs.types import Job, job_id, owner_of, scheduled, spend, tokens_of
from lance_context_core.knowledge import params, turns
from lance_context_core.knowledge.builders import Builders
from lance_context_core.knowledge.chunks import Span, chunks, sentences
from lance_context_core.knowledge.consolidation import Known
from lance_context_core.knowledge.evidence_text import fault_of
from lance_context_core.knowledge.policies import Decided, checked, neighbourhoods
from lance_context_core.knowledge.protocols import AsyncParaphraser, Extractor, Paraphraser
from lance_context_core.knowledge.turns import Conversation
from lance_context_core.knowledge.types import Extraction, FactCandidate, SpokenTurn, Summary
from lance_context_core.scope import SCOPE_PARTS
from lance_context_core.search.options import ALONE
from lance_context_core.storage import sql
from lance_context_core.stores.records.scoped import Records
from lance_context_core.types import ContextRecord

# The facts of some turns, by an extractor and in a model's words: those alone that the turns prove.

MENDED = "mended_"
"""How the names of those faults begin whose candidates are taken nonetheless."""


@frozen
class Finding:
    """What an extractor found, without what nothing proves."""

    candidates: Sequence[FactCandidate]
    faults: Counter[str]
    """By their names: what was refused, or mended."""
    usage: Counter[str]
    n_kept_as_said: int = 0
    """Of how many the model's words were refused, and the turn's own kept."""

    @property
    def decisions(self) -> Counter[str]:
        """How many candidates were rejected, mended, and left in their own words."""
        mended = sum(n for name, n in self.faults.items() if name.startswith(MENDED))
        rejected = self.faults.total() - mended - self.n_kept_as_said
        return Counter(rejected=rejected, mended=mended, refused=self.n_kept_as_said)


async def find(
    extractor: Extractor,
    paraphraser: Paraphraser | AsyncParaphraser | None,
    turns: Sequence[SpokenTurn],
) -> Finding:
    """The facts that these turns state. Raises what the extractor and the model raise."""
    finding = _proven(await _extraction(extractor, turns), turns)
    if paraphraser is None or not finding.candidates:
        return finding
    sentences = [one.text for one in finding.candidates]
    n_characters = sum(map(len, sentences))
    usage = Counter(calls=1, characters=n_characters, tokens=tokens_of(n_characters))
    spend(calls=1, tokens=usage["tokens"])
    said, faults = _said_otherwise(finding.candidates, await called(paraphraser, sentences))
    return Finding(said, finding.faults + faults, finding.usage + usage, faults.total())


async def _extraction(extractor: Extractor, turns: Sequence[SpokenTurn]) -> Extraction:
    found: Any = extractor.extract(turns)
    if inspect.isawaitable(found):
        found = await found
    if isinstance(found, Extraction):
        return found
    if isinstance(found, str) or not isinstance(found, Sequence):
        raise InvalidRequestError(
            f"extractor {extractor.name!r} returned {shown(found)}: it has to return FactCandidates"
        )
    return Extraction(candidates=found)


def _proven(found: Extraction, given: Sequence[SpokenTurn]) -> Finding:
    """The candidates whose evidence stands in the turns that were given."""
    texts = {one.id: one.text for one in given}
    proven: list[FactCandidate] = []
    faults = Counter(found.faults)
    for one in found.candidates:
        if (fault := _fault(one, texts.get(one.source_id))) is None:
            proven.append(one)
        else:
            faults[fault] += 1
    return Finding(proven, faults, Counter(found.usage))


def _fault(one: FactCandidate, text: str | None) -> str | None:
    if text is None:
        return "unknown_turn"
    if not 0 <= one.start < one.end <= len(text):
        return "not_said"
    if not one.text.strip():
        return "empty"
    if one.slot is not None and not one.value:
        return "slot_without_value"
    if one.valid_from is not None and one.valid_from.tzinfo is None:
        return "no_date"
    return None


def _said_otherwise(
    found: Sequence[FactCandidate], answer: Any
) -> tuple[list[FactCandidate], Counter[str]]:
    """The candidates in a model's words, where these are words; and what is wrong with the others.

    Raises InvalidRequestError for an answer that is not one sentence for each.
    """
    if isinstance(answer, str) or not isinstance(answer, Sequence) or len(answer) != len(found):
        what = type(answer).__name__
        raise InvalidRequestError(
            f"the model answered {len(found)} sentences with {what}"
            f"{f' of {len(answer)}' if isinstance(answer, list | tuple) else ''}: "
            "it has to return one text for each, in order"
        )
    faults: Counter[str] = Counter()
    said: list[FactCandidate] = []
    for one, text in zip(found, answer, strict=True):
        if (fault := fault_of(text, most=3 * len(one.text) + 100)) is None:
            said.append(replace(one, text=text.strip()))
        else:
            faults[fault] += 1
            said.append(one)
    return said, faults


# Extractive summaries: the sentences of a session that say most of what it is about, in their order.

MOST_SENTENCES = 6
MOST_CHARACTERS = 900
_SHORT = 200
"""Characters of a sentence beyond which more words count for less."""

_WORD = re.compile(r"[^\W_]+")
_NAME_OR_NUMBER = re.compile(r"(?<!^)\b(?!I\b)[A-Z][a-z]+|\d+")
_SPEAKERS = ("user", "assistant")


def picked(turns: Sequence[SpokenTurn]) -> list[tuple[SpokenTurn, Span]]:
    """The sentences of a summary: by the weight of their words in the session, names and numbers more."""
    found = [
        (turn, span) for turn in turns if turn.role in _SPEAKERS for span in sentences(turn.text)
    ]
    words = [set(_words(turn.text[start:end])) for turn, (start, end) in found]
    in_how_many = Counter(word for some in words for word in some)
    scored = [
        (-_score(turn.text[start:end], some, in_how_many, len(found)), index)
        for index, ((turn, (start, end)), some) in enumerate(zip(found, words, strict=True))
    ]
    chosen: list[int] = []
    n_characters = 0
    for _, index in sorted(scored):
        start, end = found[index][1]
        if len(chosen) == MOST_SENTENCES:
            break
        if n_characters + end - start <= MOST_CHARACTERS:
            chosen.append(index)
            n_characters += end - start
    return [found[index] for index in sorted(chosen)]


def text_of(chosen: Sequence[tuple[SpokenTurn, Span]]) -> str:
    """The text of a summary: each sentence with its speaker."""
    return "\n".join(
        f"{turn.name or turn.role}: {turn.text[start:end]}" for turn, (start, end) in chosen
    )


def _score(sentence: str, words: set[str], in_how_many: Counter[str], n: int) -> float:
    weight = sum(math.log(1 + n / in_how_many[word]) for word in words if len(word) > 2)
    weight += 2.0 * len(set(_NAME_OR_NUMBER.findall(sentence)))
    return weight / math.sqrt(max(len(sentence), _SHORT) / _SHORT)


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


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
    makers: Builders

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
            (turn, params.chunk(conversation, turn, start, end, job_id=job.id, now=now))
            for turn in heard
            if turn.role != "system" and not turns.is_echo(turn.metadata)
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
        chosen = picked([one for one in heard if only is None or one.id in only])
        if not chosen:
            return None
        found = [params.evidence_of(turn, *span, job_id) for turn, span in chosen]
        return params.summary(
            conversation, text_of(chosen), found, job_id=job_id, now=self.made.now()
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
        """What the consolidator says of those that have no slot: asked once for a neighbourhood."""
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
            if one.id in there and there[one.id].record.retired_reason == params.UNDONE
        ]
        if made is not None:
            if (before := there.get(made.id)) is None:
                added.append(made)
            elif not params.is_protected(before.record):
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
        fact = sql.equals("kind", params.FACT)
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
    found = [params.about(one) for one in facts]
    slots = sorted({one["slot"] for one in found if one["slot"] is not None})
    words = sorted({one["words"] for one in found if one["slot"] is None})
    either: list[dict[str, Any]] = []
    if slots:
        either.append({"fact.slot": {"$in": slots}})
    if words:
        either.append({"fact.slot": None, "fact.words": {"$in": words}})
    return {"fact.subject": {"$in": sorted({one["subject"] for one in found})}, "$or": either}
