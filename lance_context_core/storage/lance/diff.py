"""Which rows may differ between two places of a table, found by where they lie on the disk.

A row that is changed is written anew at another address, and on one ref an address is never used
twice, not even after an earlier version was restored. So the rows at the addresses that both sides
have are equal, and nothing needs to be read of them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lance_context_core.errors import NotFoundError, StorageError
from lance_context_core.storage.lance import branches
from lance_context_core.storage.lance.branches import At
from lance_context_core.storage.lance.errors import translated
from lance_context_core.storage.lance.reads import present
from lance_context_core.storage.sql import all_of
from lance_context_core.storage.table import Table

_OFFSETS = 32
"""The upper bits of an address are the number of the fragment, which grows from commit to commit."""

_EVERYWHERE = 2**64 - 1

_MAX_LISTED = 4_096
"""Up to so many rows are named one by one; more are picked from all rows, which costs by the row
of the table but far less for each."""

_ONE_BATCH = 2**20
"""Rows that come at a time: in the engine's own, small batches a scan takes four times as long."""


async def apart(
    before: Table, after: Table, where: str | None, *, columns: Sequence[str]
) -> tuple[pa.Table, pa.Table]:
    """The matching rows of each side that are not where the other side has the same row.

    All rows that differ are among them, and some that were only moved: revisions tell these apart.
    Both tables are of one name. They come in the order of their commits, with their `_rowid`.
    """
    old = await before.access.reader()
    # Of a branch nobody could tell what its rows share with others.
    reading_new = after.access.reader if after.ref else after.access.complete_reader
    new = await reading_new()
    try:
        return await _apart(before, after, old, new, where, columns)
    except StorageError as error:
        for table, handle in ((before, old), (after, new)):
            if handle is not None:
                await table.access.explain(handle, error)
        raise


async def _apart(
    before: Table, after: Table, old: Any, new: Any, where: str | None, columns: Sequence[str]
) -> tuple[pa.Table, pa.Table]:
    with translated(f"compare versions of {before.label}"):
        there = np.empty(0, np.uint64) if old is None else await _addresses(old)
        here = np.empty(0, np.uint64) if new is None else await _addresses(new)
        shared = 0 if old is None or new is None else await _shared(before.name, old, new)
        # Sorted runs, as these are, are merged thirty times faster than they are sorted.
        gone = there[(there >= shared) | ~np.isin(there, here, assume_unique=True, kind="sort")]
        come = here[(here >= shared) | ~np.isin(here, there, assume_unique=True, kind="sort")]
        return (
            await _read(before, old, np.sort(gone), len(there), where, columns),
            await _read(after, new, np.sort(come), len(here), where, columns),
        )


async def _addresses(handle: Any) -> np.ndarray:
    found = (await _all(handle.query().select(["_rowaddr"])))["_rowaddr"]
    return np.asarray(found.to_numpy(), np.uint64)


async def _shared(name: str, old: Any, new: Any) -> int:
    """Below this number an address is that of the same row on both sides, where both have it."""
    before = At(old.current_branch(), await old.version())
    after = At(new.current_branch(), await new.version())
    if before.ref == after.ref:
        return _EVERYWHERE
    fork = _fork(before, after, forks=await branches.listed(old, name))
    if fork is None:
        return 0
    try:
        at_fork = await _addresses(await branches.opened(old, name, fork.ref, fork.version))
    except (NotFoundError, StorageError):
        # The version is not kept any more: nothing is known of what the sides share.
        return 0
    if len(at_fork) == 0:
        return 0
    # Both refs count their fragments on from the newest of the fork.
    return int((int(at_fork.max()) >> _OFFSETS) + 1) << _OFFSETS


def _fork(one: At, other: At, *, forks: dict[str, At]) -> At | None:
    """The last version that the ways to both places have in common, if that can be told."""
    way = {at.ref: at.version for at in _way(one, forks)}
    for at in _way(other, forks):
        if at.ref in way:
            return At(at.ref, min(at.version, way[at.ref]))
    return None


def _way(at: At, forks: dict[str, At]) -> list[At]:
    """`at`, where its ref was forked, where that one was, and so on."""
    way = [at]
    while (ref := way[-1].ref) is not None and ref in forks:
        way.append(forks[ref])
    return way


async def _read(
    table: Table,
    handle: Any,
    addresses: np.ndarray,
    n_rows: int,
    where: str | None,
    columns: Sequence[str],
) -> pa.Table:
    """The matching rows at these addresses."""
    if handle is None or len(addresses) == 0:
        return table.nothing(columns)
    conditions = [f"({where})"] if where else []
    if len(addresses) <= _MAX_LISTED:
        conditions.append(f"_rowaddr IN ({', '.join(map(str, addresses.tolist()))})")
    elif len(addresses) < n_rows:
        conditions.append(f"_rowaddr >= {addresses[0]} AND _rowaddr <= {addresses[-1]}")
    query = handle.query().select([*await present(handle, columns), "_rowaddr"]).with_row_id()
    rows = await _all(query.where(all_of(conditions)) if conditions else query)
    if len(addresses) > _MAX_LISTED:
        rows = rows.filter(pa.array(np.isin(rows["_rowaddr"].to_numpy(), addresses)))
    return rows.drop_columns("_rowaddr").sort_by("_rowid")


async def _all(query: Any) -> pa.Table:
    batches = await query.to_batches(max_batch_length=_ONE_BATCH)
    return pa.Table.from_batches(await batches.read_all(), schema=batches.schema)
