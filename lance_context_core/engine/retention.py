"""Which versions of a table are kept, for how long, and how the others are removed."""

import asyncio
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Literal, Self

from lance_context_core.engine import indexes, manifests, refs
from lance_context_core.engine.errors import translated
from lance_context_core.engine.refs import At
from lance_context_core.engine.table import Table
from lance_context_core.engine.tiers import counted
from lance_context_core.errors import ConflictError, InvalidRequestError, NotFoundError
from lance_context_core.records import Version

_MAX_ATTEMPTS = 10

_BYTES = 18_000
"""What a version of one row in a small table leaves on the disk."""

_GRACE = timedelta(minutes=5)
"""Who reads a version is left the time for it."""

Reason = Literal["tag", "branch", "recent", "hourly", "daily", "newest"]
"""Why a version is kept; of several reasons the first in this order is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRetention:
    """How long the store's versions are kept; it has no bearing on records.

    The newest version stays in any case, and so does what a tag names or a branch was made from.
    """

    all_for: timedelta = timedelta(hours=1)
    """Every version stays for so long."""
    hourly_for: timedelta = timedelta(days=1)
    """The last version of each hour of UTC stays for so long."""
    daily_for: timedelta = timedelta(days=30)
    """The last version of each day of UTC stays for so long."""
    max_bytes: int | None = 2 * 2**30
    """The versions that `all_for` keeps of one table may take up so much on the disk, roughly. Beyond
    that the oldest of them go by the hour and by the day, but none that is younger than five
    minutes. None is without bound."""

    def __post_init__(self) -> None:
        """Raise InvalidRequestError for what is no duration."""
        if self.max_bytes is not None and (type(self.max_bytes) is not int or self.max_bytes < 0):
            raise InvalidRequestError(
                f"max_bytes={self.max_bytes!r}: give a whole number, 0 or more, or None"
            )
        for name in ("all_for", "hourly_for", "daily_for"):
            value = getattr(self, name)
            if not isinstance(value, timedelta) or value < timedelta(0):
                raise InvalidRequestError(f"{name}={value!r}: give a timedelta, 0 or more")

    @classmethod
    def everything(cls) -> Self:
        """Keep all versions for ever."""
        return cls(all_for=timedelta.max, max_bytes=None)

    def bounded(self, versions: Sequence[Version], *, each: int, now: datetime) -> Self:
        """This with an `all_for` that `max_bytes` has room for, if a version takes `each` bytes."""
        if self.max_bytes is None or len(versions) <= (n_most := self.max_bytes // each):
            return self
        times = sorted((version.created_at for version in versions), reverse=True)
        room = max(now - times[max(n_most, 1) - 1], _GRACE)
        return replace(self, all_for=min(self.all_for, room))


def choose(
    versions: Sequence[Version],
    *,
    now: datetime,
    retention: VersionRetention,
    held: Mapping[int, Reason] | None = None,
    moments: Iterable[tuple[datetime, Reason]] = (),
    is_superseded: bool = False,
) -> dict[int, Reason]:
    """The numbers that stay of `versions`, ascending, and why.

    Those `held` stay, those of the grid of `retention`, and what was the newest at each of
    `moments`. The newest of all stays too, unless it `is_superseded`: about to be replaced by a
    version that holds the same. What stays is what would stay had it been chosen from all the
    versions that there ever were: to choose earlier makes no difference to a later choice.
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
    """The versions of the table's line that tags name, or branches were made from, or itself was."""
    handle = await table.reader()
    if handle is None:
        return {}
    lines = await refs.lines(handle, table.name)
    held: dict[int, Reason] = {}
    if table.line is not None:
        # It is a version of the line that this one was made from, and held there.
        held[lines[table.line].version] = "branch"
    for line, at in lines.items():
        if at.line == table.line and not refs.is_kept(line):
            is_tag = refs.tag_of(line) is not None
            held[at.version] = "tag" if is_tag else held.get(at.version, "branch")
    return held


async def will_be_rewritten(table: Table) -> bool:
    """Whether compaction would make a new version of the table."""
    async with table.separately() as handle:
        with translated(f"inspect {table.label}"):
            n_fragments, n_deleted = counted(await handle.stats())
            return n_fragments > 1 or n_deleted > 0 or any((await indexes.tails(handle)).values())


async def version_bytes(table: Table) -> int:
    """What one more version of the table leaves on the disk, roughly.

    Its manifest tells of each row that came in a commit of its own. On an object store, where space
    is no bound, it is taken for small.
    """
    handle = await table.reader()
    if handle is not None and table.directory is not None:
        manifest = manifests.path(table.directory, await handle.version())
        with suppress(FileNotFoundError):
            return _BYTES + (await asyncio.to_thread(manifest.stat)).st_size
    return _BYTES


async def live_bytes(table: Table) -> int:
    """The size of the current version's data, roughly."""
    handle = await table.reader()
    if handle is None:
        return 0
    with translated(f"inspect {table.label}"):
        return int((await handle.stats())["total_bytes"])


async def remove(table: Table, *, older_than: timedelta, but: Iterable[Version]) -> int:
    """Remove the versions of the table's line that are older, but for those and the newest.

    Those get a hold of their own, and lose it when a later call does not name them. Returns the
    bytes that were freed. A crash leaves nothing removed that should stay; may be repeated. The
    table is compacted by it.
    """
    branch = str(refs.branch_of(table.line))
    async with table.pausing(), table.separately() as handle:
        holds = refs.kept_of(branch, await refs.lines(handle, table.name))
        wanted = {version.number: version for version in but}
        for number in sorted(wanted.keys() - holds.keys()):
            line = refs.kept(number, wanted[number].created_at, branch)
            await table.fork(line, At(table.line, number), handle)
        for number in holds.keys() - wanted.keys():
            with suppress(NotFoundError):  # somebody else let go of it
                await table.drop(holds[number])
        await table.sync(handle)
        for attempt in range(_MAX_ATTEMPTS):
            try:
                with translated(f"thin {table.label}"):
                    # A clock that is ahead leads to less than no time; of none the engine warns.
                    age = max(older_than, timedelta(milliseconds=1))
                    done = await indexes.optimize(handle, older_than=age)
                break
            except ConflictError:
                # It merges fragments first, and others may be at these.
                if attempt == _MAX_ATTEMPTS - 1:
                    raise
                await handle.checkout_latest()
    await table.sync_removals()
    return int(done.prune.bytes_removed)


def _newest_at(
    versions: Sequence[Version], moments: Iterable[tuple[datetime, Reason]]
) -> list[tuple[int, Reason]]:
    """The greatest number at each moment, where there is one."""
    by_time = sorted(versions, key=lambda version: version.created_at)
    times = [version.created_at for version in by_time]
    greatest = list(accumulate((version.number for version in by_time), max))
    found = [(bisect_right(times, moment), reason) for moment, reason in moments]
    return [(greatest[place - 1], reason) for place, reason in found if place]
