"""A job, and the states that it goes through."""

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
from lance_context_core.errors import ContextStoreError
from lance_context_core.scope import Scope
from lance_context_core.types import ContextRecord
from lance_context_core.types.records import Owned

JobState = Literal["scheduled", "running", "proposed", "succeeded", "failed", "cancelled"]
"""What becomes of a job: `proposed` is done on a branch of its own, and waits for a decision."""

JOB_STATES: tuple[JobState, ...] = get_args(JobState)
"""All of them, in the order in which a job comes by them."""


SUMMARISE = "summarise"
"""The kind of job that summarises what came before a window."""


@frozen_by_name
class JobBudget:
    """What a run of jobs may ask of models at most; None is without a bound."""

    calls: int | None = None
    tokens: int | None = None
    """Of what models are asked: a quarter of its characters."""


@own_first
@frozen_by_name
class Job(Owned):
    """A piece of work on the store, as it stands."""

    id: str
    """Made of what the job is about and who does it: submitting the same again is the same job."""
    kind: str
    """`extract`, `distill`, `replay`, `undo`, `prune`, `archive` or `summarise`."""
    state: JobState
    created_at: datetime
    updated_at: datetime
    scheduled_at: datetime
    """When it is due; after a failure that may pass, later each time."""
    input_ids: tuple[str, ...] = ()
    """The ids of the records that it is about."""
    session_id: str | None = None
    producer: str = ""
    """Who makes its results: the name and version of the rules, and of the model."""
    parent_id: str | None = None
    """The job that this one is a part of."""
    attempts: int = 0
    error: str | None = None
    """Why the last attempt failed."""
    lease_until: datetime | None = None
    """Until then it belongs to the worker that runs it; afterwards any other takes it over."""
    fence: int = 0
    """Grows with each worker that takes it: who has an older one writes nothing any more."""
    branch: str | None = None
    """The branch on which it was proposed."""
    usage: Mapping[str, int] = field(default_factory=dict)
    """What it took: `calls` of a model, and the `characters` and about how many `tokens` these were
    given."""
    result: Mapping[str, Any] = field(default_factory=dict)
    """What came of it, by its kind: ids and counts."""
    undone_by: str | None = None
    """The job that has undone it."""


# Jobs to records and back, and their ids.

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


# What a run of jobs may ask of models, and what it has asked.

_CHARACTERS_A_TOKEN = 4


class OverBudget(ContextStoreError):  # noqa: N818 - no error: the run ends, and the job waits
    """A job would ask more of a model than is left for this run."""


class Stopped(Exception):  # noqa: N818 - no error of the job: it waits to be gone on with
    """Whoever runs a job wants it to end here: what they raised is the cause."""


@dataclass(slots=True)
class Spending:
    """What has been spent of a budget."""

    budget: JobBudget = field(default_factory=JobBudget)
    calls: int = 0
    tokens: int = 0

    def spend(self, *, calls: int, tokens: int) -> None:
        """Note what is about to be asked. Raises OverBudget, and notes nothing, if that is too much."""
        for name, more in (("calls", calls), ("tokens", tokens)):
            most = getattr(self.budget, name)
            if most is not None and getattr(self, name) + more > most:
                raise OverBudget(
                    f"it needs {more} more {name} than {getattr(self, name)} of {most}"
                )
        self.calls += calls
        self.tokens += tokens


SPENDING: ContextVar[Spending | None] = ContextVar("lance_context_spending", default=None)
"""That of the run that is under way."""


def spend(*, calls: int, tokens: int) -> None:
    """Note what a job is about to ask of a model. Raises OverBudget if the run may not."""
    if (spending := SPENDING.get()) is not None:
        spending.spend(calls=calls, tokens=tokens)


USAGE: ContextVar[Counter[str] | None] = ContextVar("lance_context_usage", default=None)
"""What the job that is under way has taken so far, of calls that failed too."""


def note_usage(more: Mapping[str, int]) -> None:
    """Note what a job has taken of a model, whatever came of it."""
    if (usage := USAGE.get()) is not None:
        usage.update(more)


def tokens_of(characters: int) -> int:
    """About how many tokens so many characters are, if a model does not say it."""
    return -(-characters // _CHARACTERS_A_TOKEN)
