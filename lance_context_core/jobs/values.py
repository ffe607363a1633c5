"""A job, and the states that it goes through."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Any, Literal, get_args

from lance_context_core._util.frozen import frozen_by_name, own_first
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
