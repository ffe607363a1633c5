"""One table's part of the write-ahead log, and the commits to that table."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import NamedTuple, TypeVar

from lance_context_core._loop import WOULD_BLOCK, WouldBlock
from lance_context_core.storage.wal.entries import New, News, View
from lance_context_core.storage.wal.journal import ExclusiveSection, Journal
from lance_context_core.storage.wal.log import BusyError, LogSession, Part, TableState
from lance_context_core.storage.wal.log_reader import ManyError, Recalled
from lance_context_core.storage.wal.policy import JournalPolicy
from lance_context_core.storage.wal.transactions import Amending
from lance_context_core.storage.wal.waiting import retry_busy

T = TypeVar("T")

_SHORT_PATIENCE_SECONDS = 0.5
"""How long a thread waits for others before it leaves the wait to the store's loop."""

_NO_END = 2**63 - 1


class State(NamedTuple):
    """The log's notes on a table."""

    table: int = 0
    """The table's number, as `View.table`; 0 if unknown."""
    version: int = 0
    """As in the file: negative during a direct commit to the table."""
    is_folding: bool = False
    """As `View.is_folding`."""


_section: ContextVar["tuple[Journal, ExclusiveSection] | None"] = ContextVar(
    "_section", default=None
)
"""The log that this task, or its parent, has closed to other writers."""


@asynccontextmanager
async def beside_others(journal: Journal) -> AsyncIterator[None]:
    """Commit to a table outside the log; waits while another has the store exclusively."""
    if await journal.is_locked() and await journal.exists():
        async with journal.beside_others():
            yield
    else:
        yield


class TableLog:
    """The log's part for one table on one ref."""

    def __init__(self, journal: Journal, name: str, ref: str | None) -> None:
        self.part = Part(name, ref or "")
        self._journal = journal
        self._log, self._waiting = journal.log, journal.waiting
        self._transactions = journal.transactions

    async def policy(self) -> JournalPolicy | None:
        """The policy; None if the log accepts no new entries."""
        return await self._journal.policy()

    async def exists(self) -> bool:
        """As `Journal.exists`."""
        return await self._log.opened() is not None

    # Reading

    async def view(self) -> View | None:
        """The entries, and the version they go with; None if the table is unknown."""
        if await self._log.opened() is None:
            return None
        return await self._looked(lambda: self._waiting.insist(self._transactions.view, self.part))

    async def news(self, token: int, last: int, *, version: int = 0) -> News | None:
        """The entries, and those after `last` if they are all changes since `token`.

        `version` is that of the table at `token`, if known. None if the table is unknown.
        """
        if await self._log.opened() is None:
            return None
        return await self._looked(
            lambda: self._waiting.insist(self._transactions.news, self.part, token, last, version)
        )

    def news_now(self, token: int, last: int) -> News | None:
        """As `news`, in any thread, without a wait; also None instead of waiting."""
        try:
            if not self._journal.may_call_here():
                return None
            return self._transactions.news(self.part, token, last)
        except (BusyError, ManyError):
            return None

    def on_break(self, forget: Callable[[], None]) -> None:
        """Subscribe to changes of the table that did not come from entries seen here."""
        self._journal.on_break(lambda part: forget() if part == self.part else None)

    async def floor(self) -> int:
        """The version that, merged with the entries, is all acknowledged; 0 if unknown.

        During a direct commit, and after a crash in one, the version before it.
        """
        found = await self._noted()
        return abs(found.version) if found else 0

    async def state(self) -> State:
        """The notes on the table, without the entries."""
        if (found := await self._noted()) is None:
            return State()
        return State(found.table, found.version, is_folding=found.folding > found.folded)

    async def is_to_be_told(self) -> bool:
        """Whether a log exists that has noted no version of the table."""
        return await self.exists() and not (await self.state()).table

    async def fullness(self) -> tuple[int, int]:
        """The number of entries, and their bytes."""
        return await self._journal.asked(lambda session: session.fullness(self.part), (0, 0))

    async def recall(self, seqs: Sequence[int]) -> Recalled:
        """The known data of the entries at these positions, flushed or not."""
        await self.view()

        def recall() -> Recalled:
            with self._log.lock:
                return self._journal.mirrors.recall(self.part, seqs)

        return await self._waiting.insist(recall)

    async def names(self) -> dict[int, int]:
        """Maps each version reported to a writer to the version that contains its row.

        Mostly a later one, after a commit without new rows came between, such as compaction.
        """
        return await self._journal.asked(lambda session: session.names(self.part), {})

    async def forget_names(self, kept: Collection[int]) -> None:
        """Forget mappings to deleted versions: all older ones except the `kept`."""
        gone = {one for one in (await self.names()).values() if one < max(kept, default=0)}
        if gone := gone.difference(kept):
            await self._do(lambda session: session.forget_names(self.part, sorted(gone)))

    # Writing

    async def write(
        self,
        decide: Callable[[View], Sequence[New] | None],
        then: Callable[[View | None], None] | None = None,
        *,
        keeps_states: bool = False,
    ) -> View | None:
        """Write the entries that `decide` returns for a locked view; returns the view afterwards.

        `then` is called with that view first, in the order of the writes.

        Returns None if the table or its version is unknown, or if `decide` returns None because its
        expectation failed. `decide` must be quick, and is called again after another process wrote.
        With `keeps_states`, changed or removed rows stay in the version that their write returned.
        """
        await self._log.opened()
        work = self._transactions.write(self.part, decide, keeps_states=keeps_states)
        return await self._looked(lambda: self._transactions.commit(work, then))

    async def write_all(
        self,
        parts: Sequence[Part],
        decide: Callable[[Sequence[View]], Sequence[Sequence[New]] | None],
        changes: Sequence[tuple[Part, Callable[[Amending], tuple[Sequence[New], object]]]],
        *,
        keeping: Collection[Part] = (),
    ) -> Sequence[View] | None:
        """As `write`, for several tables of the store at once: all or nothing.

        The tables in `keeping` keep the states of rows. Then makes the `changes` as by `amend`, in
        the same transaction.
        """
        await self._log.opened()
        work = self._transactions.write_all(parts, decide, changes, keeping=keeping)
        return await self._looked(lambda: self._transactions.commit(work))

    def write_now(self, decide: Callable[[View], Sequence[New] | None]) -> View | None:
        """As `write`, in any thread, without a wait; also None instead of waiting."""
        try:
            if not self._journal.may_call_here():
                return None
            return self._transactions.commit_now(self._transactions.write(self.part, decide))
        except (BusyError, ManyError):
            return None

    async def amend(self, decide: Callable[[Amending], tuple[Sequence[New], T]]) -> T:
        """Write what `decide` makes of the locks and tasks in the log, in one transaction.

        Returns its result. Reads no entries of other writers. Raises `NotKnownError` if the table
        or its version is unknown; errors of `decide` change nothing.
        """
        await self._log.opened()
        return await self._transactions.commit(self._transactions.amend(self.part, decide))

    def amend_now(self, decide: Callable[[Amending], tuple[Sequence[New], T]]) -> T | WouldBlock:
        """As `amend`, in any thread, with a short wait; WOULD_BLOCK if that takes long."""
        work = self._transactions.amend(self.part, decide)
        try:
            if not self._journal.may_call_here():
                return WOULD_BLOCK
            return retry_busy(lambda: self._transactions.commit_now(work), _SHORT_PATIENCE_SECONDS)
        except BusyError:
            return WOULD_BLOCK

    # Flush and commit

    async def make(self) -> None:
        """As `Journal.make`; not in `committing` or `folding`."""
        await self._journal.make()

    async def note(self, version: int, *, is_change: bool = True) -> None:
        """Note the version that goes with the entries; in `committing` or `folding`.

        The log exists, as a check just before has shown. `is_change` says whether the content
        differs from the previous version, as always in `committing`. If it does not, the data
        stored with the entries stays valid.
        """
        if (section := self._closed()) is not None:
            section.note(self.part, version)
        else:
            await self._do(lambda session: session.note(self.part, version, is_change=is_change))

    async def begin(self, last: int | None) -> View | None:
        """Note the entries up to `last` as the next flush, and return them."""
        if self._closed() is None and await self.exists():
            until = _NO_END if last is None else last
            await self._do(lambda session: session.begin_flush(self.part, until))
            found = await self._noted()
            last = found.folding if found else None
        view = await self.view()
        return view if view is None or last is None else view.until(last)

    async def require_held(self) -> None:
        """As `WriteAheadLog.require_held`, before a commit; in `committing` or `folding`."""
        await self._log.require_held()

    async def forget(self, last: int, version: int, *, tells_moments: bool = False) -> None:
        """Delete the entries up to `last`, now in that version; in `committing` or `folding`."""
        if (section := self._closed()) is not None:
            section.forget(self.part, last, version, tells_moments=tells_moments)
        else:
            await self._do(
                lambda session: session.forget(
                    self.part, last, version, tells_moments=tells_moments
                )
            )
            await self.keep_small()

    def is_small(self) -> bool:
        """As `WriteAheadLog.is_small`."""
        return self._journal.log.is_small()

    async def keep_small(self) -> None:
        """As `WriteAheadLog.keep_small`."""
        await self._journal.keep_log_small()

    async def doubt(self) -> int:
        """As `ExclusiveSection.doubt`; in `committing`."""
        section = self._closed()
        return 0 if section is None else await section.doubt(self.part)

    async def discard(self) -> None:
        """Delete the table and its entries at once, durably; in `committing` or `folding`."""
        if (section := self._closed()) is not None:
            await section.discard(self.part)
        elif await self.exists():
            await self._do(lambda session: session.discard(self.part))

    @asynccontextmanager
    async def folding(self) -> AsyncIterator[None]:
        """Flush in this context: no other process commits to a table of the store."""
        if self._closed() is not None:
            yield
        else:
            async with self._journal.alone():
                yield

    @asynccontextmanager
    async def committing(self) -> AsyncIterator[None]:
        """Commit in this context: no other process commits or writes to the log. Reentrant.

        Without a log, others commit concurrently, and the creator of a log waits before using it.
        """
        journal = self._journal
        if self._closed() is not None or not await journal.is_locked():
            yield
            return
        if not await journal.exists():
            async with journal.beside_others():
                if not await journal.exists():
                    yield
                    return
        async with journal.alone(), journal.closed() as closed:
            token = _section.set((journal, closed))
            try:
                yield
            finally:
                _section.reset(token)

    # Helpers

    async def _noted(self) -> TableState | None:
        return await self._journal.asked(lambda session: session.state(self.part), None)

    async def _do(self, change: Callable[[LogSession], None]) -> None:
        """Run that, all or nothing."""
        await self._transactions.commit(self._transactions.transact(change))

    async def _looked(self, look: Callable[[], Awaitable[T]]) -> T:
        """The result of `look`, which reads a table; reads many new entries stepwise."""
        while True:
            try:
                return await look()
            except ManyError as many:
                is_more = True
                while is_more:
                    is_more = await self._waiting.insist(self._transactions.prepare, many)
                    await asyncio.sleep(0)

    def _closed(self) -> ExclusiveSection | None:
        section = _section.get()
        return section[1] if section is not None and section[0] is self._journal else None
