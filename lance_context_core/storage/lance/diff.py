"""Diff: rows that may differ between two states of a table, found by their addresses.

A changed row is written again at another address, and on one ref an address is never reused, not
even after an earlier version was restored. So rows at addresses that both sides have are equal, and
are not read.
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
"""The upper bits of an address are the fragment's number, which grows from commit to commit."""

_EVERYWHERE = 2**64 - 1

_MAX_LISTED = 4_096
"""The maximum number of rows selected by name; more are picked from all rows, at a cost per row of
the table that is far lower for each."""

_ONE_BATCH = 2**20
"""The rows per batch: with the engine's own, small batches a scan takes four times as long."""


async def apart(
    before: Table, after: Table, where: str | None, *, columns: Sequence[str]
) -> tuple[pa.Table, pa.Table]:
    """The matching rows of each side, without those at an address the other side shares.

    They include all rows that differ, and some that only moved: revisions tell these apart. Both
    tables have one name. The rows come in the order of their commits, with their `_rowid`.
    """
    old = await before.access.reader()
    # On a branch it would be unknown which rows are shared with others.
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
    """Below this number, an address on both sides is that of the same row."""
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
        # The version was removed: it is unknown which rows the sides share.
        return 0
    if len(at_fork) == 0:
        return 0
    # Both refs continue the fragment numbers of the fork point.
    return int((int(at_fork.max()) >> _OFFSETS) + 1) << _OFFSETS


def _fork(one: At, other: At, *, forks: dict[str, At]) -> At | None:
    """The last common version of both histories, if known."""
    way = {at.ref: at.version for at in _way(one, forks)}
    for at in _way(other, forks):
        if at.ref in way:
            return At(at.ref, min(at.version, way[at.ref]))
    return None


def _way(at: At, forks: dict[str, At]) -> list[At]:
    """`at`, its ref's fork point, that one's, and so on."""
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
