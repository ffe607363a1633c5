"""Moves a tenant to another shard, while its data is read and written.

1. The catalog announces the move, and calls look the placement up each time from then on.
2. The rows are copied, and what was written meanwhile, until little is left.
3. The catalog blocks the tenant's writes, and the fence of the shard refuses those routed before.
4. The last rows are copied, and the catalog names the other shard.
5. Reads that began before have ended: the first copy is erased.

Before the fourth step the first copy counts, from then on the second: a move that is interrupted
loses nothing, and the next one, an erasure or `maintain` removes the other copy.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from lance_context_core._progress import check_progress, tell
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import ConflictError, ContextStoreError, InvalidRequestError
from lance_context_core.fleet.catalog import TenantPlacement
from lance_context_core.fleet.copying import TenantCopy
from lance_context_core.fleet.routing import BLOCK, FRESH_SECONDS, Route
from lance_context_core.fleet.shards import Shard
from lance_context_core.scope import Scope
from lance_context_core.store.store import AsyncContextStore
from lance_context_core.types import Progress
from lance_context_core.versioning.locations import turn

_MARGIN_SECONDS = 0.1
_FEW_ROWS = 256
_MOST_ROUNDS = 8
"""The copies while others write; the last rows are copied while their writes wait."""


@frozen_by_name
class Moved:
    """The result of a move."""

    tenant: str
    source: str
    """The shard that had the data."""
    target: str
    """The shard that has it now."""
    n_rows: int
    """The rows that were copied, those that changed meanwhile again."""
    blocked_seconds: float
    """How long writes of the tenant waited."""


def scoped(route: Route, name: str, scope: Scope) -> AsyncContextStore:
    """Returns a scope of the shard of that name itself, which follows no move."""
    return route.shard(name).store.scope(**scope.parts())


async def move(
    route: Route, target: str, *, progress: Callable[[Progress], object] | None = None
) -> Moved:
    """See `AsyncStoreFleet.move`."""
    check_progress(progress)
    tenant, catalog = route.tenant, route.catalog
    before = await catalog.placement(tenant)
    source, goal = route.shard(before.shard), route.shard(target)
    with source.in_use(), goal.in_use():
        if not (source.is_fenced and goal.is_fenced):
            raise InvalidRequestError(
                "a tenant can be moved only in a fleet with a write-ahead log: open it with "
                "journal='postgresql://…', or in a directory with journal=JournalPolicy()"
            )
        async with _alone(source, tenant):
            route.forget()
            if (placement := await catalog.placement(tenant)).shard != source.name:
                raise ConflictError(f"tenant {tenant!r} was moved meanwhile: call again")
            placement = await erase_copies(route, placement, but=target)
            if target == source.name:
                return Moved(
                    tenant=tenant, source=target, target=target, n_rows=0, blocked_seconds=0.0
                )
            copy = TenantCopy(source.store, goal.store, Scope(tenant=tenant))
            placement = await catalog.change(placement, moving_to=target)
            try:
                placement, n_rows, blocked = await _moved(route, source, placement, copy, progress)
            except BaseException:
                with suppress(ContextStoreError):
                    await _undo(route, source.name)
                raise
            finally:
                route.forget()
            # Reads that were routed before the change may go on for that long.
            await asyncio.sleep(2 * FRESH_SECONDS)
            await erase_copies(route, placement)
            return Moved(
                tenant=tenant,
                source=source.name,
                target=target,
                n_rows=n_rows,
                blocked_seconds=blocked,
            )


async def _moved(
    route: Route,
    source: Shard,
    placement: TenantPlacement,
    copy: TenantCopy,
    progress: Callable[[Progress], object] | None,
) -> tuple[TenantPlacement, int, float]:
    """Copy the rows and change the placement; returns that, the rows, and how long writes waited."""
    catalog, announced = route.catalog, time.monotonic()
    n_rows = 0
    for _ in range(_MOST_ROUNDS):
        n = await copy.update()
        n_rows += n
        await tell(progress, Progress(n_done=n_rows, what="rows", name=placement.tenant))
        if n < _FEW_ROWS:
            break
    waited = time.monotonic() - announced
    await asyncio.sleep(max(0.0, FRESH_SECONDS + _MARGIN_SECONDS - waited))
    n_rows += await copy.update()
    began = time.monotonic()
    until = catalog.store.clock.now() + BLOCK
    placement = await catalog.change(placement, blocked_until=until)
    await source.raise_fence()
    n_rows += await copy.update()
    # Fails if the block has lapsed, and writes go on: the revision is another one then.
    placement = await catalog.change(
        placement,
        shard=placement.moving_to,
        leaving=source.name,
        moving_to=None,
        blocked_until=None,
    )
    return placement, n_rows, time.monotonic() - began


async def erase_copies(
    route: Route, placement: TenantPlacement, *, but: str | None = None
) -> TenantPlacement:
    """Erases what moves have left in other shards; a copy in `but` is used by the next move."""
    if not placement.copies:
        return placement
    for name in placement.copies:
        if name not in (placement.shard, but):
            shard = route.shard(name)
            with shard.in_use():
                await scoped(route, name, Scope(tenant=placement.tenant)).erase()
    left = None if but not in placement.copies else but
    return await route.catalog.change(placement, moving_to=None, leaving=left, blocked_until=None)


async def tidy(route: Route) -> bool:
    """Erases the copies that an interrupted move of the tenant has left; False if one runs."""
    placement = await route.catalog.placement(route.tenant)
    async with AsyncExitStack() as held:
        # A move holds the turn of the shard that it leaves.
        for name in sorted({placement.shard, *placement.copies}):
            shard = route.shard(name)
            held.enter_context(shard.in_use())
            connection = shard.store._resources.database.root.connection  # noqa: SLF001
            try:
                await held.enter_async_context(turn(connection, patience_seconds=0))
            except ConflictError:
                return False
        await erase_copies(route, await route.catalog.placement(route.tenant))
    return True


async def _undo(route: Route, source: str) -> None:
    """Cancel a move that failed before the change; a copy in the target is erased."""
    placement = await route.catalog.placement(route.tenant)
    if placement.shard == source and placement.is_moving:
        left = {"moving_to": None, "leaving": placement.moving_to, "blocked_until": None}
        placement = await route.catalog.change(placement, **left)
        await erase_copies(route, placement)


@asynccontextmanager
async def _alone(shard: Shard, tenant: str) -> AsyncIterator[None]:
    """Exclude erasures and other moves from the shard."""
    connection = shard.store._resources.database.root.connection  # noqa: SLF001
    async with AsyncExitStack() as held:
        try:
            await held.enter_async_context(turn(connection, patience_seconds=FRESH_SECONDS))
        except ConflictError as error:
            raise ConflictError(
                f"tenant {tenant!r} cannot be moved now: an erasure, another move or another "
                f"operation on the whole store runs in shard {shard.name!r}. Nothing was done, call "
                "again"
            ) from error
        yield
