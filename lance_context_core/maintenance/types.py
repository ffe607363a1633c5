"""Settings, results and statistics of maintenance."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime, timedelta
from typing import Any

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import InvalidRequestError
from lance_context_core.maintenance.compaction import check_hours
from lance_context_core.memory_index.scopes import SearchCacheStats
from lance_context_core.routing.router import EngineStats
from lance_context_core.storage.lance.fragments import FragmentPolicy, Survey
from lance_context_core.storage.lance.indexes import IndexPolicy


@frozen_by_name
class Maintenance:
    """When a store maintains itself, and the thresholds of the work."""

    every_n_commits: int = 64
    """The commits of this process to a table after which it is maintained, or fewer commits with as
    many rows, or bytes, as `indexes` lets be outside an index. A table then has 32 more
    small fragments on average, which cost a read 6 ms and an append half a millisecond; checking
    takes 20 ms."""
    quiet_hours: tuple[tuple[int, int], ...] = ()
    """Hours of the machine's local day, `(22, 6)` being from 22:00 to 6:00, without maintenance."""
    thin_interval: timedelta = timedelta(minutes=10)
    """The minimum time between two prunings of a table's versions."""
    fragments: FragmentPolicy = field(default_factory=FragmentPolicy)
    indexes: IndexPolicy = field(default_factory=IndexPolicy)

    def __post_init__(self) -> None:
        """Raises InvalidRequestError for invalid settings."""
        if type(self.every_n_commits) is not int or self.every_n_commits < 1:
            raise InvalidRequestError(
                f"every_n_commits={self.every_n_commits!r}: give a whole number, 1 or more"
            )
        check_hours(self.quiet_hours)


DEFAULT_MAINTENANCE = Maintenance()


@frozen_by_name
class TableUpkeep:
    """The maintenance of one table."""

    table: str
    fragments_removed: int = 0
    """Small fragments that were merged into others."""
    fragments_added: int = 0
    indexes_built: tuple[str, ...] = ()
    """The columns with an index built or rebuilt."""
    versions_removed: int = 0
    """Older versions that pruning removed."""
    skipped: str | None = None
    """Why nothing was done, or not all, such as that another process works on it."""


@frozen_by_name
class TableStats(Survey):
    """The state of one table, and its maintenance."""

    table: str
    """Its name in the directory."""
    due: tuple[str, ...]
    """The work that is due now, and why."""
    last_at: datetime | None
    """The time of the last maintenance with any work; None if there was none."""
    last_by: str | None
    """Machine, process and a random part."""
    last_did: Mapping[str, Any] | None
    """The nonempty values of its TableUpkeep."""
    last_error: str | None
    """The error of the last run; None if it succeeded."""
    n_done: int
    """How often it was maintained, by any process."""
    n_failed: int
    """How often that failed."""
    held_by: str | None
    """The process that maintains it at the moment."""


@frozen_by_name
class StoreStats:
    """The state of a store."""

    tables: tuple[TableStats, ...]
    is_maintaining: bool
    """Whether this handle's store runs maintenance now."""
    last_error: str | None
    """The last error of background maintenance in this process, also of the log itself."""
    search_engines: tuple[EngineStats, ...] = ()
    """The engines that search instead of LanceDB."""
    search_cache: SearchCacheStats | None = None
    """How searches were answered in the process; None if the store is open without a `search_cache`."""
