"""The write-ahead log of a store: commits small writes to SQLite until a flush.

Two locks keep the tables and the log consistent. A commit to a table holds the store's lock
(`alone`); a direct write also excludes other writers from the log (`closed`), so that its rows have
a position among the entries. Nothing else waits: entries are written during a flush, and reads need
no lock, because the log knows which version of a table goes with its entries.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TypeVar

from lance_context_core._loop import WOULD_BLOCK, WouldBlock
from lance_context_core.errors import StorageError
from lance_context_core.storage.lifecycle import Lifecycle
from lance_context_core.storage.wal.entries import is_whole
from lance_context_core.storage.wal.log import BusyError, LogSession, Part, Stored, WriteAheadLog
from lance_context_core.storage.wal.log_reader import LogReaders
from lance_context_core.storage.wal.policy import JournalPolicy
from lance_context_core.storage.wal.transactions import Transactions
from lance_context_core.storage.wal.waiting import Waiting, retry_busy

# Exclusive access to the log during a direct commit to a table.


class ExclusiveSection:
    """The log while no other writer writes into it."""

    def __init__(
        self, session: LogSession, waiting: Waiting, begin: Callable[[], Awaitable[None]]
    ) -> None:
        self._session = session
        self._waiting = waiting
        self._begin = begin

    def note(self, part: Part, version: int) -> None:
        """As `TableLog.note`, for a change."""
        self._session.note(part, version)

    def forget(self, part: Part, last: int, version: int, *, tells_moments: bool) -> None:
        """As `TableLog.forget`."""
        self._session.forget(part, last, version, tells_moments=tells_moments)

    async def doubt(self, part: Part) -> int:
        """Mark the version of a table without entries as unknown until one is noted.

        This, like everything that was forgotten, is durable even if the process is killed: the next
        commit to the table must not meet entries that are flushed already. Returns the version,
        which the log keeps as the previous one; 0 if it was not known.
        """
        found = await self._waiting.insist(self._session.state, part)
        self._session.doubt(part)
        await self._secure()
        return 0 if found is None else max(found.version, 0)

    async def discard(self, part: Part) -> None:
        """Delete a table and its entries from the log, durably."""
        self._session.discard(part)
        await self._secure()

    async def _secure(self) -> None:
        await self._waiting.insist(self._session.commit)
        await self._begin()


@asynccontextmanager
async def exclusive_section(
    log: WriteAheadLog, waiting: Waiting, require: Callable[[LogSession], None]
) -> AsyncIterator[ExclusiveSection]:
    """Exclude other writers from the log, through a session of its own.

    Each transaction starts with `require`, which may raise.
    """
    await log.opened()
    session = await log.take()

    async def begin() -> None:
        await waiting.insist(_begin, session, require)

    try:
        await begin()
        try:
            yield ExclusiveSection(session, waiting, begin)
        finally:
            await waiting.insist(_end, session)
    finally:
        log.give_back(session)


def _begin(session: LogSession, require: Callable[[LogSession], None]) -> None:
    session.begin()
    try:
        require(session)
    except BaseException:
        session.undo()
        raise


def _end(session: LogSession) -> None:
    if not session.in_transaction:
        return
    try:
        session.commit()
    except StorageError as error:
        # The table has it and the log does not know: the next flush shows it.
        raise StorageError(
            f"the write may or may not have been committed. Read before you repeat it: {error}"
        ) from error


_mine: ContextVar[frozenset[Path | str]] = ContextVar("_mine", default=frozenset())
"""The paths of the logs whose stores this task, or its parent, has locked exclusively."""

T = TypeVar("T")

_WIPE_SECONDS = 10
"""How long wiping waits for a moment without readers: a read takes microseconds unless it is
stopped."""


class Journal:
    """A store's log; safe for threads and loops; creates nothing before the first write."""

    def __init__(
        self,
        log: WriteAheadLog,
        policy: JournalPolicy | None,
        *,
        place: object,
        life: Lifecycle,
    ) -> None:
        """The store's part of `log`; accepts no new entries without a `policy`.

        Nor if the store is read-only, or if the log cannot keep all writers apart.

        Valid while `life` lasts.
        """
        self.log = log
        self.path = log.path
        """The path of the log, existing or not."""
        self._policy = None if life.is_read_only else policy
        self._life = life
        self.mirrors = LogReaders(log.path)
        log.on_loss = self.mirrors.clear
        self.waiting = Waiting(log.path, is_quick=log.is_quick)
        self.transactions = Transactions(place, log, self.mirrors, self.waiting)

    def on_break(self, forget: Callable[[Part], None]) -> None:
        """Subscribe to changes of the table that did not come from entries seen here."""
        self.mirrors.on_break.append(forget)

    async def is_locked(self) -> bool:
        """Whether a commit here has to hold the store's lock."""
        return await self.is_kept() or self.log.is_guarded()

    async def policy(self) -> JournalPolicy | None:
        """The policy; None if the log accepts no new entries."""
        return self._policy if self._policy is not None and await self.is_kept() else None

    async def is_kept(self) -> bool:
        """As `WriteAheadLog.may_be_used`."""
        return await self.log.may_be_used()

    # Reading

    async def parts(self) -> list[Part]:
        """The tables that have entries."""
        return await self.asked(lambda session: session.parts_with_entries(), [])

    async def known(self) -> list[Part]:
        """The tables, each on each of its refs, with a noted version."""
        return await self.asked(lambda session: session.parts(), [])

    @property
    def identity(self) -> object | None:
        """A value that changes when the log is removed or replaced; None until checked."""
        return self.log.identity

    async def refs(self, name: str) -> list[str]:
        """The known refs of a table; empty for main."""
        return await self.asked(lambda session: session.refs(name), [])

    async def removals(self, part: Part, after: int, until: int) -> dict[str, int]:
        """When rows were removed in that time, by key, in microseconds; covers the last month."""
        return await self.asked(lambda session: session.removals(part, after, until), {})

    async def exists(self) -> bool:
        """Whether the store has a log."""
        return await self.log.opened() is not None

    async def faults(self) -> list[str]:
        """As `WriteAheadLog.faults`; the log must exist."""
        return await self.waiting.insist(self.log.faults)

    async def copy_to(self, directory: Path) -> None:
        """As `WriteAheadLog.copy_to`; the log must exist."""
        await self.waiting.insist(self.log.copy_to, directory)

    # Creation and wiping

    async def make(self) -> None:
        """Create the log if it is absent.

        Commits that began before it end before the store's exclusive lock is granted. Waiting for
        that lock first could take forever if others share it without a pause.
        """
        self._life.require_writable()
        if not await self.exists():
            await self.log.make()

    async def wipe(self) -> bool:
        """Wipe flushed and discarded entries from the file and from memory.

        Live entries stay. Returns False if readers prevented it: then some may be left in the file
        until the next wipe.
        """

        def reduce() -> None:
            with self.log.lock:
                self.mirrors.reduce_past()

        await self.waiting.insist(reduce)
        if await self.log.opened() is None:
            return True
        async with self.alone():
            try:
                await asyncio.to_thread(retry_busy, self.log.wipe, _WIPE_SECONDS)
            except BusyError:
                return False
            return True

    async def accept_loss(self) -> str:
        """Continue without a missing, damaged or foreign log; returns the fault.

        Empty if there was none. Renames the existing log; if only single rows are damaged, deletes
        those. Raises StorageError if the log cannot be used for another reason.
        """
        try:
            rows: list[Stored] = await self.asked(lambda session: session.all_entries(), [])
        except StorageError as error:
            if not self.log.is_lost(error):
                raise
            self.close()
            await asyncio.to_thread(self.log.set_aside)
            return str(error)
        lost = [row[0] for row in rows if not is_whole(*row)]
        if lost:
            change = self.transactions.transact(lambda session: session.lose(lost))
            await self.transactions.commit(change)
        return (
            f"{len(lost)} rows of the write-ahead log {str(self.path)!r} are damaged"
            if lost
            else ""
        )

    async def keep_log_small(self) -> None:
        """As `WriteAheadLog.keep_small`."""
        if not self.log.is_small():
            await asyncio.to_thread(self.log.keep_small)

    async def shrink(self) -> None:
        """Return the disk space of flushed entries if it is much; skipped while others write."""
        if await self.log.opened() is None:
            return
        async with self.alone():
            with suppress(BusyError):
                await asyncio.to_thread(self.log.shrink)

    # Locks and tasks in the log

    async def transact(self, work: Callable[[LogSession], T]) -> T:
        """Run `work`, which must be quick, in its own transaction; the log must exist."""
        self._life.require_writable()
        await self.log.opened()
        return await self.transactions.commit(self.transactions.transact(work))

    def transact_now(self, work: Callable[[LogSession], T]) -> T | WouldBlock:
        """As `transact`, in any thread, without a wait; WOULD_BLOCK if it would have to wait."""
        self._life.require_writable()
        try:
            if not self.may_call_here():
                return WOULD_BLOCK
            return self.transactions.commit_now(self.transactions.transact(work))
        except BusyError:
            return WOULD_BLOCK

    def may_call_here(self) -> bool:
        """Whether this thread may call the log now: if it is open, and blocks no event loop."""
        if not self.log.is_open():
            return False
        return self.log.is_quick or asyncio._get_running_loop() is None  # noqa: SLF001 - the public one raises where none runs

    async def ask(self, work: Callable[[LogSession], T]) -> T:
        """Run `work`, which reads with one statement; the log must exist."""
        await self.log.opened()
        return await self.waiting.insist(self.transactions.ask, work)

    async def asked(self, work: Callable[[LogSession], T], absent: T) -> T:
        """The result of `work`, which reads with one call; `absent` if no log exists."""
        if await self.log.opened() is None:
            return absent
        return await self.waiting.insist(self.transactions.asked, work, absent)

    # Locks

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Commit to a table exclusively."""
        self._require()
        async with self.log.held(shared=False, refusal=self.waiting.locked):
            token = _mine.set(_mine.get() | {self.path})
            try:
                yield
            finally:
                _mine.reset(token)

    def is_alone(self) -> bool:
        """Whether this task, or its parent, has the store in `alone`."""
        return self.path in _mine.get()

    @asynccontextmanager
    async def beside_others(self) -> AsyncIterator[None]:
        """Commit to a table, shared with other committers. May run inside `alone`."""
        self._require()
        if self.is_alone():
            yield
            return
        async with self.log.held(shared=True, refusal=self.waiting.locked):
            yield

    def closed(self) -> AbstractAsyncContextManager[ExclusiveSection]:
        """Exclude other writers from the log; requires the store's lock."""
        return exclusive_section(self.log, self.waiting, self.transactions.require_fences)

    def close(self) -> None:
        """Close the file; closing twice is no error."""
        self.log.close()

    def _require(self) -> None:
        """Raise for a read-only store, or one whose directory a lock would create again."""
        self._life.require_writable()
        self._life.is_there()
