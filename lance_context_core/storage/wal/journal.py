"""The journal of a store: small writes, acknowledged by one transaction of SQLite, until they are folded.

Two locks keep the tables and the journal one. Whoever commits to a table has the store's lock alone
(`alone`); whoever writes there otherwise than by folding also keeps others from the journal (`closed`),
so that what it writes has a place among the entries. Nobody else waits: entries are written while
others fold, and reads need no lock: the journal says which version of a table goes with its entries.
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

# The journal while whoever commits to a table keeps all others from writing into it.


class ExclusiveSection:
    """The journal while nobody else writes into it."""

    def __init__(self, session: LogSession, begin: Callable[[], Awaitable[None]]) -> None:
        self._session = session
        self._begin = begin

    def note(self, part: Part, version: int) -> None:
        """As `TableLog.note`, of a change."""
        self._session.note(part, version)

    def forget(self, part: Part, last: int, version: int, *, tells_moments: bool) -> None:
        """As `TableLog.forget`."""
        self._session.forget(part, last, version, tells_moments=tells_moments)

    async def doubt(self, part: Part) -> int:
        """Do not know the version of a table, which has no entries, until one is noted.

        That, and all that was forgotten, is so whatever becomes of this process: what is committed
        to the table next must not meet entries that were folded before. Returns the version, which
        the journal keeps as that before; 0 if it was not known.
        """
        found = self._session.state(part)
        self._session.doubt(part)
        await self._secure()
        return 0 if found is None else max(found.version, 0)

    async def discard(self, part: Part) -> None:
        """Let go of a table, with its entries, whatever becomes of this process."""
        self._session.discard(part)
        await self._secure()

    async def _secure(self) -> None:
        self._session.commit()
        await self._begin()


@asynccontextmanager
async def exclusive_section(
    log: WriteAheadLog, waiting: Waiting, require: Callable[[LogSession], None]
) -> AsyncIterator[ExclusiveSection]:
    """Keep all others from writing into the log, through a session of one's own.

    Each transaction of it begins with what is to `require`, which may raise.
    """
    await log.opened()
    session = await log.take()

    async def begin() -> None:
        await waiting.insist(_begin, session, require)

    try:
        await begin()
        try:
            yield ExclusiveSection(session, begin)
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
        # The table has it, and the journal does not know: it is seen after the next fold.
        raise StorageError(
            f"what was to be written may have been committed or not: look before you repeat it: {error}"
        ) from error


_mine: ContextVar[frozenset[Path]] = ContextVar("_mine", default=frozenset())
"""The places of the logs of which this task, or the one that began it, has the store alone."""

T = TypeVar("T")

_WIPE_SECONDS = 10
"""How long wiping waits for a moment without readers: they need microseconds, unless they are stopped."""


class Journal:
    """Safe to share between threads and loops; nothing is made before the first write."""

    def __init__(
        self,
        log: WriteAheadLog,
        policy: JournalPolicy | None,
        *,
        place: object,
        life: Lifecycle,
    ) -> None:
        """What `log` keeps of the store at that place; without a `policy` it takes nothing new.

        Nor does it where nothing may be written, nor where the log could not keep all who write apart.

        It is used as long as `life` lasts.
        """
        self.log = log
        self.path = log.path
        """Where it is, or would be."""
        self._policy = None if life.is_read_only else policy
        self._life = life
        self.mirrors = LogReaders(log.path)
        log.on_loss = self.mirrors.clear
        self.waiting = Waiting(log.path)
        self.transactions = Transactions(place, log, self.mirrors, self.waiting)

    def on_break(self, forget: Callable[[Part], None]) -> None:
        """Have `forget` called where a table was changed otherwise than by entries that were seen."""
        self.mirrors.on_break.append(forget)

    async def is_locked(self) -> bool:
        """Whether whoever commits here has to have the store's lock."""
        return await self.is_kept() or self.log.is_guarded()

    async def policy(self) -> JournalPolicy | None:
        """What it takes; None if it takes nothing new."""
        return self._policy if self._policy is not None and await self.is_kept() else None

    async def is_kept(self) -> bool:
        """As `WriteAheadLog.may_be_used`."""
        return await self.log.may_be_used()

    # Reading

    async def parts(self) -> list[Part]:
        """The tables of which it holds something."""
        return await self.asked(lambda session: session.parts_with_entries(), [])

    async def known(self) -> list[Part]:
        """The tables, each on each of its refs, of which it has noted a version."""
        return await self.asked(lambda session: session.parts(), [])

    @property
    def identity(self) -> object | None:
        """Another one where it was removed or replaced; None until it was looked at."""
        return self.log.identity

    async def refs(self, name: str) -> list[str]:
        """The refs of a table that it knows; empty for main."""
        return await self.asked(lambda session: session.refs(name), [])

    async def removals(self, part: Part, after: int, until: int) -> dict[str, int]:
        """When rows of the table were removed in that time, by key, in microseconds; of the last month."""
        return await self.asked(lambda session: session.removals(part, after, until), {})

    async def exists(self) -> bool:
        """Whether the store has a journal."""
        return await self.log.opened() is not None

    async def faults(self) -> list[str]:
        """As `WriteAheadLog.faults`; the journal must exist."""
        return await self.waiting.insist(self.log.faults)

    async def copy_to(self, directory: Path) -> None:
        """As `WriteAheadLog.copy_to`; the journal must exist."""
        await self.waiting.insist(self.log.copy_to, directory)

    # Making and wiping it

    async def make(self) -> None:
        """Make the journal, unless there is one.

        Who began a commit before that has ended it once one has had the store's lock alone. To wait
        for that lock first could take for ever, where others share it without a pause.
        """
        self._life.require_writable()
        if not await self.exists():
            await self.log.make()

    async def wipe(self) -> bool:
        """Leave nothing of entries that were folded or discarded in the file or in memory.

        What is there stays. False if others kept reading it: something may be left in the file until
        the next time.
        """
        with self.log.lock:
            self.mirrors.reduce_past()
        if await self.log.opened() is None:
            return True
        async with self.alone():
            try:
                await asyncio.to_thread(retry_busy, self.log.wipe, _WIPE_SECONDS)
            except BusyError:
                return False
            return True

    async def accept_loss(self) -> str:
        """Go on without a journal that is missing, damaged or another's; returns what was wrong.

        Empty if nothing was. What is there is kept under another name; where single rows are damaged,
        these go. Raises StorageError if the journal cannot be used for another reason.
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
        return f"{len(lost)} rows of the journal {str(self.path)!r} are damaged" if lost else ""

    async def keep_log_small(self) -> None:
        """As `WriteAheadLog.keep_small`."""
        if not self.log.is_small():
            await asyncio.to_thread(self.log.keep_small)

    async def shrink(self) -> None:
        """Give back the room of entries that were folded, if it is much; not now if others write."""
        if await self.log.opened() is None:
            return
        async with self.alone():
            with suppress(BusyError):
                await asyncio.to_thread(self.log.shrink)

    # What else is kept in it

    async def transact(self, work: Callable[[LogSession], T]) -> T:
        """Do `work`, which must be quick, in a transaction of its own; the journal must exist."""
        self._life.require_writable()
        await self.log.opened()
        return await self.transactions.commit(self.transactions.transact(work))

    def transact_now(self, work: Callable[[LogSession], T]) -> T | WouldBlock:
        """As `transact`, in any thread and without a wait; WOULD_BLOCK where one would have to wait."""
        self._life.require_writable()
        try:
            if not self.log.is_open():
                return WOULD_BLOCK
            return self.transactions.commit_now(self.transactions.transact(work))
        except BusyError:
            return WOULD_BLOCK

    async def ask(self, work: Callable[[LogSession], T]) -> T:
        """Do `work`, which reads with one statement; the journal must exist."""
        await self.log.opened()
        return await self.waiting.insist(self.transactions.ask, work)

    async def asked(self, work: Callable[[LogSession], T], absent: T) -> T:
        """What `work` reads with one call; `absent` if there is no journal."""
        if await self.log.opened() is None:
            return absent
        return await self.waiting.insist(self.transactions.asked, work, absent)

    # Locks

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Commit to a table in here: nobody else does."""
        self._require()
        async with self.log.held(shared=False, refusal=self.waiting.locked):
            token = _mine.set(_mine.get() | {self.path})
            try:
                yield
            finally:
                _mine.reset(token)

    @asynccontextmanager
    async def beside_others(self) -> AsyncIterator[None]:
        """Commit to a table in here, as others may who do so too. May stand in `alone`."""
        self._require()
        if self.path in _mine.get():
            yield
            return
        async with self.log.held(shared=True, refusal=self.waiting.locked):
            yield

    def closed(self) -> AbstractAsyncContextManager[ExclusiveSection]:
        """Keep all others from writing into the journal; for who has the store's lock."""
        return exclusive_section(self.log, self.waiting, self.transactions.require_fences)

    def close(self) -> None:
        """Let go of the file; closing twice is no error."""
        self.log.close()

    def _require(self) -> None:
        """Raise for a store that may not be written to, or whose directory a lock would make anew."""
        self._life.require_writable()
        self._life.is_there()
