"""Jobs to records and back, and their ids."""

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from lance_context_core._checks import dumps
from lance_context_core.jobs.values import Job
from lance_context_core.records import ContextRecord
from lance_context_core.scope import Scope

KIND = "job"

_TIMES = ("scheduled_at", "lease_until")
_PACKED = (
    *("kind", "state", "producer", "parent_id", "attempts", "error", "fence", "branch"),
    *("usage", "result", "undone_by", *_TIMES),
)


def job_id(
    kind: str, owner: Scope, session_id: str | None, input_ids: Sequence[str], producer: str
) -> str:
    """The id of a job: of its input alone, so that whoever submits it again means this one."""
    about = [kind, owner.tenant, owner.user_id, owner.agent_id, session_id, [*input_ids], producer]
    return f"job-{hashlib.sha256(dumps(about).encode()).hexdigest()[:32]}"


def scheduled(kind: str, id: str, *, owner: Scope, now: datetime, **more: Any) -> Job:
    """A job of that owner that is due at once."""
    return Job(
        id=id,
        kind=kind,
        state="scheduled",
        created_at=now,
        updated_at=now,
        scheduled_at=now,
        tenant=owner.tenant,
        user_id=owner.user_id,
        agent_id=owner.agent_id,
        **more,
    )


def owner_of(job: Job) -> Scope:
    """Whose a job is."""
    return Scope(tenant=job.tenant, user_id=job.user_id, agent_id=job.agent_id)


def to_record(job: Job, context: str) -> ContextRecord:
    """The record that a job is kept as."""
    packed: dict[str, Any] = {name: getattr(job, name) for name in _PACKED}
    for name in _TIMES:
        packed[name] = packed[name] and packed[name].isoformat()
    return ContextRecord(
        id=job.id,
        kind=KIND,
        content_type="application/json",
        context=context,
        created_at=job.created_at,
        updated_at=job.updated_at,
        source_ids=job.input_ids,
        session_id=job.session_id,
        tenant=job.tenant,
        user_id=job.user_id,
        agent_id=job.agent_id,
        metadata={"job": packed},
    )


def from_record(record: ContextRecord) -> Job:
    """The job that a record keeps."""
    packed = {name: one for name, one in record.metadata["job"].items() if name in _PACKED}
    for name in _TIMES:
        packed[name] = packed.get(name) and datetime.fromisoformat(packed[name])
    return Job(
        id=record.id,
        created_at=record.created_at,
        updated_at=record.updated_at,
        input_ids=record.source_ids,
        session_id=record.session_id,
        tenant=record.tenant,
        user_id=record.user_id,
        agent_id=record.agent_id,
        **packed,
    )
