"""The interface of a search engine: it finds keys, and the store reads the rows."""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from lance_context_core._util.frozen import frozen_by_name

EngineChannel: TypeAlias = Literal["text", "vector"]
"""A search channel: by words, or by meaning."""

FIELDS = ("tenant", "user_id", "agent_id", "context", "session_id", "kind")
"""The fields of a row that an engine can filter by."""


@frozen_by_name
class EngineRow:
    """The part of a row that an engine indexes."""

    key: str
    """The key of the row in its table."""
    revision: int
    """From 0 to 2**63 - 1; another one after each change of the row."""
    words: Sequence[str] = ()
    """The words of its text, normalised and stemmed, in order; each of letters and digits, at most
    255 bytes in UTF-8."""
    vector: Sequence[float] | None = None
    """Finite, and not all zeros; None without one."""
    fields: Mapping[str, str | None]
    """The values of `FIELDS`; None for an absent one."""


@frozen_by_name
class EngineState:
    """The content of an engine's index of one table."""

    position: str
    """The position in the store's changes that the last `write` gave; empty before."""
    n_rows: int
    """The number of rows in the index now, counted, not remembered."""
    n_lost: int = 0
    """How many rows fewer it has than after the last `write`; negative for more."""


@frozen_by_name
class EngineHits:
    """The best rows of one channel."""

    state: EngineState
    """The state of the index that was searched, or an earlier one."""
    keys: Sequence[str]
    """Best first; fewer than `limit` only if no more rows match."""
    scores: Sequence[float]
    """Of each key: BM25 above 0, or the cosine in [-1, 1]."""


@runtime_checkable
class SearchEngine(Protocol):
    """A search engine with an index for each table of a store.

    All methods block, may be called from several threads, and may raise any exception: the store
    then searches LanceDB. One index has at most one writer at a time. A table is named by any text.
    `lance_context_testing.SearchEngineTests` tests an implementation.
    """

    @property
    def name(self) -> str:
        """A short name, which hits and statistics show."""

    @property
    def channels(self) -> Collection[EngineChannel]:
        """The channels that it can search."""

    @property
    def max_words_bytes(self) -> int:
        """The maximum size of a row's words, joined by spaces, in bytes of UTF-8."""

    def tables(self) -> Sequence[str]:
        """The tables that have an index, in any order."""

    def state(self, table: str) -> EngineState | None:
        """The state of a table's index; None without one."""

    def clear(self, table: str, *, dimension: int | None) -> None:
        """Replace a table's index, or its absence, by an empty one without a position.

        Its vectors have `dimension` numbers; None if no row has a vector.
        """

    def drop(self, table: str) -> None:
        """Remove the index of a table; nothing happens without one."""

    def write(
        self,
        table: str,
        *,
        puts: Sequence[EngineRow] = (),
        removes: Sequence[str] = (),
        position: str | None = None,
    ) -> None:
        """Put rows, replacing those with their keys, and remove those with the keys `removes`.

        No key is in both, or twice. Then sets the `position`, unless it is None. All in one
        transaction; or the position last, for an engine without transactions: a repetition must
        have the same result. Searches show the write as soon as it returns.
        """

    def revisions(self, table: str) -> Mapping[str, int]:
        """The revision of each row, by key."""

    def match(
        self, table: str, words: Sequence[str], *, where: Mapping[str, str | None], limit: int
    ) -> EngineHits:
        """The rows that have any of the words, by BM25, equal ones in any order.

        Their fields have the values of `where`, None for absent. Raises LookupError without an
        index.
        """

    def nearest(
        self, table: str, vector: Sequence[float], *, where: Mapping[str, str | None], limit: int
    ) -> EngineHits:
        """The rows with the highest cosine; as `match`."""

    def close(self) -> None:
        """Close connections; the next call opens them again."""
