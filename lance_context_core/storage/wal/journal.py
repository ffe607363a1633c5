"""The journal of a store: small writes, acknowledged by one transaction of SQLite, until they are folded.

Two locks keep the tables and the journal one. Whoever commits to a table has the store's lock alone
(`alone`); whoever writes there otherwise than by folding also keeps others from the journal (`closed`),
so that what it writes has a place among the entries. Nobody else waits: entries are written while
others fold, and reads need no lock: the journal says which version of a table goes with its entries.
"""

import asyncio
import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from lance_context_core._loop import WOULD_BLOCK, WouldBlock
from lance_context_core._util.crowd import FairLock
from lance_context_core.errors import StorageError
from lance_context_core.storage.file_locks import is_shared, locked
from lance_context_core.storage.lifecycle import Lifecycle
from lance_context_core.storage.wal import sqlite
from lance_context_core.storage.wal.connection_pool import ConnectionPool, Waiting, retry_busy
from lance_context_core.storage.wal.entries import is_whole
from lance_context_core.storage.wal.log_reader import LogReaders
from lance_context_core.storage.wal.policy import JournalPolicy
from lance_context_core.storage.wal.sqlite import Part
from lance_context_core.storage.wal.transactions import Transactions

# The lock of a store: whoever commits to a table has it, and alone once there is a journal.

LOCK = "journal.lock"
"""The file that is locked, in the directory of the store."""


_PATIENCE_SECONDS = 600
"""How long a commit to a table waits for somebody else's, which may bring a million rows."""


@asynccontextmanager
async def held(
    root: Path, *, shared: bool, refusal: Callable[[float], Exception]
) -> AsyncIterator[None]:
    """Have the lock of the store in that directory, which is made if it is absent.

    Alone, or beside others who share it. Of those in this process who want it alone one at a time asks
    the system for it, and the others queue behind. Raises a `refusal` of so many seconds where somebody
    else has it for longer.
    """
    lock, seconds = root / LOCK, _PATIENCE_SECONDS
    async with AsyncExitStack() as stack:
        if not shared:
            try:
                await stack.enter_async_context(_queue(root).held(seconds))
            except TimeoutError:
                raise refusal(seconds) from None
        if not lock.exists():
            await asyncio.to_thread(_make, lock)
        await stack.enter_async_context(
            locked(lock, shared=shared, patience_seconds=seconds, refusal=lambda: refusal(seconds))
        )
        yield


_mine: ContextVar[frozenset[Path]] = ContextVar("_mine", default=frozenset())
"""The directories of which this task, or the one that began it, has the lock alone."""

_queues: WeakValueDictionary[str, FairLock] = WeakValueDictionary()
"""Those of this process who wait for the lock of a store, by its directory."""
_queues_lock = threading.Lock()


def _queue(root: Path) -> FairLock:
    with _queues_lock:
        return _queues.setdefault(str(root), FairLock())


def _forget_queues() -> None:
    """In a child: who waited before the fork does not wait there."""
    global _queues_lock  # noqa: PLW0603 - another thread may have had it at the fork
    _queues_lock = threading.Lock()
    _queues.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_queues)


def exists(root: Path) -> bool:
    """Whether anybody has had the lock of the store in that directory."""
    return (root / LOCK).exists()


def make_root(root: Path) -> None:
    """Make the directory of a store."""
    with sqlite.translated_os(root):
        root.mkdir(parents=True, exist_ok=True)


def _make(lock: Path) -> None:
    make_root(lock.parent)
    with sqlite.translated_os(lock):
        # Who may only read can wait for it too.
        os.close(os.open(lock, os.O_RDONLY | os.O_CREAT, 0o666))


# The journal while whoever commits to a table keeps all others from writing into it.


class ExclusiveSection:
    """The journal while nobody else writes into it."""

    def __init__(
        self, connection: sqlite3.Connection, path: Path, begin: Callable[[], Awaitable[None]]
    ) -> None:
        self._connection = connection
        self._path = path
        self._begin = begin

    def note(self, part: Part, version: int) -> None:
        """As `TableLog.note`, of a change."""
        self._do(sqlite.noted(part, version))

    def forget(self, part: Part, last: int, version: int, *, tells_moments: bool) -> None:
        """As `TableLog.forget`."""
        self._do(sqlite.forgotten(part, last, version, tells_moments=tells_moments))

    async def doubt(self, part: Part) -> int:
        """Do not know the version of a table, which has no entries, until one is noted.

        That, and all that was forgotten, is so whatever becomes of this process: what is committed
        to the table next must not meet entries that were folded before. Returns the version, which
        the journal keeps as that before; 0 if it was not known.
        """
        with sqlite.translated(self._path):
            found = self._connection.execute(sqlite.TABLE, part).fetchone()
        self._do([(sqlite.DOUBTED, tuple(part))])
        await self._secure()
        return 0 if found is None else max(int(found[1]), 0)

    async def discard(self, part: Part) -> None:
        """Let go of a table, with its entries, whatever becomes of this process."""
        self._do(sqlite.discarded(part))
        await self._secure()

    async def _secure(self) -> None:
        with sqlite.translated(self._path):
            self._connection.execute("COMMIT")
        await self._begin()

    def _do(self, done: sqlite.Statements) -> None:
        with sqlite.translated(self._path):
            for statement, values in done:
                self._connection.execute(statement, values)


@asynccontextmanager
async def exclusive_section(
    ways: ConnectionPool,
    waiting: Waiting,
    path: Path,
    require: Callable[[sqlite3.Connection], None],
) -> AsyncIterator[ExclusiveSection]:
    """Keep all others from writing into the journal at `path`, through a connection of one's own.

    Each transaction of it begins with what is to `require`, which may raise.
    """
    await ways.opened()
    connection = await ways.take()

    async def begin() -> None:
        await waiting.insist(_begin, connection, path, require)

    try:
        await begin()
        try:
            yield ExclusiveSection(connection, path, begin)
        finally:
            await waiting.insist(_end, connection, path)
    finally:
        ways.give_back(connection)


def _begin(
    connection: sqlite3.Connection, path: Path, require: Callable[[sqlite3.Connection], None]
) -> None:
    with sqlite.translated(path):
        connection.execute("BEGIN IMMEDIATE")
        try:
            require(connection)
        except BaseException:
            connection.execute("ROLLBACK")
            raise


def _end(connection: sqlite3.Connection, path: Path) -> None:
    if not connection.in_transaction:
        return
    try:
        with sqlite.translated(path):
            connection.execute("COMMIT")
    except StorageError as error:
        # The table has it, and the journal does not know: it is seen after the next fold.
        raise StorageError(
            f"what was to be written may have been committed or not: look before you repeat it: {error}"
        ) from error


T = TypeVar("T")

_MOST_LOG_BYTES = 4 * 1024 * 1024
"""What SQLite's log may grow to until it is moved into the database, which takes a millisecond or two."""

_WIPE_SECONDS = 10
"""How long wiping waits for a moment without readers: they need microseconds, unless they are stopped."""


class Journal:
    """Safe to share between threads and loops; nothing is made before the first write."""

    def __init__(
        self,
        root: Path,
        policy: JournalPolicy | None,
        *,
        is_synced: bool,
        life: Lifecycle,
    ) -> None:
        """That of the store in the directory `root`; without a `policy` it takes nothing new.

        Nor does it where nothing may be written, nor where other machines may have that directory: SQLite could not keep them apart.

        It is used as long as `life` lasts.
        """
        self._policy = None if life.is_read_only else policy
        self._has_others: bool | None = None
        """Whether other machines may have the directory; None if nobody has asked."""
        self._root = root
        self.path = root / sqlite.NAME
        """Where its file is, or would be."""
        self._is_synced = is_synced
        self._life = life
        self.mirrors = LogReaders(self.path)
        self.waiting = Waiting(self.path)
        self.ways = ConnectionPool(
            self.path,
            self.waiting,
            is_synced=is_synced,
            life=life,
            on_loss=self.mirrors.clear,
        )
        self.transactions = Transactions(root, self.ways, self.mirrors, self.waiting)

    def on_break(self, forget: Callable[[Part], None]) -> None:
        """Have `forget` called where a table was changed otherwise than by entries that were seen."""
        self.mirrors.on_break.append(forget)

    async def is_locked(self) -> bool:
        """Whether whoever commits here has to have the store's lock."""
        return await self.is_kept() or exists(self._root)

    async def policy(self) -> JournalPolicy | None:
        """What it takes; None if it takes nothing new."""
        return self._policy if self._policy is not None and await self.is_kept() else None

    async def is_kept(self) -> bool:
        """Whether its database can be used at all: no other machine may have the directory."""
        if self._has_others is None:
            self._has_others = await asyncio.to_thread(is_shared, self._root)
        return not self._has_others

    # Reading

    async def parts(self) -> list[Part]:
        """The tables of which it holds something."""
        statement = "SELECT DISTINCT name, ref FROM rows JOIN tables ON tables.id = rows.tbl"
        return [Part(*row) for row in await self.asked(statement)]

    async def known(self) -> list[Part]:
        """The tables, each on each of its refs, of which it has noted a version."""
        return [Part(*row) for row in await self.asked(sqlite.PARTS)]

    @property
    def identity(self) -> object | None:
        """Another one where the file was removed or replaced; None until it was looked at."""
        return self.ways.identity

    async def refs(self, name: str) -> list[str]:
        """The refs of a table that it knows; empty for main."""
        return [ref for (ref,) in await self.asked(sqlite.REFS, (name,))]

    async def removals(self, part: Part, after: int, until: int) -> dict[str, int]:
        """When rows of the table were removed in that time, by key, in microseconds; of the last month."""
        return dict(await self.asked(sqlite.REMOVALS, (*part, after, until)))

    async def exists(self) -> bool:
        """Whether the store has a journal."""
        return await self.ways.opened() is not None

    # Making and wiping it

    async def make(self) -> None:
        """Make the journal, unless there is one.

        Who began a commit before that has ended it once one has had the store's lock alone. To wait
        for that lock first could take for ever, where others share it without a pause.
        """
        self._life.require_writable()
        if not await self.exists():
            await asyncio.to_thread(make_root, self._root)
            # As who makes a table.
            async with locked(self._root):
                await self.ways.opened(is_made=True)

    async def wipe(self) -> bool:
        """Leave nothing of entries that were folded or discarded in the file or in memory.

        What is there stays. False if others kept reading it: something may be left in the file until
        the next time.
        """
        with self.ways.lock:
            self.mirrors.reduce_past()
        if await self.ways.opened() is None:
            return True
        async with self.alone():
            try:
                await asyncio.to_thread(retry_busy, lambda: sqlite.wipe(self.path), _WIPE_SECONDS)
            except sqlite.BusyError:
                return False
            return True

    async def accept_loss(self) -> str:
        """Go on without a journal that is missing, damaged or another's; returns what was wrong.

        Empty if nothing was. What is there is kept under another name; where single rows are damaged,
        these go. Raises StorageError if the journal cannot be used for another reason.
        """
        try:
            rows = await self.asked(sqlite.ALL)
        except StorageError as error:
            if not sqlite.is_lost(self.path, error):
                raise
            self.close()
            await asyncio.to_thread(sqlite.set_aside, self.path)
            return str(error)
        lost = [row[0] for row in rows if not is_whole(*row)]
        if lost:
            await self.transactions.commit(self.transactions.do(sqlite.lost(lost)))
        return f"{len(lost)} rows of the journal {str(self.path)!r} are damaged" if lost else ""

    async def keep_log_small(self) -> None:
        """Move what is in the log into the database, if it has become much."""
        if sqlite.log_bytes(self.path) > _MOST_LOG_BYTES:
            await asyncio.to_thread(sqlite.checkpoint, self.path, is_synced=self._is_synced)

    async def shrink(self) -> None:
        """Give back the room of entries that were folded, if it is much; not now if others write."""
        if await self.ways.opened() is None:
            return
        async with self.alone():
            with suppress(sqlite.BusyError):
                await asyncio.to_thread(sqlite.shrink, self.path)

    # What else lives in its database

    async def transact(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do `work`, which must be quick, in a transaction of its own; the journal must exist."""
        self._life.require_writable()
        await self.ways.opened()
        return await self.transactions.commit(self.transactions.transact(work))

    def transact_now(self, work: Callable[[sqlite3.Connection], T]) -> T | WouldBlock:
        """As `transact`, in any thread and without a wait; WOULD_BLOCK where one would have to wait."""
        self._life.require_writable()
        try:
            if not self.ways.is_open():
                return WOULD_BLOCK
            return self.transactions.commit_now(self.transactions.transact(work))
        except sqlite.BusyError:
            return WOULD_BLOCK

    async def ask(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do `work`, which reads with one statement; the journal must exist."""
        await self.ways.opened()
        return await self.waiting.insist(self.transactions.ask, work)

    async def asked(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """What the file says; nothing if there is none."""
        if await self.ways.opened() is None:
            return []
        return await self.waiting.insist(self.transactions.asked, statement, values)

    # Locks

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Commit to a table in here: nobody else does."""
        self._require()
        async with held(self._root, shared=False, refusal=self.waiting.locked):
            token = _mine.set(_mine.get() | {self._root})
            try:
                yield
            finally:
                _mine.reset(token)

    @asynccontextmanager
    async def beside_others(self) -> AsyncIterator[None]:
        """Commit to a table in here, as others may who do so too. May stand in `alone`."""
        self._require()
        if self._root in _mine.get():
            yield
            return
        async with held(self._root, shared=True, refusal=self.waiting.locked):
            yield

    def closed(self) -> AbstractAsyncContextManager[ExclusiveSection]:
        """Keep all others from writing into the journal; for who has the store's lock."""
        return exclusive_section(
            self.ways, self.waiting, self.path, self.transactions.require_fences
        )

    def close(self) -> None:
        """Let go of the file; closing twice is no error."""
        self.ways.close()

    def _require(self) -> None:
        """Raise for a store that may not be written to, or whose directory a lock would make anew."""
        self._life.require_writable()
        self._life.is_there()
