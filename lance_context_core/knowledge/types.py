"""Value types of the knowledge: records, evidence, and return values."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from typing import Any, Literal

from lance_context_core._util.frozen import frozen_by_name, own_first
from lance_context_core.types import ContextRecord, Diff
from lance_context_core.types.answers import Tried
from lance_context_core.types.sources import Stretch

SearchType = Literal["chain", "summaries", "facts", "turns"]
"""The layers to search.

`summaries` are L0, `facts` (with chunks) L1, `turns` L2; `chain` searches all three.
"""


Polarity = Literal["states", "ends", "denies"]
"""The claim about a fact: it holds, holds no more, or does not hold."""

Infer = Literal["auto", "later", "never"]
"""When knowledge is extracted: before the call returns, by a job later, or never."""


@frozen_by_name
class SpokenTurn:
    """A turn of a conversation, as passed to an extractor."""

    id: str
    session_id: str
    role: str
    name: str | None = None
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    said_at: datetime
    place: int
    """The number of the turn in its session, from 0."""
    expires_at: datetime | None = None
    """The moment from which no read returns it."""


@own_first
@frozen_by_name
class Evidence(Stretch):
    """The part of a turn that proves a record."""

    source_id: str
    """The id of the turn."""
    session_id: str
    sha256: str
    """Of the part's text in UTF-8, at that time."""
    job_id: str
    """The job that found it."""


@frozen_by_name
class Quote:
    """Evidence, looked up again in the current turn."""

    evidence: Evidence
    said_at: datetime | None = None
    speaker: str | None = None
    text: str | None
    """The current text of the turn at this place; None if it is gone."""
    is_verified: bool
    """Whether the text is unchanged."""


@own_first
@frozen_by_name
class FactCandidate(Stretch):
    """A fact found by an extractor, with its place in the text of a turn."""

    text: str
    """The text to store: the words of the turn, or a paraphrase."""
    source_id: str
    """The turn that states it: one of the given turns."""
    kind: str = "statement"
    """The kind, such as `preference` or `plan`; the extractor's own word."""
    slot: str | None = None
    """The attribute, such as `residence`, that has only one value at a time."""
    value: str | None = None
    """Of the slot; required with a slot."""
    importance: float = 0.5
    """In [0, 1]."""
    valid_from: datetime | None = None
    """The moment since which it holds; aware. None means the time of the turn."""
    polarity: Polarity = "states"
    """Of a slot: `ends` and `denies` end the value; without a value, any value."""


@frozen_by_name
class Surroundings:
    """Context for turns: no fact is extracted from it or quotes it."""

    before: Sequence[SpokenTurn] = ()
    """The messages just before, of any speaker, in order."""
    known: Sequence[ContextRecord] = ()
    """Facts of the same owner nearby, the nearest first."""


@frozen_by_name
class Counted:
    """Work that may have called a model, with its faults and usage."""

    faults: Mapping[str, int] = field(default_factory=dict)
    """Rejected or repaired answers, by fault; `mended_…` was accepted."""
    usage: Mapping[str, int] = field(default_factory=dict)
    """Usage: `calls`, `characters`, and tokens by the model's own names."""


@own_first
@frozen_by_name
class Extraction(Counted):
    """Facts with faults and usage, returned by extractors such as those with a model."""

    candidates: Sequence[FactCandidate] = ()


Op = Literal["add", "update", "supersede", "merge", "noop"]
"""The decision on a new fact.

`add` stores it; `supersede` and `update`, with words of its own, replace a known fact; `merge`
makes it more evidence of one; `noop` drops it.
"""


@frozen_by_name
class Decision:
    """A consolidator's decision on one new fact."""

    new_id: str
    target_id: str | None = None
    """The known fact it refers to; one of the given ones."""
    op: Op
    text: str | None = None
    """The new text, for `update`."""
    reason: str = ""


@own_first
@frozen_by_name
class Consolidation(Counted):
    """The result of a consolidator: a new fact without a decision is added."""

    decisions: Sequence[Decision] = ()


@own_first
@frozen_by_name
class Summary(Counted):
    """The result of a summariser."""

    text: str | None = None
    """None selects the sentences of the session itself."""


@frozen_by_name
class Added:
    """The result of `add`: the stored turns, and the results of their jobs."""

    session_id: str
    """Their session; generated if none was given."""
    ids: tuple[str, ...]
    """The turns, in order."""
    job_id: str | None
    """The job that extracts their knowledge; None if unneeded or done before."""
    job_ids: tuple[str, ...] = ()
    """All jobs, if there are several."""
    decisions: Mapping[str, int] = field(default_factory=dict)
    """Number of facts added, merged, superseded and so on, by the jobs that ran."""
    faults: Mapping[str, int] = field(default_factory=dict)
    """Rejected or repaired work of an extractor or a model, by fault: `not_said`, …"""
    errors: tuple[str, ...] = ()
    """Errors of the unfinished jobs, which are retried later or failed for good."""


@frozen_by_name
class KnowledgeHit:
    """One result of a knowledge search."""

    record: ContextRecord
    score: float
    """In [0, 1]; comparable within one layer."""
    layer: Literal["L0", "L1", "L2"]
    evidence: tuple[Quote, ...] = ()
    """The turns that prove it, with `evidence=True`."""
    outdated: tuple[str, ...] = ()
    """Of a chunk or a turn: the ids of the outdated facts that it states."""


@frozen_by_name
class Link:
    """The relation of two records in an explanation."""

    source_id: str
    target_id: str
    relation: Literal["evidence", "made_by", "supersedes", "conflicts", "derived"]
    """`evidence` is a turn, `made_by` a job, `derived` a record made of it."""


@frozen_by_name
class Explanation:
    """The reasons why a record is known, as a graph."""

    id: str
    """The record to explain."""
    records: Mapping[str, ContextRecord]
    """All records of the graph by id: facts, chunks, summaries and turns, hidden ones too."""
    links: tuple[Link, ...]
    quotes: tuple[Quote, ...]
    """The evidence of the record to explain, looked up again."""

    @property
    def is_verified(self) -> bool:
        """Whether evidence exists, and all of it is unchanged."""
        return bool(self.quotes) and all(quote.is_verified for quote in self.quotes)


@frozen_by_name
class TraceEvent:
    """An event of a session."""

    at: datetime
    kind: Literal["turn", "tool_call", "tool_result", "chunk", "fact", "summary", "job"]
    id: str
    text: str
    """The message, tool call, fact or job in one line."""
    record: ContextRecord | None = None
    """Absent for jobs: `jobs.get` has them."""


@frozen_by_name
class FactChange:
    """A change of a fact."""

    at: datetime
    """The time when its job was submitted, or a person made it."""
    kind: str
    """The kind of change.

    `add`, `merge` (repeated), `supersede`, `contradict`; `undo`, `prune`, `archive`; by a person
    `correct` and `invalidate`.
    """
    job_id: str | None = None
    """The job that made the change; None for a person."""
    other_id: str | None = None
    """The fact that replaced it, or contradicts it."""
    text: str
    """The text of the fact from then on."""


@frozen_by_name
class Proposal:
    """A distillation on a branch: to be read, then merged or discarded."""

    job_id: str
    branch: str
    diff: Diff
    """The records that it would add, change and remove."""
    report: Mapping[str, int]
    """Number of turns read, and of facts added, merged, superseded and so on."""
    faults: Mapping[str, int] = field(default_factory=dict)
    """Rejected or repaired work of an extractor or a model, by fault."""

    def __bool__(self) -> bool:
        """Whether it would change anything."""
        return bool(self.diff)


@own_first
@frozen_by_name
class Undone(Tried):
    """The changes of an undo, or of its dry run."""

    job_id: str
    """The job of the undo; undoing it reverts the undo."""
    retired: tuple[str, ...] = ()
    """Records that only the undone job supported."""
    reduced: tuple[str, ...] = ()
    """Records that stay for their other evidence."""
    revived: tuple[str, ...] = ()
    """Records that the undone job had superseded, or an undo had retired."""
    conflicts: tuple[str, ...] = ()
    """Records that a person has corrected or pinned since: they stay unchanged."""


@frozen_by_name
class Prune:
    """Selects facts and chunks to hide; all conditions must hold.

    Never selects a record that is pinned, canonical, or the current value of a slot.
    """

    older_than: timedelta = timedelta(days=90)
    """Time since the fact was last stated."""
    importance_below: float = 0.5
    """In [0, 1]."""
    limit: int | None = None
    """Maximum number, those of least importance first."""
