"""The engine's handles of a table, opened or created on demand for reads and writes."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from lance_context_core._util.crowd import FairLock
from lance_context_core._util.frozen import frozen
from lance_context_core._util.retry import retried
from lance_context_core.errors import (
    AlreadyExistsError,
    ConflictError,
    InternalError,
    ReadOnlyError,
    StorageError,
)
from lance_context_core.storage import merge_on_read
from lance_context_core.storage.key_filter import KeyFilter
from lance_context_core.storage.lance import (
    branches,
    manifests,
    missing_files,
    orphaned_refs,
    reads,
)
from lance_context_core.storage.lance.branches import At, Pin
from lance_context_core.storage.lance.committer import Committer
from lance_context_core.storage.lance.connection import Connection
from lance_context_core.storage.lance.errors import (
    asked,
    is_missing_file,
    meaning,
    meant,
    translated,
)
from lance_context_core.storage.lance.open_table import Beside, Opening
from lance_context_core.storage.lance.schema import TableSpec, check_columns, check_format
from lance_context_core.storage.names import shown_name
from lance_context_core.storage.sql.predicates import UnsureError
from lance_context_core.storage.wal.entries import Moment, View
from lance_context_core.storage.wal.table_log import TableLog

T = TypeVar("T")

_LOOKS = 5
"""The number of retries of a read whose version others removed."""

_running: set[asyncio.Task[Any]] = set()


class TableHandle:
    """The engine's handles of a table by name; the first write creates a missing one."""

    def __init__(
        self,
        connection: Connection,
        name: str,
        spec: TableSpec,
        *,
        beside: Beside | None = None,
        pin: Pin | None = None,
    ) -> None:
        """For the table of that name and, unless on main, the ref.

        With `pin` it is read at that version, and refuses writes.
        """
        self.name = name
        self.ref = beside.ref if beside else None
        self.label = shown_name(name)
        """Its name in error messages."""
        self.spec = spec
        self.connection = connection
        self.ledger: TableLog | None = None
        """The log's part for the table; None if the log has none."""
        self.tail: View | None = None
        """For a pinned table: the entries to merge in, as if from the log."""
        if connection.journal is not None and pin is None and spec.is_journaled:
            self.ledger = TableLog(connection.journal, name, self.ref)
        is_noted = not (spec.is_journaled or spec.serves_the_store)
        self.commits = Committer(connection, name, self.ledger, is_noted=is_noted)
        """Counts everything written to it."""
        self.presence = KeyFilter(self.snapshot, self.label)
        """The keys that the table surely lacks."""
        self._opening = Opening(connection, name, spec, self.commits, beside=beside, pin=pin)
        self._pin = pin
        self.handle: Any = None
        """Of the last read or write; None before one, and if the table is missing."""
        self._opened_for = 0
        """The connection of the handle, by the number of its renewal."""
        self.finishing: Callable[[], Awaitable[None]] | None = None
        """Awaited before this is closed."""
        self.aside: Callable[[], Awaitable[Any | None]] | None = None
        """Leads to a handle that includes the log's rows, where a flush is not allowed."""
        self.closing: Callable[[], None] | None = None
        """Called when this is closed."""
        self._creating = FairLock()
        self._refreshed_at = -float("inf")
        self._is_outrun = False
        """Whether another process has written for this one rows that the handle does not show."""
        self._table: int | None = None
        """The version that the log knew at the last check whether the handle is behind."""
        self._mark: object = None
        """The identity of the ref of that name at the last check."""
        self._seen: _Seen | None = None
        """The result of the last check for other writers' commits."""
        is_listed = connection.root is not None and self.ref is None
        self._folder = f"{connection.uri}/{name}.lance" if is_listed else None
        """The directory whose files show the newest version; None if none do."""
        self._version: int | None = None
        """The version that a read saw last, while the log did not know the table."""
        self._snapshot: tuple[tuple[Moment, int], Any, pa.Schema] | None = None

    # Reading

    @property
    def is_pinned(self) -> bool:
        """Whether it is read at an earlier moment."""
        return self._pin is not None

    async def reader(self) -> Any | None:
        """The engine's handle, as fresh as the read consistency requires; None if missing.

        Flushes the log first.
        """
        await self.settle()
        return await self.peek()

    async def view(self) -> View | None:
        """The log's view of the table; None if the log does not know it."""
        if self._pin is not None:
            return self.tail
        if self.ledger is None:
            return None
        await self.mend()
        return await self.ledger.view()

    async def mend(self) -> None:
        """As `Connection.mend`, of this table and branch."""
        await self.connection.mend(self.name, self.ref)

    async def names(self) -> dict[int, int]:
        """As `TableLog.names`; empty without a log."""
        return {} if self.ledger is None else await self.ledger.names()

    async def forget_names(self, kept: Collection[int]) -> None:
        """As `TableLog.forget_names`."""
        if self.ledger is not None:
            await self.ledger.forget_names(kept)

    async def settle(self) -> None:
        """Flush the log, if it has entries."""
        await self.commits.settle()

    async def peek(self) -> Any | None:
        """As `reader`, without a flush."""
        self._let_go_of_another()
        connection, handle = self.connection, self.handle
        connection.require_usable()
        connection.keep_caches_small()
        is_outworn = self._opened_for != connection.n_renewals and self._pin is None
        view = None if self._pin is not None else await self.view()
        if self._is_another(view) or handle is None or is_outworn:
            self._opened_for = connection.n_renewals
            handle = await self._opened_after(handle)
        elif self._pin is None and (known := self._known_newest(handle, view)) is not None:
            if view is None:
                self._note_move(known)
            return handle
        elif self._pin is None and (
            self._is_outrun or self._is_stale() or await _is_behind(handle, view)
        ):
            self._is_outrun = False
            try:
                await handle.checkout_latest()
            except Exception as error:
                self._is_outrun = True
                if not isinstance(failure := meaning(error, f"read {self.label}"), StorageError):
                    raise failure from error
                # Another process may have dropped the table; if not, this raises again.
                handle = await self._opened_after(handle)
            self._refreshed_at = time.monotonic()
        if view is not None and (handle is None or int(await handle.version()) < view.version):
            # It is another table than the one that was opened.
            await self.connection.mend(self.name, self.ref, is_again=True)
        if self._pin is None and (view is None or self._folder is not None):
            version = 0 if handle is None else int(await handle.version())
            self._see(handle, version)
            if view is None:
                self._note_move(version)
        return handle

    async def over(self, where: str | None, read: Callable[[View], Awaitable[T]]) -> T | None:
        """The result of `read` on the log; None if empty, or unable to evaluate `where`."""
        if not merge_on_read.is_askable(where):
            return None

        async def look() -> T | None:
            view = await self.view()
            if view is None or not view.entries:
                return None
            try:
                return await read(view)
            except UnsureError:
                return None

        return await self.follow(look)

    async def follow(self, look: Callable[[], Awaitable[T]]) -> T:
        """The result of `look` at the log's version; retried if that was removed.

        Long work makes versions without the log, which learns of them at the end, unless the
        process is killed. Meanwhile the version that it knows may be removed by age.
        """

        async def catch_up(error: Exception) -> None:
            if self.ledger is None or not is_missing_file(error):
                raise error
            self._snapshot = None
            if self.connection.is_read_only:
                return
            await self.connection.mend(self.name, self.ref, is_again=True)
            handle, view = await self.connection.table(self.name), await self.view()
            if view and not await branches.has_version(handle, self.name, self.ref, view.version):
                await self.catch_up()

        async with self.explained():
            return await retried(look, on=StorageError, attempts=_LOOKS, between=catch_up)

    @asynccontextmanager
    async def explained(self) -> AsyncIterator[None]:
        """Read in this context: an error about a damaged file names that file, if found."""
        try:
            yield
        except (StorageError, InternalError) as error:
            if self._pin is None:
                await self.connection.explain(error, self.name, self.ref, is_read=True)
            raise

    async def read_at(self, moment: Moment, action: str, read: Callable[[Any], Awaitable[T]]) -> T:
        """The result of `read` on a handle at that fixed version; see `look`."""
        with translated(action.format(self.label)):
            return await read(await self.snapshot(moment))

    async def snapshot(self, moment: Moment) -> Any:
        """A handle at that fixed version."""
        return (await self._known_at(moment))[1]

    async def schema_at(self, moment: Moment) -> pa.Schema:
        """The columns of the table at that version."""
        return (await self._known_at(moment))[2]

    async def at(self, version: int) -> Any:
        """As `snapshot`, of the table that has the name now; a new one each time."""
        if self._pin is not None:
            return await self.peek()
        handle = await self.connection.table(self.name)
        return await branches.opened(handle, self.name, self.ref, version)

    async def schema(self) -> pa.Schema:
        """The actual columns of the table; those of its specification if it is missing."""
        handle = await self.peek()
        return self.spec.schema if handle is None else await handle.schema()

    async def complete_reader(self) -> Any | None:
        """As `reader`, even where no flush is allowed: for rows only, not for refs."""
        return await (self.reader() if self.aside is None else self.aside())

    async def look(self, action: str, read: Callable[[Any], Awaitable[T]], absent: T) -> T:
        """The result of `read` on the handle; `absent` if the table is missing.

        `action` names the action in errors, with `{}` for the table. Retried if the version was
        removed meanwhile.
        """
        if (handle := await self.complete_reader()) is None:
            return absent

        async def catch_up(error: Exception) -> None:
            if self._pin is not None or not await reads.has_moved(handle, error):
                await self.explain(handle, error)
                raise error

        async with self.explained():
            return await retried(
                lambda: read(handle),
                on=StorageError,
                attempts=_LOOKS,
                between=catch_up,
                meant=partial(meant, action.format(self.label)),
            )

    async def explain(self, handle: Any, error: Exception) -> None:
        """As `removed.explain`, for an error of a read through a handle."""
        if isinstance(error, StorageError):
            at = At(handle.current_branch(), int(await handle.version()))
            is_pinned = self._pin is not None
            try:
                await missing_files.explain(
                    error, self.connection, self.name, at, is_pinned=is_pinned
                )
            except ConflictError:
                if self.handle is handle:
                    # For a ref that was created again it would show no later version.
                    self.handle = None
                raise

    # Writing

    def require_writable(self) -> None:
        """Raise ReadOnlyError on a read-only handle, StoreClosedError on a closed store."""
        if self._pin is not None:
            raise ReadOnlyError(
                f"{self.label} is open at an earlier version, for reading only: "
                "write through the store itself, or restore that version"
            )
        if not self.connection.life.is_open:
            self.connection.life.require()
        self.connection.require_writable()

    async def ready(self) -> None:
        """As `require_writable`; creates a missing table, while the caller may still cancel."""
        self.require_writable()
        if self.handle is None:
            await self.opened()

    async def writer(self) -> Any:
        """The engine's handle for writing; creates the table if missing.

        Flushes the log first.
        """
        await self.commits.settle()
        return await self.opened()

    async def opened(self) -> Any:
        """As `writer`, without a flush."""
        self.require_writable()
        self.connection.life.is_there()
        self._let_go_of_another()
        if self.handle is None:
            self._is_another(await self.view())
            self.handle = await self._opening.open() or await self._create()
        elif self.ref is not None and self.ref not in await branches.listed(self.handle, self.name):
            # The engine would go on writing, where no reader looks.
            self.handle = await self._opening.open() or await self._create()
        elif self._is_outrun:
            self._is_outrun = False
            try:
                await asked(f"read {self.label}", self.handle.checkout_latest())
            except BaseException:
                self._is_outrun = True
                raise
        if self._opening.is_incomplete:
            await self._opening.complete(self.handle)
        return self.handle

    def expect_newer(self) -> None:
        """Have the next call check for rows that another process wrote for this one."""
        self._is_outrun = True

    async def write(
        self,
        action: str,
        write: Callable[[Any], Coroutine[Any, Any, T]],
        *,
        is_guarded: bool = True,
    ) -> T:
        """Run `write`, one commit, to its end: cancellation only ends the wait.

        With `is_guarded`, versions are not removed meanwhile. Not needed if `write` only adds rows,
        whatever exists, and so tolerates all other commits; or if versions are removed by age
        alone.
        """
        handle = await self.opened()
        work = self.commits.in_flight.guarded(write) if is_guarded else write
        task = asyncio.ensure_future(self.commits.commit(f"{action} {self.label}", handle, work))
        _running.add(task)
        task.add_done_callback(_running.discard)
        return await asyncio.shield(task)

    @asynccontextmanager
    async def separately(
        self, *, is_settled: bool = False, is_reading: bool = False
    ) -> AsyncIterator[Any]:
        """A handle for long work on the table, separate from that of other calls.

        The engine leaves a handle at the version of its own work, even if others have gone on
        through the same handle: they would be set back. With `is_settled` the log is not flushed
        first; with `is_reading` the caller has already read the table.
        """
        if not is_reading:
            await (self.opened() if is_settled else self.writer())
        handle = await self.connection.table(self.name)
        if self.ref is not None:
            handle = await branches.opened(handle, self.name, self.ref)
        before = await handle.version()
        try:
            yield handle
            if await handle.version() != before:
                await self.commits.sync(handle)
        finally:
            version = int(await handle.version())
            handle.close()
            if version != before:
                await self.catch_up(version)

    async def catch_up(self, version: int | None = None) -> None:
        """Note the table's version in the log, after long work without it.

        Skipped if the log knows the given version already.
        """
        if self.ledger is not None and await self.ledger.exists():
            await self.commits.catch_up(await self.opened(), version)

    async def complete(self, handle: Any) -> None:
        """Add columns and indexes that an older release, a crash or a restore left missing."""
        await self._opening.complete(handle)

    # Refs

    async def fork(self, ref: str, at: At, handle: Any = None) -> Any:
        """A handle of a new ref, forked from the version `at`; it must not exist."""
        return await self._opening.fork(handle or await self.writer(), ref, at)

    async def drop(self, ref: str) -> None:
        """Delete an existing ref without forks of its own."""
        self.require_writable()
        await self._opening.drop(await self.peek(), ref)

    async def clear(self, suspects: Iterable[str] = ()) -> list[str]:
        """Delete the files of refs whose process was killed while creating or deleting them.

        Returns the existing refs, of an existing table. On an object store, whose directories the
        engine does not list, checks the `suspects` only.
        """
        return await self._opening.clear(await self.opened(), suspects)

    async def finish(self) -> None:
        """Wait for background work."""
        if self.finishing is not None:
            await self.finishing()

    def close(self) -> None:
        """Close the engine's handle."""
        if self.closing is not None:
            self.closing()
        handle, self.handle = self.handle, None
        self._snapshot = None
        if handle is not None:
            handle.close()

    # Helpers

    async def _known_at(self, moment: Moment) -> tuple[object, Any, pa.Schema]:
        wanted = moment, self.connection.n_renewals
        if (known := self._snapshot) is None or known[0] != wanted:
            handle = await self.at(moment.version)
            check_format(schema := await handle.schema(), self.name)
            check_columns(schema, self.spec, self.name)
            self._snapshot = known = wanted, handle, schema
        return known

    def _is_stale(self) -> bool:
        """Whether it is time to check for other writers' commits."""
        interval = self.connection.read_consistency
        if interval is None:
            return False
        return time.monotonic() - self._refreshed_at >= interval.total_seconds()

    def _is_another(self, view: View | None) -> bool:
        """Whether the log knows that the table was created again since the last call."""
        if view is None:
            return False
        before, self._table = self._table, view.table
        return before not in (None, view.table)

    def _let_go_of_another(self) -> None:
        """Close the handle of a ref that was deleted since, and perhaps created again."""
        if self.ref is None:
            return
        before, self._mark = (
            self._mark,
            orphaned_refs.mark(self.connection.uri, self.name, self.ref),
        )
        if before not in (None, self._mark):
            self.handle = self._snapshot = None

    def _known_newest(self, handle: Any, view: View | None) -> int | None:
        """The handle's version, if the files show that it is the newest."""
        if (seen := self._seen) is None or self._folder is None or seen.handle is not handle:
            return None
        if view is not None and not 0 < view.version <= seen.version:
            return None
        # A tenth of the time of the engine's own check.
        return seen.version if manifests.stamp(self._folder, seen.version) == seen.stamp else None

    def _see(self, handle: Any | None, version: int) -> None:
        """Remember that the handle shows this version, if it is the newest."""
        stamp = None
        if handle is not None and self._folder is not None:
            reads.has_moved_on(handle)
            stamp = manifests.stamp(self._folder, version)
        self._seen = None if stamp is None else _Seen(handle, version, stamp)

    def _note_move(self, version: int) -> None:
        """Clear the caches of the table if others may have erased rows."""
        before, self._version = self._version, version
        if before not in (None, version) and self.connection.on_move is not None:
            self.connection.on_move(self.name, self.ref)

    async def _opened_after(self, former: Any | None) -> Any | None:
        """A newly opened handle, replacing `former`.

        If that was replaced meanwhile, its successor stays: it may have writes that this one,
        although later, does not show.
        """
        handle = await self._opening.open()
        if self.handle is former:
            self.handle = handle
        return handle

    async def _create(self) -> Any:
        """Create the table, or open it if another task or process was faster."""
        # The tasks and threads of this process take turns; see `creation` for other processes.
        async with self._creating.held():
            try:
                return self.handle or await self._opening.open() or await self._opening.create()
            except (AlreadyExistsError, ConflictError):
                if (handle := await self._opening.open()) is None:
                    raise
                return handle


@frozen
class _Seen:
    """The state of a handle at the last check for other writers."""

    handle: Any
    version: int
    stamp: manifests.Stamp


async def _is_behind(handle: Any, view: View | None) -> bool:
    """Whether entries seen in the log may be in a version newer than the handle's."""
    if view is None:
        return False
    # Of no version: all that was acknowledged is in the newest one, whichever that is.
    return not view.version or int(await handle.version()) < view.version
