"""Results of searches, lists, writes and erasures."""

from collections.abc import Mapping
from dataclasses import field
from typing import Generic, TypeVar

from lance_context_core._util.frozen import frozen_by_name

R = TypeVar("R")


@frozen_by_name
class ChannelScore:
    """The score and rank that one channel gave to one candidate."""

    raw: float
    """Cosine similarity in [-1, 1], or BM25 above 0."""
    normalised: float
    """In [0, 1] over the channel's candidates: 1 is its best, 0 its worst, and all 1 if all are equal.

    The best text match is below 1 if hybrid search reduces its weight: `SearchOptions.coverage`.
    """
    rank: int
    """1 + the number of candidates with a higher score; equal scores share a rank."""


@frozen_by_name
class SearchHit(Generic[R]):
    """A record that a search found, with its scores."""

    record: R
    """The match: a `ContextRecord`, a `Document` or an `Item`, depending on the search."""
    score: float
    """In [0, 1], higher is better; comparable within one search mode."""
    channels: Mapping[str, ChannelScore] = field(default_factory=dict)
    """The score of each channel that matched, by its name: `vector`, `text`."""
    why: Mapping[str, float] = field(default_factory=dict)
    """The parts that add up to `score`: `channels`, and the boosts by their names, such
    as `neighbours`, `preceding` and `speaker`. A reranker's score counts as `channels`."""
    engines: Mapping[str, str] = field(default_factory=dict)
    """By channel that matched, what found it: an engine's name, `log` for a row that is newer than
    the engine's index, or `lancedb`. Empty without `search_engines`, and if memory answered."""

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
    """The requested number of items; the last page may have fewer."""
    total: int
    """The number of items in all pages."""

    @property
    def has_more(self) -> bool:
        """Whether a page after this one has items."""
        return self.page * self.page_size < self.total


@frozen_by_name
class WriteResult:
    """The result of a write."""

    ids: tuple[str, ...]
    """The ids of the records, in the order of the argument."""
    version: int
    """The version of the table with the records; an idempotent repetition creates none."""

    @property
    def id(self) -> str:
        """The id of the only record. Raises ValueError unless there is exactly one."""
        (only,) = self.ids
        return only


@frozen_by_name
class ItemsAppended:
    """The commit that appended key-value items."""

    version: int
    """A version of the table that contains the items: the new one, or a later one."""
    n_items: int | None
    """How many items that version added, including those of concurrent writers of this process.
    None if unknown, because other processes were writing."""
    grows_since: int
    """An earlier version: between it and `version` items were only appended, so its items still
    exist. Equal to `version` if no earlier one is known."""


@frozen_by_name
class ItemsWritten:
    """The result of a write of key-value items."""

    deleted: list[bool]
    """Whether each key to delete had an item, in the order of the keys."""
    version: int
    """A version of the table that contains the write: the new one, or a later one."""


@frozen_by_name
class Tried:
    """The effects of a call, or of a dry run."""

    is_dry_run: bool = False
    """Whether this was a dry run, which changes nothing."""


@frozen_by_name
class Erasure:
    """The erased data, or in a dry run the data to erase; each row counts once."""

    records: int = 0
    """The selected records, by their content now or in any stored version."""
    derived: int = 0
    """Records derived from these. None if only the selected records were to be erased; derived
    records then no longer name them as sources."""
    documents: int = 0
    items: int = 0
    """Key-value items."""
    blobs: int = 0
    """Blobs that are no longer referenced."""
    graph: int = 0
    """Entities, relations, mentions and statements without another source."""
    sessions: int = 0
    """Session descriptions."""
    mentions: int = 0
    """Remaining records from which ids of erased ones were removed."""
    versions_removed: int = 0
    """The older versions of all tables, including their branches and tags."""
    branches: tuple[str, ...] = ()
    """The branches that were cleaned, `main` included, in alphabetical order."""
    tags: tuple[str, ...] = ()
    """The tags that were cleaned, in alphabetical order."""
    bytes_removed: int = 0
    """The size of the removed files, whose remaining rows were rewritten. 0 in a dry run."""
    engines_pending: tuple[str, ...] = ()
    """The search engines that may still have erased data, because they did not confirm the erasure:
    repeat it. Empty once all have."""
    may_linger: bool = False
    """Whether erased data may remain: in files of unfinished writes, for up to seven days, or in a
    write-ahead log that others kept reading, until the next erasure."""

    def __bool__(self) -> bool:
        """Whether anything was found."""
        found = (self.records, self.derived, self.documents, self.items, self.blobs, self.graph)
        return any(found) or self.sessions > 0


# What a check of the store finds.


@frozen_by_name
class Checked:
    """The checked objects and the problems found."""

    problems: "tuple[Wrong, ...]" = ()

    @property
    def is_whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


@frozen_by_name
class Wrong:
    """A problem that `verify` found."""

    kind: str
    where: str
    what: str
    """A description of the problem."""


# How far a long call has come.


@frozen_by_name
class Progress:
    """The progress of a long call, passed to `progress` after each step.

    The call waits for `progress`. It runs in the awaiting task, so it may set an event or use a
    queue of that loop; for a blocking call it runs in a worker thread, so it may read the store.
    An exception from it ends the call, as cancelling does: reported steps are done, and no other
    step begins.
    """

    n_done: int
    """The number of processed things, including failed and skipped ones."""
    n_total: int | None = None
    """The total when the call began; None if unknown."""
    what: str
    """The counted unit, such as `tables`."""
    name: str | None = None
    """The name of the last processed thing, if it has one."""
