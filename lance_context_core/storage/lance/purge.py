"""Erasure in a table: finds rows in all versions, and removes them from the files.

A deleted row stays in the data file of its fragment, in the indexes, and in every older version, on
each ref. So the live rows are rewritten, the indexes rebuilt, and the older versions removed, ref
by ref: those that were forked from others before these.

No text of a caller may get into a condition that deletes or updates rows: the engine stores these
conditions in its files. They name rows by number here.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, nullcontext
from datetime import timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_context_core._util.frozen import frozen
from lance_context_core._util.retry import FEW_ATTEMPTS, retried
from lance_context_core.errors import ConflictError, NotFoundError, StorageError
from lance_context_core.storage.database import Database
from lance_context_core.storage.lance import branches, indexes, orphaned_refs, reads
from lance_context_core.storage.lance.branches import At
from lance_context_core.storage.lance.errors import asked, is_missing_file
from lance_context_core.storage.lance.schema import KEY, LINK, MADE, TableSpec
from lance_context_core.storage.sql.predicates import Clause, all_of, is_present, not_in_list
from lance_context_core.storage.table import Table
from lance_context_core.storage.write_batch import WriteBatch

# The links between turns that an earlier release stored. Nothing reads them, and they outlive the
# rows they name.

STORED = all_of([is_present(LINK), not_in_list("context", MADE)])
"""The condition that a row has one. It contains no text of a caller."""

_AT_ONCE = 100_000
"""The number of rows rewritten in one commit, for which others wait."""


async def forget(table: Table) -> None:
    """Remove them from all rows of a table; without any, this reads two columns."""
    if LINK not in table.spec.schema.names or not await table.count(STORED):
        return
    ids = (await table.select(STORED, columns=[KEY]))["_rowid"].to_pylist()
    for start in range(0, len(ids), _AT_ONCE):
        some = ids[start : start + _AT_ONCE]
        # A condition that only the engine can evaluate is a commit: too many rows for the log.
        where = Clause(f"{STORED} AND _rowid >= {some[0]} AND _rowid <= {some[-1]}")
        await table.write(WriteBatch(where=where, values={LINK: None}))


async def forget_on(table: Table, handle: Any) -> None:
    """Remove them from all rows of a handle, in one commit."""
    if LINK in table.spec.schema.names and await handle.count_rows(STORED):
        async with table.access.commits.in_flight.committing():
            await handle.update(where=STORED, updates_sql={LINK: "NULL"})


_ROWS_AT_ONCE = 262_144
"""The rows rewritten by one commit: it conflicts with other writers' changes of them."""

_AGE = timedelta(milliseconds=1)
"""The age from which a version is old."""

_OFFSETS = 32
"""The upper bits of an address are the fragment's number."""

_UNCHANGED = {"revision": "revision"}


@frozen
class TableRef:
    """A table on one ref."""

    name: str | None
    """The ref; None is main."""
    table: Table
    """The table on it."""
    fork: At | None
    """Its fork point; None for main."""
    versions: tuple[int, ...]
    """The existing versions, ascending."""
    telling: tuple[int, ...]
    """Those of them that together show every row that any of them shows."""
    plain_until: int
    """Up to this version nothing was ever updated or deleted: the files contain exactly the rows of
    the versions. 0 if unknown."""

    @property
    def is_plain(self) -> bool:
        """Whether the ref holds no more than its newest version shows."""
        return self.plain_until == self.versions[-1]


@frozen
class Removed:
    """The result of removing the older versions of a ref."""

    n_bytes: int
    is_all: bool
    """Whether no older version is left."""


@frozen
class Gone:
    """The rows to erase from a table."""

    where: str
    """Rows outside of it stay, whatever their keys."""
    keys: Collection[str]

    async def shown(self, handle: Any) -> list[int]:
        """The ids of those of them that a handle shows."""
        rows = await reads.scan(handle, self.where, [KEY], are_there=True)
        keys = pa.array(sorted(self.keys), pa.string())
        row_ids: list[int] = rows.filter(pc.is_in(rows[KEY], keys))["_rowid"].to_pylist()
        return row_ids


async def forks(database: Database, name: str, spec: TableSpec) -> dict[str | None, At | None]:
    """The refs of an existing table with their fork points; main, as None, has none."""
    if not await orphaned_refs.may_be(database.connection, [name]):
        return {None: None}
    handle = await database.table(name, spec).access.opened()
    found: dict[str | None, At | None] = {None: None}
    found.update(await branches.listed(handle, name))
    return found


async def table_refs(database: Database, name: str, spec: TableSpec, main: Any) -> list[TableRef]:
    """An existing table on each of its refs; forks come before their sources.

    `main` is a handle of it on main.
    """
    forked = await forks(database, name, spec)
    found: dict[str | None, TableRef] = {}
    for ref in sorted(forked, key=lambda ref: _depth(ref, forked)):
        at = forked[ref]
        table = database.table(name, spec) if ref is None else database.at_ref(name, spec, ref)
        try:
            history = await _history(main, table)
        except (NotFoundError, StorageError):
            if ref is None or ref in await branches.listed(main, name):
                raise
            continue  # another process has just deleted it
        first = 1 if at is None else at.version
        is_plain = history.versions[0] == first and (
            at is None or (at.ref in found and found[at.ref].plain_until >= first)
        )
        until = history.plain_until if is_plain else 0
        found[ref] = TableRef(ref, table, at, history.versions, history.telling, until)
    return list(reversed(found.values()))


async def past(
    ref: TableRef, wanted: Sequence[tuple[str, Sequence[str]]], main: Any
) -> AsyncIterator[tuple[bool, list[pa.Table]]]:
    """The rows of each telling version that meet each condition, with its columns.

    And whether it is the newest of the ref. Skips versions that others remove meanwhile. Columns
    that a version lacks are missing in its rows; it has no row that matches a condition on one of
    them. `main` is a handle of the table on main. Does not flush the log.
    """
    table = ref.table
    apart = nullcontext(main) if ref.name is None else table.access.separately(is_settled=True)
    async with apart as root:
        for version in reversed(ref.telling):
            try:
                handle = root
                if ref.name is not None or version != await root.version():
                    handle = await branches.opened(root, table.name, table.ref, version)
                rows = await asked(f"read {table.label}", _read(handle, wanted, table.spec))
            except (NotFoundError, StorageError) as error:
                # A process killed while removing an old version has left a part of it.
                is_remains = version != ref.versions[-1] and is_missing_file(error)
                there = await branches.versions_of(root, table.name)
                if version in {about["version"] for about in there} and not is_remains:
                    raise
                continue
            yield version == ref.versions[-1], rows


async def _read(
    handle: Any, wanted: Sequence[tuple[str, Sequence[str]]], spec: TableSpec
) -> list[pa.Table]:
    present = {*(await handle.schema()).names}
    lacking = [f"`{name}`" for name in spec.schema.names if name not in present]
    return [
        pa.table({})
        if any(name in where for name in lacking)
        else await reads.scan(
            handle, where, [one for one in columns if one in present], are_there=True
        )
        for where, columns in wanted
    ]


async def present(table: Table, where: str, columns: Sequence[str]) -> pa.Table:
    """The matching rows of a ref's newest version, whatever version its readers use."""
    async with table.access.separately() as handle:
        return await asked(f"read {table.label}", reads.scan(handle, where, columns))


async def shows(table: Table, gone: Gone) -> bool:
    """Whether the newest version of a ref shows any of these rows."""
    async with table.access.separately() as handle:
        return bool(await asked(f"read {table.label}", gone.shown(handle)))


async def delete(table: Table, gone: Gone) -> None:
    """Delete the rows from one ref, in one commit."""
    async with table.access.separately() as handle:
        await _delete(table, handle, gone)


async def scour(table: Table, gone: Gone, *, sole_writer: bool) -> Removed:
    """Delete the rows from one ref, and from its files all rows not shown.

    Rewrites every row and rebuilds every index, concurrently with writers. Repeatable after a
    crash. A `sole_writer` also removes files of commits that were never made: with other writers,
    these may be files of a running commit. Raises ConflictError if others keep changing the same
    rows.
    """
    return await retried(
        lambda: _scour(table, gone, sole_writer=sole_writer),
        on=ConflictError,
        attempts=FEW_ATTEMPTS,
    )


async def _delete(table: Table, handle: Any, gone: Gone) -> None:
    row_ids = await asked(f"read {table.label}", gone.shown(handle))
    if not row_ids:
        return
    where = _among("_rowid", row_ids)
    async with table.access.commits.in_flight.committing():
        await table.access.commits.insist(
            f"delete from {table.label}", handle, lambda handle: handle.delete(where)
        )


async def _scour(table: Table, gone: Gone, *, sole_writer: bool) -> Removed:
    async with table.access.separately() as handle:
        # Another writer may have written it again since it was deleted.
        await _delete(table, handle, gone)
        await asked(f"erase from {table.label}", _write_anew(table, handle))
        # The replacement of the older versions must exist before they go.
        await table.access.commits.sync(handle)
        removing = _remove_versions(table, handle, sole_writer=sole_writer)
        removed = await asked(f"remove old versions of {table.label}", removing)
    await table.access.commits.sync_removals()
    return removed


async def _remove_versions(table: Table, handle: Any, *, sole_writer: bool) -> Removed:
    clean = int(await handle.version())
    # The engine warns of an age of zero.
    await asyncio.sleep(2 * _AGE.total_seconds())
    async with AsyncExitStack() as stack:
        if not sole_writer:
            await stack.enter_async_context(table.access.commits.in_flight.removing())
            await handle.checkout_latest()
        done = await indexes.optimize(handle, older_than=_AGE, delete_unverified=sole_writer)
    # A version written by a machine with a clock ahead of this one's may be left.
    left = await branches.versions_of(handle, table.name)
    is_all = min(about["version"] for about in left) >= clean
    return Removed(int(done.prune.bytes_removed), is_all)


async def _write_anew(table: Table, handle: Any) -> None:
    """Rebuild every index, over rows that share no fragment with a deleted one any more."""
    await forget_on(table, handle)
    await _move_rows(table, handle)
    await indexes.build_anew(handle)


async def _move_rows(table: Table, handle: Any) -> None:
    """Move every row out of the fragments that also hold deleted ones.

    The location of these is unknown: if any exist, all rows are moved. On a forked ref they are
    always moved: while it refers to files of the source ref, the engine keeps that version there,
    and with it the condition of the deletion that made it.
    """
    found = await branches.versions_of(handle, table.name)
    newest = max(found, key=lambda about: about["version"])
    if table.ref is None and int(newest["metadata"]["total_deletion_file_rows"]) == 0:
        return
    end: int | None = None
    for _ in range(FEW_ATTEMPTS):
        fragments = await _fragments(handle)
        end = max(fragments, default=0) + 1 if end is None else end
        old = {number: n_rows for number, n_rows in fragments.items() if number < end}
        if not old:
            return
        for first, last in _spans(old):
            where = f"_rowaddr >= {first << _OFFSETS} AND _rowaddr < {(last + 1) << _OFFSETS}"

            async def move(handle: Any, where: str = where) -> None:
                await handle.update(where=where, updates_sql=_UNCHANGED)

            async with table.access.commits.in_flight.committing():
                await table.access.commits.insist(f"erase from {table.label}", handle, move)
    raise ConflictError("the same rows kept being changed by others: try again")


async def _fragments(handle: Any) -> dict[int, int]:
    """The number of rows that each fragment shows, by its number."""
    await handle.checkout_latest()
    rows = await handle.query().select(["_rowaddr"]).to_arrow()
    addresses = rows["_rowaddr"].to_numpy().astype(np.uint64) >> np.uint64(_OFFSETS)
    numbers, counts = np.unique(addresses, return_counts=True)
    return dict(zip(numbers.tolist(), counts.tolist(), strict=True))


def _spans(fragments: Mapping[int, int]) -> Iterable[tuple[int, int]]:
    """The first and the last of neighbouring fragments, which have few enough rows together."""
    first, last, n_rows = -1, -1, 0
    for number in sorted(fragments):
        if first >= 0 and n_rows + fragments[number] > _ROWS_AT_ONCE:
            yield first, last
            first, n_rows = -1, 0
        first, last = (number if first < 0 else first), number
        n_rows += fragments[number]
    if first >= 0:
        yield first, last


@frozen
class _History:
    versions: tuple[int, ...]
    telling: tuple[int, ...]
    plain_until: int


async def _history(root: Any, table: Table) -> _History:
    # On main it is at the newest version.
    handle = root if table.ref is None else await branches.opened(root, table.name, table.ref)
    found = await branches.versions_of(handle, table.name)
    listed = sorted(found, key=lambda about: int(about["version"]))
    if handle is not root:
        handle.close()
    steps = list(pairwise(listed))
    plain_until = listed[0]["version"]
    for old, new in steps:
        if new["version"] > plain_until + 1 or not _only_adds(old["metadata"], new["metadata"]):
            break
        plain_until = new["version"]
    telling = [old["version"] for old, new in steps if not _keeps(old["metadata"], new["metadata"])]
    return _History(
        versions=tuple(about["version"] for about in listed),
        telling=(*telling, listed[-1]["version"]),
        plain_until=plain_until,
    )


def _keeps(old: Mapping[str, str], new: Mapping[str, str]) -> bool:
    """Whether the later version surely shows all rows of the earlier one."""
    return int(old["total_rows"]) == 0 or _only_adds(old, new)


def _only_adds(old: Mapping[str, str], new: Mapping[str, str]) -> bool:
    """Whether all changes were additions: by the summary, one new fragment, full of them.

    An update or a compaction replaces fragments by the one that it adds, or deletes rows in them.
    """
    if int(old["total_data_file_rows"]) == int(new["total_data_file_rows"]) == 0:
        return True
    grown = {name: int(new[name]) - int(old[name]) for name in _SUMMED}
    return (
        grown["total_fragments"] == 1
        and grown["total_rows"] == grown["total_data_file_rows"] > 0
        and int(old["total_deletion_file_rows"]) == int(new["total_deletion_file_rows"]) == 0
    )


_SUMMED = ("total_fragments", "total_rows", "total_data_file_rows")


def _depth(ref: str | None, forks: Mapping[str | None, At | None]) -> int:
    """The number of forks that lead to the ref."""
    depth = 0
    while (at := forks.get(ref)) is not None:
        ref, depth = at.ref, depth + 1
    return depth


def _among(name: str, numbers: Collection[int]) -> str:
    """That a number is one of these, which may be very many, and often neighbours."""
    sorted_ = np.unique(np.fromiter(numbers, np.uint64, len(numbers)))
    breaks = np.flatnonzero(np.diff(sorted_) != 1) + 1
    runs = [(int(run[0]), int(run[-1])) for run in np.split(sorted_, breaks)]
    alone = [first for first, last in runs if first == last]
    clauses = [f"({name} >= {first} AND {name} <= {last})" for first, last in runs if first < last]
    if alone:
        clauses.append(f"{name} IN ({', '.join(map(str, alone))})")
    return " OR ".join(clauses)
