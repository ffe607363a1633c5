"""Resources that all handles of one store share."""

import threading
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from dataclasses import field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from lance_context_core._util.crowd import FairLock
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core._util.lru import forget_all
from lance_context_core.embedders import as_embedder
from lance_context_core.embedders._service import EmbeddingService
from lance_context_core.errors import ReadOnlyError
from lance_context_core.maintenance.background_embedding import BackgroundEmbedding
from lance_context_core.maintenance.compaction import RecordCompaction
from lance_context_core.maintenance.maintenance import Upkeep
from lance_context_core.memory_index.scopes import HotScopes
from lance_context_core.protocols import Clock
from lance_context_core.routing.router import Router
from lance_context_core.storage.database import BranchDatabase, Database, PinnedDatabase
from lance_context_core.storage.lance import versions
from lance_context_core.storage.lance.retention import VersionRetention
from lance_context_core.storage.table import Table
from lance_context_core.text.composer import Composer


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """The current moment in UTC."""
        return datetime.now(UTC)


class Accesses:
    """How often this process has found entries of the tiers, by key, since that was last written.

    Of at most so many entries; the accesses of further ones are not counted.
    """

    class Counted(NamedTuple):
        """The accesses of one entry."""

        times: int
        last: datetime

    def __init__(self, most: int = 10_000) -> None:
        """None yet."""
        self._most = most
        self._lock = threading.Lock()
        self._counted: dict[str, Accesses.Counted] = {}
        self._since: datetime | None = None

    def note(self, keys: Iterable[str], now: datetime) -> None:
        """Each of these was found once more."""
        with self._lock:
            self._since = self._since or now
            for key in keys:
                before = self._counted.get(key)
                if before is not None or len(self._counted) < self._most:
                    times = 1 if before is None else before.times + 1
                    self._counted[key] = Accesses.Counted(times, now)

    def of(self, key: str) -> "Accesses.Counted | None":
        """Counts of one table that are not written yet."""
        return self._counted.get(key)

    def is_due(self, now: datetime, interval: timedelta) -> bool:
        """Whether the first that is not written was so long ago."""
        return self._since is not None and now - self._since >= interval

    def take(self) -> dict[str, "Accesses.Counted"]:
        """All of them, to be written; they are counted no more."""
        with self._lock:
            taken, self._counted, self._since = self._counted, {}, None
            return taken

    def put_back(self, taken: Mapping[str, "Accesses.Counted"]) -> None:
        """Counts that could not be written."""
        with self._lock:
            for key, one in taken.items():
                newer = self._counted.get(key)
                times = one.times + (newer.times if newer else 0)
                self._counted[key] = Accesses.Counted(times, newer.last if newer else one.last)
            if self._counted:
                first = min(one.last for one in self._counted.values())
                self._since = min(first, self._since or first)


@frozen_by_name
class Resources:
    """The database and the options of `open`."""

    database: Database | BranchDatabase | PinnedDatabase
    clock: Clock
    author: str | None = None
    """The author, if given."""
    composer: Composer
    embeddings: EmbeddingService | None
    defer_embedding: bool
    behind: BackgroundEmbedding | None = None
    """Embeds what was deferred; None leaves that to `embed_pending`."""
    hot: HotScopes | None = None
    """The scopes searched in the process; None if disabled."""
    engines: Router | None = None
    """The engines that search instead of LanceDB; None without any."""
    retention: VersionRetention
    upkeep: Upkeep
    compaction: RecordCompaction
    accesses: Accesses = field(default_factory=Accesses)
    overtaken: FairLock = field(default_factory=FairLock)
    """Held while a job decides its writes again after it lost a race."""
    warned: set[Hashable] = field(default_factory=set)
    """Warnings that were issued, or are no longer needed."""
    on_cleared: Callable[[Any, Mapping[str, str | None], Any], Awaitable[None]] | None = None
    """Awaited with records of which some were cleared or have changed: see `Records.cleared`."""

    def writable(self) -> Database | BranchDatabase:
        """The database; raises ReadOnlyError for one as it was earlier, or opened for reading only."""
        database = self.current()
        database.connection.require_writable()
        return database

    def current(self) -> Database | BranchDatabase:
        """The database, to be read; raises ReadOnlyError for one as it was earlier."""
        if not isinstance(self.database, PinnedDatabase):
            return self.database
        raise ReadOnlyError(
            "this is a view of an earlier version: write through the store itself, or restore it"
        )

    def on(self, database: Database | BranchDatabase | PinnedDatabase) -> "Resources":
        """The same on another branch or at another time, whose records are compacted on their own."""
        compaction = RecordCompaction(database.records, self.clock)
        return replace(
            self,
            database=database,
            compaction=compaction,
            accesses=Accesses(),
        )

    async def at(self, ref: versions.Ref) -> "Resources":
        """The same as it was then, for reading only. Raises NotFoundError if there was no such moment."""
        await self.settle()
        return self.on(self.database.at(await versions.pin(self.records, ref)))

    async def shown_at(self, ref: versions.Ref) -> "Resources":
        """As `at`; for a time also the records that the log held then."""
        resources = await self.at(ref)
        if isinstance(ref, datetime) and isinstance(resources.database, PinnedDatabase):
            await resources.database.be_exact(self.records.ref, ref)
            return replace(resources, hot=self.hot and self.hot.at_a_time())
        return resources

    async def settle(self) -> None:
        """Have all that was acknowledged in the tables themselves, where versions have numbers."""
        if not isinstance(self.database, PinnedDatabase):
            await self.database.settle()

    def forget_hot(self) -> None:
        """Drop all scopes and texts from memory; the next search reads them again."""
        forget_all()
        if self.hot is not None:
            self.hot.forget()

    def embedding_with(self, embedder: Any) -> "Resources":
        """The same with another embedder, or with its own for None."""
        if embedder is None:
            return self
        return replace(self, embeddings=EmbeddingService(as_embedder(embedder)))

    async def close(self) -> None:
        """End background work, whose last commit is waited for, and let go of the connection."""
        if self.behind is not None:
            await self.behind.stop()
        await self.upkeep.stop()
        await self.compaction.stop()
        if self.engines is not None:
            await self.engines.close()
        self.forget_hot()
        await self.database.close()

    @property
    def records(self) -> Table:
        """The table of records."""
        return self.database.records
