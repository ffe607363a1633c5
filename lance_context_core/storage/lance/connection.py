"""A connection to LanceDB: opened on demand, and again when its caches grow too large.

The engine's index cache may grow to 6 GiB, and keeps parts of indexes that have been rebuilt. A
fixed limit would make each search read a large vector index from disk. So the caches are restarted
once they have doubled: that drops unused entries, and costs one more read of the used ones.
"""

import asyncio
import atexit
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import lancedb

from lance_context_core._loop import end_at_exit
from lance_context_core._util.crowd import SharedCall
from lance_context_core._util.extras import require
from lance_context_core.errors import (
    ContextStoreError,
    InvalidRequestError,
    NotFoundError,
    ReadOnlyError,
    StorageError,
    StoreFormatError,
)
from lance_context_core.storage.lance import contention, probe, relocation
from lance_context_core.storage.lance.durability import Durability, syncer_of
from lance_context_core.storage.lance.errors import asked, damaged, is_damage, is_panic
from lance_context_core.storage.lance.indexes import TextIndex
from lance_context_core.storage.lance.locations import normalised
from lance_context_core.storage.lifecycle import Lifecycle
from lance_context_core.storage.names import shown_name
from lance_context_core.storage.remote_repair import RemoteRepair
from lance_context_core.storage.repair import Lacking, Repair
from lance_context_core.storage.wal.identity import NAME as ID
from lance_context_core.storage.wal.identity import FileId
from lance_context_core.storage.wal.journal import Journal
from lance_context_core.storage.wal.log import Part, ServerClock, StoreId, WriteAheadLog
from lance_context_core.storage.wal.object_id import TABLE as ID_TABLE
from lance_context_core.storage.wal.object_id import ObjectId
from lance_context_core.storage.wal.policy import JournalPolicy
from lance_context_core.storage.wal.sqlite import NAME as JOURNAL
from lance_context_core.storage.wal.sqlite_log import SqliteLog, held_here, queued

atexit.register(contention.rest_at_exit)  # between the end of the loop and that of the engine
end_at_exit()  # once the engine is imported: before its own end

_MEMORY = "memory://"
"""A store that disappears with its connection."""

_METADATA_BYTES = 64 * 1024 * 1024
"""The size of the engine's manifest cache: by default 1 GiB, and each commit uses 140 KB."""

_EVERY_N_LOOKS = 256
"""The uses of tables between two checks of the caches: each check counts every part. After the
first such number, the caches hold the data in use."""

_SLACK_BYTES = 16 * 1024 * 1024
"""The minimum growth of the caches, however little is in use."""


class Connection:
    """The location of a store and access to its tables; safe for threads and loops.

    Reads, writes and connects only with the first call that needs it.
    """

    def __init__(
        self,
        uri: str | Path,
        *,
        storage_options: Mapping[str, str] | None = None,
        read_consistency: timedelta | None = timedelta(0),
        text_index: TextIndex | None = None,
        durability: Durability = "process",
        journal: JournalPolicy | None = None,
        is_read_only: bool = False,
    ) -> None:
        """For that location; see `ContextStore.open` for the arguments."""
        if not isinstance(storage_options, Mapping | None):
            raise InvalidRequestError(f"storage_options={storage_options!r}: give a dict of texts")
        self.uri = normalised(uri)
        if Path(self.uri).is_absolute():
            self.uri = relocation.known_as(self.uri)
        self.life = Lifecycle(self.uri, is_read_only=is_read_only)
        self.read_consistency = read_consistency
        self.text_index = text_index or TextIndex()
        self.syncer = syncer_of(self.uri, durability)
        """Makes commits durable; None if it has nothing to do."""
        self.journal: Journal | None = None
        """Accepts small writes; None if it cannot."""
        self.clock: ServerClock | None = None
        """That of the server that has the log; None where it is in a file."""
        self.root = place if (place := Path(self.uri)).is_absolute() else None
        """The directory of the store; None if it is on an object store, or in memory."""
        self.storage_options = {key: str(value) for key, value in (storage_options or {}).items()}
        log = self._log_of(journal, is_synced=durability == "fsync")
        if log is not None:
            self.journal = Journal(log, journal, place=self.uri, life=self.life)
        self._mending: Repair | RemoteRepair | None = None
        if self.journal is not None and self.root is not None:
            self._mending = Repair(
                self.root, self.journal, self.syncer, self._opened, may_write=not is_read_only
            )
        elif self.journal is not None:
            self._mending = RemoteRepair(self.journal, self._opened, may_write=not is_read_only)
        self.on_commit: Callable[[Any], None] | None = None
        """Called with the table of each commit; must be quick."""
        self.on_write: Callable[[Any], None] | None = None
        """Called with the table of each write, once it is acknowledged, in any thread; must be quick."""
        self.on_move: Callable[[str, str | None], None] | None = None
        """Called with the name and the ref of a table when a read finds a new version whose content
        no log describes; must be quick."""
        self.n_renewals = 0
        """The number of reconnections: older handles must be opened again."""
        self.turns = threading.Lock()
        """The lock of operations on the whole store, where no directory provides one."""
        self._engine: Any = None
        self._connecting: SharedCall[Any] = SharedCall()
        """One connection for concurrent first calls: of two to `memory://` one lists no tables."""
        self._caches = Caches()
        self._lock = threading.Lock()
        self._is_placed = False
        """Whether a move or copy of the directory has been checked for."""
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._displaced = ""
        """Why branches and tags name another path; empty if they do not."""

    def _log_of(self, policy: JournalPolicy | None, *, is_synced: bool) -> WriteAheadLog | None:
        """The log: where the policy says, or in a file of a directory; None if neither."""
        root = self.root
        if policy is None or policy.address is None:
            return None if root is None else SqliteLog(root, is_synced=is_synced, life=self.life)
        if self.uri.startswith(_MEMORY):
            raise InvalidRequestError(
                "journal=…: a store in memory:// ends with its process, and has no write-ahead log: open it "
                "without an address, or give a directory or an object store"
            )
        require("psycopg", extra="postgres", by="a write-ahead log in PostgreSQL")
        require("psycopg_pool", extra="postgres", by="a write-ahead log in PostgreSQL")
        from lance_context_core.storage.wal.postgres.log import postgres_log

        id: StoreId
        if root is None:
            id, guard = ObjectId(self.uri, self.storage_options), partial(queued, self.uri)
        else:
            id, guard = FileId(root, is_synced=is_synced), partial(held_here, root)
        log, self.clock = postgres_log(
            policy.address,
            self.uri,
            id,
            guard,
            is_synced=is_synced,
            life=self.life,
            read_consistency=self.read_consistency,
            fence=self._fence if root is None else None,
        )
        return log

    async def _fence(self, parts: Sequence[Part]) -> None:
        """As `RemoteRepair.fence`."""
        if isinstance(self._mending, RemoteRepair):
            await self._mending.fence(parts)

    @property
    def place(self) -> object:
        """A value that two connections to the same store share."""
        return self if self.uri.startswith(_MEMORY) else self.uri

    async def engine(self) -> Any:
        """The engine's connection, opened by the first call; see `Life`."""
        self.require_usable()
        return self._engine or await self._connecting.of(self._connected)

    async def existing(self) -> Any | None:
        """As `engine`; None if no store exists, which the engine would create."""
        if not self.life.is_open:
            self.life.require()
        if self.journal is not None and not await asyncio.to_thread(self.life.is_there):
            return None
        return self._engine or await self._connecting.of(self._connected)

    async def _connected(self) -> Any:
        if self._engine is not None:
            return self._engine
        await probe.require_known()
        await self._settled()
        connecting = lancedb.connect_async(
            self.uri,
            storage_options=self.storage_options or None,
            session=self._caches.session,
        )
        made = await asked(f"open {self.uri!r}", connecting)
        if self.life.is_there():
            await asyncio.to_thread(self.life.hold)
        if self.root is None:
            try:
                await self._require_log(made)
            except BaseException:
                made.close()  # type: ignore[no-untyped-call]  # the engine has no types
                raise
        with self._lock:
            self._engine = made
        return made

    async def _require_log(self, made: Any) -> None:
        """Raise StorageError if the store on an object store has a log, and this has no address.

        Raises NotFoundError if it is only read, and absent.
        """
        has_address = self.journal is not None
        if self.uri.startswith(_MEMORY) or (has_address and not self.is_read_only):
            return
        found = await listed(made, self.uri)
        if ID_TABLE in found and not has_address:
            raise StorageError(
                f"the store at {self.uri!r} has its write-ahead log in PostgreSQL: open it with "
                'journal="postgresql://…", since it has entries that are in no table yet'
            )
        if self.is_read_only and not found:
            raise self._absent()

    async def _settled(self) -> None:
        """Update the paths of branches and tags if the directory was moved or copied.

        Before any repair: both need the store's lock.
        """
        if not self._is_placed and self.root is not None and self.journal is not None:
            await self._settle_place(self.root, self.journal)

    async def _settle_place(self, root: Path, journal: Journal) -> None:
        if not await asyncio.to_thread(relocation.is_settled, root):
            try:
                async with journal.alone():
                    # Another process may have done it.
                    if not await asyncio.to_thread(relocation.is_settled, root):
                        await asyncio.to_thread(relocation.settle, root)
            except (OSError, ReadOnlyError, StorageError) as error:
                if await asyncio.to_thread(relocation.is_foreign, root):
                    self._displaced = str(error)
        self._is_placed = True

    async def record_place(self) -> None:
        """Record the path that branches and tags name, before one is created; if possible."""
        if self.root is not None and not self._displaced:
            with suppress(OSError):
                is_synced = self.syncer is not None
                await asyncio.to_thread(relocation.record, self.root, is_synced=is_synced)

    def require_placed(self, label: str) -> None:
        """Raise StorageError if branches and tags name another path; before reads of `label`."""
        if self._displaced:
            raise StorageError(
                f"cannot read a branch or a tag of {label}: the store was moved or copied to "
                f"{self.uri!r}, and its branches and tags still name the place where they were made. "
                f"Open it once where it may be written ({self._displaced})"
            )

    async def table(self, name: str) -> Any:
        """A new engine handle of a table's main branch. Raises NotFoundError if it is missing."""
        self.require_usable()
        await self.mend(name)
        try:
            return await self._opened(name)
        except StorageError as error:
            await self.explain(error, name)
            raise

    async def _opened(self, name: str) -> Any:
        engine = self._engine or await self._connecting.of(self._connected)
        return await asked(f"open {shown_name(name)}", engine.open_table(name))

    async def mend(
        self, name: str, ref: str | None = None, *, is_kept: bool = True, is_again: bool = False
    ) -> None:
        """As `Repair.mend`, if applicable; before the table is opened or read."""
        if self._mending is not None:
            await self._settled()
            await self._mending.mend(name, ref, is_kept=is_kept, is_again=is_again)

    async def know(self, name: str, ref: str | None, handle: Any) -> None:
        """As `Repair.know`, if the store has a log."""
        if self._mending is not None:
            await self._mending.know(name, ref, handle)

    async def accept(self, name: str, ref: str) -> bool:
        """As `Repair.accept`, for a store with a log."""
        return self._mending is not None and await self._mending.accept(name, ref)

    async def lacking(self, besides: str, *, is_damaged: bool = False) -> list[Lacking]:
        """As `Repair.lacking`; empty if it cannot be known."""
        if self._mending is None:
            return []
        await self._settled()
        return await self._mending.lacking(besides, is_damaged=is_damaged)

    @asynccontextmanager
    async def making(self, name: str, ref: str) -> AsyncIterator[None]:
        """As `Repair.making`, if that is promised."""
        if self._mending is None or self.syncer is None:
            yield
        else:
            async with self._mending.making(name, ref):
                yield

    async def explain(
        self, error: ContextStoreError, name: str, ref: str | None = None, *, is_read: bool = False
    ) -> None:
        """Raise it with the file and the remedy if its cause is a damaged version.

        With `is_read` the table could be opened, and its rows are read to find the file.
        """
        if self._mending is None:
            return
        if is_damage(error):
            damage = await self._mending.damage(name, ref)
            if not damage and is_read:
                damage = await self._mending.unreadable(name, ref)
            raise StorageError(f"{error}{damage}") from error.__cause__
        damage = ""
        if isinstance(error, StoreFormatError):
            damage = await self._mending.damage(name, ref)
        elif is_read and is_panic(error):
            damage = await self._mending.unreadable(name, ref)
        if damage:
            raise damaged(f"read {shown_name(name)}", damage) from error

    @property
    def is_read_only(self) -> bool:
        """Whether the store is read-only, and the disk stays unchanged."""
        return self.life.is_read_only

    def require_writable(self) -> None:
        """Raise ReadOnlyError if the store was opened read-only."""
        self.life.require_writable()

    def require_store(self) -> None:
        """Raise NotFoundError if no store exists here, as far as the disk shows."""
        if self.uri.startswith(_MEMORY):
            raise self._absent()
        root = self.root
        if root is not None and not (
            any(root.glob("*.lance")) or (root / JOURNAL).exists() or (root / ID).exists()
        ):
            raise self._absent()

    def _absent(self) -> NotFoundError:
        return NotFoundError(
            f"no store exists at {self.uri!r}, and read_only=True does not create one: pass another place, "
            "or write to it first"
        )

    def require_usable(self) -> None:
        """Raise as `Life` if the store is closed, or its directory is gone."""
        if not self.life.is_open:
            self.life.require()
        self.life.is_there()

    def require_sound(self) -> None:
        """Raise StorageError if new writes could be lost unnoticed."""
        if self.syncer is not None:
            self.syncer.require_sound()

    def keep_caches_small(self) -> None:
        """Reconnect, which reopens every table, if the caches hold much unused data.

        Call it at each use of a table; running calls continue on the former handle.
        """
        if self._caches.are_outgrown() and not self.uri.startswith(_MEMORY):
            with self._lock:
                self._caches, self._engine = Caches(), None
                self.n_renewals += 1

    def scratch(self) -> Path:
        """A private directory, deleted with the connection."""
        with self._lock:
            if self._scratch is None:
                self._scratch = tempfile.TemporaryDirectory(prefix="lance-context-")
            return Path(self._scratch.name)

    def close(self) -> None:
        """Close the engine's connection; closing twice is no error."""
        self.life.close()
        if self._scratch is not None:
            self._scratch.cleanup()
        if self.journal is not None:
            self.journal.close()
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()


async def listed(engine: Any, uri: str) -> list[str]:
    """The names in the engine's listing of tables."""
    names: list[str] = []
    token = None
    while True:
        page = await asked(f"list the tables of {uri!r}", engine.list_tables(page_token=token))
        names.extend(page.tables)
        if not (token := page.page_token):
            return names


class Caches:
    """The engine's caches of one connection."""

    def __init__(self) -> None:
        """Starts empty."""
        self.session: Any = lancedb.Session(metadata_cache_size_bytes=_METADATA_BYTES)
        """The session for the engine's connections."""
        self._n_looks = 0
        self._settled_bytes: int | None = None

    def are_outgrown(self) -> bool:
        """Whether they have doubled the size in use; call it at each use of a table."""
        self._n_looks += 1
        if self._n_looks % _EVERY_N_LOOKS:
            return False
        size: int = self.session.size_bytes
        if self._settled_bytes is None:
            self._settled_bytes = size
            return False
        return size > 2 * self._settled_bytes + _SLACK_BYTES
