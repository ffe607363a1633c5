"""Opens or creates a table, on main, on another ref, or at a version."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from lance_context_core._util.frozen import frozen
from lance_context_core._util.retry import FEW_ATTEMPTS, retried
from lance_context_core.errors import ConflictError, NotFoundError, StorageError, StoreFormatError
from lance_context_core.storage.file_locks import locked
from lance_context_core.storage.lance import branches, indexes, missing_files, orphaned_refs, writes
from lance_context_core.storage.lance.branches import At, Pin
from lance_context_core.storage.lance.committer import Committer
from lance_context_core.storage.lance.connection import Connection
from lance_context_core.storage.lance.errors import translated
from lance_context_core.storage.lance.schema import VECTOR, TableSpec, check_columns, check_format
from lance_context_core.storage.names import shown_name
from lance_context_core.storage.wal.table_log import TableLog

# Creating a table while others may create it.
#
# The engine checks whether a table exists, and then creates it. A table that another process
# creates between these steps, and its rows, are replaced by an empty table. In a local directory
# that cannot happen: creators wait for each other, on a lock that the system takes from a process
# that ends.
#
# So they do on an object store if the store has a log, which has such a lock. Without one,
# acknowledged rows are then only in earlier versions. The replacing process
# detects it by the number of its version, and restores them; they stay there only if it is killed
# before that. (A clone of an empty table replaces nothing, but loses the setting that makes row ids
# stable.)

T = TypeVar("T")

_running: set[asyncio.Future[Any]] = set()


async def create_table(
    connection: Any, uri: str, name: str, *, schema: pa.Schema, options: Mapping[str, str]
) -> Any:
    """The engine's handle of a new table in `uri`; fails if the table exists.

    Cancellation only ends the wait: a half-created table could lack other writers' rows.
    """

    async def make() -> Any:
        if (place := Path(uri)).is_absolute():
            await asyncio.to_thread(place.mkdir, parents=True, exist_ok=True)
        async with locked(place):
            return await _make(connection, name, schema=schema, options=options)

    making = asyncio.ensure_future(make())
    _running.add(making)
    making.add_done_callback(_running.discard)
    return await asyncio.shield(making)


async def _make(
    connection: Any, name: str, *, schema: pa.Schema, options: Mapping[str, str]
) -> Any:
    handle = await connection.create_table(name, schema=schema, storage_options=dict(options))
    if (made := int(await handle.version())) > 1:
        await _Replaced(connection, name, handle, made).put_back()
    return handle


class _Replaced:
    """A table that was replaced by an empty one, at version `made`."""

    def __init__(self, connection: Any, name: str, handle: Any, made: int) -> None:
        self._connection = connection
        self._name = name
        self._handle = handle
        self._made = made
        self._n_failures = 0
        """An error of the storage that leaves the result unknown."""

    async def put_back(self) -> None:
        """Restore the earlier rows, followed by those written since.

        Raises StorageError if that fails: the missing rows are in an earlier version.
        """
        former = self._made - 1
        label = shown_name(self._name)
        try:
            if not await self._insist(self._count, former):
                return
            restored = await self._insist(self._restore, former)
            # The last of the versions in between has all missing rows, unless a try that seemed to
            # fail had restored the table before.
            first = self._made + 1 if self._n_failures else restored - 1
            for version in range(max(first, self._made + 1), restored):
                await self._insist(self._take_over, version)
        except (ConflictError, StorageError) as error:
            raise StorageError(
                f"{label} was created by two processes at the same time, and the rows of one of them could "
                f"not be restored: they are in version {former} of it, and in later ones"
            ) from error

    async def _insist(self, step: Callable[[int], Awaitable[T]], version: int) -> T:
        async def attempt() -> T:
            with translated(f"put back what was in {shown_name(self._name)}"):
                return await step(version)

        async def note(error: Exception) -> None:
            self._n_failures += isinstance(error, StorageError)

        return await retried(attempt, on=(ConflictError, StorageError), between=note)

    async def _count(self, version: int) -> int:
        return int(await (await self._at(version)).count_rows())

    async def _restore(self, version: int) -> int:
        """Returns the version with the restored content."""
        await self._handle.checkout_latest()
        await self._handle.restore(version)
        return int(await self._handle.version())

    async def _take_over(self, version: int) -> None:
        """Append that version's rows that the table lacks, in order."""
        rows = await (await self._at(version)).query().with_row_id().to_arrow()
        await self._handle.checkout_latest()
        if rows.num_rows:
            rows = await writes.fitted(self._handle, rows.sort_by("_rowid"))
            await writes.merge(self._handle, rows)

    async def _at(self, version: int) -> Any:
        return await self._connection.open_table(self._name, version=version)


STABLE_ROW_IDS = {"new_table_enable_stable_row_ids": "true"}
"""A row's id then survives compaction and updates, and grows in the order of commits: it is the
order in which a session is read."""


class Root(Protocol):
    """A table on main, from which other tables are opened."""

    name: str

    async def peek(self) -> Any | None:
        """The engine's handle; None if missing."""

    async def opened(self) -> Any:
        """The engine's handle; creates a missing table."""


@frozen
class Beside:
    """A ref of a table other than main."""

    ref: str
    main: Root
    """The table on main: a table begins there on every ref."""
    records: Root
    """The records on main, which list the branches."""


class Opening:
    """Access to one table on one ref."""

    def __init__(
        self,
        connection: Connection,
        name: str,
        spec: TableSpec,
        commits: Committer,
        *,
        beside: Beside | None,
        pin: Pin | None,
    ) -> None:
        """See `TableHandle`."""
        self.name = name
        self.ref = beside.ref if beside else None
        self.is_incomplete = False
        """Whether the last opened handle could not be completed."""
        self._label = shown_name(name)
        self._connection = connection
        self._spec = spec
        self._commits = commits
        self._beside = beside
        self._pin = pin

    async def open(self) -> Any | None:
        """A new handle; None if the table is missing."""
        connection = self._connection
        if await connection.existing() is None:
            return None
        await connection.mend(self.name, is_kept=not self._spec.serves_the_store)
        try:
            handle = await connection.table(self.name)
        except NotFoundError:
            await self._require_branch()
            return None
        try:
            check_format(schema := await handle.schema(), self.name)
        except StoreFormatError as error:
            await connection.explain(error, self.name)
            raise
        check_columns(schema, self._spec, self.name)
        if self._pin is not None:
            if (at := await self._pin.locate(self.name, handle)) is None:
                return None
            if at.ref is not None:
                connection.require_placed(self._label)
            try:
                return await branches.opened(handle, self.name, at.ref, at.version)
            except (NotFoundError, StorageError) as error:
                await missing_files.explain(error, connection, self.name, at, is_pinned=True)
                raise
        if self.ref is not None:
            if self.ref not in await branches.listed(handle, self.name):
                await self._require_branch()
                return None
            connection.require_placed(self._label)
            await connection.mend(self.name, self.ref)
            try:
                handle = await branches.opened(handle, self.name, self.ref)
            except StorageError as error:
                await connection.explain(error, self.name, self.ref)
                raise
        if connection.is_read_only:
            return handle
        self.is_incomplete = False
        try:
            await self.complete(handle)
        except StorageError:
            # A read-only caller reads what exists. A writer gets the error.
            self.is_incomplete = True
        return handle

    async def create(self) -> Any:
        """Create the table; raises AlreadyExistsError, or ConflictError, if another was faster."""
        if self._beside is not None:
            # Others may erase from main, and so remove the version that it begins with.
            beside = self._beside
            return await retried(
                lambda: self._forked_empty(beside), on=ConflictError, attempts=FEW_ATTEMPTS
            )
        self._commits.require_sound()
        engine = await self._connection.engine()
        async with self._creating():
            return await self._created(engine)

    async def _created(self, engine: Any) -> Any:
        with translated(f"create {self._label}"):
            handle = await create_table(
                engine,
                self._connection.uri,
                self.name,
                schema=self._spec.schema,
                options=STABLE_ROW_IDS,
            )
            if self._spec.is_searchable:
                await indexes.ensure_text_index(handle, self._connection.text_index)
        await self._commits.sync(handle)
        return handle

    async def complete(self, handle: Any) -> None:
        """Add columns and indexes that an older release, a crash or a restore left missing."""

        async def work(handle: Any) -> None:
            names = (await handle.schema()).names
            if missing := [field for field in self._spec.schema if field.name not in names]:
                await handle.add_columns(missing)
            if self._spec.is_searchable:
                await indexes.ensure_text_index(handle, self._connection.text_index)

        before = await handle.version()
        await self._commits.insist(f"bring {self._label} up to date", handle, work)
        if await handle.version() != before:
            await self._commits.sync(handle)
        self.is_incomplete = False

    # Refs

    async def fork(self, handle: Any, ref: str, at: At) -> Any:
        """A handle of a new ref, forked from the version `at`; it must not exist.

        Raises ConflictError if others have removed that version.
        """
        await self._connection.record_place()
        async with self._connection.making(self.name, ref):
            try:
                # The files of that version are not erased before the ref has it.
                async with self._commits.in_flight.committing():
                    forked = await orphaned_refs.fork(self._connection, handle, self.name, ref, at)
            except (NotFoundError, StorageError) as error:
                await missing_files.explain(error, self._connection, self.name, at, is_pinned=False)
                raise
            await self._commits.sync(forked)
            await self._commits.sync_refs()
        await self._connection.know(self.name, ref, forked)
        return forked

    async def drop(self, handle: Any, ref: str) -> None:
        """Delete an existing ref without forks of its own."""
        if self._connection.journal is None:
            await branches.drop(handle, self.name, ref)
        else:
            ledger = TableLog(self._connection.journal, self.name, ref)
            async with ledger.committing():
                # In this order: a ref of that name may be created again, and must not get its
                # entries.
                await ledger.discard()
                await branches.drop(handle, self.name, ref)
        await self._commits.sync_refs()

    async def clear(self, handle: Any, suspects: Iterable[str]) -> list[str]:
        """As `TableHandle.clear`."""
        there = await branches.clear_all(handle, self.name)
        if await orphaned_refs.clear(self._connection, self.name, suspects, there=there):
            await self._commits.sync_refs()
        return there

    # Helpers

    @asynccontextmanager
    async def _creating(self) -> AsyncIterator[None]:
        """Exclude other creators of the table on an object store with a log."""
        journal = self._connection.journal
        if self._connection.root is not None or journal is None or journal.is_alone():
            yield
            return
        async with journal.alone():
            yield

    async def _require_branch(self) -> None:
        """Raise NotFoundError if the branch does not exist, by the records."""
        if self._beside is None:
            return
        records = self._beside.records
        handle = await records.peek()
        if handle is None or self.ref not in await branches.listed(handle, records.name):
            what = branches.named(self._beside.ref)
            raise NotFoundError(f"{what} does not exist: see branches(), or create it")

    async def _forked_empty(self, beside: Beside) -> Any:
        """Create a table that main may have, but lacked when this branch was made."""
        root = await beside.main.opened()
        branch = str(branches.branch_of(beside.ref))
        base = branches.base(branch, 0)
        if base in await branches.listed(root, self.name):
            empty = await branches.opened(root, self.name, base)
        else:
            root = await self._connection.table(self.name)  # its content exists
            empty = await self.fork(root, base, At(None, await root.version()))
        with translated(f"create {self._label}"):
            if await empty.count_rows():
                await empty.delete("true")
            if VECTOR in (await empty.schema()).names:
                # The branch may bring vectors of another length.
                await empty.drop_columns([VECTOR])
        # Main's rows are gone before the branch has the table.
        await self._commits.sync(empty)
        return await self.fork(root, beside.ref, At(base, await empty.version()))
