"""Jobs to records and back, and their ids."""

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from lance_context_core._util.checks import dumps
from lance_context_core._util.lru import remembered
from lance_context_core.codecs.records import JOB
from lance_context_core.jobs.values import Job
from lance_context_core.scope import Scope
from lance_context_core.types import ContextRecord

KIND = JOB

_TIMES = ("scheduled_at", "lease_until")
_PACKED = (
    *("kind", "state", "producer", "parent_id", "attempts", "error", "fence", "branch"),
    *("usage", "result", "undone_by", *_TIMES),
)
_SHARED = ("id", "created_at", "updated_at", "session_id", "tenant", "user_id", "agent_id")
"""What a record and its job call alike."""


def job_id(
    kind: str, owner: Scope, session_id: str | None, input_ids: Sequence[str], producer: str
) -> str:
    """The id of a job: of its input alone, so that whoever submits it again means this one."""
    # Most ids are generated ones, which need no escapes: this is on the way of every append.
    is_plain = (text := "".join(input_ids)).isascii() and text.isalnum()
    ids = '["' + '","'.join(input_ids) + '"]' if is_plain else dumps([*input_ids])
    before, after = _around(kind, owner.tenant, owner.user_id, owner.agent_id, session_id, producer)
    told = before.copy()
    told.update(f"{ids}{after}".encode())
    return f"job-{told.hexdigest()[:32]}"


@remembered(256 * 1024)
def _around(*named: str | None) -> tuple[Any, str]:
    """What stands before and behind the ids in the JSON of which the id of a job is the hash.

    The one as the hash of it, to be gone on with.
    """
    *before, producer = named
    return hashlib.sha256(f"{dumps(before)[:-1]},".encode()), f",{dumps(producer)}]"


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
        kind=KIND,
        content_type="application/json",
        context=context,
        source_ids=job.input_ids,
        metadata={"job": packed},
        **{name: getattr(job, name) for name in _SHARED},
    )


def from_record(record: ContextRecord) -> Job:
    """The job that a record keeps."""
    packed = {name: one for name, one in record.metadata["job"].items() if name in _PACKED}
    for name in _TIMES:
        packed[name] = packed.get(name) and datetime.fromisoformat(packed[name])
    shared = {name: getattr(record, name) for name in _SHARED}
    return Job(input_ids=record.source_ids, **shared, **packed)
