"""Chunks, facts and summaries as records, and what their metadata says."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from lance_context_core._util.checks import dumps
from lance_context_core.codecs.records import KNOWLEDGE, SUPERSEDED
from lance_context_core.knowledge.turns import Conversation
from lance_context_core.knowledge.types import Evidence, FactCandidate, SpokenTurn
from lance_context_core.types import ContextRecord

CONTEXT = KNOWLEDGE
"""The context that all of it is in, beside the jobs: what is said stays in the default one."""

MERGED = "merged"
"""Why a fact is hidden that says the same as another one, which has its evidence."""

UNDONE = "undo"
"""Why a thing is hidden of which the job was undone."""

CHUNK, FACT, SUMMARY = "chunk", "fact", "summary"

_NOT_A_WORD = re.compile(r"[\W_]+")


def made_id(kind: str, *about: Any) -> str:
    """An id that depends on nothing but what a thing is made of."""
    return f"{kind}-{hashlib.sha256(dumps([*about]).encode()).hexdigest()[:32]}"


def normalised(text: str) -> str:
    """What of a text counts when two are compared: its words."""
    return _NOT_A_WORD.sub(" ", text.casefold()).strip()


def evidence_of(turn: SpokenTurn, start: int, end: int, job_id: str) -> Evidence:
    """A part of a turn, as evidence."""
    return Evidence(
        source_id=turn.id,
        session_id=turn.session_id,
        start=start,
        end=end,
        sha256=digest(turn.text[start:end]),
        job_id=job_id,
    )


def digest(text: str) -> str:
    """By what a quote is known again."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def evidence(record: ContextRecord) -> tuple[Evidence, ...]:
    """The evidence of a record, in the order in which it was found."""
    return tuple(Evidence(**one) for one in record.metadata.get("evidence", ()))


def with_evidence(record: ContextRecord, found: Sequence[Evidence]) -> ContextRecord:
    """The record with this evidence, in place of its own."""
    metadata = {**record.metadata, "evidence": [asdict(one) for one in found]}
    sources = tuple(dict.fromkeys(one.source_id for one in found))
    return replace(record, metadata=metadata, source_ids=sources)


def about(record: ContextRecord) -> Mapping[str, Any]:
    """What is known of a fact, beside its text."""
    found: Mapping[str, Any] = record.metadata.get("fact", {})
    return found


def with_fact(record: ContextRecord, **values: Any) -> ContextRecord:
    """The fact with these values."""
    fact = {**about(record), **values}
    return replace(record, metadata={**record.metadata, "fact": fact})


def is_protected(record: ContextRecord) -> bool:
    """Whether no job may change it: a person has corrected or pinned it, or it is canonical."""
    data = record.metadata
    return bool(data.get("pinned") or data.get("curated") or data.get("authority") == "canonical")


def subject_of(turn: SpokenTurn, conversation: Conversation) -> str:
    """Whom what a turn says of its speaker is about; nobody known is another one in each session."""
    if turn.name:
        return turn.name.casefold()
    if conversation.owner.user_id is not None:
        return turn.role
    return f"{turn.role}@{conversation.session_id}"


def chunk_id(session_id: str, turn_id: str, start: int, end: int) -> str:
    """The id of a piece of a turn."""
    return made_id(CHUNK, session_id, turn_id, start, end)


def chunk(
    conversation: Conversation,
    turn: SpokenTurn,
    start: int,
    end: int,
    *,
    job_id: str,
    now: datetime,
) -> ContextRecord:
    """A piece of a turn, or all of it."""
    session = conversation.session_id
    id = chunk_id(session, turn.id, start, end)
    record = _made(id, CHUNK, "L1", conversation, job_id, now)
    record = replace(
        record,
        text=turn.text[start:end],
        role=turn.role,
        name=turn.name,
        created_at=turn.said_at,
    )
    return with_evidence(record, [evidence_of(turn, start, end, job_id)])


def fact(
    conversation: Conversation,
    turn: SpokenTurn,
    candidate: FactCandidate,
    *,
    job_id: str,
    producer: str,
    now: datetime,
    nth: int = 0,
) -> ContextRecord:
    """A fact that a turn states: the `nth` of its kind and slot in the same words, from 0."""
    start, end = candidate.start, candidate.end
    about = (conversation.session_id, turn.id, start, end, candidate.slot, candidate.kind)
    id = made_id(FACT, *about, *([nth] if nth else []))
    record = _made(id, FACT, "L1", conversation, job_id, now)
    own = {
        "kind": candidate.kind,
        "slot": candidate.slot,
        "value": candidate.value,
        "subject": subject_of(turn, conversation),
        "words": normalised(candidate.text),
        "quote": turn.text[start:end],
        "valid_from": (candidate.valid_from or turn.said_at).astimezone(UTC).isoformat(),
        "valid_to": None,
        "place": turn.place,
    }
    record = replace(
        record,
        text=candidate.text,
        role=turn.role,
        name=turn.name,
        created_at=turn.said_at,
        metadata={
            **record.metadata,
            "fact": own,
            "importance": candidate.importance,
            "authority": "session",
            "tier": "hot",
            "producer": producer,
        },
    )
    return with_evidence(record, [evidence_of(turn, start, end, job_id)])


def summary_id(session_id: str) -> str:
    """The id of the summary of a session, of whatever owner."""
    return made_id(SUMMARY, session_id)


def summary(
    conversation: Conversation,
    text: str,
    found: Sequence[Evidence],
    *,
    job_id: str,
    now: datetime,
) -> ContextRecord:
    """What a session is about; there is one of each session, which is made anew."""
    id = summary_id(conversation.session_id)
    record = _made(id, SUMMARY, "L0", conversation, job_id, now)
    return with_evidence(replace(record, text=text), found)


def superseded(record: ContextRecord, by: str, valid_to: str) -> ContextRecord:
    """The fact once another one has taken its place, from that moment on."""
    changed = replace(record, lifecycle_status=SUPERSEDED, superseded_by_id=by)
    return with_fact(changed, valid_to=valid_to)


def revived(record: ContextRecord) -> ContextRecord:
    """The fact once nothing has taken its place any more."""
    changed = replace(record, lifecycle_status="active", superseded_by_id=None)
    return with_fact(changed, valid_to=None)


def _made(
    id: str, kind: str, layer: str, conversation: Conversation, job_id: str, now: datetime
) -> ContextRecord:
    owner = conversation.owner
    return ContextRecord(
        id=id,
        kind=kind,
        layer=layer,
        context=CONTEXT,
        content_type="text/plain",
        created_at=now,
        updated_at=now,
        session_id=conversation.session_id,
        metadata={"job_id": job_id},
        tenant=owner.tenant,
        user_id=owner.user_id,
        agent_id=owner.agent_id,
    )
