"""The open stores of a fleet, of which those are closed that were used longest ago."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lance_context_core.errors import InvalidRequestError, StoreClosedError
from lance_context_core.fleet.catalog import TABLE
from lance_context_core.storage.locks.fencing import TableFence
from lance_context_core.storage.names import kv_table_of
from lance_context_core.storage.wal.log import Part
from lance_context_core.store.store import AsyncContextStore
from lance_context_core.types import Item

_IDLE_SECONDS = 0.5
"""A store that was used more recently is in use: a call makes pauses between its reads."""

_NOTE = (("fleet",), "shard")
"""The item in which a shard notes its own name."""


class Shard:
    """A store of the fleet, open."""

    def __init__(self, name: str, store: AsyncContextStore) -> None:
        self.name = name
        self.store = store
        self.is_closed = False
        self.used_at = time.monotonic()
        self.n_users = 0
        self._is_noted = False

    @property
    def is_fenced(self) -> bool:
        """Whether its writes can be refused by other processes, which a move needs."""
        return self.store._resources.database.root.connection.journal is not None  # noqa: SLF001

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep it open in this context."""
        self.n_users += 1
        try:
            yield
        finally:
            self.n_users -= 1
            self.used_at = time.monotonic()

    async def fence(self) -> TableFence | None:
        """Returns the fence of writes routed from now on; None without a log.

        `raise_fence` breaks all that were returned before.
        """
        if not self.is_fenced:
            return None
        items = self.store.kv(TABLE)
        if not self._is_noted:
            await self._note()
        place = self.store._resources.database.root.connection.place  # noqa: SLF001
        return TableFence(place, Part(kv_table_of(TABLE), ""), await items.version(), items.version)

    async def raise_fence(self) -> None:
        """Refuse the writes that were routed before; waits for those in progress."""
        namespace, key = _NOTE
        item = Item(namespace=namespace, key=key, value={"shard": self.name})
        await self.store.kv(TABLE).put([item])
        journal = self.store._resources.database.root.connection.journal  # noqa: SLF001
        assert journal is not None
        async with journal.alone():
            pass  # those that commit to a table beside the log had checked it before

    async def _note(self) -> None:
        """Note its name, which creates the table of the fence. Raises for another shard's store."""
        items, (namespace, key) = self.store.kv(TABLE), _NOTE
        (found,) = await items.get([_NOTE])
        if found is None and not self.store._resources.database.root.connection.is_read_only:  # noqa: SLF001
            await items.add([Item(namespace=namespace, key=key, value={"shard": self.name})])
        noted = None if found is None else (found.value or {}).get("shard")
        if noted not in (None, self.name):
            raise InvalidRequestError(
                f"the store at {self.store.uri!r} is shard {noted!r} of a fleet, and not "
                f"{self.name!r}: put the directories back under their own names"
            )
        self._is_noted = True


class Shards:
    """At most so many open stores of a fleet, and those that are in use."""

    def __init__(self, opened: Callable[[str], AsyncContextStore], max_open: int) -> None:
        """`opened` opens a shard by name, and does no I/O."""
        self._opened = opened
        self._max_open = max_open
        self._shards: OrderedDict[str, Shard] = OrderedDict()
        self._lock = threading.Lock()
        self._is_closed = False

    @property
    def n_open(self) -> int:
        """The number of open stores."""
        return len(self._shards)

    def get(self, name: str) -> Shard:
        """Returns a shard, open. Raises StoreClosedError after `close`."""
        with self._lock:
            if self._is_closed:
                raise StoreClosedError("the fleet was closed: open it again")
            if name not in self._shards:
                self._shards[name] = Shard(name, self._opened(name))
            self._shards.move_to_end(name)
            shard = self._shards[name]
            shard.used_at = time.monotonic()
            return shard

    async def trim(self) -> None:
        """Close the idle ones that are too many, those used longest ago first."""
        while (shard := self._idle()) is not None:
            await shard.store.close()

    def require_open(self) -> None:
        """Raise StoreClosedError after `close`."""
        if self._is_closed:
            raise StoreClosedError("the fleet was closed: open it again")

    async def close(self) -> None:
        """Close all; closing twice is no error."""
        with self._lock:
            self._is_closed = True
            shards, self._shards = [*self._shards.values()], OrderedDict()
        for shard in shards:
            shard.is_closed = True
            await shard.store.close()

    def _idle(self) -> Shard | None:
        """Take out the one that was used longest ago, if there are too many and it is idle."""
        with self._lock:
            if len(self._shards) <= self._max_open:
                return None
            now = time.monotonic()
            for name, shard in self._shards.items():
                if not shard.n_users and now - shard.used_at >= _IDLE_SECONDS:
                    shard.is_closed = True
                    return self._shards.pop(name)
            return None
