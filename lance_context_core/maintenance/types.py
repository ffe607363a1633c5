"""When a store maintains itself, what was done then, and the state that its tables are in."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime, timedelta
from typing import Any

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import InvalidRequestError
from lance_context_core.maintenance.compaction import check_hours
from lance_context_core.memory_index.scopes import SearchCacheStats
from lance_context_core.storage.lance.fragments import FragmentPolicy, Survey
from lance_context_core.storage.lance.indexes import IndexPolicy


@frozen_by_name
class Maintenance:
    """When a store maintains itself, and from where on it pays."""

    every_n_commits: int = 64
    """After so many commits of this process to a table it is looked after, and after fewer that
    brought as many rows, or bytes, as `indexes` lets be outside an index. A table then has 32 more
    small fragments on average, which cost a read 6 ms and an append half a millisecond; looking
    takes 20 ms."""
    quiet_hours: tuple[tuple[int, int], ...] = ()
    """Hours of the machine's local day, `(22, 6)` being from 22:00 to 6:00, when nothing is done."""
    thin_interval: timedelta = timedelta(minutes=10)
    """How long a table's older versions are left alone after they were thinned."""
    fragments: FragmentPolicy = field(default_factory=FragmentPolicy)
    indexes: IndexPolicy = field(default_factory=IndexPolicy)

    def __post_init__(self) -> None:
        """Raise InvalidRequestError for settings of no sense."""
        if type(self.every_n_commits) is not int or self.every_n_commits < 1:
            raise InvalidRequestError(
                f"every_n_commits={self.every_n_commits!r}: give a whole number, 1 or more"
            )
        check_hours(self.quiet_hours)


DEFAULT_MAINTENANCE = Maintenance()


@frozen_by_name
class TableUpkeep:
    """What maintenance did to one table."""

    table: str
    fragments_removed: int = 0
    """Small fragments that were merged into others."""
    fragments_added: int = 0
    indexes_built: tuple[str, ...] = ()
    """The columns of which an index was built or made anew."""
    versions_removed: int = 0
    """Older versions that need not be kept."""
    skipped: str | None = None
    """Why nothing was done, or not all, such as that another process is at it."""


@frozen_by_name
class TableStats(Survey):
    """The state of one table, and what maintenance did to it."""

    table: str
    """Its name in the directory."""
    due: tuple[str, ...]
    """What maintenance would do now, and why."""
    last_at: datetime | None
    """When maintenance last did something here; None if it never did."""
    last_by: str | None
    """Machine, process and a random part."""
    last_did: Mapping[str, Any] | None
    """The values of its TableUpkeep that say anything."""
    last_error: str | None
    """What the last run failed with; None if it succeeded."""
    n_done: int
    """How often it was looked after, by whichever process."""
    n_failed: int
    """How often that failed."""
    held_by: str | None
    """Who maintains it at the moment."""


@frozen_by_name
class StoreStats:
    """The state of a store."""

    tables: tuple[TableStats, ...]
    is_maintaining: bool
    """Whether this handle's store is at it."""
    last_error: str | None
    """What background maintenance of this process last failed with, were it the log itself."""
    search_cache: SearchCacheStats | None = None
    """How searches were answered in the process; None if the store is open without a `search_cache`."""
