"""Merge on read: reads of a table with the log's entries merged in."""

import itertools
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from lance_context_core.storage.lance import reads
from lance_context_core.storage.lance.arrow import Row, column_of
from lance_context_core.storage.lance.schema import KEY, VECTOR
from lance_context_core.storage.sql import EVERYTHING, all_of, any_of, in_list, quote_string
from lance_context_core.storage.wal.entries import Entry, Moment, View

FIRST_ID = 1 << 62
"""The lowest row id of the log's rows: those of the engine stay far below."""

Scan = Callable[[Any, str | None, Sequence[str]], Awaitable[pa.Table]]
"""Reads a handle, a condition and columns as `reading.scan` does, or a part of that."""


class Presence(Protocol):
    """The known values of a table."""

    async def is_empty(self, moment: Moment) -> bool:
        """Whether the table has no rows at that version."""

    async def lacks(self, moment: Moment, column: str, values: Collection[str]) -> bool:
        """Whether the table surely has none of these values in that column and version."""


class Snapshots(Protocol):
    """Reads of a table at a version."""

    @property
    def presence(self) -> Presence:
        """The known values."""

    async def read_at(self, moment: Moment, action: str, read: Any) -> Any:
        """The result of `read` for a handle at that version."""


def is_askable(where: str | None) -> bool:
    """Whether a condition can be evaluated on a row that the engine has not seen."""
    return not where or getattr(where, "holds", None) is not None


def keys_of(where: str | None) -> frozenset[str] | None:
    """Primary keys that include those of all matching rows; None if unknown."""
    keys: frozenset[str] | None = getattr(where, "keys", None)
    return keys


def matching(view: View, where: str | None) -> list[Entry]:
    """The visible entries that match, in order."""
    return [*_matching(view.shown, where)]


def matching_last(view: View, where: str | None) -> Iterator[Entry]:
    """As `matching`, last entry first, evaluated lazily."""
    return _matching(reversed(view.shown), where)


async def is_answered(view: View, where: str | None, presence: Presence) -> bool:
    """Whether the table surely lacks all requested rows: by its keys, or its names."""
    if await presence.is_empty(view.moment):
        return True
    among: Mapping[str, frozenset[str]] = getattr(where, "among", {})
    for column, values in among.items():
        # The log's row of a key is the only one; other names may occur twice.
        unknown = values - view.places(values).keys() if column == KEY else values
        if await presence.lacks(view.moment, column, unknown):
            return True
    return False


def beneath(view: View, where: str | None) -> str | None:
    """The condition of the table's remaining rows that match `where`."""
    keys = keys_of(where)
    replaced = view.replaced if keys is None else view.replaced & keys
    if not replaced:
        return where
    listed = ", ".join(quote_string(key) for key in sorted(replaced))
    return all_of([*([where] if where else []), f"{KEY} NOT IN ({listed})"])


def laid_over(rows: pa.Table, entries: Sequence[Entry]) -> pa.Table:
    """`rows` of the table, followed by those of the log, with the same columns."""
    if not entries:
        return rows
    mine = as_table(entries, rows.schema)
    return pa.concat_tables([rows, mine]) if rows.num_rows else mine


def as_rows(entries: Sequence[Entry], columns: Sequence[str]) -> list[Row]:
    """The log's rows with these columns, as a read of a table returns them."""
    return [{name: _read(entry.row.get(name), name) for name in columns} for entry in entries]


def as_table(entries: Sequence[Entry], schema: pa.Schema) -> pa.Table:
    """The log's rows with these columns, which may include `_rowid`."""
    rows: list[Row] = [entry.row for entry in entries]
    columns = [
        pa.array(np.array([FIRST_ID + entry.seq for entry in entries], np.uint64))
        if field.name == "_rowid"
        else column_of(rows, field)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


async def all_matching(access: Snapshots, view: View, where: str | None) -> list[Entry] | None:
    """As `matching`, if no other rows match, as far as is known; else None."""
    if not await is_answered(view, where, access.presence):
        return None
    view = view.of(keys_of(where))
    mine = matching(view, where)
    # Only the table knows the order of rows that keep its positions.
    return mine if sum(entry.key in view.in_place for entry in mine) < 2 else None


async def select(
    access: Snapshots,
    view: View,
    where: str | None,
    columns: Sequence[str],
    *,
    scan: Scan = reads.scan,
) -> pa.Table:
    """The matching rows, in order, with `_rowid`; the table's rows as `scan` reads them."""
    mine = matching(view, where)
    in_place = [entry.key for entry in mine if entry.key in view.in_place]
    below = beneath(view, where)
    if in_place:
        return await _put_in_place(access, view, below, columns, mine, in_place)
    rows = await access.read_at(view.moment, "read {}", lambda handle: scan(handle, below, columns))
    return laid_over(rows, mine)


async def take(
    access: Snapshots, view: View, ids: Sequence[int], columns: Sequence[str], nothing: pa.Table
) -> pa.Table:
    """The rows with these ids, some of them the log's, in their order."""
    rows, below = nothing, [row_id for row_id in ids if row_id < FIRST_ID]
    if below:
        rows = await access.read_at(
            view.moment, "read {}", lambda handle: reads.take(handle, below, columns)
        )
    wanted = {row_id - FIRST_ID for row_id in ids if row_id >= FIRST_ID}
    return in_order(laid_over(rows, [one for one in view.shown if one.seq in wanted]), ids)


def in_order(rows: pa.Table, ids: Sequence[int]) -> pa.Table:
    """The rows in the order of these ids."""
    place = {row_id: index for index, row_id in enumerate(ids)}
    places = [place[row_id] for row_id in rows["_rowid"].to_pylist()]
    return rows.take(pa.array(sorted(range(len(places)), key=places.__getitem__), pa.int64()))


async def count(access: Snapshots, view: View, where: str | None) -> int:
    """The number of matching rows."""
    mine = len(matching(view, where))
    if await is_answered(view, where, access.presence):
        return mine
    below = beneath(view, where)
    n_below: int = await access.read_at(
        view.moment, "count {}", lambda handle: reads.count(handle, below)
    )
    return n_below + mine


async def tail_of(
    access: Snapshots,
    view: View,
    where: str | None,
    columns: Sequence[str],
    last: int,
    *,
    nothing: pa.Table,
) -> tuple[pa.Table, int]:
    """The last matching rows, in order, and the number of matches before them."""
    span: dict[str, Any] = {"offset": 0, "limit": None, "last": last, "nothing": nothing}
    rows = await slice_of(access, view, where, columns=columns, **span)
    return rows, await count(access, view, where) - rows.num_rows


def end_of(
    view: View, where: str | None, *, offset: int, limit: int | None, last: int | None
) -> list[Entry] | None:
    """As `slice_of`, if the log has all of the last rows; else None."""
    if last is None:
        return None
    behind = list(itertools.islice(matching_last(view, where), offset + last))
    is_all = len(behind) == offset + last
    if not is_all or not view.in_place.keys().isdisjoint(entry.key for entry in behind):
        return None
    return behind[offset:][::-1][:limit]


async def slice_of(
    access: Snapshots,
    view: View,
    where: str | None,
    *,
    columns: Sequence[str],
    offset: int,
    limit: int | None,
    last: int | None,
    nothing: pa.Table,
) -> pa.Table:
    """A range of the matching rows; see `Table.slice`."""
    if (tail := end_of(view, where, offset=offset, limit=limit, last=last)) is not None:
        return laid_over(nothing, tail)
    if (mine := await all_matching(access, view, where)) is not None:
        end = len(mine) if last is None else max(len(mine) - offset, 0)
        start = offset if last is None else max(end - last, 0)
        return laid_over(nothing, mine[start:end][:limit])
    mine, below = matching(view, where), beneath(view, where)
    if not view.in_place.keys().isdisjoint(entry.key for entry in mine):
        ids = (await select(access, view, where, []))["_rowid"]
        end = len(ids) if last is None else max(len(ids) - offset, 0)
        start = offset if last is None else max(end - last, 0)
        return await take(access, view, ids.to_pylist()[start:end][:limit], columns, nothing)

    async def read(**span: Any) -> pa.Table:
        return await access.read_at(
            view.moment,
            "read {}",
            lambda handle: reads.slice_of(handle, below, columns, nothing=nothing, **span),
        )

    if last is not None:
        behind = mine[: max(len(mine) - offset, 0)]
        further = max(offset - len(mine), 0)
        rows = await read(offset=further, limit=limit, last=last - len(behind))
        return laid_over(rows, behind[: None if limit is None else limit - rows.num_rows])
    rows = await read(offset=offset, limit=limit)
    if limit is not None and rows.num_rows >= limit:
        return rows
    n_below = offset + rows.num_rows
    if rows.num_rows == 0 and offset:
        n_below = await access.read_at(
            view.moment, "count {}", lambda handle: reads.count(handle, below)
        )
    start = max(offset - n_below, 0)
    return laid_over(rows, mine[start:][: None if limit is None else limit - rows.num_rows])


def _matching(entries: Iterable[Entry], where: str | None) -> Iterator[Entry]:
    """The rows that match, evaluated lazily."""
    if not where:
        return iter(entries)
    holds: Any = where.holds  # type: ignore[attr-defined]
    among: Mapping[str, frozenset[str]] = getattr(where, "among", {})
    for column, values in among.items():
        # Few rows pass this check, and the whole condition takes several times as long.
        entries = _among(entries, column, values)
    return (one for one in entries if holds(one.row))


def _among(entries: Iterable[Entry], column: str, values: frozenset[str]) -> Iterator[Entry]:
    return (one for one in entries if one.row.get(column) in values)


def _read(value: Any, column: str) -> Any:
    if column != VECTOR or value is None:
        return value
    return [_numbers(one) for one in value] if isinstance(value, list) else _numbers(value)


def _numbers(vector: Any) -> list[float]:
    numbers: list[float] = np.asarray(vector, np.float32).tolist()
    return numbers


async def _put_in_place(
    access: Snapshots,
    view: View,
    below: str | None,
    columns: Sequence[str],
    mine: Sequence[Entry],
    in_place: Sequence[str],
) -> pa.Table:
    """As `select`, if some rows of the log keep the positions of the table's rows."""
    where = any_of([below or EVERYTHING, in_list(KEY, in_place)])
    asked = [*columns, *([] if KEY in columns else [KEY])]
    found = await access.read_at(
        view.moment, "read {}", lambda handle: reads.scan(handle, where, asked)
    )
    place = {entry.key: found.num_rows + number for number, entry in enumerate(mine)}
    there = frozenset(in_place)
    keys = found[KEY].to_pylist()
    order = [place[key] if key in there else number for number, key in enumerate(keys)]
    order += [place[entry.key] for entry in mine if entry.key not in there]
    rows = laid_over(found if KEY in columns else found.drop_columns([KEY]), mine)
    return rows.take(pa.array(order, pa.int64()))
