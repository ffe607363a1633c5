"""The way of a call to the shard of its tenant, also while the tenant is moved.

A process looks a placement up once in half a second, and a move waits that long between announcing
itself and the change; so no read uses an older placement. A write depends on a fence in the shard,
which a move raises: one that was routed before is refused, and routed again.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from datetime import timedelta
from typing import TypeVar

from lance_context_core._util.frozen import frozen
from lance_context_core._util.lru import forget_all
from lance_context_core.errors import ConflictError, StoreClosedError
from lance_context_core.fleet.catalog import Catalog, TenantPlacement
from lance_context_core.fleet.shards import Shard, Shards
from lance_context_core.storage.locks import fencing

T = TypeVar("T")

FRESH_SECONDS = 0.5
"""How long a placement is used without a look at the catalog."""

BLOCK = timedelta(seconds=30)
"""How long a move may block the writes of a tenant: then it is taken to be interrupted."""

_PAUSE_SECONDS = 0.005


@frozen
class Place:
    """Where a tenant is, as of one look at the catalog."""

    shard: Shard
    placement: TenantPlacement
    fence: fencing.TableFence | None
    token: int
    """The catalog's token at that time."""


class Route:
    """The way to one tenant's data; safe to share between tasks, threads and loops."""

    def __init__(self, catalog: Catalog, shards: Shards, tenant: str) -> None:
        self.catalog = catalog
        self.tenant = tenant
        self._shards = shards
        self._place: Place | None = None
        self._checked_at = 0.0

    @property
    def now(self) -> Place | None:
        """The place, if it was looked up a moment ago and its store is open."""
        place = self._place
        return place if place is not None and self._is_fresh(place) else None

    @property
    def last(self) -> Place | None:
        """The place as last looked up."""
        return self._place

    def shard(self, name: str) -> Shard:
        """A shard by name, open."""
        return self._shards.get(name)

    def default(self) -> Shard:
        """The shard to begin at, before the first look."""
        return self._shards.get("0")

    async def place(self) -> Place:
        """Returns the place to read from."""
        if (place := self.now) is not None:
            return place
        place, began = self._place, time.monotonic()
        self._shards.require_open()
        if place is None or place.placement.is_moving or place.shard.is_closed:
            return await self._looked_up()
        await self.catalog.n_shards()
        if await self.catalog.token() != place.token:
            return await self._looked_up()
        self._checked_at = began
        return place

    async def place_to_write(self) -> Place:
        """Returns the place to write to; waits while a move copies the last rows."""
        place = await self.place()
        while (until := place.placement.blocked_until) is not None:
            if self.catalog.store.clock.now() > until:
                # The move did not end: its copy is to be erased, and the data stays.
                before = place.placement
                left = {"moving_to": None, "leaving": before.moving_to, "blocked_until": None}
                with suppress(ConflictError):  # others were faster
                    await self.catalog.change(before, **left)
            await asyncio.sleep(_PAUSE_SECONDS)
            place = await self._looked_up()
        return place

    async def read(self, ask: Callable[[Place], Awaitable[T]]) -> T:
        """Returns the answer of the shard that has the tenant."""
        while True:
            place = await self.place()
            try:
                with place.shard.in_use():
                    answer = await ask(place)
            except StoreClosedError:
                self._shards.require_open()
                if not place.shard.is_closed:
                    raise
                continue
            if place is self._place and self._is_recent():
                return answer
            # It took long: a move may have erased the rows meanwhile.
            now = (await self.place()).placement
            is_here = now.shard == place.placement.shard
            if now.revision == place.placement.revision or (is_here and now.is_moving):
                return answer

    async def write(self, ask: Callable[[Place], Awaitable[T]]) -> T:
        """Returns the answer to a write, which is repeated if nothing was written before a move."""
        while True:
            place = await self.place_to_write()
            try:
                await self._require_locks()
                with ExitStack() as held:
                    held.enter_context(place.shard.in_use())
                    if place.fence is not None:
                        held.enter_context(fencing.fenced(place.fence))
                    return await ask(place)
            except fencing.TableChangedError:
                self.forget()
            except StoreClosedError:
                self._shards.require_open()
                if not place.shard.is_closed:
                    raise

    def forget(self) -> None:
        """Look the place up at the next call."""
        self._place = None

    # Helpers

    async def _require_locks(self) -> None:
        """Raise StaleLockError if a lock that the task's writes depend on is lost.

        The locks of a fleet are in its catalog, since tenants move.
        """
        if not fencing.are_any():
            return
        connection = self.catalog.store._resources.database.root.connection  # noqa: SLF001
        for fence in fencing.at(connection.place):
            await fence.check()
            if connection.journal is not None:
                await connection.journal.ask(fence.check_in)

    async def _looked_up(self) -> Place:
        """Look the placement up."""
        began, former = time.monotonic(), self._place
        while True:
            token = await self.catalog.token()
            placement = await self.catalog.placement(self.tenant)
            shard = self._shards.get(placement.shard)
            with shard.in_use():
                fence = await shard.fence()
            # Once more: a move blocks writes before it raises the fence.
            if (await self.catalog.placement(self.tenant)).revision == placement.revision:
                break
        if former is not None and former.shard.name != shard.name:
            forget_all()  # what was read there is known by other numbers
        self._place, self._checked_at = Place(shard, placement, fence, token), began
        await self._shards.trim()
        return self._place

    def _is_fresh(self, place: Place) -> bool:
        return not place.placement.is_moving and not place.shard.is_closed and self._is_recent()

    def _is_recent(self) -> bool:
        return time.monotonic() - self._checked_at < FRESH_SECONDS
