"""What a search, a listing, a write and an erasure answer with."""

from collections.abc import Mapping
from dataclasses import field
from typing import Generic, TypeVar

from lance_context_core._util.frozen import frozen_by_name

R = TypeVar("R")


@frozen_by_name
class ChannelScore:
    """What one channel said about one candidate."""

    raw: float
    """Cosine similarity in [-1, 1], or BM25 above 0."""
    normalised: float
    """In [0, 1] over the channel's candidates: 1 is its best, 0 its worst, and all 1 if all are equal.

    Of words, the best has less than 1 where hybrid search counts them less: `SearchOptions.coverage`.
    """
    rank: int
    """1 + the number of candidates that score higher: equals share a rank, whatever their order."""


@frozen_by_name
class SearchHit(Generic[R]):
    """A record that a search found, and why."""

    record: R
    """What was found: a `ContextRecord`, a `Document` or an `Item`, by where it was searched."""
    score: float
    """In [0, 1], higher is better; comparable within one search mode."""
    channels: Mapping[str, ChannelScore] = field(default_factory=dict)
    """What each channel that matched said, by its name: `vector`, `text`."""
    why: Mapping[str, float] = field(default_factory=dict)
    """What of `score` each part gave, which come to it: `channels`, and the boosts by their names, such
    as `neighbours`, `preceding` and `speaker`. A reranker's score is all that of `channels`."""

    @property
    def neighbour_bonus(self) -> float:
        """The part of `score` that came from the turns around it."""
        return self.why.get("neighbours", 0.0)

    @property
    def matched_channels(self) -> tuple[str, ...]:
        """The names of the channels that matched, in alphabetical order."""
        return tuple(sorted(self.channels))


@frozen_by_name
class Page(Generic[R]):
    """One page of a longer list."""

    items: list[R]
    page: int
    """Counted from 1."""
    page_size: int
    """How many items were asked for; the last page may have fewer."""
    total: int
    """How many items all pages hold together."""

    @property
    def has_more(self) -> bool:
        """Whether a page after this one has items."""
        return self.page * self.page_size < self.total


@frozen_by_name
class WriteResult:
    """What a write left behind."""

    ids: tuple[str, ...]
    """The ids of the records, in the order in which they were given."""
    version: int
    """The version of the table that holds them; an idempotent repetition does not make one."""

    @property
    def id(self) -> str:
        """The id of the only record. Raises ValueError unless there is exactly one."""
        (only,) = self.ids
        return only


@frozen_by_name
class ItemsAppended:
    """The commit in which key-value items were appended."""

    version: int
    """A version of the items that shows them: the one it made, or a later one."""
    n_items: int | None
    """How many items that version added to the one before, those that others appended at the same
    moment among them. None if it is not known: other processes were writing."""
    grows_since: int
    """A version since which, until that one, items were appended and nothing else was done: what was
    there then is there. It is `version` itself if more is not known."""


@frozen_by_name
class ItemsWritten:
    """What a write of key-value items found."""

    deleted: list[bool]
    """Whether there was an item for each of the keys to be deleted, in the order of these."""
    version: int
    """A version of the items that shows the write: the one it made, or a later one."""


@frozen_by_name
class Tried:
    """What a call did, or in a dry run would do."""

    is_dry_run: bool = False
    """Whether it is what would be done: then nothing was."""


@frozen_by_name
class Erasure:
    """What was erased, or in a dry run would be; whatever is erased twice counts once."""

    records: int = 0
    """Those that were meant, by what they are now or were in any version that is kept."""
    derived: int = 0
    """Further ones, which were made from these; none where these alone were to go: then what stays
    has them no more among its sources."""
    documents: int = 0
    items: int = 0
    """Key-value items."""
    blobs: int = 0
    """Bytes that nothing names any more."""
    graph: int = 0
    """Entities, relations, mentions and statements that were known from nowhere else."""
    sessions: int = 0
    """Descriptions of sessions."""
    mentions: int = 0
    """Records that stay, of which the ids of erased ones were taken out."""
    versions_removed: int = 0
    """The older versions of all tables, with what is on their branches and under their tags."""
    branches: tuple[str, ...] = ()
    """The branches that were cleaned, `main` included, in alphabetical order."""
    tags: tuple[str, ...] = ()
    """The tags that were cleaned, in alphabetical order."""
    bytes_removed: int = 0
    """The size of the files that went; what had to stay of them was written anew. 0 in a dry run."""
    may_linger: bool = False
    """Whether something may be left: files of writes that were never finished, for up to seven days, or
    a journal that others kept reading, until the next erasure."""

    def __bool__(self) -> bool:
        """Whether anything was found."""
        found = (self.records, self.derived, self.documents, self.items, self.blobs, self.graph)
        return any(found) or self.sessions > 0


# What a check of the store finds.


@frozen_by_name
class Checked:
    """What was looked at, and what was found to be wrong."""

    problems: "tuple[Wrong, ...]" = ()

    @property
    def is_whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


@frozen_by_name
class Wrong:
    """Something that is not as it should be."""

    kind: str
    where: str
    what: str
    """What is wrong with it."""


# How far a long call has come.


@frozen_by_name
class Progress:
    """How far a long call has come: what `progress` is given, after each step.

    The call waits for `progress`. It is called in the task that awaits, so that it may set an
    event or put into a queue of that loop; for a blocking call, in a worker thread, so that it may
    ask the store. What it raises ends the call, as cancelling does: what was reported is done, and
    nothing else is begun.
    """

    n_done: int
    """How much is dealt with, what failed or needed nothing among it."""
    n_total: int | None = None
    """How much there is, as far as it was known when the call began; None where that is not known."""
    what: str
    """What is counted, such as `tables`."""
    name: str | None = None
    """What was dealt with last, where it has a name."""
