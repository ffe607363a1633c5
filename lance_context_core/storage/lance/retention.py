"""Retention of a table's versions, and removal of the others."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Literal, Self

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core._util.retry import FEW_ATTEMPTS, retried
from lance_context_core.errors import ConflictError, InvalidRequestError, NotFoundError
from lance_context_core.storage.lance import branches, indexes
from lance_context_core.storage.lance.branches import At
from lance_context_core.storage.lance.errors import translated
from lance_context_core.storage.lance.fragments import counted
from lance_context_core.storage.table import Table
from lance_context_core.types import Version

Reason = Literal["tag", "branch", "recent", "hourly", "daily", "newest"]
"""The reason to keep a version; of several, the first in this order."""


@frozen_by_name
class VersionRetention:
    """How long the store's versions are kept; does not concern records.

    The newest version always stays, and so do tagged versions and fork points of branches. A length
    of zero turns its part off; versions younger than a minute stay even so, since the engine
    accepts an age and not a moment.
    """

    all_for: timedelta = timedelta(hours=1)
    """How long every version stays."""
    hourly_for: timedelta = timedelta(days=1)
    """How long the last version of each hour of UTC stays."""
    daily_for: timedelta = timedelta(days=30)
    """How long the last version of each day of UTC stays."""

    def __post_init__(self) -> None:
        """Raise InvalidRequestError for values that are no durations."""
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            if not isinstance(value, timedelta) or value < timedelta(0):
                raise InvalidRequestError(f"{name}={value!r}: give a timedelta, 0 or more")

    @classmethod
    def everything(cls) -> Self:
        """Keep all versions forever."""
        return cls(all_for=timedelta.max)


def choose(
    versions: Sequence[Version],
    *,
    now: datetime,
    retention: VersionRetention,
    held: Mapping[int, Reason] | None = None,
    moments: Iterable[tuple[datetime, Reason]] = (),
    is_superseded: bool = False,
) -> dict[int, Reason]:
    """The numbers of the `versions` to keep, ascending, and why.

    Keeps the `held` ones, those of the grid of `retention`, and the newest at each of `moments`.
    Keeps the newest of all, too, unless it `is_superseded`: about to be replaced by a version of
    the same content. The result is as if chosen from all versions that ever existed: an earlier
    pruning does not change a later one.
    """
    kept: dict[int, Reason] = (
        {version.number: held[version.number] for version in versions if version.number in held}
        if held
        else {}
    )
    hours: dict[object, Version] = {}
    days: dict[object, Version] = {}
    for version in sorted(versions, key=lambda version: version.number):
        moment = version.created_at.astimezone(UTC)
        hours[moment.date(), moment.hour] = days[moment.date()] = version
        if now - version.created_at <= retention.all_for:
            kept.setdefault(version.number, "recent")
    for version in hours.values():
        if now - version.created_at <= retention.hourly_for:
            kept.setdefault(version.number, "hourly")
    for version in days.values():
        if now - version.created_at <= retention.daily_for:
            kept.setdefault(version.number, "daily")
    for number, reason in _newest_at(versions, moments):
        kept.setdefault(number, reason)
    if versions and not is_superseded:
        kept.setdefault(max(version.number for version in versions), "newest")
    return dict(sorted(kept.items()))


async def holders(table: Table) -> dict[int, Reason]:
    """The versions of the table's ref with tags, forked branches, or its own fork point."""
    handle = await table.access.reader()
    if handle is None:
        return {}
    forks = await branches.listed(handle, table.name)
    held: dict[int, Reason] = {}
    if table.ref is not None:
        # It is a version of the ref that this one was forked from, and held there.
        held[branches.fork_of(table.ref, forks).version] = "branch"
    for ref, at in forks.items():
        if at.ref == table.ref and not branches.is_kept(ref):
            is_tag = branches.tag_of(ref) is not None
            held[at.version] = "tag" if is_tag else held.get(at.version, "branch")
    return held


async def will_be_rewritten(table: Table) -> bool:
    """Whether compaction would make a new version of the table."""
    access = table.access
    async with access.separately(is_reading=access.connection.is_read_only) as handle:
        with translated(f"inspect {table.label}"):
            n_fragments, n_deleted = counted(await handle.stats())
            return (
                n_fragments > 1 or n_deleted > 0 or any((await indexes.unindexed(handle)).values())
            )


async def live_bytes(table: Table) -> int:
    """The approximate size of the current version's data."""
    handle = await table.access.reader()
    if handle is None:
        return 0
    with translated(f"inspect {table.label}"):
        return int((await handle.stats())["total_bytes"])


async def remove(table: Table, *, older_than: timedelta, but: Iterable[Version]) -> int:
    """Remove the older versions of the table's ref, but for those and the newest.

    Those get a ref of their own, and lose it when a later call does not name them. Returns the
    freed bytes. A crash removes nothing that should stay; repeatable. Compacts the table.
    """
    branch = str(branches.branch_of(table.ref))
    async with table.access.commits.pausing(), table.access.separately() as handle:
        holds = branches.kept_of(branch, await branches.listed(handle, table.name))
        wanted = {version.number: version for version in but}
        for number in sorted(wanted.keys() - holds.keys()):
            ref = branches.kept(number, wanted[number].created_at, branch)
            await table.access.fork(ref, At(table.ref, number), handle)
        for number in holds.keys() - wanted.keys():
            with suppress(NotFoundError):  # another process deleted it
                await table.access.drop(holds[number])
        await table.access.commits.sync(handle)

        async def attempt() -> int:
            with translated(f"thin {table.label}"):
                # A clock that is ahead gives a negative age; the engine warns of zero.
                age = max(older_than, timedelta(milliseconds=1))
                done = await indexes.optimize(handle, older_than=age)
                return int(done.prune.bytes_removed)

        # It merges fragments first, and others may be using these.
        n_bytes = await retried(
            attempt,
            on=ConflictError,
            attempts=FEW_ATTEMPTS,
            between=lambda _: handle.checkout_latest(),
        )
    await table.access.commits.sync_removals()
    return n_bytes


def _newest_at(
    versions: Sequence[Version], moments: Iterable[tuple[datetime, Reason]]
) -> list[tuple[int, Reason]]:
    """The greatest number at each moment, if one exists."""
    by_time = sorted(versions, key=lambda version: version.created_at)
    times = [version.created_at for version in by_time]
    greatest = list(accumulate((version.number for version in by_time), max))
    found = [(bisect_right(times, moment), reason) for moment, reason in moments]
    return [(greatest[place - 1], reason) for place, reason in found if place]
