"""A commit that is made only if all keys which it is about have the revisions that were seen.

The engine has no such commit. It can be made to fail where a row has another revision than was seen, or
is there and was not, but not where one is gone; and after a commit of others it begins anew on top of
theirs. So it is looked afterwards on what the commit came, unless nobody else has committed.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

import pyarrow as pa

from lance_context_core.engine.schema import KEY
from lance_context_core.engine.sql.clauses import NOTHING, all_of, in_list
from lance_context_core.engine.table import writing
from lance_context_core.engine.table.writing import Changes

Seen = Mapping[str, int | None]
"""Revisions by key; None of what is absent."""


async def write(
    handle: Any,
    at: Callable[[int], Awaitable[Any]],
    rows: pa.Table | None,
    removed: Collection[str],
    seen: Seen,
) -> bool:
    """Write rows, each of which succeeds what was seen of its key, and remove the rows `removed`.

    Returns whether it was done; `at` gives a handle at a version. Divides by zero, and writes nothing,
    where it can be told in the commit that something is not as it was seen.
    """
    before = int(await handle.version())
    if await _revisions(handle, seen) != _present(seen):
        return False
    n_done, version = await _commit(handle, rows, removed, seen)
    is_whole = n_done == (0 if rows is None else rows.num_rows) + len(removed)
    if is_whole and version == before + 1:
        return True
    beneath = await at(version - 1)
    try:
        if is_whole and await _revisions(beneath, seen) == _present(seen):
            return True
        if n_done:
            await _take_back(handle, beneath, rows, seen)
        return False
    finally:
        beneath.close()


async def _commit(
    handle: Any, rows: pa.Table | None, removed: Collection[str], seen: Seen
) -> tuple[int, int]:
    """How many rows were written or removed, and the version then."""
    written = set() if rows is None else set(rows[KEY].to_pylist())
    others = {key: revision for key, revision in seen.items() if key not in written}
    gone = all_of([_guard(others), in_list(KEY, removed) if removed else NOTHING])
    if rows is None:
        done = await handle.delete(gone)
        return int(done.num_deleted_rows), int(done.version)
    merge = writing.updating(handle, written)
    if any(seen[key] is None for key in written):
        merge = merge.when_not_matched_insert_all()
    if others:
        merge = merge.when_not_matched_by_source_delete(gone)
    done = await merge.execute(rows, **writing.NULLS)
    n_done = done.num_inserted_rows + done.num_updated_rows + done.num_deleted_rows
    return int(n_done), int(done.version or await handle.version())


async def _take_back(handle: Any, beneath: Any, rows: pa.Table | None, seen: Seen) -> None:
    """Leave what was there before the commit, as far as nobody has changed it since."""
    before = await beneath.query().where(in_list(KEY, seen)).to_arrow()
    there = set(before[KEY].to_pylist())
    ours = {} if rows is None else _by_key(rows)
    changes = Changes(
        rows=before,
        replaced=list(ours.values()),
        removed=[(key, revision) for key, revision in ours.items() if key not in there],
    )
    if changes:
        await writing.apply(handle, changes)


async def _revisions(handle: Any, keys: Collection[str]) -> dict[str, int]:
    query = handle.query().where(in_list(KEY, keys)).select([KEY, "revision"])
    return _by_key(await query.to_arrow())


def _by_key(rows: pa.Table) -> dict[str, int]:
    return dict(zip(rows[KEY].to_pylist(), rows["revision"].to_pylist(), strict=True))


def _present(seen: Seen) -> dict[str, int]:
    return {key: revision for key, revision in seen.items() if revision is not None}


def _guard(seen: Seen) -> str:
    """A condition that holds of all rows, but divides by zero for one of these that is another."""
    revisions = ", ".join(map(str, _present(seen).values())) or "NULL"
    is_fine = f"NOT {in_list(KEY, seen)} OR coalesce(revision IN ({revisions}), false)"
    return f"1 / CAST(({is_fine}) AS BIGINT) = 1"
