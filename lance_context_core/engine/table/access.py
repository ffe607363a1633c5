"""How a table is come by: the engine's handles, opened and made when needed, read and written through."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from lance_context_core._retrying import retried
from lance_context_core.engine.connection import Connection
from lance_context_core.engine.errors import meaning, translated
from lance_context_core.engine.files.inflight import InFlight
from lance_context_core.engine.names import shown_name
from lance_context_core.engine.refs import refs, remains
from lance_context_core.engine.refs.refs import At, Pin
from lance_context_core.engine.schema import VECTOR, TableSpec, check_format
from lance_context_core.engine.table import creation, indexes, reading
from lance_context_core.errors import (
    AlreadyExistsError,
    ConflictError,
    NotFoundError,
    ReadOnlyError,
    StorageError,
)

T = TypeVar("T")

STABLE_ROW_IDS = {"new_table_enable_stable_row_ids": "true"}
"""A row's id then survives compaction and updates, and grows in the order of commits: it is the
order in which a session reads back."""

_ATTEMPTS = 5
"""How often a write is tried anew on top of what others committed; the engine retries by itself
where it can."""

_WAIT_SECONDS = 0.05
"""For how long a commit waits for upkeep: most merges of fragments take less."""

_running: set[asyncio.Task[Any]] = set()


@dataclass(frozen=True, slots=True)
class Beside:
    """A ref of a table beside main."""

    ref: str
    main: "Access"
    """The table on main: with it a table begins on every other."""
    records: "Access"
    """The records on main, which tell what branches there are."""


class Access:
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
        self.in_flight = InFlight(connection.uri, name)
        self.connection = connection
        self._beside = beside
        self._pin = pin
        self.committed: Callable[[], None] | None = None
        """Is called after each commit."""
        self.handle: Any = None
        """Of what was read or written last; None if nothing was, or the table is absent."""
        self._opened_for = 0
        """Which connection the handle is of, by the number of its renewal."""
        self._creating = threading.Lock()
        self._upkeep: Future[None] | None = None
        self._refreshed_at = -float("inf")

    # Reading

    async def reader(self) -> Any | None:
        """The engine's handle, as fresh as the store's read consistency asks; None if absent."""
        connection, handle = self.connection, self.handle
        connection.require_open()
        connection.keep_caches_small()
        is_outworn = self._opened_for != connection.n_renewals and self._pin is None
        if handle is None or is_outworn:
            self._opened_for = connection.n_renewals
            return await self._opened_after(handle)
        if self._pin is not None or (interval := connection.read_consistency) is None:
            return handle
        if time.monotonic() - self._refreshed_at >= interval.total_seconds():
            try:
                await handle.checkout_latest()
            except Exception as error:
                if not isinstance(failure := meaning(error, f"read {self.label}"), StorageError):
                    raise failure from error
                # Another process may have dropped the table; if it did not, this raises again.
                handle = await self._opened_after(handle)
            self._refreshed_at = time.monotonic()
        return handle

    async def schema(self) -> pa.Schema:
        """The columns of the table as they are; those of its specification if it is absent."""
        handle = await self.reader()
        return self.spec.schema if handle is None else await handle.schema()

    async def look(self, action: str, read: Callable[[Any], Awaitable[T]], absent: T) -> T:
        """What `read` finds through the handle; `absent` if there is no table.

        `action` says it for an error message, with `{}` for the table.
        It is asked once more if others removed the version that it was looking at.
        """
        if (handle := await self.reader()) is None:
            return absent
        try:
            with translated(action.format(self.label)):
                return await read(handle)
        except StorageError as error:
            if self._pin is not None or not await reading.has_moved(handle, error):
                raise
        with translated(action.format(self.label)):
            return await read(handle)

    # Writing

    def require_writable(self) -> None:
        """Raise ReadOnlyError for a table as it was, StoreClosedError where no write can be."""
        if self._pin is not None:
            raise ReadOnlyError(
                f"{self.label} is open at an earlier version, for reading only: "
                "write through the store itself, or restore that version"
            )
        self.connection.require_open()

    async def ready(self) -> None:
        """As `require_writable`; makes the table if it is absent, while the caller may still cancel."""
        self.require_writable()
        if self.handle is None:
            await self.writer()

    async def writer(self) -> Any:
        """The engine's handle for writing; creates the table if it is absent."""
        self.require_writable()
        if self.handle is None:
            self.handle = await self._open() or await self._create()
        elif self.ref is not None and self.ref not in await refs.listed(self.handle, self.name):
            # The engine would write on, to where nobody reads.
            self.handle = await self._open() or await self._create()
        return self.handle

    async def write(
        self,
        action: str,
        write: Callable[[Any], Coroutine[Any, Any, T]],
        *,
        adds_only: bool = False,
    ) -> T:
        """Do `write`, which is one commit, to its end: cancelling the caller ends the wait alone.

        One that `adds_only` rows, whatever is there, gets on with every commit of others.
        """
        handle = await self.writer()
        work = write if adds_only else self.in_flight.guarded(write)
        task = asyncio.ensure_future(self.commit(f"{action} {self.label}", handle, work))
        _running.add(task)
        task.add_done_callback(_running.discard)
        return await asyncio.shield(task)

    async def commit(
        self, action: str, handle: Any, work: Callable[[Any], Coroutine[Any, Any, T]]
    ) -> T:
        """Do `work`, which is one commit, as durably as the store promises."""
        if (syncer := self.connection.syncer) is not None:
            syncer.require_sound()
        if (upkeep := self._upkeep) is not None:
            await asyncio.wait([asyncio.wrap_future(upkeep)], timeout=_WAIT_SECONDS)
        done = await self._insist(action, handle, work)
        if syncer is not None:
            await syncer.sync(handle)
        if self.committed is not None:
            self.committed()
        return done

    @asynccontextmanager
    async def pausing(self) -> AsyncIterator[None]:
        """Let each commit through this object that begins meanwhile wait a moment.

        Of two commits at a time the engine tries the later one again. One that takes long would be
        the later one for ever where somebody else writes without a pause.
        """
        self._upkeep = upkeep = Future[None]()
        try:
            yield
        finally:
            self._upkeep = None
            upkeep.set_result(None)

    @asynccontextmanager
    async def separately(self) -> AsyncIterator[Any]:
        """A handle for long work on the table, beside the one that reads and writes use.

        The engine leaves a handle at the version that its work ended with, even where others have
        meanwhile gone on through the same handle: they would be turned back.
        """
        await self.writer()
        handle = await self.connection.table(self.name)
        if self.ref is not None:
            handle = await refs.opened(handle, self.name, self.ref)
        before = await handle.version()
        try:
            yield handle
            if await handle.version() != before:
                await self.sync(handle)
        finally:
            handle.close()

    async def complete(self, handle: Any) -> None:
        """Give the table what an older release, a crash or a restored version left it without."""

        async def work(handle: Any) -> None:
            names = (await handle.schema()).names
            if missing := [field for field in self.spec.schema if field.name not in names]:
                await handle.add_columns(missing)
            if self.spec.is_searchable:
                await indexes.ensure_text_index(handle, self.connection.text_index)

        before = await handle.version()
        await self._insist(f"bring {self.label} up to date", handle, work)
        if await handle.version() != before:
            await self.sync(handle)

    async def sync(self, handle: Any) -> None:
        """Return when what `handle` is at is as durable as the store promises."""
        if (syncer := self.connection.syncer) is not None:
            await syncer.sync(handle)

    async def sync_removals(self) -> None:
        """Return when the files that were removed are gone for good, if the store promises it."""
        if (syncer := self.connection.syncer) is not None:
            await syncer.sync_removals(self.name)

    # Refs

    async def fork(self, ref: str, at: At, handle: Any = None) -> Any:
        """A handle of a new ref that begins with what `at` shows; the ref must not exist."""
        handle = handle or await self.writer()
        forked = await remains.fork(self.connection, handle, self.name, ref, at)
        await self.sync(forked)
        await self._sync_refs()
        return forked

    async def drop(self, ref: str) -> None:
        """Remove a ref that exists and from which no other was forked."""
        await refs.drop(await self.reader(), self.name, ref)
        await self._sync_refs()

    async def clear(self, suspects: Iterable[str]) -> None:
        """Remove the files of refs whose process was killed as it made or dropped them.

        Only `suspects` are looked for on an object store, whose directories the engine does not list.
        """
        handle = await self.reader()
        if handle is not None and await remains.clear(self.connection, handle, self.name, suspects):
            await self._sync_refs()

    def close(self) -> None:
        """Let go of the engine's handle."""
        handle, self.handle = self.handle, None
        if handle is not None:
            handle.close()

    # Helpers

    async def _insist(
        self, action: str, handle: Any, work: Callable[[Any], Coroutine[Any, Any, T]]
    ) -> T:
        """Do `work`, which is one commit; on top of what others committed, if that prevents it."""

        async def attempt() -> T:
            with translated(action):
                return await work(handle)

        async def catch_up(error: Exception) -> None:
            if isinstance(error, ConflictError):
                with translated(action):
                    await handle.checkout_latest()
            elif not await reading.has_moved(handle, error):
                raise error

        return await retried(
            attempt, on=(ConflictError, StorageError), attempts=_ATTEMPTS, between=catch_up
        )

    async def _sync_refs(self) -> None:
        if (syncer := self.connection.syncer) is not None:
            await syncer.sync_refs(self.name)

    async def _opened_after(self, former: Any | None) -> Any | None:
        """A handle that is opened now, in the place of `former`.

        If that was replaced meanwhile, its successor stays: there may be writes in it that this
        one, although it comes later, does not show.
        """
        handle = await self._open()
        if self.handle is former:
            self.handle = handle
        return handle

    async def _open(self) -> Any | None:
        if not await self.connection.has_place():
            return None
        try:
            handle = await self.connection.table(self.name)
        except NotFoundError:
            await self._require_branch()
            return None
        check_format(await handle.schema(), self.name)
        if self._pin is not None:
            at = await self._pin.locate(self.name, handle)
            return at and await refs.opened(handle, self.name, at.ref, at.version)
        if self.ref is not None:
            if self.ref not in await refs.listed(handle, self.name):
                await self._require_branch()
                return None
            handle = await refs.opened(handle, self.name, self.ref)
        await self.complete(handle)
        return handle

    async def _require_branch(self) -> None:
        """Raise NotFoundError if there is no such branch at all: the records have it."""
        if self._beside is None:
            return
        records = self._beside.records
        handle = await records.reader()
        if handle is None or self.ref not in await refs.listed(handle, records.name):
            raise NotFoundError(
                f"branch {refs.branch_of(self.ref)!r} does not exist: see branches(), or create it"
            )

    async def _create(self) -> Any:
        """Make the table, or open it where another task or process was faster."""
        # The tasks and threads of this process take turns; see `creation` for other processes.
        while not self._creating.acquire(blocking=False):  # noqa: ASYNC110 - they share no loop
            await asyncio.sleep(0.001)
        try:
            return self.handle or await self._open() or await self._created()
        except (AlreadyExistsError, ConflictError):
            if (handle := await self._open()) is None:
                raise
            return handle
        finally:
            self._creating.release()

    async def _created(self) -> Any:
        if self._beside is not None:
            return await self._forked_empty(self._beside)
        if (syncer := self.connection.syncer) is not None:
            syncer.require_sound()
        engine = await self.connection.engine()
        with translated(f"create {self.label}"):
            handle = await creation.create(
                engine,
                self.connection.uri,
                self.name,
                schema=self.spec.schema,
                options=STABLE_ROW_IDS,
            )
            if self.spec.is_searchable:
                await indexes.ensure_text_index(handle, self.connection.text_index)
        await self.sync(handle)
        return handle

    async def _forked_empty(self, beside: Beside) -> Any:
        """Make a table that main may have, but had not when this branch was made."""
        root = await beside.main.writer()
        branch = str(refs.branch_of(beside.ref))
        base = refs.base(branch, 0)
        if base in await refs.listed(root, self.name):
            empty = await refs.opened(root, self.name, base)
        else:
            empty = await self.fork(base, At(None, await root.version()), root)
        with translated(f"create {self.label}"):
            if await empty.count_rows():
                await empty.delete("true")
            if VECTOR in (await empty.schema()).names:
                # The branch may bring vectors of another length.
                await empty.drop_columns([VECTOR])
        # What was main's is gone before the branch has the table.
        await self.sync(empty)
        return await self.fork(beside.ref, At(base, await empty.version()), root)
