"""A job and its states."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, get_args

from lance_context_core._util.checks import dumps
from lance_context_core._util.frozen import frozen_by_name, own_first
from lance_context_core._util.lru import remembered
from lance_context_core.codecs.records import JOB
from lance_context_core.errors import ConflictError, ContextStoreError
from lance_context_core.scope import Scope
from lance_context_core.types import ContextRecord
from lance_context_core.types.records import Owned

JobState = Literal["scheduled", "running", "proposed", "succeeded", "failed", "cancelled"]
"""The state of a job: `proposed` is done on its branch, awaiting a decision."""

JOB_STATES: tuple[JobState, ...] = get_args(JobState)
"""All states, in the order in which a job passes through them."""


SUMMARISE = "summarise"
"""The kind of job that summarises the messages before a window."""


@frozen_by_name
class JobBudget:
    """The limits of model use in a run of jobs; None has no bound."""

    calls: int | None = None
    tokens: int | None = None
    """Tokens of the requests to models: a quarter of their characters."""


@own_first
@frozen_by_name
class Job(Owned):
    """A piece of work on the store, with its state."""

    id: str
    """Computed from the input and the producer: submitting the same again is the same job."""
    kind: str
    """`extract`, `distill`, `replay`, `undo`, `prune`, `archive` or `summarise`."""
    state: JobState
    created_at: datetime
    updated_at: datetime
    scheduled_at: datetime
    """The time when it is due; later after each temporary failure."""
    input_ids: tuple[str, ...] = ()
    """The ids of its input records."""
    session_id: str | None = None
    producer: str = ""
    """The maker of its results: name and version of rules and model."""
    parent_id: str | None = None
    """The job of which it is a part."""
    attempts: int = 0
    error: str | None = None
    """The error of the last attempt."""
    lease_until: datetime | None = None
    """The end of its worker's lease; afterwards any other worker takes it over."""
    fence: int = 0
    """Increases with each worker; a worker with an older one must not write."""
    branch: str | None = None
    """The branch of its proposal."""
    usage: Mapping[str, int] = field(default_factory=dict)
    """Its usage: `calls` of a model, their `characters` and approximate `tokens`."""
    result: Mapping[str, Any] = field(default_factory=dict)
    """Its results, by kind: ids and counts."""
    undone_by: str | None = None
    """The job that has undone it."""


# Conversion of jobs to records and back, and their ids.

KIND = JOB

_TIMES = ("scheduled_at", "lease_until")
_PACKED = (
    *("kind", "state", "producer", "parent_id", "attempts", "error", "fence", "branch"),
    *("usage", "result", "undone_by", *_TIMES),
)
_SHARED = ("id", "created_at", "updated_at", "session_id", "tenant", "user_id", "agent_id")
"""Fields with the same name in a record and its job."""


def job_id(
    kind: str, owner: Scope, session_id: str | None, input_ids: Sequence[str], producer: str
) -> str:
    """Return the id of a job, computed from its input alone.

    Submitting the same again is the same job.
    """
    # Most ids are generated ones without escapes: every append runs this.
    is_plain = (text := "".join(input_ids)).isascii() and text.isalnum()
    ids = '["' + '","'.join(input_ids) + '"]' if is_plain else dumps([*input_ids])
    before, after = _around(kind, owner.tenant, owner.user_id, owner.agent_id, session_id, producer)
    told = before.copy()
    told.update(f"{ids}{after}".encode())
    return f"job-{told.hexdigest()[:32]}"


@remembered(256 * 1024)
def _around(*named: str | None) -> tuple[Any, str]:
    """The JSON before and behind the ids, whose hash is the job id.

    The first part is returned as a hash to be continued.
    """
    *before, producer = named
    return hashlib.sha256(f"{dumps(before)[:-1]},".encode()), f",{dumps(producer)}]"


def scheduled(kind: str, id: str, *, owner: Scope, now: datetime, **more: Any) -> Job:
    """Return a job of that owner that is due at once."""
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
    """The owner of a job."""
    return Scope(tenant=job.tenant, user_id=job.user_id, agent_id=job.agent_id)


def refuse_running(job: Job) -> None:
    """Raise ConflictError if another worker runs the job."""
    if job.state == "running":
        raise ConflictError(f"job {job.id!r} is being done by another worker: call again later")


def to_record(job: Job, context: str) -> ContextRecord:
    """Return the record of a job."""
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
    """Return the job of a record."""
    packed = {name: one for name, one in record.metadata["job"].items() if name in _PACKED}
    for name in _TIMES:
        packed[name] = packed.get(name) and datetime.fromisoformat(packed[name])
    shared = {name: getattr(record, name) for name in _SHARED}
    return Job(input_ids=record.source_ids, **shared, **packed)


# The limits and the use of models in a run of jobs.

_CHARACTERS_A_TOKEN = 4


class OverBudget(ContextStoreError):  # noqa: N818 - no error: the run ends, and the job waits
    """A job would exceed the budget of this run."""


class Stopped(Exception):  # noqa: N818 - no error of the job: it waits to be gone on with
    """The caller ends a job here: the cause is the exception it raised."""


@dataclass(slots=True)
class Spending:
    """The used part of a budget."""

    budget: JobBudget = field(default_factory=JobBudget)
    calls: int = 0
    tokens: int = 0

    def spend(self, *, calls: int, tokens: int) -> None:
        """Record a request in advance.

        Raises OverBudget, and records nothing, if it exceeds the budget.
        """
        for name, more in (("calls", calls), ("tokens", tokens)):
            most = getattr(self.budget, name)
            if most is not None and getattr(self, name) + more > most:
                raise OverBudget(
                    f"it needs {more} more {name} than {getattr(self, name)} of {most}"
                )
        self.calls += calls
        self.tokens += tokens


SPENDING: ContextVar[Spending | None] = ContextVar("lance_context_spending", default=None)
"""Of the current run."""


def spend(*, calls: int, tokens: int) -> None:
    """Record a job's request in advance. Raises OverBudget if it exceeds the budget."""
    if (spending := SPENDING.get()) is not None:
        spending.spend(calls=calls, tokens=tokens)


USAGE: ContextVar[Counter[str] | None] = ContextVar("lance_context_usage", default=None)
"""The usage of the current job so far, including failed calls."""


def note_usage(more: Mapping[str, int]) -> None:
    """Add to the usage of the current job, after failures too."""
    if (usage := USAGE.get()) is not None:
        usage.update(more)


def tokens_of(characters: int) -> int:
    """The approximate tokens of a text, if the model does not report them."""
    return -(-characters // _CHARACTERS_A_TOKEN)
