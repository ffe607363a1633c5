"""How a table is come by: the engine's handles, opened and made when needed, read and written through."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pyarrow as pa

from lance_context_core.engine.errors import is_damage, is_missing_file, translated
from lance_context_core.engine.names import shown_name
from lance_context_core.engine.refs import refs
from lance_context_core.engine.refs.refs import At
from lance_context_core.engine.schema import FORMAT_KEY, FORMAT_VERSION, VECTOR, TableSpec
from lance_context_core.engine.table import creation, indexes
from lance_context_core.engine.table.text import TextIndex
from lance_context_core.engine.table.written import Written
from lance_context_core.errors import (
    AlreadyExistsError,
    ConflictError,
    NotFoundError,
    ReadOnlyError,
    StorageError,
    StoreFormatError,
)

if TYPE_CHECKING:
    from lance_context_core.engine.database import Database

T = TypeVar("T")

STABLE_ROW_IDS = {"new_table_enable_stable_row_ids": "true"}
"""A row's id then survives compaction and updates, and grows in the order of commits: it is the
order in which a session reads back."""

_MAX_ATTEMPTS = 5
"""How often a write is tried anew on top of what others committed; the engine retries by itself
where it can."""

_WAIT_SECONDS = 0.05
"""For how long a commit waits for upkeep: most merges of fragments take less."""

_running: set[asyncio.Task[Any]] = set()


class Pin(Protocol):
    """A moment of the store."""

    async def locate(self, name: str, handle: Any) -> At | None:
        """Where the table `name` was then; None if it did not exist. `handle` is of any line."""


class TableAccess:
    """A table by name, which need not exist: the first write creates it."""

    def __init__(
        self,
        database: "Database",
        name: str,
        spec: TableSpec,
        *,
        line: str | None = None,
        pin: Pin | None = None,
    ) -> None:
        """Name the table, and the line of its versions that is meant; None is the main one.

        With `pin` it is read as it was, and refuses writes.
        """
        self.name = name
        self.line = line
        self.label = shown_name(name)
        """What error messages call it."""
        self.spec = spec
        self.written = Written()
        self._database = database
        self._pin = pin
        self._handle: Any = None
        self._is_outworn = False
        self._creating = threading.Lock()
        self._upkeep: Future[None] | None = None
        self._refreshed_at = -float("inf")

    @property
    def text_index(self) -> TextIndex:
        """How the table's texts are cut into words."""
        return self._database.text_index

    # Reading

    async def reader(self) -> Any | None:
        """The engine's handle, as fresh as the database's read consistency asks; None if absent."""
        self._database.require_open()
        self._database.keep_caches_small()
        handle = self._handle
        if handle is None or self._is_outworn:
            self._is_outworn = False
            handle = await self._opened_after(handle)
        elif self._pin is None and self._is_due():
            try:
                with translated(f"read {self.label}"):
                    await handle.checkout_latest()
            except StorageError:
                # Another process may have dropped the table; if it did not, this raises again.
                handle = await self._opened_after(handle)
            self._refreshed_at = time.monotonic()
        return handle

    async def schema(self) -> pa.Schema:
        """The columns of the table as they are; those of its specification if it is absent."""
        handle = await self.reader()
        return self.spec.schema if handle is None else await handle.schema()

    async def version(self) -> int:
        """The number of the version that is read; 0 if the table is absent."""
        handle = await self.reader()
        return 0 if handle is None else await handle.version()

    async def last_seen(self) -> int:
        """As `version`, of what was read or written last; a write of one's own is in it."""
        return 0 if self._handle is None else int(await self._handle.version())

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
            if self._pin is not None or not await _has_moved(handle, error):
                raise
        with translated(action.format(self.label)):
            return await read(handle)

    # Writing

    async def writer(self) -> Any:
        """The engine's handle for writing; creates the table if it is absent."""
        if self._pin is not None:
            raise ReadOnlyError(
                f"{self.label} is open at an earlier version, for reading only: "
                "write through the store itself, or restore that version"
            )
        self._database.require_open()
        if self._handle is None:
            self._handle = await self._open() or await self._create()
        elif self.line is not None and self.line not in await refs.lines(self._handle, self.name):
            # The engine would write on, to where nobody reads.
            self._handle = await self._open() or await self._create()
        return self._handle

    @asynccontextmanager
    async def separately(self) -> AsyncIterator[Any]:
        """A handle for long work on the table, beside the one that reads and writes use.

        The engine leaves a handle at the version that its work ended with, even where others have
        meanwhile gone on through the same handle: they would be turned back.
        """
        await self.writer()
        connection = await self._database.connection()
        with translated(f"open {self.label}"):
            handle = await connection.open_table(self.name)
        if self.line is not None:
            handle = await refs.opened(handle, self.name, self.line)
        before = await handle.version()
        try:
            yield handle
            if await handle.version() != before:
                await self.sync(handle)
        finally:
            handle.close()

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

    async def write(self, action: str, write: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        """Do `write`, which is one commit, to its end: cancelling the caller ends the wait alone."""
        handle = await self.writer()
        return await _uncancelled(self.commit(f"{action} {self.label}", handle, write))

    async def commit(
        self, action: str, handle: Any, work: Callable[[Any], Coroutine[Any, Any, T]]
    ) -> T:
        """Do `work`, which is one commit, as durably as the database promises."""
        self._database.syncer.require_sound()
        if (upkeep := self._upkeep) is not None:
            await asyncio.wait([asyncio.wrap_future(upkeep)], timeout=_WAIT_SECONDS)
        done = await self._insist(action, handle, work)
        await self.sync(handle)
        if self._database.on_commit is not None:
            self._database.on_commit(self)
        return done

    async def complete(self, handle: Any) -> None:
        """Give the table what an older release, a crash or a restored version left it without."""

        async def work(handle: Any) -> None:
            names = (await handle.schema()).names
            if missing := [field for field in self.spec.schema if field.name not in names]:
                await handle.add_columns(missing)
            if self.spec.is_searchable:
                await indexes.ensure_text_index(handle, self.text_index)

        before = await handle.version()
        await self._insist(f"bring {self.label} up to date", handle, work)
        if await handle.version() != before:
            await self.sync(handle)

    # Lines, and what is on the disk

    async def fork(self, line: str, at: At, handle: Any = None) -> Any:
        """A handle of a new line that begins with what `at` shows; the line must not exist."""
        handle = handle or await self.writer()
        try:
            forked = await refs.fork(handle, self.name, line, at)
        except (AlreadyExistsError, StorageError) as error:
            # There are files of such a line, of this version or another, but perhaps no line.
            is_there = isinstance(error, AlreadyExistsError) or is_damage(error)
            if not (is_there and await self._database.remove_remains(self.name, line)):
                raise
            forked = await refs.fork(handle, self.name, line, at)
        await self.sync(forked)
        await self.sync_lines()
        return forked

    async def drop(self, line: str) -> None:
        """Remove a line that exists and from which no other was forked."""
        await refs.drop(await self.reader(), self.name, line)
        await self.sync_lines()

    async def clear(self, suspects: Iterable[str]) -> None:
        """Remove the files of lines that are none: their process was killed as it made or dropped them.

        Only `suspects` are looked for on an object store, whose directories the engine does not list.
        """
        if (handle := await self.reader()) is None:
            return
        await refs.clear_all(handle, self.name)
        lines = await refs.lines(handle, self.name, with_gone=True)
        for line in await self._database.remains(self.name) or suspects:
            if line not in lines and await self._database.remove_remains(self.name, line):
                await self.sync_lines()

    async def sync(self, handle: Any) -> None:
        """Return when what `handle` is at is as durable as the database promises."""
        await self._database.syncer.sync(handle)

    async def sync_lines(self) -> None:
        """Return when the lines that were made or removed are as durable as the database promises."""
        await self._database.syncer.sync_refs(self.name)

    async def sync_removals(self) -> None:
        """Return when the files that were removed are gone for good, if the database promises it."""
        await self._database.syncer.sync_removals(self.name)

    def renew_handle(self) -> None:
        """Open the table anew at the next look; whoever has the handle now may go on with it."""
        self._is_outworn = True

    def close(self) -> None:
        """Let go of the engine's handle."""
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.close()

    # Helpers

    async def _insist(
        self, action: str, handle: Any, work: Callable[[Any], Coroutine[Any, Any, T]]
    ) -> T:
        """Do `work`, which is one commit; on top of what others committed, if that prevents it."""
        for _ in range(_MAX_ATTEMPTS - 1):
            try:
                with translated(action):
                    return await work(handle)
            except ConflictError:
                with translated(action):
                    await handle.checkout_latest()
            except StorageError as error:
                if not await _has_moved(handle, error):
                    raise
        with translated(action):
            return await work(handle)

    def _is_due(self) -> bool:
        interval = self._database.read_consistency
        return (
            interval is not None
            and time.monotonic() - self._refreshed_at >= interval.total_seconds()
        )

    async def _opened_after(self, former: Any | None) -> Any | None:
        """A handle that is opened now, in the place of `former`.

        If that was replaced meanwhile, its successor stays: there may be writes in it that this
        one, although it comes later, does not show.
        """
        handle = await self._open()
        if self._handle is former:
            self._handle = handle
        return handle

    async def _open(self) -> Any | None:
        if not await self._database.has_place():
            return None
        connection = await self._database.connection()
        try:
            with translated(f"open {self.label}"):
                handle = await connection.open_table(self.name)
        except NotFoundError:
            if self.line is not None:
                await self._database.require_branch(self.line)
            return None
        schema = await handle.schema()
        check_format(schema, self.name)
        if self._pin is not None:
            at = await self._pin.locate(self.name, handle)
            return at and await refs.opened(handle, self.name, at.line, at.version)
        if self.line is not None:
            if self.line not in await refs.lines(handle, self.name):
                await self._database.require_branch(self.line)
                return None
            handle = await refs.opened(handle, self.name, self.line)
        await self.complete(handle)
        return handle

    async def _create(self) -> Any:
        """Make the table, or open it where another task or process was faster."""
        # The tasks and threads of this process take turns; see `creation` for other processes.
        while not self._creating.acquire(blocking=False):  # noqa: ASYNC110 - they share no loop
            await asyncio.sleep(0.001)
        try:
            made = self._create_alone if self.line is None else self._fork_empty
            return self._handle or await self._open() or await made()
        except (AlreadyExistsError, ConflictError):
            if (handle := await self._open()) is None:
                raise
            return handle
        finally:
            self._creating.release()

    async def _create_alone(self) -> Any:
        self._database.syncer.require_sound()
        connection = await self._database.connection()
        with translated(f"create {self.label}"):
            handle = await creation.create(
                connection,
                self._database.uri,
                self.name,
                schema=self.spec.schema,
                options=STABLE_ROW_IDS,
            )
            if self.spec.is_searchable:
                await indexes.ensure_text_index(handle, self.text_index)
        await self.sync(handle)
        return handle

    async def _fork_empty(self) -> Any:
        """Make a table that the main line may have, but had not when this branch was made."""
        root = await self._database.table(self.name, self.spec).writer()
        branch = str(refs.branch_of(self.line))
        base = refs.base(branch, 0)
        if base in await refs.lines(root, self.name):
            empty = await refs.opened(root, self.name, base)
        else:
            at = At(None, await root.version())
            empty = await self.fork(base, at, root)
        with translated(f"create {self.label}"):
            if await empty.count_rows():
                await empty.delete("true")
            if VECTOR in (await empty.schema()).names:
                # The branch may bring vectors of another length.
                await empty.drop_columns([VECTOR])
        # What was the main line's is gone before the branch has the table.
        await self.sync(empty)
        at = At(base, await empty.version())
        return await self.fork(str(self.line), at, root)


def check_format(schema: pa.Schema, name: str) -> None:
    """Raise StoreFormatError unless this release reads tables of that schema."""
    written = (schema.metadata or {}).get(FORMAT_KEY, b"")
    if not written.isdigit():
        raise StoreFormatError(
            f"{shown_name(name)} was not written by lance_context_core: give the store a directory "
            "of its own"
        )
    if int(written) > FORMAT_VERSION:
        raise StoreFormatError(
            f"{shown_name(name)} has format {int(written)}, this release reads up to {FORMAT_VERSION}: "
            "upgrade lance-context-core"
        )


async def _has_moved(handle: Any, error: StorageError) -> bool:
    """Whether a file was missing because others went on and removed the handle's version."""
    if not is_missing_file(error):
        return False
    version = await handle.version()
    with suppress(Exception):  # Then `error` says what is wrong.
        await handle.checkout_latest()
    return bool(await handle.version() != version)


async def _uncancelled(write: Awaitable[T]) -> T:
    """Await `write` so that cancelling the caller leaves it running to its end."""
    task = asyncio.ensure_future(write)
    _running.add(task)
    task.add_done_callback(_running.discard)
    return await asyncio.shield(task)
