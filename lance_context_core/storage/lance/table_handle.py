"""How a table is come by: the engine's handles, opened and made when needed, read and written through."""

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
"""How often a read begins anew where others remove the version that it was looking at."""

_running: set[asyncio.Task[Any]] = set()


class TableHandle:
    """The engine's handles of one table, which need not exist: the first write creates it."""

    def __init__(
        self,
        connection: Connection,
        name: str,
        spec: TableSpec,
        *,
        beside: Beside | None = None,
        pin: Pin | None = None,
    ) -> None:
        """Name the table and, unless main is meant, the ref.

        With `pin` it is read as it was, and refuses writes.
        """
        self.name = name
        self.ref = beside.ref if beside else None
        self.label = shown_name(name)
        """What error messages call it."""
        self.spec = spec
        self.connection = connection
        self.ledger: TableLog | None = None
        """The journal's part about the table; None where it has none."""
        self.tail: View | None = None
        """Of a table as it was: what is laid over it, as if the journal held that."""
        if connection.journal is not None and pin is None and spec.is_journaled:
            self.ledger = TableLog(connection.journal, name, self.ref)
        is_noted = not (spec.is_journaled or spec.serves_the_store)
        self.commits = Committer(connection, name, self.ledger, is_noted=is_noted)
        """What is written to it, whichever way."""
        self.presence = KeyFilter(self.snapshot, self.label)
        """Which keys the table surely does not have."""
        self._opening = Opening(connection, name, spec, self.commits, beside=beside, pin=pin)
        self._pin = pin
        self.handle: Any = None
        """Of what was read or written last; None if nothing was, or the table is absent."""
        self._opened_for = 0
        """Which connection the handle is of, by the number of its renewal."""
        self.finishing: Callable[[], Awaitable[None]] | None = None
        """Is awaited before this is closed."""
        self.aside: Callable[[], Awaitable[Any | None]] | None = None
        """Leads to a handle that shows what the journal holds, too, where nobody may fold it."""
        self.closing: Callable[[], None] | None = None
        """Is called when this is closed."""
        self._creating = FairLock()
        self._refreshed_at = -float("inf")
        self._is_outrun = False
        """Whether another process has written for this one what the handle does not show."""
        self._table: int | None = None
        """Which one the journal knew when it was last asked whether the handle is behind."""
        self._mark: object = None
        """Which ref of the name it was when that was last looked at."""
        self._seen: _Seen | None = None
        """What the last look for what others wrote found."""
        is_listed = connection.journal is not None and self.ref is None
        self._folder = f"{connection.uri}/{name}.lance" if is_listed else None
        """Where a look at the disk tells which version is the newest; None where it does not."""
        self._version: int | None = None
        """Which one a read saw last, while the journal knew nothing of the table."""
        self._snapshot: tuple[tuple[Moment, int], Any, pa.Schema] | None = None

    # Reading

    @property
    def is_pinned(self) -> bool:
        """Whether it is read as it was at an earlier moment."""
        return self._pin is not None

    async def reader(self) -> Any | None:
        """The engine's handle, as fresh as the store's read consistency asks; None if absent.

        What the journal holds is folded before.
        """
        await self.settle()
        return await self.peek()

    async def view(self) -> View | None:
        """What the journal holds of the table; None if it does not know it."""
        if self._pin is not None:
            return self.tail
        if self.ledger is None:
            return None
        await self.connection.mend(self.name, self.ref)
        return await self.ledger.view()

    async def names(self) -> dict[int, int]:
        """As `TableLog.names`; none without a journal."""
        return {} if self.ledger is None else await self.ledger.names()

    async def forget_names(self, kept: Collection[int]) -> None:
        """As `TableLog.forget_names`."""
        if self.ledger is not None:
            await self.ledger.forget_names(kept)

    async def settle(self) -> None:
        """Fold what the journal holds, if it holds anything."""
        await self.commits.settle()

    async def peek(self) -> Any | None:
        """As `reader`, without what the journal holds."""
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
                # Another process may have dropped the table; if it did not, this raises again.
                handle = await self._opened_after(handle)
            self._refreshed_at = time.monotonic()
        if view is not None and (handle is None or int(await handle.version()) < view.version):
            # It is not what it was when it was opened.
            await self.connection.mend(self.name, self.ref, is_again=True)
        if self._pin is None and (view is None or self._folder is not None):
            version = 0 if handle is None else int(await handle.version())
            self._see(handle, version)
            if view is None:
                self._note_move(version)
        return handle

    async def over(self, where: str | None, read: Callable[[View], Awaitable[T]]) -> T | None:
        """What `read` makes of the journal; None if that is empty, or cannot be asked `where`."""
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
        """What `look` finds at the version that the journal knows; again if others removed that one.

        Long work makes versions beside the journal, which gets to know of them in the end, unless
        the process is killed. Meanwhile the one that it knows may be removed for its age.
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
        """Read in here: an error that tells of a damaged file names it, where that is to be found."""
        try:
            yield
        except (StorageError, InternalError) as error:
            if self._pin is None:
                await self.connection.explain(error, self.name, self.ref, is_read=True)
            raise

    async def read_at(self, moment: Moment, action: str, read: Callable[[Any], Awaitable[T]]) -> T:
        """What `read` finds through a handle at that version, which nobody moves; see `look`."""
        with translated(action.format(self.label)):
            return await read(await self.snapshot(moment))

    async def snapshot(self, moment: Moment) -> Any:
        """A handle at that version, which nobody moves."""
        return (await self._known_at(moment))[1]

    async def schema_at(self, moment: Moment) -> pa.Schema:
        """The columns of the table at that version."""
        return (await self._known_at(moment))[2]

    async def at(self, version: int) -> Any:
        """As `snapshot`, of the table as it is called now; anew each time."""
        if self._pin is not None:
            return await self.peek()
        handle = await self.connection.table(self.name)
        return await branches.opened(handle, self.name, self.ref, version)

    async def schema(self) -> pa.Schema:
        """The columns of the table as they are; those of its specification if it is absent."""
        handle = await self.peek()
        return self.spec.schema if handle is None else await handle.schema()

    async def complete_reader(self) -> Any | None:
        """As `reader`, also where nobody may fold what the journal holds: of rows alone, not of refs."""
        return await (self.reader() if self.aside is None else self.aside())

    async def look(self, action: str, read: Callable[[Any], Awaitable[T]], absent: T) -> T:
        """What `read` finds through the handle; `absent` if there is no table.

        `action` says it for an error message, with `{}` for the table.
        It is asked again if others removed the version that it was looking at.
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
        """As `removed.explain`, of an error that reading through a handle ended with."""
        if isinstance(error, StorageError):
            at = At(handle.current_branch(), int(await handle.version()))
            is_pinned = self._pin is not None
            try:
                await missing_files.explain(
                    error, self.connection, self.name, at, is_pinned=is_pinned
                )
            except ConflictError:
                if self.handle is handle:
                    # Of a ref that was made anew it would show no later version.
                    self.handle = None
                raise

    # Writing

    def require_writable(self) -> None:
        """Raise ReadOnlyError where only reads are, StoreClosedError where no write can be."""
        if self._pin is not None:
            raise ReadOnlyError(
                f"{self.label} is open at an earlier version, for reading only: "
                "write through the store itself, or restore that version"
            )
        if not self.connection.life.is_open:
            self.connection.life.require()
        self.connection.require_writable()

    async def ready(self) -> None:
        """As `require_writable`; makes the table if it is absent, while the caller may still cancel."""
        self.require_writable()
        if self.handle is None:
            await self.opened()

    async def writer(self) -> Any:
        """The engine's handle for writing; creates the table if it is absent.

        What the journal holds is folded before.
        """
        await self.commits.settle()
        return await self.opened()

    async def opened(self) -> Any:
        """As `writer`, without what the journal holds."""
        self.require_writable()
        self.connection.life.is_there()
        self._let_go_of_another()
        if self.handle is None:
            self._is_another(await self.view())
            self.handle = await self._opening.open() or await self._create()
        elif self.ref is not None and self.ref not in await branches.listed(self.handle, self.name):
            # The engine would write on, to where nobody reads.
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
        """Have the next read or write look for what another process has written for this one."""
        self._is_outrun = True

    async def write(
        self,
        action: str,
        write: Callable[[Any], Coroutine[Any, Any, T]],
        *,
        is_guarded: bool = True,
    ) -> T:
        """Do `write`, which is one commit, to its end: cancelling the caller ends the wait alone.

        It `is_guarded` from whoever removes versions, unless it adds rows, whatever is there, and so
        gets on with every commit of others; or the versions go by their age alone.
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
        """A handle for long work on the table, beside the one that reads and writes use.

        The engine leaves a handle at the version that its work ended with, even where others have
        meanwhile gone on through the same handle: they would be turned back. If the journal `is_settled`,
        nobody looks what it holds; who `is_reading` alone has read the table before.
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
        """Have the journal know which version the table is at, after long work beside it.

        Unless it knows that one already, where it is given.
        """
        if self.ledger is not None and await self.ledger.exists():
            await self.commits.catch_up(await self.opened(), version)

    async def complete(self, handle: Any) -> None:
        """Give the table what an older release, a crash or a restored version left it without."""
        await self._opening.complete(handle)

    # Refs

    async def fork(self, ref: str, at: At, handle: Any = None) -> Any:
        """A handle of a new ref that begins with what `at` shows; the ref must not exist."""
        return await self._opening.fork(handle or await self.writer(), ref, at)

    async def drop(self, ref: str) -> None:
        """Remove a ref that exists and from which no other was forked."""
        self.require_writable()
        await self._opening.drop(await self.peek(), ref)

    async def clear(self, suspects: Iterable[str] = ()) -> list[str]:
        """Remove the files of refs whose process was killed as it made or dropped them.

        Returns the refs that there are, of a table that exists. Only `suspects` are looked for on an
        object store, whose directories the engine does not list.
        """
        return await self._opening.clear(await self.opened(), suspects)

    async def finish(self) -> None:
        """Wait for what was begun beside its callers."""
        if self.finishing is not None:
            await self.finishing()

    def close(self) -> None:
        """Let go of the engine's handle."""
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
        """Whether it is time to look for what others wrote."""
        interval = self.connection.read_consistency
        if interval is None:
            return False
        return time.monotonic() - self._refreshed_at >= interval.total_seconds()

    def _is_another(self, view: View | None) -> bool:
        """Whether the table was made anew under its name since it was last asked, as the journal knows."""
        if view is None:
            return False
        before, self._table = self._table, view.table
        return before not in (None, view.table)

    def _let_go_of_another(self) -> None:
        """Have no handle of a ref that was deleted since, and perhaps made anew under its name."""
        if self.ref is None:
            return
        before, self._mark = (
            self._mark,
            orphaned_refs.mark(self.connection.uri, self.name, self.ref),
        )
        if before not in (None, self._mark):
            self.handle = self._snapshot = None

    def _known_newest(self, handle: Any, view: View | None) -> int | None:
        """The version that the handle shows, if a look at the disk says that there is no later one."""
        if (seen := self._seen) is None or self._folder is None or seen.handle is not handle:
            return None
        if view is not None and not 0 < view.version <= seen.version:
            return None
        # A tenth of what the engine takes to say so.
        return seen.version if manifests.stamp(self._folder, seen.version) == seen.stamp else None

    def _see(self, handle: Any | None, version: int) -> None:
        """Remember that the handle shows this version, if it is the newest."""
        stamp = None
        if handle is not None and self._folder is not None:
            reads.has_moved_on(handle)
            stamp = manifests.stamp(self._folder, version)
        self._seen = None if stamp is None else _Seen(handle, version, stamp)

    def _note_move(self, version: int) -> None:
        """Have what is kept of the table elsewhere be dropped if others may have erased some of it."""
        before, self._version = self._version, version
        if before not in (None, version) and self.connection.on_move is not None:
            self.connection.on_move(self.name, self.ref)

    async def _opened_after(self, former: Any | None) -> Any | None:
        """A handle that is opened now, in the place of `former`.

        If that was replaced meanwhile, its successor stays: there may be writes in it that this
        one, although it comes later, does not show.
        """
        handle = await self._opening.open()
        if self.handle is former:
            self.handle = handle
        return handle

    async def _create(self) -> Any:
        """Make the table, or open it where another task or process was faster."""
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
    """What a handle showed when it was last looked for what others wrote."""

    handle: Any
    version: int
    stamp: manifests.Stamp


async def _is_behind(handle: Any, view: View | None) -> bool:
    """Whether what was seen in the journal may be in a version that the handle does not show."""
    if view is None:
        return False
    # Of no version: what was acknowledged is in the newest one, whichever that is.
    return not view.version or int(await handle.version()) < view.version
