"""Pruning of versions: which versions of each table are removed, which stay, and why."""

import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from lance_context_core._progress import check_progress, tell
from lance_context_core._resources import Resources
from lance_context_core._util.frozen import frozen_by_name, own_first
from lance_context_core.errors import ConflictError
from lance_context_core.storage.database import RECORDS_TABLE
from lance_context_core.storage.lance import branches, fragments, versions
from lance_context_core.storage.lance.retention import (
    Reason,
    VersionRetention,
    choose,
    holders,
    live_bytes,
    remove,
    will_be_rewritten,
)
from lance_context_core.storage.table import Table
from lance_context_core.types import Progress, Version
from lance_context_core.types.answers import Tried
from lance_context_core.versioning import branches as branching
from lance_context_core.versioning.locations import Whole, turn

MIN_DUE = 256
"""How many versions must be removable before a table is pruned automatically."""

_BYTES_PER_VERSION = 18_000
"""The size on disk of a version of one row. Pruning rewrites the table, and kept versions
may hold the old files: it runs only if it frees more than it writes."""

_SLACK = timedelta(minutes=1)
"""The engine takes an age, not a time: versions at the limit stay until the next run."""


@frozen_by_name
class ThinnedTable:
    """The versions of one table on one branch: removed and kept, done or planned."""

    table: str
    branch: str
    dropped: tuple[int, ...]
    """The numbers of removed versions, ascending."""
    kept: Mapping[int, Reason]
    """The numbers of kept versions, ascending, and why: a `tag` names them, a `branch` was created
    from them, they are `recent`, the last one of their hour or day (`hourly`, `daily`), or the
    `newest`. A version of another table than the records is kept for their version's reason, too."""
    bytes_freed: int = 0
    """The bytes freed on disk; 0 after a dry run."""


@own_first
@frozen_by_name
class Thinned(Tried):
    """The result of a pruning, done or planned."""

    tables: tuple[ThinnedTable, ...]

    @property
    def bytes_freed(self) -> int:
        """The bytes freed on disk; 0 after a dry run."""
        return sum(table.bytes_freed for table in self.tables)

    @property
    def n_dropped(self) -> int:
        """The number of removed versions, of all tables and branches."""
        return sum(len(table.dropped) for table in self.tables)


async def thin(
    whole: Whole,
    *,
    retention: VersionRetention,
    dry_run: bool = False,
    progress: Callable[[Progress], object] | None = None,
) -> Thinned:
    """Prunes versions that need not be kept, of all tables on all branches.

    For each kept version of the records, every other table stays readable as of the same moment.
    Raises InvalidRequestError in a scope, and ReadOnlyError at an earlier version. May be repeated
    after a crash, or after `progress`, which is called after each branch, or a cancellation ended
    it.
    """
    check_progress(progress)
    whole.require("thin")
    if not dry_run:
        whole.resources.writable()
    await whole.resources.settle()
    done: list[ThinnedTable] = []
    n_total, n_done = 1 + len(await branching.listed(whole)), 0

    async def step(branch: str) -> None:
        nonlocal n_done
        on = whole.on(branch)

        async def work() -> None:
            now = whole.resources.clock.now()
            done.extend(await _thin_branch(await on.tables(), now, retention, dry_run=dry_run))

        await whole.in_turn(work)
        n_done += 1
        now = Progress(n_done=n_done, n_total=max(n_done, n_total), what="branches", name=branch)
        await tell(progress, now)

    await branching.on_each(whole, step)
    return Thinned(tables=tuple(done), is_dry_run=dry_run)


async def thin_if_due(table: Table, *, resources: Resources, retention: VersionRetention) -> int:
    """Prunes one table, on its branch, if that pays off; returns how many versions were removed.

    Versions of other tables than the records stay as long as the records have versions of the
    same time, needed or not. Raises ConflictError if others hold the turn.
    """
    n_before = await thinnable(table, resources=resources, retention=retention)
    if n_before < max(MIN_DUE, await live_bytes(table) // _BYTES_PER_VERSION):
        return 0
    # An erasure holds the turn, and waits for other work on a table.
    async with turn(resources.database.root.connection, patience_seconds=0):
        return await _thin_table(table, resources=resources, retention=retention)


async def _thin_table(table: Table, *, resources: Resources, retention: VersionRetention) -> int:
    now = resources.clock.now()
    moments = await _moments_for(table, resources)
    before = await versions.versions(table)
    plan = await _plan(table, now, retention, moments=moments)
    if len(plan.holds) * 4 > len(plan.dropped):
        return 0  # most are kept for the records' versions: these go first
    with suppress(ConflictError):  # another process works on it
        await fragments.compact(table)
    await _drop(table, now, retention, moments=moments)
    left = {version.number for version in await versions.versions(table)}
    return sum(version.number not in left for version in before)


async def thinnable(table: Table, *, resources: Resources, retention: VersionRetention) -> int:
    """Returns how many versions of a table need not be kept; 0 if it is absent.

    All versions are listed at most once in `retention.all_for`, which takes 0.2 ms a version.
    """
    now = resources.clock.now()
    if await table.access.reader() is None:
        return 0
    moments: list[tuple[datetime, Reason]] = []
    if table.name != RECORDS_TABLE:
        records = resources.current().on(str(branches.branch_of(table.ref)))
        listed = await _seen(replace(resources, database=records).records, now, retention)
        moments = [(version.created_at, "recent") for version in listed]
    found = await _seen(table, now, retention)
    held = await holders(table)
    kept = choose(found, now=now, retention=retention, held=held, moments=moments)
    return len(found) - len(kept)


# One table


@frozen_by_name
class _Plan:
    """The planned versions of a table."""

    dropped: tuple[int, ...]
    kept: Mapping[int, Reason]
    holds: tuple[Version, ...]
    """Kept versions that are old enough to be removed, but held."""
    moments: list[tuple[datetime, Reason]]
    """The times of the kept ones."""


async def _thin_branch(
    tables: Sequence[Table], now: datetime, retention: VersionRetention, *, dry_run: bool
) -> list[ThinnedTable]:
    # The records first: versions that they lose, the other tables need not keep either.
    tables = sorted(tables, key=lambda table: table.name != RECORDS_TABLE)
    plans: dict[Table, _Plan] = {}
    moments: list[tuple[datetime, Reason]] = []
    for table in tables:
        plans[table] = await _plan(table, now, retention, moments=moments, is_rewriting=True)
        if table.name == RECORDS_TABLE:
            moments = plans[table].moments
    busy = [] if dry_run else [table for table in tables if plans[table].dropped]
    # And last, here: the newest version of the records must find the compacted other tables.
    for table in reversed(busy):
        with suppress(ConflictError):  # another process works on it
            await fragments.compact(table)
    freed = {}
    for table in busy:
        if table.name != RECORDS_TABLE:
            moments = await _moments_of([one for one in tables if one.name == RECORDS_TABLE])
        freed[table] = await _drop(table, now, retention, moments=moments)
    done = []
    for table, plan in plans.items():
        dropped, kept = plan.dropped, plan.kept
        if table in busy:
            left = {version.number for version in await versions.versions(table)}
            numbers = sorted({*dropped, *kept})
            dropped = tuple(number for number in numbers if number not in left)
            kept = {number: kept.get(number, "recent") for number in numbers if number in left}
        done.append(
            ThinnedTable(
                table=table.name,
                branch=str(branches.branch_of(table.ref)),
                dropped=dropped,
                kept=kept,
                bytes_freed=freed.get(table, 0),
            )
        )
    return done


async def _plan(
    table: Table,
    now: datetime,
    retention: VersionRetention,
    *,
    moments: Sequence[tuple[datetime, Reason]] = (),
    is_rewriting: bool = False,
) -> _Plan:
    """Returns the plan; with `is_rewriting` the table is compacted before, if possible."""
    known = await versions.versions(table)
    held = await holders(table)
    kept = choose(known, now=now, retention=retention, held=held, moments=moments)
    holds = tuple(
        one
        for one in known
        if one.number in kept
        and one.number not in held
        and now - one.created_at > retention.all_for
    )
    edge = [one for one in known if one.number not in kept and not _is_past(one, now, retention)]
    kept |= {one.number: "recent" for one in edge}
    if is_rewriting and len(kept) < len(known) and await will_be_rewritten(table):
        needed = choose(
            known, now=now, retention=retention, held=held, moments=moments, is_superseded=True
        )
        if known[-1].number not in needed:
            del kept[known[-1].number]
    return _Plan(
        dropped=tuple(one.number for one in known if one.number not in kept),
        kept=dict(sorted(kept.items())),
        holds=holds,
        moments=[(one.created_at, kept[one.number]) for one in known if one.number in kept],
    )


async def _drop(
    table: Table,
    now: datetime,
    retention: VersionRetention,
    *,
    moments: Sequence[tuple[datetime, Reason]],
) -> int:
    plan = await _plan(table, now, retention, moments=moments)
    # By the engine's clock, which is the machine's; the store's may be ahead of it.
    age = datetime.now(UTC) - now + retention.all_for + _SLACK
    _listed.pop(table, None)
    freed = await remove(table, older_than=age, but=plan.holds)
    await table.access.forget_names([one.number for one in await versions.versions(table)])
    return freed


def _is_past(version: Version, now: datetime, retention: VersionRetention) -> bool:
    return now - version.created_at - _SLACK > retention.all_for


async def _moments_for(table: Table, resources: Resources) -> list[tuple[datetime, Reason]]:
    if table.name == RECORDS_TABLE:
        return []
    database = resources.current().on(str(branches.branch_of(table.ref)))
    return await _moments_of([replace(resources, database=database).records])


async def _moments_of(tables: Sequence[Table]) -> list[tuple[datetime, Reason]]:
    """Returns the times of all existing versions."""
    return [
        (version.created_at, "recent")
        for table in tables
        for version in await versions.versions(table)
    ]


# The listed versions of a table, and until when none of them can become old


@frozen_by_name
class _Listed:
    versions: Sequence[Version]
    newest: int
    at: datetime


_listed: weakref.WeakKeyDictionary[Table, _Listed] = weakref.WeakKeyDictionary()


async def _seen(table: Table, now: datetime, retention: VersionRetention) -> Sequence[Version]:
    """Returns the versions of a table, perhaps without some that are too young to matter."""
    newest = await table.version()
    known = _listed.get(table)
    if known is None or (
        known.newest != newest and not timedelta(0) <= now - known.at <= retention.all_for
    ):
        found = await versions.versions(table)
        known = _listed[table] = _Listed(versions=found, newest=newest, at=now)
    return known.versions
