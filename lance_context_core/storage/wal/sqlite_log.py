"""The log of a store in a directory: its SQLite file, connections, and store lock."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from weakref import WeakValueDictionary

from lance_context_core._util.crowd import FairLock
from lance_context_core.errors import StorageError
from lance_context_core.storage.file_locks import is_shared, locked
from lance_context_core.storage.lifecycle import Lifecycle
from lance_context_core.storage.wal import identity, sqlite, sqlite_tasks
from lance_context_core.storage.wal.log import LogSession
from lance_context_core.storage.wal.sqlite_session import SqliteSession
from lance_context_core.storage.wal.waiting import Waiting

# The store's lock between processes: a file that the system locks.

LOCK = "journal.lock"
"""The name of the lock file, in the directory of the store."""


_PATIENCE_SECONDS = 600
"""How long a commit to a table waits for another one, which may bring a million rows."""


@asynccontextmanager
async def held_here(
    root: Path, *, shared: bool, refusal: Callable[[float], Exception]
) -> AsyncIterator[None]:
    """Hold the store lock of that directory, which is created if missing.

    Exclusive, or shared. Of the exclusive requests of this process one at a time asks the system,
    and the others queue behind it. Raises `refusal(seconds)` if another holder keeps it for that
    long.
    """
    lock, seconds = root / LOCK, _PATIENCE_SECONDS
    async with AsyncExitStack() as stack:
        if not shared:
            await _take_turn(stack, _queue(root), refusal)
        if not lock.exists():
            await asyncio.to_thread(_make, lock)
        await stack.enter_async_context(
            locked(lock, shared=shared, patience_seconds=seconds, refusal=lambda: refusal(seconds))
        )
        yield


@asynccontextmanager
async def queued(
    place: str, *, shared: bool, refusal: Callable[[float], Exception]
) -> AsyncIterator[None]:
    """As `held_here`, for a store without a directory: excludes only this process's tasks."""
    async with AsyncExitStack() as stack:
        if not shared:
            await _take_turn(stack, _queue(place), refusal)
        yield


async def _take_turn(
    stack: AsyncExitStack, queue: FairLock, refusal: Callable[[float], Exception]
) -> None:
    try:
        await stack.enter_async_context(queue.held(_PATIENCE_SECONDS))
    except TimeoutError:
        raise refusal(_PATIENCE_SECONDS) from None


_queues: WeakValueDictionary[str, FairLock] = WeakValueDictionary()
"""The waiters of this process for the lock of a store, by its directory."""
_queues_lock = threading.Lock()


def _queue(root: Path | str) -> FairLock:
    with _queues_lock:
        return _queues.setdefault(str(root), FairLock())


def _forget_queues() -> None:
    """In a child process: drop the waiters from before the fork."""
    global _queues_lock  # noqa: PLW0603 - another thread may have had it at the fork
    _queues_lock = threading.Lock()
    _queues.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_queues)


def _make_root(root: Path) -> None:
    """Create the directory of a store."""
    with sqlite.translated_os(root):
        root.mkdir(parents=True, exist_ok=True)


def _make(lock: Path) -> None:
    _make_root(lock.parent)
    with sqlite.translated_os(lock):
        # A reader without write access can wait for it too.
        os.close(os.open(lock, os.O_RDONLY | os.O_CREAT, 0o666))


# The log.

_MOST_LOG_BYTES = 1024 * 1024
"""The size of SQLite's own log that triggers a checkpoint, which takes a millisecond or two."""


class SqliteLog:
    """The log in an SQLite file next to the tables; satisfies `WriteAheadLog`.

    Keeps one spare connection besides the shared one.
    """

    is_quick = True

    def __init__(
        self,
        root: Path,
        *,
        is_synced: bool,
        life: Lifecycle,
    ) -> None:
        """The log of the store in `root`, valid while `life` lasts; opens nothing yet."""
        self.path = root / sqlite.NAME
        self.lock = threading.Lock()
        self.session: SqliteSession | None = None
        self.identity: object | None = None
        self.on_loss: Callable[[], None] = lambda: None
        self._root = root
        self._waiting = Waiting(self.path)
        self._is_synced = is_synced
        self._life = life
        self._is_still = False
        """Whether the connection shows no later writes."""
        self._spare: SqliteSession | None = None
        self._has_others: bool | None = None
        """Whether other machines may share the directory; None if unchecked."""

    def is_open(self) -> bool:
        """Whether the shared connection exists and still leads to the file; see `opened`."""
        if not self._life.is_open:
            self._life.require()
        found = self._found()
        return found == self.identity and found is not None

    async def opened(self) -> SqliteSession | None:
        """As `WriteAheadLog.opened`."""
        return await self._opened(is_made=False)

    async def make(self) -> None:
        """As `WriteAheadLog.make`."""
        await asyncio.to_thread(_make_root, self._root)
        # The same way in which a table is created.
        async with locked(self._root):
            await self._opened(is_made=True)

    async def _opened(self, *, is_made: bool) -> SqliteSession | None:
        if not self._life.is_open:
            self._life.require()
        found = self._found()
        if found == self.identity and found is not None:
            return self.session
        # It may have gone with the whole store, or belong to another one.
        self._life.is_there()
        if found is None:
            if self.identity is not None:
                self.close()
            identity.require_none(self.path)
            if not is_made:
                return None
        return await asyncio.to_thread(self._open, is_made=is_made)

    def shared(self) -> SqliteSession:
        """The shared connection; requires the lock. Raises StorageError if the log is gone."""
        if self.session is None:
            raise self._gone()
        return self.session

    async def take(self) -> SqliteSession:
        """A private connection: everybody would share a transaction of the shared one."""
        with self.lock:
            spare, self._spare = self._spare, None
        if spare is not None:
            return spare
        if (way := await asyncio.to_thread(self._connected)) is None:
            raise self._gone()
        return SqliteSession(way.connection, self.path)

    def give_back(self, session: LogSession) -> None:
        """As `WriteAheadLog.give_back`."""
        with self.lock:
            is_kept = self._spare is None and self.session is not None
            if is_kept and isinstance(session, SqliteSession) and not session.in_transaction:
                self._spare = session
                return
        session.close()

    def close(self) -> None:
        """Close the file; closing twice is no error."""
        with self.lock:
            self._let_go()

    # Committers

    async def may_be_used(self) -> bool:
        """As `WriteAheadLog.may_be_used`: no other machine may share the directory."""
        if self._has_others is None:
            self._has_others = await asyncio.to_thread(is_shared, self._root)
        return not self._has_others

    def is_guarded(self) -> bool:
        """As `WriteAheadLog.is_guarded`: once the lock file exists."""
        return (self._root / LOCK).exists()

    def held(
        self, *, shared: bool, refusal: Callable[[float], Exception]
    ) -> AbstractAsyncContextManager[None]:
        """As `WriteAheadLog.held`, by a file lock; the file is created if missing."""
        return held_here(self._root, shared=shared, refusal=refusal)

    async def require_held(self) -> None:
        """As `WriteAheadLog.require_held`: the system keeps the lock while the process lives."""

    # Upkeep

    def keep_small(self) -> None:
        """As `WriteAheadLog.keep_small`."""
        if sqlite.log_bytes(self.path) > _MOST_LOG_BYTES:
            sqlite.checkpoint(self.path, is_synced=self._is_synced)

    def is_small(self) -> bool:
        """Whether `keep_small` has nothing to do."""
        return sqlite.log_bytes(self.path) <= _MOST_LOG_BYTES

    def shrink(self) -> None:
        """As `WriteAheadLog.shrink`."""
        sqlite.shrink(self.path)

    def wipe(self) -> None:
        """As `WriteAheadLog.wipe`."""
        sqlite.wipe(self.path, sqlite_tasks.forget)

    def is_lost(self, error: StorageError) -> bool:
        """As `WriteAheadLog.is_lost`."""
        return sqlite.is_lost(self.path, error)

    def set_aside(self) -> None:
        """As `WriteAheadLog.set_aside`: renames the file."""
        sqlite.set_aside(self.path)

    def faults(self) -> list[str]:
        """As `WriteAheadLog.faults`."""
        with self.lock, sqlite.translated(self.path):
            told = self.shared().connection.execute("PRAGMA integrity_check").fetchall()
        return [str(one) for (one,) in told if one != "ok"]

    def copy_to(self, directory: Path) -> None:
        """As `WriteAheadLog.copy_to`."""
        with self.lock, sqlite.translated(self.path):
            to = str(directory / sqlite.NAME)
            self.shared().connection.execute("VACUUM INTO ?", [to])

    # Helpers

    def _found(self) -> object | None:
        """A value that changes when the connection leads to no file; None without a log."""
        try:
            status = os.stat(self.path)  # noqa: PTH116 - a `Path` asks in thrice the time, at every look
        except OSError:
            return None
        if not self._is_still:
            return status.st_ino
        log = sqlite.stamp(sqlite.log_of(self.path))
        return status.st_ino, status.st_mtime_ns, status.st_size, log

    def _open(self, *, is_made: bool) -> SqliteSession | None:
        with self.lock:
            found = self._found()
            if self.session is not None and self.identity == found:
                return self.session
            self._let_go()
            if sqlite.is_absent(self.path):
                identity.require_none(self.path)
            if is_made:
                self._waiting.until_free(
                    lambda: sqlite.create(self.path, is_synced=self._is_synced)
                )
            elif found is None:
                return None
            if (way := self._connected()) is None:
                return None
            self._is_still = way.is_still
            self.session = SqliteSession(way.connection, self.path)
            self.identity = self._found()
            return self.session

    def _connected(self) -> sqlite.Way | None:
        return self._waiting.until_free(
            lambda: sqlite.connect(
                self.path, is_synced=self._is_synced, is_read_only=self._life.is_read_only
            )
        )

    def _let_go(self) -> None:
        for session in (self.session, self._spare):
            if session is not None:
                session.close()
        self.session = self._spare = self.identity = None
        self._is_still = False
        self.on_loss()

    def _gone(self) -> StorageError:
        return StorageError(
            f"the write-ahead log {str(self.path)!r} was removed or replaced during the write: nothing was "
            "written, try again"
        )
