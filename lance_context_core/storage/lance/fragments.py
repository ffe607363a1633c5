"""Tiered compaction: merges small fragments with small ones, never the whole table.

A row moves when an update touches it and changes nothing: it keeps its id and its revision, and
rows that move together become one fragment. If one of them is unindexed, all of it is.
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
"""An address is the fragment's number and, in its lower 32 bits, the row's position there."""

_LISTED_ROWS = 4_096
"""The maximum number of rows selected by name: the engine then takes 2 ms to find them in any
table, and 19 ms in a million rows when given a range."""

_UNCHANGED = {"revision": "revision"}

_LARGE_ROWS = 32_768
"""A fragment of so many rows is read at the speed of one of all rows."""

_FEW_DELETED = 0.01
"""The share of deleted rows that costs a read nothing."""


@frozen_by_name
class FragmentPolicy:
    """When fragments are merged, and with which."""

    fanout: int = 8
    """This many fragments of one tier become one of the next, whose fragments are that many times
    larger. A row is rewritten once a tier: 6 times on its way to 262,144 rows. Larger means less
    writing and more fragments, of which each takes 0.2 ms of a filtered read."""
    max_rows: int = 262_144
    """The maximum number of rows to merge. At 1.5 KB a row that is 400 MB to write in one piece;
    larger fragments save nothing, as a read of that many rows takes far longer than finding
    them."""
    max_bytes: int = 256 * 1024 * 1024
    """The same bound for tables with large rows."""
    deleted_share: float = 0.2
    """A fragment with this share of deleted rows is rewritten without them: at most four rows for
    each deleted one."""

    def __post_init__(self) -> None:
        """Raise InvalidRequestError for invalid numbers."""
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
    """A lower bound of the deleted rows still in its file."""


@frozen_by_name
class Merged:
    """The result of a compaction step."""

    fragments_removed: int = 0
    fragments_added: int = 0
    rows_written: int = 0


def plan(
    fragments: Iterable[Fragment], policy: FragmentPolicy, *, max_rows: int | None = None
) -> list[tuple[int, ...]]:
    """The groups of fragments, by number, to merge into one each.

    No fragment is in two groups. A group has at most `max_rows` rows (the policy's by default), and
    is a fragment with too many deletions alone, or several that together reach a higher tier than
    each of them, or half of `max_rows`, from where on a fragment stays as it is. A row is therefore
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
    """Merges the fragments of one table, as known to this process.

    Of a growing table it reads only the new fragments: all addresses of 100,000 rows take 20 ms,
    and those of a million 150 ms. It reads all of them again when the number of fragments or of
    deleted rows shows another change.
    """

    def __init__(self, policy: FragmentPolicy) -> None:
        """Starts without any knowledge."""
        self.policy = policy
        self._known: dict[int, Fragment] = {}
        self._n_deleted = 0
        self._version = 0

    async def step(self, handle: Any) -> Merged:
        """Merge the due fragments, one commit a group.

        Raises the engine's errors; a conflict with another writer leaves that group, and later
        ones, unchanged.
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
        """The number of fragments that a step would merge now."""
        return sum(len(group) for group in await self._plan(handle))

    async def _plan(self, handle: Any) -> list[tuple[int, ...]]:
        stats = await handle.stats()
        n_fragments, n_deleted = counted(stats)
        if n_fragments < self.policy.fanout and not n_deleted:
            return []  # too few for a group, and none is sparse: no address is read
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
    """The numbers of fragments and of deleted rows in them, by the engine's statistics."""
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
    # The engine skips rows deleted since; a fragment never gets new rows.
    addresses = [
        start + offset
        for one, (start, _) in zip(fragments, ranges, strict=True)
        for offset in range(one.rows + one.deleted)
    ]
    return f"_rowaddr IN ({', '.join(map(str, addresses))})"


# Upkeep of a table: merging its fragments, and building the indexes that pay at its size.

MERGE, BUILD = "merge", "build"
"""The kinds of upkeep: merging small fragments, building indexes."""


@frozen
class Due:
    """One due task of upkeep."""

    what: str
    why: str


class CompactionMetrics(TypedDict):
    """The result of a compaction."""

    fragments_removed: int
    fragments_added: int
    files_removed: int
    files_added: int


@frozen_by_name
class Survey:
    """The composition of a table."""

    rows: int
    """The rows of the current version."""
    fragments: int
    """The data files: each read opens all."""
    deleted_rows: int
    """Deleted rows that are still in the table's files."""
    bytes: int
    """The size of the current version's data, without indexes and older versions."""
    versions: int
    unindexed_rows: int
    """Unindexed rows of the index with the most: a search reads them one by one."""
    journal_rows: int
    """Acknowledged small writes that are not yet flushed."""
    journal_bytes: int
    """Their size."""


async def survey(table: Table) -> Survey | None:
    """The composition of the table; None if missing."""
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

    Raises ConflictError if another writer was faster: they stay due.
    """
    async with table.access.commits.pausing(), table.access.separately() as handle:
        with translated(f"compact {table.label}"):
            merged = await merges.step(handle)
        await table.access.commits.know_unchanged(handle, merged.fragments_added)
        return merged


async def due(table: Table, merges: FragmentMerges, policy: IndexPolicy) -> Sequence[Due]:
    """The due upkeep of the table; none if it is missing."""
    if await table.access.reader() is None:
        return []
    async with table.access.separately(is_reading=True) as handle:
        with translated(f"inspect {table.label}"):
            reasons = await indexes.due(handle, table.spec, policy=policy)
            found = [Due(BUILD, why) for why in reasons.values()]
            if n_fragments := await merges.due(handle):
                found.append(Due(MERGE, f"{n_fragments} fragments are to be merged"))
    return found


async def is_compact(table: Table) -> bool:
    """Whether all fragments are large, and hold almost no deleted rows.

    To write them once more would double the size of the table as long as its versions are kept.
    """
    if (handle := await table.access.reader()) is None:
        return True
    with translated(f"inspect {table.label}"):
        stats: Any = await handle.stats()
    _, n_deleted = counted(stats)
    least = stats["fragment_stats"]["lengths"]["min"]
    return bool(least >= _LARGE_ROWS and n_deleted <= _FEW_DELETED * stats["num_rows"])


async def compact(table: Table) -> CompactionMetrics:
    """Merge the table's fragments and add new rows to its indexes; nothing if missing.

    Not for background use: the engine also reads the manifest of every existing version, 1 ms each,
    and does not keep up with concurrent writes.
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
    """The number of the table's fragments."""
    handle = await table.access.peek()
    if handle is None:
        return 0
    with translated(f"inspect {table.label}"):
        stats: Any = await handle.stats()
    return int(stats["fragment_stats"]["num_fragments"])


async def forget_versions(table: Table, *, older_than: timedelta) -> None:
    """Remove the older versions of a table; not for tables with readable history."""
    async with table.access.separately() as handle:
        with translated(f"thin {table.label}"):
            await indexes.optimize(handle, older_than=older_than)


# Otherwise the engine removes versions older than a week: retention is the store's decision.
_NEVER = timedelta(days=365_000)
