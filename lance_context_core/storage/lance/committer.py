"""One commit to a table: in its turn, again where others were faster, as durable as was promised."""

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
"""For how long a commit waits for upkeep: most merges of fragments take less."""


class Committer:
    """The commits to one table, through whichever of its handles."""

    def __init__(
        self, connection: Connection, name: str, ledger: TableLog | None, *, is_noted: bool = False
    ) -> None:
        """Those to the table `name`; `ledger` is the journal's part about it.

        Without one it may be `is_noted` all the same which version was acknowledged.
        """
        self.name = name
        self.in_flight = InFlight(connection.uri, name)
        self.committed: Callable[[], None] | None = None
        """Is called after each commit."""
        self.fold: Callable[[int | None], Awaitable[None]] | None = None
        """Brings what the journal holds into the table, as far as one entry or all of it."""
        self.before: Callable[[], Awaitable[None]] | None = None
        """Folds what other tables are to have before this one has a new version; cheap if nothing is."""
        self._connection = connection
        self._ledger = ledger
        self._is_noted = is_noted
        self._upkeep: Future[None] | None = None
        self._turns = contention.Turns()

    async def commit(
        self, action: str, handle: Any, work: Callable[[Any], Coroutine[Any, Any, T]]
    ) -> T:
        """Do `work`, which is one commit, as durably as the store promises."""
        self.require_sound()
        if (upkeep := self._upkeep) is not None:
            await asyncio.wait([asyncio.wrap_future(upkeep)], timeout=_WAIT_SECONDS)
        async with self.committing(handle):
            done = await self.insist(action, handle, work)
        self.tell()
        return done

    async def settle(self) -> None:
        """Fold what the journal holds, if it holds anything."""
        if self._ledger is None or self.fold is None or self._connection.is_read_only:
            return
        view = await self._ledger.view()
        if view is None or not view.entries:
            return
        last = None
        if self.before is not None:
            # What is acknowledged meanwhile may come behind something that those tables lack then.
            last = view.entries[-1].seq
            await self._ledger.begin(last)
            await self.before()
        await self.fold(last)

    @asynccontextmanager
    async def committing(self, handle: Any) -> AsyncIterator[None]:
        """Commit through `handle` in here, behind all that the journal holds; nobody else commits.

        It is as durable as the store promises when that is done, and before the journal knows it.
        """
        self._connection.require_writable()
        await fencing.require(self._connection.place)
        if (ledger := self._ledger) is None:
            journal = self._connection.journal
            async with nullcontext() if journal is None else beside_others(journal):
                yield
                await self.sync(handle)
            if self._is_noted:  # That needs the lock alone.
                await self._connection.know(self.name, handle.current_branch(), handle)
            return
        if await ledger.policy() is not None and (
            self._connection.syncer is not None or await ledger.is_to_be_told()
        ):
            await self.know(handle)
        async with ledger.committing():
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
                # What is changed or removed may have been folded by others.
                await asked(f"read {shown_name(self.name)}", handle.checkout_latest())
                await self.require(handle, before)
            yield
            await self.sync(handle)
            # After a failure whoever comes next looks which version there is.
            await ledger.note(max(before, int(await handle.version())))

    async def require(self, handle: Any, version: int) -> None:
        """Raise StorageError if the newest version is older than that one, which was acknowledged.

        What is committed on top of it would take the number of the one that is missing.
        """
        if int(await handle.version()) < version:
            await self._connection.mend(self.name, handle.current_branch(), is_again=True)

    async def know(self, handle: Any) -> None:
        """Have the journal know the version that the table is at, once it is durable.

        Of one that is torn later it is then sure whether anybody was told of it.
        """
        if (ledger := self._ledger) is None or _is_known(await ledger.view()):
            return
        await ledger.make()
        async with ledger.folding():
            # Another process may have been faster, and there may be entries by now.
            if not _is_known(await ledger.view()):
                await self._note_newest(ledger, handle)

    async def catch_up(self, handle: Any, version: int | None = None) -> None:
        """Have the journal, which exists, know the version that the table is at, after long work beside it.

        Nothing of that is in doubt any more, and who writes meanwhile goes on. Only where somebody may
        have been killed as he folded what is in the journal, that is settled first. Nothing is done where
        the journal knows that `version` already.
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
        """Have the journal know the version of `handle` after so many commits that changed no row.

        Nothing is done where others committed meanwhile, who may have been killed as they folded.
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

    async def insist(
        self, action: str, handle: Any, work: Callable[[Any], Coroutine[Any, Any, T]]
    ) -> T:
        """As `contention.insist`, in turn with others where they have no lock in common."""
        ledger, connection = self._ledger, self._connection
        # A store in memory is of one connection alone.
        has_lock = connection.place is connection or (
            ledger is not None and await ledger.policy() is not None
        )
        return await contention.insist(
            action, handle, work, turns=None if has_lock else self._turns
        )

    def tell(self) -> None:
        """Tell whoever wants to know that there was a commit."""
        if self.committed is not None:
            self.committed()

    def require_sound(self) -> None:
        """Raise StorageError if what is written now could be lost unnoticed."""
        self._connection.require_sound()

    async def sync(self, handle: Any) -> None:
        """Return when what `handle` is at is as durable as the store promises."""
        if (syncer := self._connection.syncer) is not None:
            await syncer.sync(handle)

    async def sync_removals(self) -> None:
        """Return when the files that were removed are gone for good, if the store promises it."""
        if (syncer := self._connection.syncer) is not None:
            await syncer.sync_removals(self.name)

    async def sync_refs(self) -> None:
        """Return when it is as durable which refs there are."""
        if (syncer := self._connection.syncer) is not None:
            await syncer.sync_refs(self.name)


def _is_known(view: View | None) -> TypeGuard[View]:
    return view is not None and view.version > 0
