"""Upkeep of a table: merging its fragments, and the indexes that pay at its size."""

from datetime import timedelta
from typing import Any, TypedDict

from lance_context_core.engine import indexes
from lance_context_core.engine.errors import translated
from lance_context_core.engine.indexes import IndexPolicy
from lance_context_core.engine.table import Table


class CompactionMetrics(TypedDict):
    """What a compaction did."""

    fragments_removed: int
    fragments_added: int
    files_removed: int
    files_added: int


async def compact(table: Table) -> CompactionMetrics:
    """Merge the table's fragments and fold new rows into its indexes; an absent table has none."""
    if await table.reader() is None:
        return CompactionMetrics(
            fragments_removed=0, fragments_added=0, files_removed=0, files_added=0
        )
    async with table.separately() as handle:
        with translated(f"compact {table.label}"):
            stats = (await handle.optimize(cleanup_older_than=_NEVER)).compaction
    return CompactionMetrics(
        fragments_removed=stats.fragments_removed,
        fragments_added=stats.fragments_added,
        files_removed=stats.files_removed,
        files_added=stats.files_added,
    )


async def build_indexes(table: Table, policy: IndexPolicy) -> list[str]:
    """Build the indexes that pay at the table's size and are missing; returns their columns."""
    if await table.reader() is None:
        return []
    async with table.separately() as handle:
        with translated(f"index {table.label}"):
            return await indexes.build(
                handle, table.spec, policy=policy, text_index=table.text_index
            )


async def count_fragments(table: Table) -> int:
    """How many fragments the table consists of."""
    handle = await table.reader()
    if handle is None:
        return 0
    with translated(f"inspect {table.label}"):
        stats: Any = await handle.stats()
    return int(stats["fragment_stats"]["num_fragments"])


# Without it the engine removes versions older than a week: what is kept is for the store to decide.
_NEVER = timedelta(days=365_000)
