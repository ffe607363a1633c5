"""Tiered compaction: small fragments are merged with small ones, never the whole table.

A row moves when an update touches it and changes nothing: it keeps its id and its revision, and what
moves together becomes one fragment. If one row of that is outside an index, all of it is.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, TypedDict

import numpy as np

from lance_context_core._util.frozen import frozen, frozen_by_name
from lance_context_core._util.retry import FEW_ATTEMPTS, retried
from lance_context_core.errors import ConflictError, InvalidRequestError
from lance_context_core.storage.lance import branches, indexes
from lance_context_core.storage.lance.errors import translated
from lance_context_core.storage.lance.indexes import IndexPolicy
from lance_context_core.storage.table import Table

_OFFSETS = 32
"""An address is the number of the fragment, and in its lower 32 bits the row's place there."""

_LISTED_ROWS = 4_096
"""Up to so many rows are named one by one: the engine then takes 2 ms to find them in any table,
and 19 ms in a million rows when it is given a range."""

_UNCHANGED = {"revision": "revision"}


@frozen_by_name
class FragmentPolicy:
    """When fragments are merged, and with which."""

    fanout: int = 8
    """So many fragments of one tier become one of the next, whose fragments are as many times
    larger. A row is written again once a tier: 6 times on its way to 262,144 rows. Larger means
    less writing and more fragments, of which each takes 0.2 ms of a filtered read."""
    max_rows: int = 262_144
    """What is merged has at most so many rows. At 1.5 KB a row that is 400 MB to write in one
    piece; larger fragments save nothing, as a read of so many rows takes far longer than finding
    them."""
    max_bytes: int = 256 * 1024 * 1024
    """The same bound for tables with large rows."""
    deleted_share: float = 0.2
    """A fragment of whose rows so many are deleted is written again without them: at most four
    rows for each that is gone."""

    def __post_init__(self) -> None:
        """Raise InvalidRequestError for numbers that make no policy."""
        for name, least in (("fanout", 2), ("max_rows", 2), ("max_bytes", 1)):
            if type(value := getattr(self, name)) is not int or value < least:
                raise InvalidRequestError(f"{name}={value!r}: give a whole number, {least} or more")
        if not (isinstance(self.deleted_share, int | float) and 0 < self.deleted_share <= 1):
            raise InvalidRequestError(f"deleted_share={self.deleted_share!r}: above 0, at most 1")


@frozen_by_name
class Fragment:
    """One piece of a table."""

    number: int
    """Of two, the later written has the greater."""
    rows: int
    """Those that are not deleted, 1 or more."""
    deleted: int
    """At least so many deleted ones are still in its file."""


@frozen_by_name
class Merged:
    """What a step of compaction did."""

    fragments_removed: int = 0
    fragments_added: int = 0
    rows_written: int = 0


def plan(
    fragments: Iterable[Fragment], policy: FragmentPolicy, *, max_rows: int | None = None
) -> list[tuple[int, ...]]:
    """The groups of fragments, by number, that are each to become one.

    No fragment is in two groups. A group has at most `max_rows` rows (the policy's by default), and
    is a fragment with too many deletions alone, or several that together reach a higher tier than
    each of them, or half of `max_rows`, from where on a fragment is left alone. A row is therefore
    merged at most once a tier, and once more.
    """
    cap = policy.max_rows if max_rows is None else max(max_rows, 2)
    known = sorted(fragments, key=lambda one: one.number)
    items = [_Item(one.rows, (one.number,)) for one in known]
    for tier in range(_tier(cap, policy.fanout) + 1):
        members = [
            one for one in items if _tier(one.rows, policy.fanout) == tier and 2 * one.rows < cap
        ]
        if len(members) >= policy.fanout:
            for pack in _packed(members, cap):
                whole = _Item(sum(one.rows for one in pack), sum((o.numbers for o in pack), ()))
                if _tier(whole.rows, policy.fanout) > tier or 2 * whole.rows >= cap:
                    items = [one for one in items if one not in pack] + [whole]
    groups = [one.numbers for one in items if len(one.numbers) > 1]
    merged = {number for group in groups for number in group}
    sparse = [
        (one.number,)
        for one in known
        if one.number not in merged
        and one.rows <= cap
        and one.deleted >= policy.deleted_share * (one.rows + one.deleted)
    ]
    return groups + sparse


class FragmentMerges:
    """The fragments of one table, as this process knows them, and the merging of them.

    Of a table that grows only the new fragments are looked at: all addresses of 100,000 rows take
    20 ms, and those of a million 150 ms. All of them are read again when the count of fragments or
    of deleted rows says that something else has happened.
    """

    def __init__(self, policy: FragmentPolicy) -> None:
        """Nothing is known yet."""
        self.policy = policy
        self._known: dict[int, Fragment] = {}
        self._n_deleted = 0
        self._version = 0

    async def step(self, handle: Any) -> Merged:
        """Merge what is due, one commit a group.

        Raises the engine's errors; a conflict with another writer leaves that group, and those
        after it, as they are.
        """
        await handle.checkout_latest()
        removed = added = written = 0
        for group in await self._plan(handle):
            fragments = [self._known[number] for number in group]
            where = _rows_of(fragments)
            done = await handle.update(where=where, updates_sql=_UNCHANGED)
            written += int(done.rows_updated)
            removed += len(group)
            added += 1
            for number in group:
                del self._known[number]
        return Merged(fragments_removed=removed, fragments_added=added, rows_written=written)

    async def due(self, handle: Any) -> int:
        """How many fragments a step would merge now."""
        return sum(len(group) for group in await self._plan(handle))

    async def _plan(self, handle: Any) -> list[tuple[int, ...]]:
        stats = await handle.stats()
        n_fragments, n_deleted = counted(stats)
        if n_fragments < self.policy.fanout and not n_deleted:
            return []  # Too few for a group, and none is sparse: no address is read for that.
        if (version := await handle.version()) != self._version:
            await self._look(handle, stats)
            self._version = version
        per_row = stats["total_bytes"] // max(stats["num_rows"], 1)
        max_rows = min(self.policy.max_rows, self.policy.max_bytes // max(per_row, 1))
        return plan(self._known.values(), self.policy, max_rows=max_rows)

    async def _look(self, handle: Any, stats: Any) -> None:
        n_fragments, n_deleted = counted(stats)
        top = max(self._known, default=-1)
        self._known |= {one.number: one for one in await _fragments(handle, top + 1)}
        newly = n_deleted - self._n_deleted
        if len(self._known) != n_fragments or newly > self.policy.deleted_share / 4 * max(
            stats["num_rows"], 1
        ):
            self._known = {one.number: one for one in await _fragments(handle, 0)}
            self._n_deleted = n_deleted


def counted(stats: Any) -> tuple[int, int]:
    """How many fragments, and how many deleted rows in them, the engine's statistics tell."""
    pieces = stats["fragment_stats"]
    n_fragments = int(pieces["num_fragments"])
    n_physical = round(pieces["lengths"]["mean"] * n_fragments)
    return n_fragments, max(n_physical - int(stats["num_rows"]), 0)


@frozen
class _Item:
    """Fragments that will be one, or are."""

    rows: int
    numbers: tuple[int, ...]


def _tier(rows: int, fanout: int) -> int:
    """The number of times that `rows` can be divided by `fanout`."""
    tier = 0
    while rows >= fanout:
        rows //= fanout
        tier += 1
    return tier


def _packed(items: Sequence[_Item], cap: int) -> list[list[_Item]]:
    """`items` in their order, in packs of at most `cap` rows."""
    packs: list[list[_Item]] = [[]]
    for item in items:
        if sum(one.rows for one in packs[-1]) + item.rows > cap:
            packs.append([])
        packs[-1].append(item)
    return packs


async def _fragments(handle: Any, least: int) -> list[Fragment]:
    """The fragments from that number on."""
    query = handle.query().select(["_rowaddr"])
    if least:
        query = query.where(f"_rowaddr >= {least << _OFFSETS}")
    addresses = (await query.to_arrow())["_rowaddr"].to_numpy().astype(np.int64)
    numbers, rows = np.unique(addresses >> _OFFSETS, return_counts=True)
    last = np.zeros(len(numbers), np.int64)
    np.maximum.at(last, np.searchsorted(numbers, addresses >> _OFFSETS), addresses & 0xFFFFFFFF)
    return [
        Fragment(number=int(number), rows=int(n), deleted=int(end) + 1 - int(n))
        for number, n, end in zip(numbers, rows, last, strict=True)
    ]


def _rows_of(fragments: Sequence[Fragment]) -> str:
    """The condition that the rows of these fragments fulfil, and no others."""
    ranges = [(one.number << _OFFSETS, (one.number + 1) << _OFFSETS) for one in fragments]
    where = " OR ".join(f"(_rowaddr >= {start} AND _rowaddr < {end})" for start, end in ranges)
    if sum(one.rows for one in fragments) > _LISTED_ROWS:
        return where
    # What was deleted since is left out by the engine; nothing is ever added to a fragment.
    addresses = [
        start + offset
        for one, (start, _) in zip(fragments, ranges, strict=True)
        for offset in range(one.rows + one.deleted)
    ]
    return f"_rowaddr IN ({', '.join(map(str, addresses))})"


# Upkeep of a table: merging its fragments, and the indexes that pay at its size.

MERGE, BUILD = "merge", "build"
"""What may be due: merging small fragments, building indexes."""


@frozen
class Due:
    """One thing that is to be done."""

    what: str
    why: str


class CompactionMetrics(TypedDict):
    """What a compaction did."""

    fragments_removed: int
    fragments_added: int
    files_removed: int
    files_added: int


@frozen_by_name
class Survey:
    """What a table consists of."""

    rows: int
    """Those of the current version."""
    fragments: int
    """The files that hold them: each read opens all."""
    deleted_rows: int
    """Rows that are gone, but still in the table's files."""
    bytes: int
    """Of the current version's data, indexes and older versions not counted."""
    versions: int
    unindexed_rows: int
    """Rows outside the index that lacks most: a search reads them one by one."""
    journal_rows: int
    """Small writes that were acknowledged, and are not yet folded into the table."""
    journal_bytes: int
    """What these take."""


async def survey(table: Table) -> Survey | None:
    """What the table consists of; None if it is absent."""
    handle = await table.access.peek()
    if handle is None:
        return None
    ledger = table.access.ledger
    view = None if ledger is None else await ledger.view()
    with translated(f"inspect {table.label}"):
        stats: Any = await handle.stats()
        n_fragments, n_deleted = counted(stats)
        return Survey(
            rows=int(stats["num_rows"]),
            fragments=n_fragments,
            deleted_rows=n_deleted,
            bytes=int(stats["total_bytes"]),
            versions=len(await branches.versions_of(handle, table.name)),
            unindexed_rows=max((await indexes.unindexed(handle)).values(), default=0),
            journal_rows=0 if view is None else len(view.entries),
            journal_bytes=0 if view is None else view.size,
        )


async def merge_fragments(table: Table, merges: FragmentMerges) -> Merged:
    """Merge the small fragments that are due.

    Raises ConflictError where another writer was faster: what is due stays due.
    """
    async with table.access.commits.pausing(), table.access.separately() as handle:
        with translated(f"compact {table.label}"):
            merged = await merges.step(handle)
        await table.access.commits.know_unchanged(handle, merged.fragments_added)
        return merged


async def due(table: Table, merges: FragmentMerges, policy: IndexPolicy) -> Sequence[Due]:
    """What is due at the table; nothing if it is absent."""
    if await table.access.reader() is None:
        return []
    async with table.access.separately(is_reading=True) as handle:
        with translated(f"inspect {table.label}"):
            reasons = await indexes.due(handle, table.spec, policy=policy)
            found = [Due(BUILD, why) for why in reasons.values()]
            if n_fragments := await merges.due(handle):
                found.append(Due(MERGE, f"{n_fragments} fragments are to be merged"))
    return found


async def compact(table: Table) -> CompactionMetrics:
    """Merge the table's fragments and fold new rows into its indexes; an absent table has none.

    Nothing for the background: the engine also reads the manifest of every version that there is,
    1 ms each, and does not keep up where others write meanwhile.
    """
    if await table.access.reader() is None:
        return CompactionMetrics(
            fragments_removed=0, fragments_added=0, files_removed=0, files_added=0
        )
    async with table.access.commits.pausing(), table.access.separately() as handle:

        async def attempt() -> Any:
            with translated(f"compact {table.label}"):
                return (await indexes.optimize(handle, older_than=_NEVER)).compaction

        stats = await retried(
            attempt,
            on=ConflictError,
            attempts=FEW_ATTEMPTS,
            between=lambda _: handle.checkout_latest(),
        )
    return CompactionMetrics(
        fragments_removed=stats.fragments_removed,
        fragments_added=stats.fragments_added,
        files_removed=stats.files_removed,
        files_added=stats.files_added,
    )


async def build_indexes(table: Table, policy: IndexPolicy) -> list[str]:
    """Build the indexes that are due at the table's size; returns their columns."""
    if await table.access.reader() is None:
        return []
    async with table.access.commits.pausing(), table.access.separately() as handle:
        with translated(f"index {table.label}"):
            words = await indexes.text_settings(handle)
            built = await indexes.build(
                handle, table.spec, policy=policy, text_index=table.access.connection.text_index
            )
            are_found_as_before = await indexes.text_settings(handle) == words
        if are_found_as_before:
            # Each is one commit.
            await table.access.commits.know_unchanged(handle, len(built))
        return built


async def count_fragments(table: Table) -> int:
    """How many fragments the table consists of."""
    handle = await table.access.peek()
    if handle is None:
        return 0
    with translated(f"inspect {table.label}"):
        stats: Any = await handle.stats()
    return int(stats["fragment_stats"]["num_fragments"])


async def forget_versions(table: Table, *, older_than: timedelta) -> None:
    """Remove the versions of a table that are older; not for tables whose past can be read."""
    async with table.access.separately() as handle:
        with translated(f"thin {table.label}"):
            await indexes.optimize(handle, older_than=older_than)


# Without it the engine removes versions older than a week: what is kept is for the store to decide.
_NEVER = timedelta(days=365_000)
