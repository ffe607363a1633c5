"""One commit to a table: takes its turn, retries lost races, and is made durable."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import asynccontextmanager, nullcontext
from typing import Any, TypeGuard, TypeVar

from lance_context_core.storage.lance import contention
from lance_context_core.storage.lance.connection import Connection
from lance_context_core.storage.lance.durability import InFlight
from lance_context_core.storage.lance.errors import asked
from lance_context_core.storage.locks import fencing
from lance_context_core.storage.names import shown_name
from lance_context_core.storage.wal.entries import View
from lance_context_core.storage.wal.table_log import TableLog, beside_others

T = TypeVar("T")

_WAIT_SECONDS = 0.05
"""The maximum wait of a commit for upkeep: most fragment merges take less."""


class Committer:
    """The commits to one table, through any of its handles."""

    def __init__(
        self, connection: Connection, name: str, ledger: TableLog | None, *, is_noted: bool = False
    ) -> None:
        """Commits to the table `name`; `ledger` is the log's part for it.

        Without a log the acknowledged version may still be `is_noted`.
        """
        self.name = name
        self.in_flight = InFlight(connection.uri, name)
        self.committed: Callable[[], None] | None = None
        """Called after each commit."""
        self.fold: Callable[[int | None], Awaitable[None]] | None = None
        """Flushes the log into the table, up to one entry or all of it."""
        self.before: Callable[[], Awaitable[None]] | None = None
        """Flushes the other tables that need it before a new version of this one; cheap if none
        do."""
        self._connection = connection
        self._ledger = ledger
        self._is_noted = is_noted
        self._upkeep: Future[None] | None = None
        self._turns = contention.Turns()

    async def commit(
        self, action: str, handle: Any, work: Callable[[Any], Coroutine[Any, Any, T]]
    ) -> T:
        """Run `work`, one commit, as durably as the store promises."""
        self.require_sound()
        if (upkeep := self._upkeep) is not None:
            await asyncio.wait([asyncio.wrap_future(upkeep)], timeout=_WAIT_SECONDS)
        async with self.committing(handle):
            done = await self.insist(action, handle, work)
        self.tell()
        return done

    async def settle(self) -> None:
        """Flush the log, if it has entries."""
        if self._ledger is None or self.fold is None or self._connection.is_read_only:
            return
        view = await self._ledger.view()
        if view is None or not view.entries:
            return
        last = None
        if self.before is not None:
            # Rows acknowledged meanwhile may depend on rows that those tables lack then.
            last = view.entries[-1].seq
            await self._ledger.begin(last)
            await self.before()
        await self.fold(last)

    @asynccontextmanager
    async def committing(self, handle: Any) -> AsyncIterator[None]:
        """Commit through `handle` in this context, after a flush, without other committers.

        The commit is durable, as far as promised, before the log notes it.
        """
        self._connection.require_writable()
        if (ledger := self._ledger) is None:
            journal = self._connection.journal
            async with nullcontext() if journal is None else beside_others(journal):
                await fencing.require(self._connection.place)
                yield
                await self.sync(handle)
            if self._is_noted:  # this needs only the lock
                await self._connection.know(self.name, handle.current_branch(), handle)
            return
        if await ledger.policy() is not None and (
            self._connection.syncer is not None or await ledger.is_to_be_told()
        ):
            await self.know(handle)
        async with ledger.committing():
            await fencing.require(self._connection.place)
            if self.before is not None:
                await self.before()
            if (view := await ledger.view()) is None:
                yield
                await self.sync(handle)
                return
            if self.fold is not None and view.entries:
                await self.fold(None)
            before = await ledger.doubt()
            if int(await handle.version()) != before:
                # Others may have flushed the rows that are changed or deleted.
                await asked(f"read {shown_name(self.name)}", handle.checkout_latest())
                await self.require(handle, before)
            yield
            await self.sync(handle)
            # After a failure the next committer reads the current version.
            await ledger.note(max(before, int(await handle.version())))

    async def require(self, handle: Any, version: int) -> None:
        """Raise StorageError if the newest version is older than that acknowledged one.

        A commit on top of it would reuse the number of the missing one.
        """
        if int(await handle.version()) < version:
            await self._connection.mend(self.name, handle.current_branch(), is_again=True)

    async def know(self, handle: Any) -> None:
        """Note the table's version in the log once it is durable.

        If it is found torn later, it is then certain whether it was reported to a caller.
        """
        if (ledger := self._ledger) is None or _is_known(await ledger.view()):
            return
        await ledger.make()
        async with ledger.folding():
            # Another process may have been faster, and entries may exist by now.
            if not _is_known(await ledger.view()):
                await self._note_newest(ledger, handle)

    async def catch_up(self, handle: Any, version: int | None = None) -> None:
        """Note the table's version in the existing log, after long work without it.

        By then none of that work is in doubt, and writers continue meanwhile. Only where a process
        may have been killed in a flush, that is settled first. Does nothing if the log knows
        `version` already.
        """
        if (ledger := self._ledger) is None:
            return
        async with ledger.folding():
            if (view := await ledger.view()) is None:
                return
            if version is not None and view.version >= version:
                return
            if not view.entries:
                await self._note_newest(ledger, handle)
                return
        async with self.committing(handle):
            await asked(f"read {shown_name(self.name)}", handle.checkout_latest())

    async def know_unchanged(self, handle: Any, n_commits: int) -> None:
        """Note the version of `handle` after that many commits that changed no row.

        Does nothing if other processes committed meanwhile: they may have been killed in a flush.
        """
        if (ledger := self._ledger) is None or await ledger.view() is None:
            return
        async with ledger.folding():
            view, version = await ledger.view(), int(await handle.version())
            if _is_known(view) and n_commits and version == view.version + n_commits:
                await self.sync(handle)
                await ledger.note(version, is_change=False)

    async def _note_newest(self, ledger: TableLog, handle: Any) -> None:
        await asked(f"read {shown_name(self.name)}", handle.checkout_latest())
        await self.sync(handle)
        await ledger.note(int(await handle.version()))

    @asynccontextmanager
    async def pausing(self) -> AsyncIterator[None]:
        """Delay each commit through this object that begins meanwhile.

        Of two concurrent commits the engine retries the later one. A long one would be the later
        one forever if others write without a pause.
        """
        self._upkeep = upkeep = Future[None]()
        try:
            yield
        finally:
            self._upkeep = None
            upkeep.set_result(None)

    async def insist(
        self, action: str, handle: Any, work: Callable[[Any], Coroutine[Any, Any, T]]
    ) -> T:
        """As `contention.insist`, in turns with other writers if no lock is shared.

        Raises StorageError if this process has lost its lock of the store.
        """
        ledger, connection = self._ledger, self._connection
        # A store in memory has one connection only.
        has_lock = connection.place is connection or (
            ledger is not None and await ledger.policy() is not None
        )

        async def held(handle: Any) -> T:
            if ledger is not None:
                # Whoever took the lock over has fenced what begins before this.
                await ledger.require_held()
            return await work(handle)

        return await contention.insist(
            action, handle, held, turns=None if has_lock else self._turns
        )

    def tell(self) -> None:
        """Notify subscribers of a commit."""
        if self.committed is not None:
            self.committed()

    def require_sound(self) -> None:
        """Raise StorageError if new writes could be lost unnoticed."""
        self._connection.require_sound()

    async def sync(self, handle: Any) -> None:
        """Return when the version of `handle` is as durable as the store promises."""
        if (syncer := self._connection.syncer) is not None:
            await syncer.sync(handle)

    async def sync_removals(self) -> None:
        """Return when removed files are durably gone, if the store promises it."""
        if (syncer := self._connection.syncer) is not None:
            await syncer.sync_removals(self.name)

    async def sync_refs(self) -> None:
        """Return when the set of refs is as durable as the store promises."""
        if (syncer := self._connection.syncer) is not None:
            await syncer.sync_refs(self.name)


def _is_known(view: View | None) -> TypeGuard[View]:
    return view is not None and view.version > 0
