"""What had been acknowledged by a moment, and was in no version of its table yet.

The journal holds small writes until they are folded. So a moment lies between two versions, and what
was written by then is in the later one, beside what was written after it: each row tells its moment.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from lance_context_core.engine.journal.entries import Entry, How, View
from lance_context_core.engine.journal.journal import Journal
from lance_context_core.engine.journal.statements import Part
from lance_context_core.engine.refs import moments, refs
from lance_context_core.engine.schema import ACKNOWLEDGED, KEY
from lance_context_core.engine.sql.clauses import all_of, at_or_after, at_or_before
from lance_context_core.engine.table import reading

_MOST_VERSIONS = 8
"""In so many versions after a moment it is looked for what had been acknowledged by then; all but a few
merges of files bring what the journal held."""

_EPOCH = datetime.fromtimestamp(0, UTC)


async def tail(
    journal: Journal, handle: Any, name: str, ref: str | None, version: int, moment: datetime
) -> View | None:
    """What is to be laid over that version, the newest one that was made by the moment.

    None if that is nothing. What was removed is known of the last month.
    """
    files = await moments.of_ref(handle, ref)
    if files is None:
        return None
    there = await refs.opened(handle, name, ref, version)
    since = await _last(there)
    moment = moment.astimezone(UTC)
    rows: dict[str, dict[str, Any]] = {}
    later = [number for number in await files.numbers() if number > version]
    for number in later[:_MOST_VERSIONS]:
        one = await refs.opened(handle, name, ref, number)
        for row in await _rows(one, since, moment):
            rows[row[KEY]] = row
        last = await _last(one)
        if last is not None and last > moment:
            # They are folded in the order in which they were acknowledged.
            break
    gone = await journal.removals(Part(name, ref or ""), _number(since), _number(moment))
    return await _laid_over(there, version, rows, gone)


async def _laid_over(
    there: Any, version: int, rows: dict[str, dict[str, Any]], gone: dict[str, int]
) -> View | None:
    """The rows that the version lacks, and the keys of those that it has too many, as entries."""
    if not rows and not gone:
        return None
    before = {}
    for row in (await reading.scan(there, None, [KEY, "revision", ACKNOWLEDGED])).to_pylist():
        before[row[KEY]] = row
    found: list[tuple[int, How, str, dict[str, Any]]] = [
        (at, How.REMOVE, key, {}) for key, at in gone.items() if key in before
    ]
    for key, row in rows.items():
        old = before.get(key)
        if old is not None and _state(old) == _state(row):
            continue
        # One that changed otherwise since it was acknowledged is another one by now.
        if old is None or old.get(ACKNOWLEDGED) != row[ACKNOWLEDGED]:
            how = How.APPEND if old is None or key in gone else How.PUT
            kept = {name: value for name, value in row.items() if value is not None}
            found.append((_number(row[ACKNOWLEDGED]), how, key, kept))
    found.sort(key=lambda one: one[0])
    entries = [
        Entry(place, how, key, row, 0, version, at)
        for place, (at, how, key, row) in enumerate(found, start=1)
    ]
    return View(version, 0, entries, 0) if entries else None


async def _rows(handle: Any, since: datetime | None, moment: datetime) -> list[dict[str, Any]]:
    """The rows that were acknowledged in that time, in order."""
    schema = await handle.schema()
    if ACKNOWLEDGED not in schema.names:
        return []
    # Of those of one moment some may have been in the version before.
    first = [] if since is None else [at_or_after(ACKNOWLEDGED, since)]
    where = all_of([*first, at_or_before(ACKNOWLEDGED, moment)])
    rows = await reading.scan(handle, where, schema.names)
    found: list[dict[str, Any]] = rows.drop_columns(["_rowid"]).to_pylist()
    return found


async def _last(handle: Any) -> datetime | None:
    """The last moment at which one of the rows was acknowledged; None if none was in the journal."""
    if ACKNOWLEDGED not in (await handle.schema()).names:
        return None
    column = (await reading.scan(handle, f"{ACKNOWLEDGED} IS NOT NULL", [ACKNOWLEDGED]))[
        ACKNOWLEDGED
    ]
    last = max((one for one in column.to_pylist()), default=None)
    return None if last is None else last.replace(tzinfo=UTC)


def _state(row: dict[str, Any]) -> tuple[Any, Any]:
    return row["revision"], row.get(ACKNOWLEDGED)


def _number(moment: datetime | None) -> int:
    return -1 if moment is None else (moment - _EPOCH) // timedelta(microseconds=1)
