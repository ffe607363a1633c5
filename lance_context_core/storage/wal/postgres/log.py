"""The log of a store in PostgreSQL: its sessions, its lock between machines, and its identity."""

import asyncio
import threading
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from lance_context_core._util.crowd import FairLock
from lance_context_core.errors import InternalError, StorageError
from lance_context_core.storage.lifecycle import Lifecycle
from lance_context_core.storage.wal.log import BusyError, LogSession, Part, ServerClock, StoreId
from lance_context_core.storage.wal.postgres import schema
from lance_context_core.storage.wal.postgres.locks import NamedLocks, key_of
from lance_context_core.storage.wal.postgres.server import (
    LOST_LOCK,
    UNKNOWN,
    WAY_OUT,
    WENT_BACK,
    Address,
    Server,
    Watch,
    end_quietly,
    server_of,
)
from lance_context_core.storage.wal.postgres.session import PostgresSession
from lance_context_core.storage.wal.postgres.transaction import text_of

_PATIENCE_SECONDS = 600
"""As in a directory: how long a commit to a table waits for another one."""

_QUEUE_SECONDS = 5
"""How long one call waits in the server's queue for the lock."""

_LOCKS = 0x4C43 << 48
"""The first of the advisory locks, one for each store."""

_ELSEWHERE = "is in another place, too"
_NONE_HERE = "has no write-ahead log of this store"

Guard = Callable[..., AbstractAsyncContextManager[None]]
"""As `WriteAheadLog.held`."""

Fence = Callable[[Sequence[Part]], Awaitable[None]]
"""Makes the commits to these tables fail that another process has begun."""

_BEGIN_EPOCH = """
UPDATE lance_context.stores AS s SET epoch = s.epoch + 1, is_free = false
FROM (SELECT id, is_free FROM lance_context.stores WHERE id = %b FOR UPDATE) AS before
WHERE s.id = before.id RETURNING s.epoch, before.is_free
"""
_END_EPOCH = "UPDATE lance_context.stores SET is_free = true WHERE id = %b AND epoch = %b"
_IN_DOUBT = "SELECT name, ref FROM lance_context.tables WHERE store = %b AND (folding > folded OR version < 0)"


class _Row(NamedTuple):
    """A store in the database."""

    number: int
    place: str


class PostgresLog:
    """The log of one store in a database; satisfies `WriteAheadLog`."""

    is_quick = False

    def __init__(
        self,
        server: Server,
        place: str,
        id: StoreId,
        guard: Guard,
        *,
        life: Lifecycle,
        read_consistency: timedelta | None,
        fence: Fence | None = None,
    ) -> None:
        """The log of the store at `place`, which has `id`; connects with the first call.

        A connection may be lost in a commit, and with it the lock on the server. `guard` excludes
        the other committers of this machine as long as the process lives, where it can. Where it
        cannot, `fence` is called with the tables that may have such a commit, before another
        process commits.
        """
        self.path: Path | str = f"{server.address!r}, of {place}"
        self.lock = threading.Lock()
        self.session: PostgresSession | None = None
        self.identity: object | None = None
        self.on_loss: Callable[[], None] = lambda: None
        self._server = server
        self._place = place
        self._id = id
        self._life = life
        self._watch = Watch(self._server, read_consistency)
        self._guard = guard
        self._fence = fence
        self._holding: Any = None
        """The connection that has the exclusive lock."""
        self._making = FairLock()
        self._named = NamedLocks(server)

    def is_open(self) -> bool:
        """As `WriteAheadLog.is_open`."""
        if not self._life.is_open:
            self._life.require()
        return self.session is not None

    async def opened(self) -> PostgresSession | None:
        """As `WriteAheadLog.opened`."""
        if not self._life.is_open:
            self._life.require()
        self._life.is_there()
        if self.session is None and (id := await self._id.read()) is not None:
            row = await asyncio.to_thread(self._find, id)
            self._life.require()
            with self.lock:
                if self.session is None:
                    self.session = PostgresSession(self._watch, row.number)
                    self.identity = id
        return self.session

    async def make(self) -> None:
        """As `WriteAheadLog.make`."""
        async with self._making.held():
            if await self.opened() is None:
                await asyncio.to_thread(schema.make, self._server)
                connection = await asyncio.to_thread(
                    self._locked, key_of(self._place), shared=False
                )
                try:
                    if await self._id.read() is None:
                        id = uuid.uuid4().hex
                        await asyncio.to_thread(self._add, id)
                        if not await self._id.write(id):
                            # Its creator uses another database: `opened` says so.
                            await asyncio.to_thread(self._remove, id)
                finally:
                    await asyncio.to_thread(self._server.end_lock, connection)
                await self.opened()

    def shared(self) -> PostgresSession:
        """As `WriteAheadLog.shared`."""
        if self.session is None:
            raise StorageError(
                f"the write-ahead log {self.path!r} was closed: nothing was written, try again"
            )
        return self.session

    async def take(self) -> PostgresSession:
        """As `WriteAheadLog.take`."""
        return PostgresSession(self._watch, self.shared().store, is_private=True)

    def give_back(self, session: LogSession) -> None:
        """As `WriteAheadLog.give_back`."""
        session.close()

    def close(self) -> None:
        """As `WriteAheadLog.close`; connections belong to the process."""
        with self.lock:
            if self.session is not None:
                self.session.close()
            self.session = self.identity = None
            self.on_loss()

    # Committers

    async def may_be_used(self) -> bool:
        """As `WriteAheadLog.may_be_used`: all machines ask the same server."""
        return True

    def is_guarded(self) -> bool:
        """As `WriteAheadLog.is_guarded`."""
        return True

    def held(
        self, *, shared: bool, refusal: Callable[[float], Exception]
    ) -> AbstractAsyncContextManager[None]:
        """As `WriteAheadLog.held`, by an advisory lock; creates the log if absent."""
        return self._held(shared=shared, refusal=refusal)

    @asynccontextmanager
    async def locked(
        self, name: str, *, patience_seconds: float, refusal: Callable[[], Exception]
    ) -> AsyncIterator[Callable[[], None]]:
        """As `StoreLocks.locked`; creates nothing.

        Machines may name a directory differently, and the id of a store does not exist before its
        log: so it locks both.
        """
        id = None if await self.opened() is None else str(self.identity)
        owners = [self._place] if id is None else [self._place, id]
        async with self._named.locked(
            name, owners, patience_seconds=patience_seconds, refusal=refusal
        ) as require:
            yield require

    async def require_held(self) -> None:
        """As `WriteAheadLog.require_held`."""
        if self._watch.epoch is not None and not await asyncio.to_thread(self._is_held):
            raise StorageError(LOST_LOCK.format(self._server.address.host))

    # Upkeep

    def is_small(self) -> bool:
        """As `WriteAheadLog.is_small`: the server vacuums."""
        return True

    def keep_small(self) -> None:
        """As `WriteAheadLog.keep_small`."""

    def shrink(self) -> None:
        """As `WriteAheadLog.shrink`."""

    def wipe(self) -> None:
        """As `WriteAheadLog.wipe`, as far as a client may: then vacuums the table of entries."""
        store = self.shared().store
        with self._server.connection() as connection:
            for name in ("removals", "tasks", "task_needs", "task_heads", "task_tokens"):
                connection.execute(f"DELETE FROM lance_context.{name} WHERE store = %b", [store])
            with suppress(psycopg.Error):  # another vacuum runs, or the role is not the owner
                connection.execute("VACUUM lance_context.entries, lance_context.removals")

    def is_lost(self, error: StorageError) -> bool:
        """As `WriteAheadLog.is_lost`."""
        return any(one in str(error) for one in (UNKNOWN, WENT_BACK, _ELSEWHERE, _NONE_HERE))

    def set_aside(self) -> None:
        """As `WriteAheadLog.set_aside`; what the database has of a log that went back is used."""
        went_back = WENT_BACK in self._watch.lost
        self._watch.lost, self._watch.last = "", 0
        if not went_back:
            self._id.forget()

    def faults(self) -> list[str]:
        """As `WriteAheadLog.faults`."""
        return []

    def copy_to(self, directory: Path) -> None:
        """Not supported: a copy has the flushed rows."""
        raise InternalError(
            f"the write-ahead log {self.path!r} cannot be copied to {str(directory)!r}"
        )

    # Helpers

    def _find(self, id: str) -> _Row:
        """The store with that id. Raises StorageError if the database has none, or it is another's."""
        if not schema.exists(self._server):
            raise StorageError(
                f"the database {self._server.address!r} {_NONE_HERE}: name the one that it was made "
                f"in. {WAY_OUT}"
            )
        with self._server.connection() as connection:
            asked = "SELECT id, place FROM lance_context.stores WHERE name = %s"
            found = connection.execute(asked, [id]).fetchone()
        if found is None:
            raise StorageError(
                f"the database {self._server.address!r} {_NONE_HERE}: name the one that it was made "
                f"in. {WAY_OUT}"
            )
        row = _Row(*found)
        if row.place != self._place:
            if self._id.is_also_at(row.place, id):
                raise StorageError(
                    f"the store with the id of {self._place!r} {_ELSEWHERE}: {row.place!r}. One is a "
                    "copy of the other: call accept_loss() on the copy, and it gets its own id, "
                    "without rows that were not flushed before the copy"
                )
            with self._server.connection() as connection:
                moved = "UPDATE lance_context.stores SET place = %s WHERE id = %s"
                connection.execute(moved, [self._place, row.number])
        return row

    def _add(self, id: str) -> None:
        with self._server.connection() as connection:
            added = "INSERT INTO lance_context.stores (name, place) VALUES (%s, %s)"
            connection.execute(added, [id, self._place])

    def _remove(self, id: str) -> None:
        with self._server.connection() as connection:
            connection.execute("DELETE FROM lance_context.stores WHERE name = %s", [id])

    @asynccontextmanager
    async def _held(
        self, *, shared: bool, refusal: Callable[[float], Exception]
    ) -> AsyncIterator[None]:
        if await self.opened() is None:
            await self.make()
        store = self.shared().store
        async with (
            self._guard(shared=shared, refusal=refusal),
            self._locked_in(_LOCKS + store, shared=shared, refusal=refusal) as connection,
        ):
            if shared:
                yield
                return
            began = asyncio.to_thread(self._begin_epoch, connection, store)
            self._watch.epoch, is_clean = epoch, _ = await began
            self._holding = connection
            try:
                if self._fence is not None and not is_clean:
                    await self._fence(await asyncio.to_thread(self._in_doubt, connection, store))
                yield
                if self._fence is not None:
                    # Not after an error: a request of a commit may be under way still.
                    await asyncio.to_thread(self._end_epoch, connection, store, epoch)
            finally:
                self._watch.epoch = self._holding = None

    @asynccontextmanager
    async def _locked_in(
        self, key: int, *, shared: bool, refusal: Callable[[float], Exception]
    ) -> AsyncIterator[Any]:
        """Hold an advisory lock in this context."""
        taking = asyncio.ensure_future(
            asyncio.to_thread(self._locked, key, shared=shared, refusal=refusal)
        )
        try:
            connection = await asyncio.shield(taking)
        except asyncio.CancelledError:
            taking.add_done_callback(self._drop)
            raise
        try:
            yield connection
        finally:
            await asyncio.shield(asyncio.to_thread(self._server.end_lock, connection))

    def _drop(self, taken: "asyncio.Future[Any]") -> None:
        if not taken.cancelled() and taken.exception() is None:
            end_quietly(taken.result())

    def _locked(
        self, key: int, *, shared: bool, refusal: Callable[[float], Exception] | None = None
    ) -> Any:
        """A connection of its own that has that advisory lock."""
        until, kind = time.monotonic() + _PATIENCE_SECONDS, "_shared" if shared else ""
        connection = self._server.begin_lock(_QUEUE_SECONDS)
        while True:
            try:
                with self._server.translated():
                    connection.execute(f"SELECT pg_advisory_lock{kind}(%b)", [key])
            except BusyError:
                if time.monotonic() > until:
                    end_quietly(connection)
                    raise (refusal or _late)(_PATIENCE_SECONDS) from None
            except BaseException:
                end_quietly(connection)
                raise
            else:
                return connection

    def _begin_epoch(self, connection: Any, store: int) -> tuple[int, bool]:
        """The number of this lock, and whether the holder before has released it."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                with self._server.translated():
                    found = connection.execute(_BEGIN_EPOCH, [store]).fetchone()
            except BusyError:
                if time.monotonic() > until:
                    raise
            else:
                if found is None:
                    self._watch.see(None)
                return int(found[0]), bool(found[1])

    def _end_epoch(self, connection: Any, store: int, epoch: int) -> None:
        """Note that nothing of this holder is under way; without it the next one fences more."""
        with suppress(psycopg.Error):
            connection.execute(_END_EPOCH, [store, epoch])

    def _in_doubt(self, connection: Any, store: int) -> list[Part]:
        """The tables to which the holder before may still commit."""
        with self._server.translated():
            found = connection.execute(_IN_DOUBT, [store], binary=True).fetchall()
        return [Part(*map(text_of, row)) for row in found]

    def _is_held(self) -> bool:
        """Whether the connection with the lock lives, and no other had the lock since."""
        asked = "SELECT epoch FROM lance_context.stores WHERE id = %b"
        try:
            found = self._holding.execute(asked, [self.shared().store]).fetchone()
        except psycopg.Error:
            return False
        return found is not None and found[0] == self._watch.epoch


def postgres_log(
    address: str, place: str, id: StoreId, guard: Guard, *, is_synced: bool, **options: Any
) -> tuple[PostgresLog, ServerClock]:
    """The log of the store at `place` in the database at `address`, and the server's clock.

    Raises InvalidRequestError if that is not an address; it does not connect yet.
    """
    server = server_of(Address(address), is_synced=is_synced)
    return PostgresLog(server, place, id, guard, **options), server


def _late(seconds: float) -> Exception:
    return StorageError(f"another process kept the lock of the store for {seconds} seconds")
