"""Upkeep of a table: merging its fragments, and the indexes that pay at its size."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, TypedDict

from lance_context_core._util.frozen import frozen, frozen_by_name
from lance_context_core._util.retry import FEW_ATTEMPTS, retried
from lance_context_core.engine.errors import translated
from lance_context_core.engine.files.fragments import FragmentMerges, Merged, counted
from lance_context_core.engine.refs import refs
from lance_context_core.engine.table import indexes
from lance_context_core.engine.table.indexes import IndexPolicy
from lance_context_core.engine.table.table import Table
from lance_context_core.errors import ConflictError

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
            versions=len(await refs.versions_of(handle, table.name)),
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
