"""Conditional writes by key: put, add if absent, claim, or remove.

Existing rows are read here, in the single place for all writers of a process, so that they never
mistake each other's revisions for another process's.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from lance_context_core._util.retry import Attempts
from lance_context_core.errors import ContextStoreError, InternalError, InvalidRequestError
from lance_context_core.storage.lance.arrow import Row
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.storage.names import new_revision, next_revision
from lance_context_core.storage.sql.predicates import in_list
from lance_context_core.storage.write_batch import BatchResult, Mode, Seen, WriteBatch

HOW = "how"
"""The column of a batch's row that says how it is written."""

PUT, RENEW, ADD, CLAIM, REMOVE, LEAVE = "put", "renew", "add", "claim", "remove", "leave"
"""A row that is put keeps the `created_at` of the row that it replaces; a renewed one does not. A
row that is added yields to an existing one; a claimed one makes its whole batch yield. A row that
is left is only there for its expectation. Expired rows count as absent. Each row has the current
time in `updated_at`."""

EXPECTED = "expected"
"""A further column: the revision that the existing row must have, or None if no row may exist; else
the whole batch is not written."""


class Rows(Protocol):
    """The part of a table that this module uses; see `Table`."""

    @property
    def label(self) -> str:
        """Its name in messages."""

    async def find(self, where: str | None, *, columns: Sequence[str]) -> pa.Table | list[Row]:
        """The matching rows."""

    async def write(self, batch: WriteBatch) -> BatchResult:
        """Put rows and delete others."""


class Taken(Exception):  # noqa: N818 - no error yet: who writes says what it means
    """A row exists under a key that a batch claimed; the argument is the key."""


class Unexpected(Exception):  # noqa: N818 - as above
    """A failed expectation of a batch: the key, the expected revision, and the actual one."""


async def write_all(
    table: Rows, batches: Sequence[Sequence[Row]]
) -> Sequence[list[bool] | Exception]:
    """Write all batches in one commit; per batch and row, whether its key existed.

    No key occurs twice in them. A batch that the engine refuses fails for its caller alone, and so
    does, with `Taken`, one that claims an existing key: nothing of it is written. A batch with an
    expectation is a commit of its own, and fails with `Unexpected`.
    """
    if any(map(_expects, batches)):
        others = [batch for batch in batches if not _expects(batch)]
        done = iter(await write_all(table, others) if others else ())
        return [
            await _write_if(table, batch) if _expects(batch) else next(done) for batch in batches
        ]
    try:
        existed, taken = await _write(table, batches)
    except (InternalError, InvalidRequestError) as error:
        if len(batches) == 1:
            return [error]
        return [outcome for one in batches for outcome in await write_all(table, [one])]
    refused = [next((row[KEY] for row in batch if row[KEY] in taken), None) for batch in batches]
    return [
        [row[KEY] in existed for row in batch] if key is None else Taken(key)
        for batch, key in zip(batches, refused, strict=True)
    ]


def outcome_of(row: Row, old: Mapping[str, Any] | None) -> tuple[bool, dict[str, Any] | None]:
    """Whether the row's key holds `old`, unexpired, and the row as it is written.

    None for a row that is removed, or left, or not written because another exists. Raises `Taken`
    and `Unexpected` if nothing of the row's batch may be written.
    """
    existed = old is not None and _is_alive(old, row)
    how, found = row[HOW], _revision(old) if existed else None
    if EXPECTED in row and row[EXPECTED] != found:
        raise Unexpected(row[KEY], row[EXPECTED], found)
    if how == CLAIM and existed:
        raise Taken(row[KEY])
    is_written = how in (PUT, RENEW, CLAIM) or (how == ADD and not existed)
    return existed, _settled(row, old) if is_written else None


async def _write(table: Rows, batches: Sequence[Sequence[Row]]) -> tuple[set[str], set[str]]:
    """Write the batches; returns the keys that existed, and the failed claims."""
    existed: set[str] = set()
    taken: set[str] = set()
    pending = {row[KEY]: row for batch in batches for row in batch}
    tried: set[tuple[str, int]] = set()
    # Added rows are almost always new: if one exists, the commit reports it as lost.
    is_sure = all(row[HOW] in (ADD, CLAIM) for row in pending.values())
    attempts = Attempts(f"the same rows of {table.label} kept being changed by others")
    while True:
        attempts.begin()
        there = {} if is_sure else await _there(table, pending)
        is_sure = False
        for key in [key for key, old in there.items() if (key, old["revision"]) in tried]:
            del pending[key], there[key]  # written, although the commit seemed to fail
        alive = {key for key, old in there.items() if _is_alive(old, pending[key])}
        if lost := {key for key in alive if pending[key][HOW] == CLAIM}:
            taken |= lost
            refused = _keys(batch for batch in batches if not lost.isdisjoint(_keys([batch])))
            pending = {key: row for key, row in pending.items() if key not in refused}
        existed |= alive & pending.keys()
        settled = [
            _settled(row, there.get(key))
            for key, row in pending.items()
            if row[HOW] in (PUT, RENEW, CLAIM) or (row[HOW] == ADD and key not in existed)
        ]
        tried |= {(row[KEY], row["revision"]) for row in settled}
        removed = [key for key, row in pending.items() if row[HOW] == REMOVE and key in there]
        claims = {
            key: _revision(there.get(key)) for key, row in pending.items() if row[HOW] == CLAIM
        }
        again = await _commit(table, settled, removed, claims, is_new=not there)
        pending = pending if again is None else {key: pending[key] for key in again}
        if not pending:
            return existed, taken


async def _write_if(table: Rows, batch: Sequence[Row]) -> list[bool] | Exception:
    """Write a batch with expectations; as `write_all`."""
    try:
        return await write_as_expected(table, batch)
    except (ContextStoreError, Taken, Unexpected) as error:
        return error


async def write_as_expected(
    table: Rows, batch: Sequence[Row], *, is_watched: bool = False
) -> list[bool]:
    """Write a batch, or nothing of it; per row, whether its key existed.

    With `is_watched`, commits also without rows, to check the table. Raises `Taken` and
    `Unexpected`.
    """
    tried: set[tuple[str, int]] = set()
    existed: list[bool] = []
    attempts = Attempts(f"the same rows of {table.label} kept being changed by others")
    while True:
        attempts.begin()
        there = await _there(table, [row[KEY] for row in batch])
        if any((key, old["revision"]) in tried for key, old in there.items()):
            return existed  # written, although the commit seemed to fail
        alive = {row[KEY] for row in batch if (old := there.get(row[KEY])) and _is_alive(old, row)}
        for row in batch:
            found = there[row[KEY]]["revision"] if row[KEY] in alive else None
            if row.get(EXPECTED, found) != found:
                raise Unexpected(row[KEY], row[EXPECTED], found)
            if row[HOW] == CLAIM and found is not None:
                raise Taken(row[KEY])
        existed = [row[KEY] in alive for row in batch]
        rows = [
            _settled(row, there.get(row[KEY]))
            for row in batch
            if row[HOW] in (PUT, RENEW, CLAIM) or (row[HOW] == ADD and row[KEY] not in alive)
        ]
        removed = [row[KEY] for row in batch if row[HOW] == REMOVE and row[KEY] in there]
        if not rows and not removed and not is_watched:
            return existed
        tried |= {(row[KEY], row["revision"]) for row in rows}
        seen = {row[KEY]: _revision(there.get(row[KEY])) for row in batch}
        made = WriteBatch(rows, Mode.UPSERT, deletes=removed, expect=seen)
        if (await table.write(made)).is_done:
            return existed


async def _commit(
    table: Rows,
    rows: Sequence[Row],
    removed: Sequence[str],
    claims: Seen,
    *,
    is_new: bool,
) -> Collection[str] | None:
    """Write the rows in one commit, if any; returns the lost keys.

    None if nothing was written, because a claim failed meanwhile.
    """
    if not rows and not removed:
        return ()
    mode = Mode.INSERT if is_new and not claims else Mode.UPSERT
    try:
        done = await table.write(WriteBatch(rows, mode, deletes=removed, expect=claims or None))
    except InternalError:
        # It may have been written, and the answer was lost.
        if claims and await _there(table, claims):
            return None
        raise
    return done.lost if done.lost or done.is_done else None


def _expects(batch: Sequence[Row]) -> bool:
    return any(EXPECTED in row for row in batch)


def _keys(batches: Iterable[Sequence[Row]]) -> set[str]:
    return {row[KEY] for batch in batches for row in batch}


async def _there(table: Rows, keys: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    columns = [KEY, "created_at", "expires_at", "revision"]
    found = await table.find(in_list(KEY, keys), columns=columns)
    return {row[KEY]: row for row in (found if isinstance(found, list) else found.to_pylist())}


def _revision(row: Mapping[str, Any] | None) -> int | None:
    return None if row is None else row["revision"]


def _is_alive(old: Mapping[str, Any], new: Row) -> bool:
    expires_at = old.get("expires_at")
    return expires_at is None or expires_at > new["updated_at"]


def _settled(row: Row, old: Mapping[str, Any] | None) -> dict[str, Any]:
    """The row as it is written; it replaces `old`."""
    settled = {name: value for name, value in row.items() if name not in (HOW, EXPECTED)}
    settled["revision"] = new_revision() if old is None else next_revision(old["revision"])
    if old is not None and row[HOW] != RENEW and _is_alive(old, row):
        settled["created_at"] = old["created_at"]
    return settled
