"""Chunks, facts and summaries as records with their metadata."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from lance_context_core._util.checks import dumps
from lance_context_core.codecs.records import KNOWLEDGE, key_of
from lance_context_core.knowledge.turns import Conversation
from lance_context_core.knowledge.types import Evidence, FactCandidate, SpokenTurn
from lance_context_core.types import ContextRecord

CONTEXT = KNOWLEDGE
"""The context of all knowledge and its jobs; turns stay in the default context."""

MERGED = "merged"
"""Why a fact is hidden: another fact says the same and has its evidence."""

UNDONE, PRUNED, ARCHIVED, BY_PERSON = "undo", "prune", "archive", "person"
"""Why a record does not count: undone, pruned, archived, or retracted by a person."""

PLACE, PLACES = "place", "places"
"""The place of a chunk's turn in its session; a summary's places, by id."""

_BY_JOBS = (UNDONE, ARCHIVED, PRUNED)

CHUNK, FACT, SUMMARY = "chunk", "fact", "summary"

_NOT_A_WORD = re.compile(r"[\W_]+")


def made_id(kind: str, *about: Any) -> str:
    """Return an id computed only from these parts."""
    return f"{kind}-{hashlib.sha256(dumps([*about]).encode()).hexdigest()[:32]}"


def normalised(text: str) -> str:
    """Return the words of a text, normalised for comparison."""
    return _NOT_A_WORD.sub(" ", text.casefold()).strip()


def evidence_of(turn: SpokenTurn, start: int, end: int, job_id: str) -> Evidence:
    """Return a part of a turn as evidence."""
    return Evidence(
        source_id=turn.id,
        session_id=turn.session_id,
        start=start,
        end=end,
        sha256=digest(turn.text[start:end]),
        job_id=job_id,
    )


def digest(text: str) -> str:
    """The hash of a quote, for its verification."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def evidence(record: ContextRecord) -> tuple[Evidence, ...]:
    """Return the evidence of a record, in the order of discovery."""
    return tuple(Evidence(**one) for one in record.metadata.get("evidence", ()))


def with_evidence(record: ContextRecord, found: Sequence[Evidence]) -> ContextRecord:
    """Return the record with its evidence replaced."""
    metadata = {**record.metadata, "evidence": [asdict(one) for one in found]}
    sources = tuple(dict.fromkeys(one.source_id for one in found))
    return replace(record, metadata=metadata, source_ids=sources)


def about(record: ContextRecord) -> Mapping[str, Any]:
    """The metadata of a fact."""
    found: Mapping[str, Any] = record.metadata.get("fact", {})
    return found


def with_fact(record: ContextRecord, **values: Any) -> ContextRecord:
    """Return the fact with these values."""
    fact = {**about(record), **values}
    return replace(record, metadata={**record.metadata, "fact": fact})


def last_said(record: ContextRecord) -> datetime:
    """The time when a fact was last stated."""
    moment = about(record).get("last_said")
    return record.created_at if moment is None else datetime.fromisoformat(moment)


def is_protected(record: ContextRecord) -> bool:
    """Whether no job may change it: corrected or pinned by a person, or canonical."""
    data = record.metadata
    return bool(data.get("pinned") or data.get("curated") or data.get("authority") == "canonical")


def subject_of(turn: SpokenTurn, conversation: Conversation) -> str:
    """The subject of statements about the speaker; an unknown speaker differs in each session."""
    if turn.name:
        return turn.name.casefold()
    if conversation.owner.user_id is not None:
        return turn.role
    return f"{turn.role}@{conversation.session_id}"


def chunk_id(session_id: str, turn_id: str, start: int, end: int) -> str:
    """Return the id of a chunk of a turn."""
    return made_id(CHUNK, session_id, turn_id, start, end)


def chunk_key(conversation: Conversation, turn_id: str, start: int, end: int) -> str:
    """Return the primary key of a chunk of a turn."""
    id = chunk_id(conversation.session_id, turn_id, start, end)
    return key_of(conversation.owner, CONTEXT, "id", id)


def chunk(
    conversation: Conversation,
    turn: SpokenTurn,
    start: int,
    end: int,
    *,
    job_id: str,
    now: datetime,
) -> ContextRecord:
    """Return a chunk of a turn, or all of it, as a record."""
    session = conversation.session_id
    id = chunk_id(session, turn.id, start, end)
    record = _made(id, CHUNK, "L1", conversation, job_id, now)
    record = replace(
        record,
        text=turn.text[start:end],
        role=turn.role,
        name=turn.name,
        created_at=turn.said_at,
        expires_at=turn.expires_at,
        metadata={**record.metadata, PLACE: turn.place},
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
    """Return a fact: the `nth` of its kind, slot and words, from 0."""
    start, end = candidate.start, candidate.end
    about = (conversation.session_id, turn.id, start, end, candidate.slot, candidate.kind)
    id = made_id(FACT, *about, *([nth] if nth else []))
    record = _made(id, FACT, "L1", conversation, job_id, now)
    since = (candidate.valid_from or turn.said_at).astimezone(UTC).isoformat()
    own = {
        "kind": candidate.kind,
        "slot": candidate.slot,
        "value": candidate.value,
        "subject": subject_of(turn, conversation),
        "words": normalised(candidate.text),
        "quote": turn.text[start:end],
        "valid_from": since,
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
    proof = evidence_of(turn, start, end, job_id)
    expires = turn.expires_at and turn.expires_at.isoformat()
    more = {} if candidate.polarity == "states" else {"polarity": candidate.polarity}
    record = with_observed(
        record, evidence=asdict(proof), valid_from=since, expires_at=expires, **more
    )
    return with_evidence(record, [proof])


def summary_id(session_id: str) -> str:
    """Return the id of a session's summary, for any owner."""
    return made_id(SUMMARY, session_id)


def summary(
    conversation: Conversation,
    text: str,
    found: Sequence[tuple[SpokenTurn, tuple[int, int]]],
    *,
    job_id: str,
    now: datetime,
) -> ContextRecord:
    """Return the summary of a session with these sentences; each session has one."""
    id = summary_id(conversation.session_id)
    record = _made(id, SUMMARY, "L0", conversation, job_id, now)
    places = {turn.id: turn.place for turn, _ in found}
    record = replace(record, text=text, metadata={**record.metadata, PLACES: places})
    return with_evidence(record, [evidence_of(turn, *span, job_id) for turn, span in found])


# Observations: one statement of one turn at one place. A row of the kind `fact` is one; the results
# of folding it with others overlay it, and its own values are stored under `observed`.

_OBSERVED, _OUT = "observed", "out"


def observed(record: ContextRecord) -> Mapping[str, Any]:
    """The own values of an observation: its evidence, start of validity, expiry of its turn."""
    if _OBSERVED in record.metadata:
        found: Mapping[str, Any] = record.metadata[_OBSERVED]
        return found
    # An older release stored several turns' statements in one row, named by the first.
    is_one = len(record.metadata.get("evidence", ())) < 2
    since = about(record).get("valid_from")
    return {
        "evidence": next(iter(record.metadata.get("evidence", ())), None),
        "valid_from": since if is_one else record.created_at.isoformat(),
    }


def with_observed(record: ContextRecord, **values: Any) -> ContextRecord:
    """Return the observation with these values."""
    own = {**observed(record), **values}
    return replace(record, metadata={**record.metadata, _OBSERVED: own})


def own_evidence(record: ContextRecord) -> Evidence:
    """Return the place of an observation."""
    return Evidence(**observed(record)["evidence"])


def is_end(record: ContextRecord) -> bool:
    """Whether it ends a value."""
    return bool(observed(record).get("polarity", "states") != "states")


def is_of_several(record: ContextRecord) -> bool:
    """Whether an older release has stored several turns' statements in it."""
    return _OBSERVED not in record.metadata and len(record.metadata.get("evidence", ())) > 1


def observed_apart(
    record: ContextRecord, proof: Evidence, turn: ContextRecord | None
) -> ContextRecord:
    """Return one turn's observation from a row in which an older release stored several."""
    fact = about(record)
    place = (proof.session_id, proof.source_id, proof.start, proof.end)
    quote = None if turn is None else (turn.text or "")[proof.start : proof.end]
    one = replace(
        record,
        id=made_id(FACT, *place, fact["slot"], fact["kind"]),
        session_id=proof.session_id,
        text=record.text if is_protected(record) else quote or record.text,
        embedding=None,
        created_at=record.created_at if turn is None else turn.created_at,
        metadata={
            **{name: each for name, each in record.metadata.items() if name != "revisions"},
            "job_id": proof.job_id,
        },
    )
    if quote:
        one = with_fact(one, quote=quote)
    since = one.created_at.astimezone(UTC).isoformat()
    return with_observed(one, evidence=asdict(proof), valid_from=since)


def identity(record: ContextRecord) -> str:
    """The lookup name shared by all observations of one identity.

    Statements that a consolidator has joined share one name per subject.
    """
    fact = about(record)
    if fact["slot"] is not None:
        return made_id("identity", fact["subject"], fact["slot"])
    words = None if fact.get("is_joined") else fact["words"]
    return statement(fact["subject"], words)


def statement(subject: str, words: str | None) -> str:
    """The identity of a statement about a subject in these words; None for joined ones."""
    return made_id("identity", subject, None, words)


def alone(record: ContextRecord) -> ContextRecord:
    """Return an observation without the results of folding."""
    own = observed(record)
    until = own.get("expires_at")
    dropped = ("conflicts", "evidence")
    metadata = {name: one for name, one in record.metadata.items() if name not in dropped}
    fact = {name: one for name, one in about(record).items() if name != "last_said"}
    metadata["fact"] = {**fact, "valid_from": own["valid_from"], "valid_to": None}
    metadata[_OBSERVED] = dict(own)
    changed = replace(
        record,
        external_id=identity(record),
        metadata=metadata,
        lifecycle_status="active",
        superseded_by_id=None,
        retired_at=None,
        retired_reason=None,
        expires_at=None if until is None else datetime.fromisoformat(until),
    )
    return with_evidence(changed, [own_evidence(record)])


def outs(record: ContextRecord) -> Mapping[str, str]:
    """Reasons why a record does not count, by kind, such as `undo` or `prune`."""
    if _OUT in record.metadata:
        found: Mapping[str, str] = record.metadata[_OUT]
        return found
    reason = record.retired_reason
    if record.retired_at is None or reason == MERGED:
        return {}
    return {reason: ""} if reason in _BY_JOBS else {BY_PERSON: reason or ""}


def reason_of(why: Mapping[str, str]) -> str:
    """The reason shown for a record that does not count."""
    if BY_PERSON in why:
        return why[BY_PERSON]
    return next(name for name in _BY_JOBS if name in why)


def taken_out(record: ContextRecord, kind: str, reason: str = "") -> ContextRecord:
    """Add a reason for which the record does not count."""
    return replace(record, metadata={**record.metadata, _OUT: {**outs(record), kind: reason}})


def put_in(record: ContextRecord, kind: str) -> ContextRecord:
    """Remove a reason for which the record does not count."""
    left = {name: one for name, one in outs(record).items() if name != kind}
    if left:
        return replace(record, metadata={**record.metadata, _OUT: left})
    metadata = {name: one for name, one in record.metadata.items() if name != _OUT}
    return replace(record, metadata=metadata, retired_at=None, retired_reason=None)


def retired(record: ContextRecord, reason: str, now: datetime) -> ContextRecord:
    """Return the record hidden from all reads."""
    return replace(record, retired_at=now, retired_reason=reason)


def shown(record: ContextRecord, now: datetime) -> ContextRecord:
    """Return a chunk or a summary, hidden or shown according to the reasons."""
    if why := outs(record):
        moment = now if record.retired_at is None else record.retired_at
        return replace(record, retired_at=moment, retired_reason=reason_of(why))
    return replace(record, retired_at=None, retired_reason=None)


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
