"""The end of a conversation, changed if it is still what was read."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from lance_context_core._util.checks import shown
from lance_context_core._util.retry import Attempts
from lance_context_core.codecs.records import refuse_duplicates
from lance_context_core.errors import AlreadyExistsError, ConflictError, NotFoundError
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.storage.preconditions import Tail
from lance_context_core.stores.records import repeating, writing
from lance_context_core.stores.records.scoped import Records
from lance_context_core.stores.records.writing import Draft

T = TypeVar("T")

_BUSY = "the end of the session kept being changed by others"


async def pop(
    records: Records, where: sql.Clause, *, expected_id: str | None, columns: Sequence[str]
) -> Mapping[str, Any] | None:
    """Remove the last matching row, and return it, with these columns; None if there is none."""
    records.resources.writable()
    asked = [*dict.fromkeys([*columns, KEY, "id", "revision"])]
    attempts = Attempts(_BUSY)
    while True:
        attempts.begin()
        found = await records.table.slice(where, columns=asked, last=1)
        rows: list[dict[str, Any]] = found.to_pylist()
        id = rows[0]["id"] if rows else None
        if expected_id is not None and id != expected_id:
            raise ConflictError(
                f"expected_id={shown(expected_id)} is not the last message, which is "
                f"{shown(id)}: nothing was done. Read the end again, and decide anew"
            )
        if not rows:
            return None
        key = rows[0][KEY]
        tail = Tail(where, [key])
        if await records.table.exchange_if([], seen={key: rows[0]["revision"]}, tail=tail):
            return rows[0]


async def replace_tail(
    records: Records,
    where: sql.Clause,
    draft: Callable[[int, T], Draft],
    given: Sequence[T],
    *,
    within: writing.Within,
    after: str | None,
    expected: Sequence[str] | None,
) -> list[str]:
    """Put new records in the place of the matching rows behind one; see `AsyncHistory`."""
    records.resources.writable()
    new = await writing.prepare(records, records.table, draft, given, within)
    if expected is not None:
        refuse_duplicates(("id", id) for id in expected)
    attempts = Attempts(_BUSY)
    while True:
        attempts.begin()
        before, tail = await _end(records, where, after, expected)
        going = {row[KEY]: row["revision"] for row in tail}
        keys = [one.row[KEY] for one in new]
        staying = sql.in_list(KEY, [key for key in keys if key not in going])
        there = (await records.table.select(staying, columns=[KEY, "id", "expires_at"])).to_pylist()
        now = records.now()
        gone = [row[KEY] for row in there if row["expires_at"] and row["expires_at"] <= now]
        if taken := [row["id"] for row in there if row[KEY] not in gone]:
            raise AlreadyExistsError(
                f"id={taken[0]!r} is taken by a message that stays: nothing was done. Choose another "
                "id, or replace what is after an earlier message"
            )
        if not going and not new:
            return []
        await writing.complete(records, records.table, new)
        if gone:
            await repeating.clear_away(records, gone)
        ends = [before, *tail] if before else tail
        if await records.table.exchange_if(
            [one.row for one in new],
            seen={**dict.fromkeys(keys), **going},
            tail=Tail(where, [row[KEY] for row in ends], is_all=before is None),
        ):
            return [one.record.id for one in new]


async def _end(
    records: Records, where: sql.Clause, after: str | None, expected: Sequence[str] | None
) -> tuple[Mapping[str, Any] | None, list[dict[str, Any]]]:
    """The row of that id, and those behind it, which are all if there is to be none before."""
    # One more than expected tells whether there are others.
    last = None if expected is None else len(expected) + 1
    found = await records.table.slice(where, columns=[KEY, "id", "revision"], last=last)
    rows = found.to_pylist()
    ids = [row["id"] for row in rows]
    if after is None:
        before, tail = None, rows
    elif after in ids:
        place = len(ids) - 1 - ids[::-1].index(after)
        before, tail = rows[place], rows[place + 1 :]
    elif await records.table.count(sql.all_of([where, sql.equals("id", after)])):
        before, tail = None, rows
    else:
        raise NotFoundError(f"after={shown(after)}: the session has no such message")
    ids = [row["id"] for row in tail]
    if expected is not None and ids != [*expected]:
        raise ConflictError(
            f"expected_tail={shown(list(expected))} is not what comes after {shown(after)}, where "
            f"the last ones are {shown(ids)}: nothing was done. Read the end again, and decide anew"
        )
    return before, tail
