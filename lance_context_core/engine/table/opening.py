"""How a table is opened, and made where it is absent; on main, on another ref, or as it was."""

from collections.abc import Iterable
from typing import Any, Protocol

from lance_context_core._util.frozen import frozen
from lance_context_core._util.retry import FEW_ATTEMPTS, retried
from lance_context_core.engine.connection import Connection
from lance_context_core.engine.errors import translated
from lance_context_core.engine.journal.ledger import Ledger
from lance_context_core.engine.names import shown_name
from lance_context_core.engine.refs import refs, remains
from lance_context_core.engine.refs.refs import At, Pin
from lance_context_core.engine.schema import VECTOR, TableSpec, check_columns, check_format
from lance_context_core.engine.table import creation, indexes, removed
from lance_context_core.engine.table.commits import Commits
from lance_context_core.errors import ConflictError, NotFoundError, StorageError, StoreFormatError

STABLE_ROW_IDS = {"new_table_enable_stable_row_ids": "true"}
"""A row's id then survives compaction and updates, and grows in the order of commits: it is the
order in which a session reads back."""


class Root(Protocol):
    """A table on main, through which others are come by."""

    name: str

    async def peek(self) -> Any | None:
        """The engine's handle; None if it is absent."""

    async def opened(self) -> Any:
        """The engine's handle; makes the table if it is absent."""


@frozen
class Beside:
    """A ref of a table beside main."""

    ref: str
    main: Root
    """The table on main: with it a table begins on every other."""
    records: Root
    """The records on main, which tell what branches there are."""


class Opening:
    """The ways to one table on one ref."""

    def __init__(
        self,
        connection: Connection,
        name: str,
        spec: TableSpec,
        commits: Commits,
        *,
        beside: Beside | None,
        pin: Pin | None,
    ) -> None:
        """See `Access`."""
        self.name = name
        self.ref = beside.ref if beside else None
        self.is_incomplete = False
        """Whether the handle that was opened last could not be given what it lacks."""
        self._label = shown_name(name)
        self._connection = connection
        self._spec = spec
        self._commits = commits
        self._beside = beside
        self._pin = pin

    async def open(self) -> Any | None:
        """A new handle; None if the table is absent."""
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
                return await refs.opened(handle, self.name, at.ref, at.version)
            except (NotFoundError, StorageError) as error:
                await removed.explain(error, connection, self.name, at, is_pinned=True)
                raise
        if self.ref is not None:
            if self.ref not in await refs.listed(handle, self.name):
                await self._require_branch()
                return None
            connection.require_placed(self._label)
            await connection.mend(self.name, self.ref)
            try:
                handle = await refs.opened(handle, self.name, self.ref)
            except StorageError as error:
                await connection.explain(error, self.name, self.ref)
                raise
        if connection.is_read_only:
            return handle
        self.is_incomplete = False
        try:
            await self.complete(handle)
        except StorageError:
            # Who may not write reads what is there. Who writes is told.
            self.is_incomplete = True
        return handle

    async def create(self) -> Any:
        """Make the table; raises AlreadyExistsError, or ConflictError, where another was faster."""
        if self._beside is not None:
            # Others may erase from main, and so remove the version that it begins with.
            beside = self._beside
            return await retried(
                lambda: self._forked_empty(beside), on=ConflictError, attempts=FEW_ATTEMPTS
            )
        self._commits.require_sound()
        engine = await self._connection.engine()
        with translated(f"create {self._label}"):
            handle = await creation.create(
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
        """Give the table what an older release, a crash or a restored version left it without."""

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
        """A handle of a new ref that begins with what `at` shows; the ref must not exist.

        Raises ConflictError if others have removed that version.
        """
        await self._connection.record_place()
        async with self._connection.making(self.name, ref):
            try:
                # Nobody erases the files of that version before it has the ref.
                async with self._commits.in_flight.committing():
                    forked = await remains.fork(self._connection, handle, self.name, ref, at)
            except (NotFoundError, StorageError) as error:
                await removed.explain(error, self._connection, self.name, at, is_pinned=False)
                raise
            await self._commits.sync(forked)
            await self._commits.sync_refs()
        await self._connection.know(self.name, ref, forked)
        return forked

    async def drop(self, handle: Any, ref: str) -> None:
        """Remove a ref that exists and from which no other was forked."""
        if self._connection.journal is None:
            await refs.drop(handle, self.name, ref)
        else:
            ledger = Ledger(self._connection.journal, self.name, ref)
            async with ledger.committing():
                # In this order: a ref of that name may be made anew, and must not meet its entries.
                await ledger.discard()
                await refs.drop(handle, self.name, ref)
        await self._commits.sync_refs()

    async def clear(self, handle: Any, suspects: Iterable[str]) -> list[str]:
        """As `Access.clear`."""
        there = await refs.clear_all(handle, self.name)
        if await remains.clear(self._connection, self.name, suspects, there=there):
            await self._commits.sync_refs()
        return there

    # Helpers

    async def _require_branch(self) -> None:
        """Raise NotFoundError if there is no such branch at all: the records have it."""
        if self._beside is None:
            return
        records = self._beside.records
        handle = await records.peek()
        if handle is None or self.ref not in await refs.listed(handle, records.name):
            what = refs.named(self._beside.ref)
            raise NotFoundError(f"{what} does not exist: see branches(), or create it")

    async def _forked_empty(self, beside: Beside) -> Any:
        """Make a table that main may have, but had not when this branch was made."""
        root = await beside.main.opened()
        branch = str(refs.branch_of(beside.ref))
        base = refs.base(branch, 0)
        if base in await refs.listed(root, self.name):
            empty = await refs.opened(root, self.name, base)
        else:
            root = await self._connection.table(self.name)  # What it shows is there.
            empty = await self.fork(root, base, At(None, await root.version()))
        with translated(f"create {self._label}"):
            if await empty.count_rows():
                await empty.delete("true")
            if VECTOR in (await empty.schema()).names:
                # The branch may bring vectors of another length.
                await empty.drop_columns([VECTOR])
        # What was main's is gone before the branch has the table.
        await self._commits.sync(empty)
        return await self.fork(root, beside.ref, At(base, await empty.version()))
