"""The flush: commits the log's entries to their table, then deletes them from the log."""

import asyncio
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from lance_context_core._loop import store_loop
from lance_context_core._util.logs import log
from lance_context_core.errors import ContextStoreError, InternalError
from lance_context_core.storage.group_commit import Incoming
from lance_context_core.storage.lance import writes
from lance_context_core.storage.lance.arrow import Row
from lance_context_core.storage.lance.errors import translated
from lance_context_core.storage.lance.schema import ACKNOWLEDGED
from lance_context_core.storage.lance.table_handle import TableHandle
from lance_context_core.storage.lance.writes import Written
from lance_context_core.storage.row_cache import RowCache
from lance_context_core.storage.wal.entries import Entry, View
from lance_context_core.storage.wal.policy import JournalPolicy
from lance_context_core.storage.wal.table_log import TableLog

_PATIENCE_SECONDS = 10

_LOOK_AT_LOG_EVERY = 8
"""One of this many writes checks the size of the log on the disk."""

_PRESSURE = 8
"""The multiple of a flush's size at which writers wait for the flush."""


def _row(entry: Entry) -> Row:
    return {
        **entry.row,
        ACKNOWLEDGED: datetime.fromtimestamp(0, UTC) + timedelta(microseconds=entry.at),
    }


_COMMITS = 64
"""The number of commits in the entries that triggers a flush: each takes some milliseconds."""


def is_overfull(view: View, policy: JournalPolicy) -> bool:
    """Whether writers should wait for the flush."""
    return _fullness(view, policy) >= _PRESSURE


def _fullness(view: View, policy: JournalPolicy) -> float:
    """From 1 on, the log should be flushed."""
    counted = _fullness_counted(len(view.entries), view.size, policy)
    return max(counted, view.n_commits / _COMMITS)


def _fullness_counted(n_entries: int, n_bytes: int, policy: JournalPolicy) -> float:
    return max(n_entries / policy.rows, n_bytes / policy.bytes)


class Flushing:
    """The flushes of one table."""

    def __init__(
        self,
        access: TableHandle,
        ledger: TableLog,
        incoming: Incoming,
        *,
        written: Written,
        remembered: RowCache,
    ) -> None:
        """Flushes `ledger` into the table of `access`; `written` counts it."""
        self._access = access
        self._ledger = ledger
        self._incoming = incoming
        self._written = written
        self._remembered = remembered
        self._is_at_it = threading.Lock()
        self._watching = threading.Lock()
        self._written_at = 0.0
        self._n_written = 0
        self._watch: Future[None] | None = None
        self._beside: Future[None] | None = None

    async def fold(self, last: int | None = None) -> None:
        """Flush the log into the table, or only up to the `last` entry.

        Makes one commit; or several if rows changed or were removed after their write had returned
        a version: each of these versions shows its rows. Repeatable after a crash.
        """
        self._remembered.follow()
        await self._access.peek()  # the table may have been removed: then create it again
        handle = await self._access.opened()
        async with self._ledger.folding():
            view = await self._ledger.begin(last)
            if view is None or not view.entries:
                return
            for entries in view.commits if self._access.spec.tells_versions else [view.entries]:
                size = sum(entry.size for entry in entries)
                version = await self._fold(handle, replace(view, entries=entries, size=size))
                view = replace(view, version=version)
        self._access.commits.tell()

    async def _fold(self, handle: Any, view: View) -> int:
        """Commit the entries of a view to the table in one commit; returns its version."""
        commits, ledger = self._access.commits, self._ledger
        commits.require_sound()
        with translated(f"write to {self._access.label}"):
            await handle.checkout_latest()
            is_as_known = int(await handle.version()) == view.version
        await commits.require(handle, view.version)

        async def work(handle: Any) -> int:
            return await self._commit(handle, view, is_as_known=is_as_known)

        version = await commits.insist(f"write to {self._access.label}", handle, work)
        # It is durable before the log deletes the entries.
        await commits.sync(handle)
        tells = self._access.spec.tells_versions
        await ledger.forget(view.entries[-1].seq, version, tells_moments=tells)
        if is_as_known:
            self._access.presence.grow(view.moment, version, [entry.row for entry in view.shown])
        log.debug("%s: %d rows flushed, version %d", self._access.label, len(view.entries), version)
        return version

    def watch(self, policy: JournalPolicy) -> None:
        """Schedule a flush once writes stop; keep the log small on the disk until then."""
        self._written_at = time.monotonic()
        self._n_written += 1
        if self._n_written % _LOOK_AT_LOG_EVERY == 0 and not self._ledger.is_small():
            self._begin(policy)
        if self._watch is None:
            with self._watching:
                if self._watch is None:
                    idle = policy.idle.total_seconds()
                    self._watch = store_loop.spawn_apart(self._fold_when_idle(idle))

    async def relieve(self, view: View, policy: JournalPolicy) -> None:
        """Flush a full log, or schedule a flush once writes stop.

        Waits for the flush if the log is overfull.
        """
        await self._relieve(_fullness(view, policy), policy)

    async def relieve_counted(self, n_entries: int, n_bytes: int, policy: JournalPolicy) -> None:
        """As `relieve`, for a log of that fullness."""
        await self._relieve(_fullness_counted(n_entries, n_bytes, policy), policy)

    async def _relieve(self, fullness: float, policy: JournalPolicy) -> None:
        self.watch(policy)
        if fullness >= _PRESSURE:
            await self._access.settle()
        elif fullness >= 1:
            self._begin(policy)

    def relieve_later(self, view: View, policy: JournalPolicy) -> None:
        """As `relieve`, in any thread, without a wait."""
        self.watch(policy)
        if _fullness(view, policy) >= 1:
            self._begin(policy)

    async def finish(self) -> None:
        """Wait for a flush in the background, with a timeout.

        Otherwise short-lived processes that write a little would never flush.
        """
        if (beside := self._beside) is not None:
            await asyncio.wait([asyncio.wrap_future(beside)], timeout=_PATIENCE_SECONDS)

    def stop(self) -> None:
        """Stop waiting; the entries stay in the log."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()

    async def _fold_when_idle(self, idle_seconds: float) -> None:
        # Only a deadline remains to wait for, which every write postpones.
        while (left := self._written_at + idle_seconds - time.monotonic()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(left)
        self._watch = None
        with suppress(
            ContextStoreError
        ):  # the entries stay in the log, and the next writer gets the error
            await self._access.settle()

    def _begin(self, policy: JournalPolicy) -> None:
        """Flush a full log, and keep it small, in the background, unless that is under way."""
        if self._is_at_it.acquire(blocking=False):
            self._beside = store_loop.spawn_apart(self._fold_beside(policy))

    async def _fold_beside(self, policy: JournalPolicy) -> None:
        try:
            with suppress(ContextStoreError):  # the entries stay in the log; writers get the error
                async with self._ledger.folding():
                    # Another process may have started and finished the same flush by now.
                    view = await self._ledger.view()
                    is_full = view is not None and _fullness(view, policy) >= 1
                if is_full:
                    await self._access.settle()
                await self._ledger.keep_small()
        finally:
            self._is_at_it.release()

    async def lay(self, handle: Any, view: View) -> None:
        """Commit the entries of a view to a private table at its version."""
        rows = await self._prepared(handle, view, is_sparse=not view.replaced)
        await _replace(handle, view, rows)

    async def _prepared(self, handle: Any, view: View, *, is_sparse: bool) -> Any | None:
        """The visible rows of the entries, as the table stores them; None if none."""
        if not view.shown:
            return None
        rows, (refusal,) = await self._incoming.prepared(
            handle, [[*map(_row, view.shown)]], is_sparse=is_sparse
        )
        if rows is None:
            raise refusal or InternalError(f"cannot flush into {self._access.label}")
        return rows

    async def _commit(self, handle: Any, view: View, *, is_as_known: bool) -> int:
        """Commit the entries; returns the version that shows them."""
        only_adds = not view.replaced
        rows = await self._prepared(handle, view, is_sparse=only_adds and is_as_known)
        if rows is not None:
            self._written.note(rows)
        if rows is not None and only_adds and is_as_known:
            return int((await handle.add(rows)).version)
        async with self._access.commits.in_flight.committing():
            if rows is not None and only_adds:
                # An earlier flush of the same entries may have reached its commit.
                await writes.merge(handle, rows)
            else:
                await _replace(handle, view, rows)
        return int(await handle.version())


async def _replace(handle: Any, view: View, rows: Any | None) -> None:
    """Put the entries' rows in the positions of their keys, and delete removed rows."""
    if rows is not None and not view.replaced:
        await handle.add(rows)
        return
    anew = [entry.row for entry in view.shown if entry.key in view.removed]
    if anew:
        await writes.clear_way(handle, anew)
    await writes.put(handle, rows, view.replaced - {entry.key for entry in view.shown})
