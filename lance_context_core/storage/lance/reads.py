"""Queries on an open handle: scans, reads by row id, vector and full-text search."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_context_core.storage import prefilter
from lance_context_core.storage.lance.errors import is_missing_file
from lance_context_core.storage.lance.schema import ADDED_SINCE_V1, SEARCH_TEXT, VECTOR
from lance_context_core.storage.prefilter import Narrowed
from lance_context_core.storage.sql import all_of

_NAMES = re.compile(r"'(?:[^']|'')*'|`([^`]*)`")
"""The texts of a condition, which may contain anything, and the names of its columns."""

_FEW = 1_000
"""The number of rows that are sorted in a few milliseconds, which block the loop."""

_MANY = 16_384
"""The number of rows whose ids are listed in a few milliseconds; of more, only the last ones are
read."""

_MOST = 2**31
"""More rows than any table has; the engine accepts no limit that is much higher."""

_ALL = 100_000
"""More partitions than a vector index has; searching few takes as long."""


async def scan(
    handle: Any,
    where: str | None,
    columns: Sequence[str],
    *,
    most: int | None = None,
    are_there: bool = False,
) -> pa.Table:
    """The matching rows in the order of their commits, with `_rowid`; any `most` of them.

    With `are_there`, does not check which of the columns the table has.
    """
    lists, where = await prefilter.apart(handle, where)
    selected = columns if are_there else await present(handle, columns)
    read = dict.fromkeys([*selected, *(name for name, _ in lists)])
    query = handle.query().select([*read]).with_row_id()
    where = await _asked(handle, where)
    query = query.where(where) if where else query
    rows = await _rows(query if most is None or lists else query.limit(most))
    if lists:
        rows = (await asyncio.to_thread(prefilter.among, rows, lists)).slice(0, most)
        rows = rows.select([*selected, "_rowid"])
    if rows.num_rows > _FEW:
        return await asyncio.to_thread(_sorted, rows)
    return rows.sort_by("_rowid") if rows.num_rows > 1 else rows


def _sorted(rows: pa.Table) -> pa.Table:
    """The rows by ascending ids; the same table if they are, as of most."""
    ids = rows["_rowid"].to_numpy()
    return rows if bool((ids[1:] > ids[:-1]).all()) else rows.sort_by("_rowid")


async def stream(
    handle: Any, where: str | None, columns: Sequence[str], batch_rows: int
) -> AsyncIterator[pa.RecordBatch]:
    """The matching rows, in no order; without columns their ids."""
    query = handle.query().select(list(columns))
    if not columns:
        query = query.with_row_id()
    if where := await _asked(handle, where):
        query = query.where(where)
    query._table = None  # noqa: SLF001 - as in `_rows`
    async for batch in await query.to_batches(max_batch_length=batch_rows):
        yield batch


async def stored_ids(handle: Any, where: str | None) -> np.ndarray:
    """The ids of the matching rows, in file order: after changes not ascending."""
    query = handle.query().select([]).with_row_id()
    if where := await _asked(handle, where):
        query = query.where(where)
    found: np.ndarray = (await _rows(query))["_rowid"].to_numpy()
    return found


async def count(handle: Any, where: str | None) -> int:
    """The number of matching rows."""
    if (await prefilter.apart(handle, where))[0]:
        return int((await scan(handle, where, [])).num_rows)
    return int(await handle.count_rows(await _asked(handle, where)))


async def written_last(handle: Any, n: int, columns: Sequence[str]) -> pa.Table:
    """About the last `n` rows, without reading others.

    They are the last ones in the table's files: if upkeep has merged some since, these.
    """
    n_rows = await handle.count_rows()
    query = handle.query().select(await present(handle, columns)).with_row_id()
    return await _rows(query.offset(max(n_rows - n, 0)).limit(min(n, n_rows)))


async def take(
    handle: Any, row_ids: Sequence[int] | np.ndarray, columns: Sequence[str]
) -> pa.Table:
    """The rows with these ids, in their order, without deleted ones."""
    wanted = [int(row_id) for row_id in row_ids]
    query = handle.take_row_ids(wanted).select(await present(handle, columns)).with_row_id()
    rows = await _rows(query)
    place = {row_id: index for index, row_id in enumerate(wanted)}
    places = [place[row_id] for row_id in rows["_rowid"].to_pylist()]
    if places == sorted(places):
        return rows
    # A list: the first NumPy array would import all of `numpy.ma`.
    return rows.take(pa.array(sorted(range(len(places)), key=places.__getitem__), pa.int64()))


async def slice_of(
    handle: Any,
    where: str | None,
    columns: Sequence[str],
    *,
    nothing: pa.Table,
    offset: int = 0,
    limit: int | None = None,
    last: int | None = None,
) -> pa.Table:
    """A range of the matching rows, in the order of their commits; `nothing` if empty.

    With `last` the `offset` counts from the end. Of rows outside the range only the ids are read.
    """
    if limit is None and last is None and offset == 0:
        return await scan(handle, where, columns)
    if limit is not None and limit > _MANY and offset == 0 and last is None:
        # That many rows almost never exist, so one query suffices: listing the ids is another one.
        rows = await scan(handle, where, columns, most=limit + 1 if limit < _MOST else None)
        if rows.num_rows <= limit:
            return rows
    n_wanted = None if last is None else offset + last
    ids = await _last_ids(handle, where, n_wanted)
    end = len(ids) if last is None else max(len(ids) - offset, 0)
    start = offset if last is None else max(end - last, 0)
    wanted = ids[start:end][:limit]
    return await take(handle, wanted, columns) if len(wanted) else nothing


async def tail_of(
    handle: Any, where: str | None, columns: Sequence[str], last: int, *, nothing: pa.Table
) -> tuple[pa.Table, int]:
    """The last matching rows, in order, and the number of matches before them."""
    while True:
        version = await handle.version()
        rows, n = await asyncio.gather(
            slice_of(handle, where, columns, nothing=nothing, last=last), count(handle, where)
        )
        # Another read may have moved the handle in between.
        if await handle.version() == version:
            return rows, n - rows.num_rows


async def _last_ids(handle: Any, where: str | None, n: int | None) -> np.ndarray:
    """The ids of matching rows in order: all, or at least the last `n`.

    Row ids ascend, so the last ones are searched among the newest, and then further back.
    """
    n_rows = 0 if n is None else await handle.count_rows()
    if n and n_rows > _MANY:
        newest = (await written_last(handle, 1, []))["_rowid"][0].as_py()
        reach = 2 * max(n, _FEW)
        while 4 * reach < n_rows:
            among = all_of([f"_rowid >= {max(newest - reach, 0)}", *([where] if where else [])])
            if len(ids := await _ids(handle, among)) >= n:
                return ids
            reach *= 8
    return await _ids(handle, where)


async def _ids(handle: Any, where: str | None) -> np.ndarray:
    """The ids of the matching rows, in order."""
    found: np.ndarray = (await scan(handle, where, []))["_rowid"].to_numpy()
    return found


async def narrow(handle: Any, where: str) -> Narrowed:
    """The rows that meet a long condition, for all queries of a search."""
    version = int(await handle.version())
    ids = await _ids(handle, where)
    return prefilter.narrowed(where, ids, version=version, n_rows=await handle.count_rows())


async def search(
    handle: Any, where: str | None, rows: Narrowed | None, limit: int, find: prefilter.Search
) -> pa.Table:
    """The best `limit` rows of `find` that meet `where`; `rows` are its matches, if long."""
    if where is None or rows is None:
        return await find(where, limit)
    if rows.version != await handle.version():
        rows = await narrow(handle, where)  # others have written since
    return await prefilter.search(rows, limit, find)


async def nearest(
    handle: Any, vector: np.ndarray, *, where: str | None, limit: int, columns: Sequence[str]
) -> pa.Table:
    """The `limit` nearest rows by cosine, best first, with `_rowid` and `_distance` in [0, 2].

    Rows without a vector never match. A zero vector has no direction: its distance from everything
    is 1. Returns `limit` rows if as many match `where`. The table has all `columns`.
    """
    selected = [*columns, "_distance"]
    where = await _asked(handle, where)

    def query(where: str | None) -> Any:
        search = handle.vector_search(vector).distance_type("cosine").limit(limit)
        # All partitions: it finds the nearest of all.
        search = search.nprobes(_ALL)
        search = search.select(selected).with_row_id()
        return search.where(where) if where else search

    hits = await _rows(query(where))
    if hits.num_rows == limit:
        return hits
    eligible = all_of([*([where] if where else []), f"{VECTOR} IS NOT NULL"])
    expected = min(await handle.count_rows(eligible), limit)
    if hits.num_rows < expected:
        hits = await _rows(query(_alive(where)))
    if hits.num_rows < expected:
        hits = await _with_undirected(handle, hits, eligible, expected, selected)
    return hits


async def match(
    handle: Any, text: str, *, where: str | None, limit: int, columns: Sequence[str]
) -> pa.Table:
    """The `limit` rows that best match words of `text`, with `_rowid` and BM25 `_score`."""
    selected = [*await shown(handle, columns), "_score"]
    where = await _asked(handle, where)

    def query(where: str | None) -> Any:
        search = handle.query().nearest_to_text(text, columns=[SEARCH_TEXT]).limit(limit)
        search = search.select(selected).with_row_id()
        return search.where(where) if where else search

    # Checking which rows exist takes as long as the search, and is seldom needed.
    hits = await _rows(query(where))
    return hits if hits.num_rows == limit else await _rows(query(_alive(where)))


async def present(handle: Any, columns: Sequence[str]) -> list[str]:
    """Those of `columns` that the table has; an earlier version may lack some."""
    if not columns:
        return []
    names = set((await handle.schema()).names)
    return [column for column in columns if column in names]


_columns: WeakKeyDictionary[Any, frozenset[str] | None] = WeakKeyDictionary()
"""The columns of readers' handles, once read."""


def has_moved_on(handle: Any) -> None:
    """Note that a reader's handle may show another version; called at each move."""
    _columns[handle] = None


async def shown(handle: Any, columns: Sequence[str]) -> list[str]:
    """As `present`, for readers: the handle was just checked, so reads the columns once."""
    if (names := _columns.get(handle)) is None:
        names = frozenset((await handle.schema()).names)
        if handle in _columns:
            _columns[handle] = names
    return [column for column in columns if column in names]


async def has_moved(handle: Any, error: Exception) -> bool:
    """Whether a file was missing because others removed the handle's version."""
    if not is_missing_file(error):
        return False
    version = await handle.version()
    with suppress(Exception):  # `error` is the cause then
        await handle.checkout_latest()
    return bool(await handle.version() != version)


async def _rows(query: Any) -> pa.Table:
    """The result of a query.

    A query that does not know its table skips lancedb's first step: it reads the schema in search
    of blob columns, which our tables lack, and takes a twentieth of a short query.
    """
    query._table = None  # noqa: SLF001
    return await query.to_arrow()


async def _asked(handle: Any, where: str | None) -> str | None:
    """`where`, for a version that may lack columns added later."""
    if not where or not any(f"`{name}`" in where for name in ADDED_SINCE_V1):
        return where
    lacking = set(ADDED_SINCE_V1).difference((await handle.schema()).names)
    return _NAMES.sub(lambda found: "NULL" if found[1] in lacking else found[0], where)


def _alive(where: str | None) -> str:
    """`where`, in a form that makes the engine check which rows exist.

    Without it, an index that is older than a deletion and a compaction proposes deleted rows, and
    the engine drops these from the best instead of adding the next ones.
    """
    return all_of(["_rowid >= 0", *([where] if where else [])])


async def _with_undirected(
    handle: Any, hits: pa.Table, eligible: str, expected: int, selected: list[str]
) -> pa.Table:
    """`hits` and, up to `expected`, rows whose vectors have no direction, at distance 1."""
    rows = await scan(handle, eligible, [c for c in selected if c != "_distance"])
    rows = rows.filter(pc.invert(pc.is_in(rows["_rowid"], hits["_rowid"])))
    rows = _with_column(rows.slice(0, expected - hits.num_rows), "_distance", 1.0)
    both = pa.concat_tables([hits, rows.select(hits.column_names).cast(hits.schema)])
    return both.sort_by("_distance")


def _with_column(rows: pa.Table, name: str, value: float) -> pa.Table:
    """`rows` with one more column of equal 32-bit floats."""
    return rows.append_column(name, pa.array([value] * rows.num_rows, pa.float32()))


# The result of a query: columns of Python values, converted on demand.


class Found(Protocol):
    """Rows in one order, with the query's score of each."""

    @property
    def ids(self) -> Sequence[int]:
        """Their row ids; earlier rows have lower ones."""

    @property
    def scores(self) -> Sequence[float] | np.ndarray:
        """The search channel's score of each: the distance, or BM25."""

    def column(self, name: str) -> Sequence[Any]:
        """One value of each row; None if a row, or the table, has none."""

    def table(self) -> pa.Table:
        """All columns, with `_rowid`, and `_distance` or `_score`."""


class Rows:
    """Rows of the engine."""

    def __init__(self, rows: pa.Table, score: str = "") -> None:
        """`score` is the column of the scores, if any."""
        self._rows = rows
        self._score = score

    @property
    def ids(self) -> list[int]:
        """Their row ids."""
        return self.column("_rowid")

    @property
    def scores(self) -> list[float]:
        """The search channel's score of each."""
        return self.column(self._score)

    def column(self, name: str) -> list[Any]:
        """One value of each row."""
        if name not in self._rows.column_names:
            return [None] * self._rows.num_rows
        values: list[Any] = self._rows[name].to_pylist()
        return values

    def table(self) -> pa.Table:
        """All columns."""
        return self._rows

    def with_texts(self, name: str, values: Sequence[str | None]) -> "Rows":
        """The same rows with one more column."""
        return Rows(self._rows.append_column(name, pa.array(values, pa.string())), self._score)
