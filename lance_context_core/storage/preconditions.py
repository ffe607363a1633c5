"""Commits with preconditions: done only if all its keys have the expected revisions.

The engine has no such commit. It can fail where a row has another revision, or exists unexpectedly,
but not where one is missing; and after another commit it starts again on top of that. So the result
is checked afterwards against the version beneath, unless no other commit intervened.
"""

import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_context_core.storage.lance import contention, reads, writes
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.storage.spooled_batch import SpooledBatch
from lance_context_core.storage.sql.predicates import (
    EVERYTHING,
    NOTHING,
    Clause,
    all_of,
    any_of,
    equals,
    in_list,
    timestamp,
)
from lance_context_core.storage.write_batch import Seen, Tail

NO_KEYS = pa.schema([pa.field(KEY, pa.string()), pa.field("_rowid", pa.uint64())]).empty_table()

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_NOT_SO_LONG_AGO = datetime(1971, 1, 1, tzinfo=UTC)
_TAKE_BACK = "take back what came too late"
_MARK_BITS = 44
"""In microseconds; some months."""


async def write(
    handle: Any,
    at: Callable[[int], Awaitable[Any]],
    rows: pa.Table | None,
    removed: Collection[str],
    seen: Seen,
    tail: Tail | None = None,
) -> bool:
    """Write rows that succeed the `seen` revisions, and delete the rows `removed`.

    Returns whether it was done; `at` gives a handle at a version. Divides by zero, and writes
    nothing, if the commit itself can detect a failed precondition. It cannot detect another `tail`.
    """
    before = int(await handle.version())
    # The commit itself detects that a new row exists, and a million rows may be new.
    looked_at: Seen = _present(seen)
    if looked_at or rows is None or rows.num_rows < len(seen):
        new = set() if rows is None else {key for key in rows[KEY].to_pylist() if seen[key] is None}
        looked_at = {key: revision for key, revision in seen.items() if key not in new}
    if not await _is_as_seen(handle, looked_at, tail):
        return False
    n_done, version = await _commit(handle, rows, removed, seen)
    is_whole = n_done == (0 if rows is None else rows.num_rows) + len(removed)
    if is_whole and version == before + 1:
        return True
    beneath = await at(version - 1)
    try:
        if is_whole and await _is_as_seen(beneath, looked_at, tail):
            return True
        if n_done:

            async def take_back(handle: Any) -> None:
                await _take_back(handle, beneath, rows, seen)

            await contention.insist(_TAKE_BACK, handle, take_back)
        return False
    finally:
        beneath.close()


async def append(
    handle: Any, at: Callable[[int], Awaitable[Any]], rows: SpooledBatch, *, key: str
) -> bool:
    """Append rows of one revision, unless `key`, the key of one of them, exists.

    Returns whether they are stored. Reads the rows while writing them, where `write` holds all in
    memory; but the engine appends them regardless of other commits. So it checks afterwards which
    writer was first.
    """
    revision = rows.revision
    assert revision is not None
    await handle.checkout_latest()
    if there := await _revisions(handle, [key]):
        return there[key] == revision  # may have been written, and the answer was lost
    before = int(await handle.version())
    await _add(handle, rows)
    for version in range(before + 1, int(await handle.version())):
        between = await at(version)
        try:
            first = await _revisions(between, [key])
        finally:
            between.close()
        if first:
            break
    else:
        return True
    if first[key] == revision:
        return True

    async def take_back(handle: Any) -> None:
        await handle.delete(equals("revision", revision))

    await contention.insist(_TAKE_BACK, handle, take_back)
    return False


async def take_back_later(handle: Any, where: Clause) -> int:
    """Delete rows that `append` left although others added them before; returns the number of keys.

    A process killed between its two commits could not do it itself. `where` selects the rows with
    the keys that it was given.
    """
    columns = [KEY, "revision", "created_at", "updated_at"]
    found = (await reads.scan(handle, where, columns)).to_pylist()
    of = dict[str, list[dict[str, Any]]]()
    for row in found:
        of.setdefault(row[KEY], []).append(row)
    later = list[int]()
    for rows in of.values():
        # A row changed since then comes after the others, whichever was first.
        rows.sort(key=lambda row: row["created_at"] == row["updated_at"])
        later += (row["revision"] for row in rows[1:])
    if later:
        await handle.delete(f"revision IN ({', '.join(map(str, later))})")
    return len(later)


async def exchange(
    handle: Any,
    at: Callable[[int], Awaitable[Any]],
    rows: pa.Table | None,
    seen: Seen,
    tail: Tail,
) -> bool:
    """Append rows, and delete the seen ones, if `tail` is the end. As `write`.

    A deleted row could only return at the end. So it is hidden first, in its position, and deleted
    when the commit is valid: if the process is killed before, it stays hidden.
    """
    before = int(await handle.version())
    if not await _is_as_seen(handle, seen, tail):
        return False
    schema, gone = await handle.schema(), _present(seen)
    parts = [] if rows is None else [writes.conformed(rows, schema)]
    mark = _LONG_AGO + timedelta(microseconds=secrets.randbits(_MARK_BITS))
    if gone:
        old = await handle.query().where(writes.with_revisions(gone.items())).to_arrow()
        parts.insert(0, writes.conformed(_hidden(old, mark), schema))
    if not parts:
        return True
    data = pa.concat_tables(parts)
    done = await writes.merge(
        handle, data, adds=rows is not None, over=EVERYTHING, on=[KEY, "revision"]
    )
    is_whole, version = done.n_replaced == len(gone), done.version
    if not is_whole or version != before + 1:
        if not done.n_replaced and not done.n_added:
            return False
        beneath = await at(version - 1)
        try:
            if not is_whole or not await _is_as_seen(beneath, seen, tail):

                async def put_back(handle: Any) -> None:
                    await _put_back(handle, beneath, data, seen, mark)

                await contention.insist(_TAKE_BACK, handle, put_back)
                return False
        finally:
            beneath.close()
    if gone:

        async def remove(handle: Any) -> None:
            await handle.delete(_marked(gone, mark))

        with suppress(Exception):  # done: no read shows them any more
            await contention.insist("remove what was replaced", handle, remove)
    return True


async def _commit(
    handle: Any, rows: pa.Table | None, removed: Collection[str], seen: Seen
) -> tuple[int, int]:
    """The number of rows written or deleted, and the version afterwards."""
    others, adds = {}, len(_present(seen)) < len(seen)
    if rows is None or rows.num_rows < len(seen):
        written = set() if rows is None else set(rows[KEY].to_pylist())
        others = {key: revision for key, revision in seen.items() if key not in written}
        adds = any(seen[key] is None for key in written)
    gone = all_of([_guard(others), in_list(KEY, removed) if removed else NOTHING])
    done = await writes.merge(
        handle,
        rows,
        adds=adds,
        over=writes.claiming(None),
        removes=gone if rows is None or others or removed else None,
    )
    return done.n_added + done.n_replaced + done.n_removed, done.version


async def _add(handle: Any, rows: SpooledBatch) -> None:
    await handle.add(rows.reader(), write_parallelism=1)


async def _take_back(handle: Any, beneath: Any, rows: pa.Table | None, seen: Seen) -> None:
    """Restore the rows from before the commit, except those that others changed since."""
    before = await beneath.query().where(in_list(KEY, seen)).to_arrow()
    there = set(before[KEY].to_pylist())
    ours = {} if rows is None else _by_key(rows)
    added = [(key, revision) for key, revision in ours.items() if key not in there]
    if before.num_rows or added:
        await writes.merge(
            handle,
            await writes.fitted(handle, writes.anew(before)) if before.num_rows else None,
            over=writes.has_revision(ours.values()) if ours else None,
            removes=writes.with_revisions(added) if added else None,
        )


async def _put_back(handle: Any, beneath: Any, data: pa.Table, seen: Seen, mark: datetime) -> None:
    """Restore the rows that `exchange` hid with that mark, and delete the rows it added."""
    gone = _present(seen)
    old = (
        await beneath.query().where(writes.with_revisions(gone.items())).to_arrow()
        if gone
        else None
    )
    if old is not None:
        shown = pc.fill_null(pc.greater(old["expires_at"], pa.scalar(_NOT_SO_LONG_AGO)), True)
        old = old.filter(shown)
    there = {} if old is None else _by_key(old)
    new = [one for one in _by_key(data).items() if gone.get(one[0]) != one[1]]
    strays = [_marked({key: gone[key] for key in gone if key not in there}, mark)]
    added = any_of([*([writes.with_revisions(new)] if new else []), *strays])
    if old is None or not there:
        await handle.delete(added)
        return
    rows = writes.conformed(old, await handle.schema())
    over = f"target.expires_at = {timestamp(mark)}"
    await writes.merge(handle, rows, adds=False, over=over, removes=added, on=[KEY, "revision"])


async def _is_as_seen(handle: Any, seen: Seen, tail: Tail | None) -> bool:
    """Whether the rows have the seen revisions, and the condition these last rows."""
    if tail is not None:
        last = await reads.slice_of(
            handle, tail.where, [KEY], nothing=NO_KEYS, offset=0, limit=None, last=tail.n_looked_at
        )
        if not tail.is_of(last[KEY].to_pylist()):
            return False
    return await _revisions(handle, seen) == _present(seen)


def _hidden(rows: pa.Table, mark: datetime) -> pa.Table:
    """These rows, hidden: expired at a moment that identifies the writer."""
    place = rows.schema.get_field_index("expires_at")
    field = rows.schema.field(place)
    return rows.set_column(place, field, pa.array([mark] * rows.num_rows, field.type))


def _marked(rows: Mapping[str, int], mark: datetime) -> Clause:
    """The condition that a row is one of these, and hidden with that mark."""
    if not rows:
        return NOTHING
    return all_of([writes.with_revisions(rows.items()), equals("expires_at", mark)])


async def _revisions(handle: Any, keys: Collection[str]) -> dict[str, int]:
    if not keys:
        return {}
    query = handle.query().where(in_list(KEY, keys)).select([KEY, "revision"])
    return _by_key(await query.to_arrow())


def _by_key(rows: pa.Table) -> dict[str, int]:
    return dict(zip(rows[KEY].to_pylist(), rows["revision"].to_pylist(), strict=True))


def _present(seen: Seen) -> dict[str, int]:
    return {key: revision for key, revision in seen.items() if revision is not None}


def _guard(seen: Seen) -> str:
    """A condition that is true, but divides by zero for rows of another revision."""
    revisions = ", ".join(map(str, _present(seen).values())) or "NULL"
    is_fine = f"NOT {in_list(KEY, seen)} OR coalesce(revision IN ({revisions}), false)"
    return f"1 / CAST(({is_fine}) AS BIGINT) = 1"
