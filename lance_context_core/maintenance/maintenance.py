"""Maintenance of the whole store: due work, done automatically after writes, or manually."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict
from datetime import datetime
from typing import Any, TypeVar

from lance_context_core._loop import store_loop
from lance_context_core._progress import check_progress, tell
from lance_context_core._util.logs import log
from lance_context_core.errors import ConflictError
from lance_context_core.maintenance.compaction import is_within
from lance_context_core.maintenance.leases import Claim, Claims, Log
from lance_context_core.maintenance.types import Maintenance, StoreStats, TableStats, TableUpkeep
from lance_context_core.protocols import Clock
from lance_context_core.storage import store_locks
from lance_context_core.storage.database import Database
from lance_context_core.storage.lance import fragments
from lance_context_core.storage.lance.fragments import BUILD, MERGE, FragmentMerges
from lance_context_core.storage.lance.indexes import IndexPolicy
from lance_context_core.storage.lance.writes import Written
from lance_context_core.storage.table import Table
from lance_context_core.types import Progress

T = TypeVar("T")

_PAUSE_SECONDS = 0.05
_QUIET_SECONDS = 3
"""How long after many new rows a table is maintained in the background: an index that is built
between two batches is built again after the second, and both stay as long as the versions."""
_MOST_QUIET_SECONDS = 30
"""How long batches one after the other delay it."""
_PATIENCE_SECONDS = 60
"""How long manual maintenance waits for others at a table."""

Thin = Callable[[Table], Awaitable[int]]
"""Removes the versions of a table that need not be kept; returns how many."""

Mend = Callable[[Table], Awaitable[None]]
"""Completes interrupted work in a table after a crash."""


class Upkeep:
    """Maintains the tables of one store, one at a time, without disturbing writers.

    It runs on the store's loop, for all callers.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        settings: Maintenance | None,
    ) -> None:
        """With `settings` it runs automatically from the first commits on; None: manually alone."""
        self.settings = settings
        self._clock = clock
        self.thin: Thin | None = None
        """Prunes one table if that pays off; without it versions stay."""
        self.mend: Mend | None = None
        """Called before a table is maintained."""
        self._database = database
        self._claims = Claims(database, clock)
        self._merges: dict[str, FragmentMerges] = {}
        self._thinned: dict[str, datetime] = {}
        self._waiting: dict[str, Table] = {}
        self._quiet_at: dict[str, float] = {}
        """When the tables with many new rows are quiet, on the monotonic clock."""
        self._lock = threading.Lock()
        self._worker: Future[None] | None = None
        self._is_working = False
        self._is_closed = False
        self._error: str | None = None

    def committed(self, table: Table) -> None:
        """Counts a commit to the table; at intervals, schedules its maintenance. Never blocks.

        Work due in quiet hours starts with the first commit after them.
        """
        if self.settings is None:
            return
        table.written.commits += 1
        if not _is_enough(table.written, self.settings):
            return
        if is_within(self.settings.quiet_hours, self._clock.now()):
            return
        if _is_large(table.written, self.settings):
            self._quiet_at[_key(table)] = time.monotonic() + _QUIET_SECONDS
        table.written.clear()
        with self._lock:
            if self._is_closed:
                return
            self._waiting[_key(table)] = table
            if self._worker is None:
                self._worker = store_loop.spawn_apart(self._work(self.settings))

    async def maintain(
        self,
        tables: Sequence[Table],
        *,
        policy: IndexPolicy | None,
        only_due: bool,
        progress: Callable[[Progress], object] | None = None,
    ) -> list[TableUpkeep]:
        """Maintains these tables now; all possible work, or only due work.

        Waits for others at a table, up to a minute, and then skips it. When cancelled, it completes
        the table in progress.
        """
        check_progress(progress)
        settings = self.settings or Maintenance()
        policy = policy or settings.indexes
        done: list[TableUpkeep] = []
        for table in tables:
            work = self._alone(
                table, settings, policy, only_due=only_due, patience=_PATIENCE_SECONDS
            )
            done.append(await _on_the_store_loop(work))
            now = Progress(n_done=len(done), n_total=len(tables), what="tables", name=table.name)
            await tell(progress, now)
        return done

    async def stats(self, tables: Sequence[Table]) -> StoreStats:
        """Returns the state of these tables."""
        settings = self.settings or Maintenance()

        async def look() -> StoreStats:
            logs = await self._claims.logs()
            found = [await self._stats(one, settings, logs.get(_key(one), Log())) for one in tables]
            return StoreStats(
                tables=tuple(one for one in found if one is not None),
                is_maintaining=self._is_working,
                last_error=self._error,
            )

        return await _on_the_store_loop(look())

    @asynccontextmanager
    async def hold(self, tables: Sequence[Table]) -> AsyncIterator[None]:
        """Blocks all maintenance of these tables, and other holders of them, within the block.

        Waits for others at one of them, up to a minute.
        """
        async with AsyncExitStack() as held:
            if await self._has_locks():
                root = self._database.connection.root
                for name in sorted({table.name for table in tables}):
                    # All of its rows may still be in the log.
                    with suppress(OSError):
                        if root is not None:
                            (root / _folder(name)).mkdir(exist_ok=True)
                    with suppress(_HeldError):
                        await held.enter_async_context(self._locked(name, _PATIENCE_SECONDS))
                yield
                return
            for table in sorted(tables, key=_key):  # In one order, against deadlocks.
                claim = await _on_the_store_loop(self._claim(table, patience=_PATIENCE_SECONDS))
                if claim is not None:
                    held.push_async_callback(self._give_back, claim)
            yield

    async def stop(self) -> None:
        """Starts nothing more; returns when nothing runs any more. Stopping twice is no error."""
        with self._lock:
            self._is_closed = True
            self._waiting.clear()
            worker = self._worker
        if worker is not None:
            await asyncio.wait([asyncio.wrap_future(worker)])

    # On the store's loop

    async def _work(self, settings: Maintenance) -> None:
        while table := self._next():
            await self._settled(_key(table))
            try:
                await self._alone(table, settings, settings.indexes, only_due=True, patience=0)
                self._error = None
            except Exception as error:  # noqa: BLE001 - told by stats(), and tried again
                self._error = str(error) or type(error).__name__

    async def _settled(self, key: str) -> None:
        """Waits until the batches of a table are over, or the store is being closed."""
        last = time.monotonic() + _MOST_QUIET_SECONDS
        while (  # noqa: ASYNC110 - later batches delay it
            not self._is_closed and time.monotonic() < min(self._quiet_at.get(key, 0), last)
        ):
            await asyncio.sleep(_PAUSE_SECONDS)
        self._quiet_at.pop(key, None)

    def _next(self) -> Table | None:
        with self._lock:
            if not self._waiting:
                self._worker = None
                return None
            return self._waiting.pop(min(self._waiting, key=lambda one: self._quiet_at.get(one, 0)))

    async def _alone(
        self,
        table: Table,
        settings: Maintenance,
        policy: IndexPolicy,
        *,
        only_due: bool,
        patience: float,
    ) -> TableUpkeep:
        """Maintains the table under its claim."""
        while self._is_working:  # noqa: ASYNC110 - on one loop, and rare
            await asyncio.sleep(0.01)
        self._is_working = True
        try:
            if only_due and not await self._due(table, settings, policy):
                return TableUpkeep(table=table.name, skipped="nothing is due")
            if (claim := await self._claim(table, patience=patience)) is None:
                return TableUpkeep(table=table.name, skipped="another process maintains it")
            try:
                async with self._locked(table.name, patience):
                    # Another process may have done it since.
                    due = await self._due(table, settings, policy)
                    wanted = due if only_due else {_COMPACT, BUILD, _THIN}
                    done = await self._do(table, wanted, settings, policy)
            except _HeldError:
                await self._claims.give_back(claim)
                return TableUpkeep(table=table.name, skipped="another process maintains it")
            except ConflictError as error:
                log.info("%s: others were in the way of maintenance, it stays due", table.name)
                await self._claims.give_back(claim)
                return TableUpkeep(table=table.name, skipped=str(error))
            except BaseException as error:
                log.warning("%s: maintenance ended with %s", table.name, type(error).__name__)
                await self._claims.give_back(claim, error=str(error) or type(error).__name__)
                raise
            log.info(
                "%s: maintained: %d files became %d, %d indexes were built, %d versions removed",
                table.name,
                done.fragments_removed,
                done.fragments_added,
                len(done.indexes_built),
                done.versions_removed,
            )
            await self._claims.give_back(claim, did=_said(done) if due or not only_due else None)
            return done
        finally:
            self._is_working = False

    async def _has_locks(self) -> bool:
        """Whether all processes that can work on its tables share locks: of files, or a server."""
        connection = self._database.connection
        if connection.root is None:
            return store_locks.is_of_server(connection)
        return connection.journal is not None and await connection.journal.is_kept()

    def _locked(self, name: str, patience: float) -> AbstractAsyncContextManager[None]:
        """Locks a table, on all its refs, against other maintenance and holders.

        Raises _HeldError if another holds it for longer than that.
        """
        # Without the folder there is nothing to maintain.
        return store_locks.locked(
            self._database.connection,
            _folder(name),
            patience_seconds=patience,
            refusal=_HeldError,
        )

    async def _claim(self, table: Table, *, patience: float) -> Claim | None:
        """Returns the claim of the table; None if others held it for `patience` seconds."""
        while (claim := await self._claims.take(_key(table))) is None and patience > 0:
            patience -= _PAUSE_SECONDS
            await asyncio.sleep(_PAUSE_SECONDS)
        return claim

    async def _give_back(self, claim: Claim) -> None:
        """Ends a holder's claim on the table, also when cancelled."""
        await _on_the_store_loop(self._claims.give_back(claim))

    async def _due(self, table: Table, settings: Maintenance, policy: IndexPolicy) -> set[str]:
        found = await fragments.due(table, self._merges_of(table, settings), policy)
        due = {one.what for one in found}
        last = self._thinned.get(_key(table))
        if self.thin and (last is None or self._clock.now() - last >= settings.thin_interval):
            due.add(_THIN)
        return due

    async def _do(
        self, table: Table, due: set[str], settings: Maintenance, policy: IndexPolicy
    ) -> TableUpkeep:
        removed = added = n_versions = 0
        built: list[str] = []
        skipped: str | None = None
        if self.mend is not None:
            await self.mend(table)
        # So many new rows as are in a large fragment have an index built anew.
        if _COMPACT in due and (table.spec.is_searchable or not await fragments.is_compact(table)):
            metrics = await fragments.compact(table)
            removed, added = metrics["fragments_removed"], metrics["fragments_added"]
        if MERGE in due:
            try:
                merged = await fragments.merge_fragments(table, self._merges_of(table, settings))
                removed, added = merged.fragments_removed, merged.fragments_added
            except ConflictError as error:
                skipped = str(error)  # It stays due.
            # Merging with rows outside an index leaves them outside: often it is due only now.
            due = due | await self._due(table, settings, policy)
        if BUILD in due:
            await table.fields.fill()
            built = await fragments.build_indexes(table, policy)
        if _THIN in due and self.thin is not None:
            try:
                n_versions = await self.thin(table)
                self._thinned[_key(table)] = self._clock.now()
            except ConflictError as error:
                skipped = str(error)  # It stays due.
        return TableUpkeep(
            table=table.name,
            fragments_removed=removed,
            fragments_added=added,
            indexes_built=tuple(built),
            versions_removed=n_versions,
            skipped=skipped,
        )

    async def _stats(self, table: Table, settings: Maintenance, log: Log) -> TableStats | None:
        survey = await fragments.survey(table)
        if survey is None:
            return None
        due = await fragments.due(table, self._merges_of(table, settings), settings.indexes)
        return TableStats(
            table=table.name, due=tuple(one.why for one in due), **asdict(survey), **asdict(log)
        )

    def _merges_of(self, table: Table, settings: Maintenance) -> FragmentMerges:
        return self._merges.setdefault(_key(table), FragmentMerges(settings.fragments))


_COMPACT, _THIN = "compact", "thin"


def _is_enough(written: Written, settings: Maintenance) -> bool:
    """Whether so many writes to a table make its maintenance due."""
    return written.commits >= settings.every_n_commits or _is_large(written, settings)


def _is_large(written: Written, settings: Maintenance) -> bool:
    """Whether new rows, and not the number of commits, make the maintenance of a table due."""
    return (
        written.rows >= settings.indexes.unindexed_rows
        or written.bytes >= settings.indexes.unindexed_bytes
    )


class _HeldError(Exception):
    """Another process works on the table."""


def _folder(name: str) -> str:
    """Returns the table's folder, which is locked for maintenance, and for nothing else."""
    return f"{name}.lance/data"


def _key(table: Table) -> str:
    """Returns the name of a table's claim; each of its refs has its own."""
    return table.name if table.ref is None else f"{table.name}@{table.ref}"


def _said(done: TableUpkeep) -> dict[str, Any]:
    return {name: value for name, value in asdict(done).items() if value and name != "table"}


async def _on_the_store_loop(work: Coroutine[Any, Any, T]) -> T:
    """Awaits `work` on the store's loop; cancelling ends the wait alone."""
    return await asyncio.shield(asyncio.wrap_future(store_loop.spawn(work)))
