"""The values of the knowledge: what is made of turns, what proves it, and what calls return."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from typing import Any, Literal

from lance_context_core._util.frozen import frozen_by_name, own_first
from lance_context_core.types import ContextRecord, Diff
from lance_context_core.types.answers import Tried
from lance_context_core.types.sources import Stretch

SearchType = Literal["chain", "summaries", "facts", "turns"]
"""Where to look: `summaries` are L0, `facts` (with chunks) L1, `turns` L2, and `chain` goes down all
three."""


Polarity = Literal["states", "ends", "denies"]
"""What a turn says of a fact: that it holds, that it holds no more, or that it does not."""

Infer = Literal["auto", "later", "never"]
"""When knowledge is made of what is added: before the call returns, by a job later, or not at all."""


@frozen_by_name
class SpokenTurn:
    """A turn of a conversation, as an extractor is given it."""

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
    """From when on no read shows it."""


@own_first
@frozen_by_name
class Evidence(Stretch):
    """The part of a turn that something was made of."""

    source_id: str
    """The id of the turn."""
    session_id: str
    sha256: str
    """Of the part's text in UTF-8, as it was then."""
    job_id: str
    """The job that found it."""


@frozen_by_name
class Quote:
    """Evidence, looked up again in the turn as it is now."""

    evidence: Evidence
    said_at: datetime | None = None
    speaker: str | None = None
    text: str | None
    """What the turn says there now; None if it is gone."""
    is_verified: bool
    """Whether that is what it said then."""


@own_first
@frozen_by_name
class FactCandidate(Stretch):
    """A fact that an extractor believes to have found, and where in the text of a turn it stands."""

    text: str
    """What is kept: the words of the turn, or others for them."""
    source_id: str
    """The turn that says so: one of those that were given."""
    kind: str = "statement"
    """What it is about, such as `preference` or `plan`; a word of the extractor's own."""
    slot: str | None = None
    """What it is the value of, such as `residence`, where there is only one at a time."""
    value: str | None = None
    """Of the slot; needed with one."""
    importance: float = 0.5
    """In [0, 1]."""
    valid_from: datetime | None = None
    """Since when it holds; aware. None means since it was said."""
    polarity: Polarity = "states"
    """Of a slot: `ends` and `denies` say that the value holds no more; without a value, whichever it is."""


@frozen_by_name
class Surroundings:
    """What helps to understand turns: no turn in it yields a fact, and no fact quotes it."""

    before: Sequence[SpokenTurn] = ()
    """What was said just before, by whomever, in order."""
    known: Sequence[ContextRecord] = ()
    """Facts of the same owner that are near, the nearest first."""


@frozen_by_name
class Counted:
    """Work that may have asked a model: what of its answers was no good, and what it took."""

    faults: Mapping[str, int] = field(default_factory=dict)
    """What was refused or had to be mended, by its name; `mended_…` was taken."""
    usage: Mapping[str, int] = field(default_factory=dict)
    """What it took: `calls`, `characters`, and tokens by the model's own names."""


@own_first
@frozen_by_name
class Extraction(Counted):
    """What an extractor returns that has more to tell than the facts, such as one with a model."""

    candidates: Sequence[FactCandidate] = ()


Op = Literal["add", "update", "supersede", "merge", "noop"]
"""What becomes of a new fact: it stands by itself, takes the place of a known one (in words of its
own, for `update`), is more evidence of one, or is not kept."""


@frozen_by_name
class Decision:
    """What a consolidator says of one new fact."""

    new_id: str
    target_id: str | None = None
    """The known fact that is meant; one of those that were given."""
    op: Op
    text: str | None = None
    """What is to be known, for `update`."""
    reason: str = ""


@own_first
@frozen_by_name
class Consolidation(Counted):
    """What a consolidator returns: a new fact of which it says nothing is added."""

    decisions: Sequence[Decision] = ()


@own_first
@frozen_by_name
class Summary(Counted):
    """What a summariser returns."""

    text: str | None = None
    """None leaves the summary to the sentences of the session itself."""


@frozen_by_name
class Added:
    """What `add` has kept, and what became of it."""

    session_id: str
    """The session that it is in; made up where none was given."""
    ids: tuple[str, ...]
    """The turns, in order."""
    job_id: str | None
    """The job that makes knowledge of them; None if nothing is to be made, or it was before."""
    job_ids: tuple[str, ...] = ()
    """All of them, where there are several."""
    decisions: Mapping[str, int] = field(default_factory=dict)
    """How many facts were added, merged, superseded and so on, as far as the jobs ran."""
    faults: Mapping[str, int] = field(default_factory=dict)
    """What of an extractor's or a model's work was refused or mended, by its name: `not_said`, …"""
    errors: tuple[str, ...] = ()
    """Why those of the jobs that ran are not done: they wait to be run again, or failed for good."""


@frozen_by_name
class KnowledgeHit:
    """What a search of the knowledge found."""

    record: ContextRecord
    score: float
    """In [0, 1]; comparable within one layer."""
    layer: Literal["L0", "L1", "L2"]
    evidence: tuple[Quote, ...] = ()
    """The turns that say so, where `evidence=True`."""
    outdated: tuple[str, ...] = ()
    """Of a chunk or a turn: the ids of the facts that it states, and that no longer hold."""


@frozen_by_name
class Link:
    """How two things of an explanation belong together."""

    source_id: str
    target_id: str
    relation: Literal["evidence", "made_by", "supersedes", "conflicts", "derived"]
    """`evidence` is a turn, `made_by` a job, `derived` what was made of it."""


@frozen_by_name
class Explanation:
    """Why something is known, as a graph."""

    id: str
    """What was asked about."""
    records: Mapping[str, ContextRecord]
    """All that the graph has, by id: facts, chunks, summaries and turns, hidden ones too."""
    links: tuple[Link, ...]
    quotes: tuple[Quote, ...]
    """The evidence of what was asked about, looked up again."""

    @property
    def is_verified(self) -> bool:
        """Whether there is evidence, and all of it still says what it said."""
        return bool(self.quotes) and all(quote.is_verified for quote in self.quotes)


@frozen_by_name
class TraceEvent:
    """Something that happened in a session."""

    at: datetime
    kind: Literal["turn", "tool_call", "tool_result", "chunk", "fact", "summary", "job"]
    id: str
    text: str
    """What was said, called, found or done, in one line."""
    record: ContextRecord | None = None
    """Absent for jobs: `jobs.get` has them."""


@frozen_by_name
class FactChange:
    """Something that became of a fact."""

    at: datetime
    """When its job was submitted, or a person did it."""
    kind: str
    """`add`, `merge` (said again), `supersede`, `contradict`; `undo`, `prune`, `archive`; by a person
    `correct` and `invalidate`."""
    job_id: str | None = None
    """The job that did it; None for a person."""
    other_id: str | None = None
    """The fact that took its place, or contradicts it."""
    text: str
    """What the fact said from then on."""


@frozen_by_name
class Proposal:
    """A distillation on a branch: to be read, and then merged or discarded."""

    job_id: str
    branch: str
    diff: Diff
    """What it would add, change and remove."""
    report: Mapping[str, int]
    """How many turns were read, and how many facts were added, merged, superseded and so on."""
    faults: Mapping[str, int] = field(default_factory=dict)
    """What of an extractor's or a model's work was refused or mended, by its name."""

    def __bool__(self) -> bool:
        """Whether it would change anything."""
        return bool(self.diff)


@own_first
@frozen_by_name
class Undone(Tried):
    """What was undone, or in a dry run would be."""

    job_id: str
    """The job that undid it; undoing that one brings it back."""
    retired: tuple[str, ...] = ()
    """What nothing but the undone job supported."""
    reduced: tuple[str, ...] = ()
    """What stays for its other evidence."""
    revived: tuple[str, ...] = ()
    """What the undone job had superseded, or an undo had retired."""
    conflicts: tuple[str, ...] = ()
    """What a person has corrected or pinned since: it stays as it is."""


@frozen_by_name
class Prune:
    """Which facts and chunks are no longer worth showing; all that is said must hold.

    What is pinned, canonical, or the current value of a slot is never among them.
    """

    older_than: timedelta = timedelta(days=90)
    """Since it was said last."""
    importance_below: float = 0.5
    """In [0, 1]."""
    limit: int | None = None
    """At most so many, those of least importance first."""
