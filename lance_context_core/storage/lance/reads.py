"""The queries: scans, look-ups by row id, and the two search channels, over an open handle."""

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
"""The texts of a condition, in which anything may stand, and the names of its columns."""

_FEW = 1_000
"""So many rows are sorted in a few milliseconds, in which the loop stands still."""

_MANY = 16_384
"""Of so many rows the ids are listed in a few milliseconds; of more, the last ones are looked for."""

_MOST = 2**31
"""No table has so many rows, and the engine takes no limit that is much higher."""

_ALL = 100_000
"""More partitions than a vector index has; few are as fast to look through as one."""


async def scan(
    handle: Any,
    where: str | None,
    columns: Sequence[str],
    *,
    most: int | None = None,
    are_there: bool = False,
) -> pa.Table:
    """The matching rows in the order of their commits, with their `_rowid`; any `most` of them.

    If the columns `are_there`, nobody looks which of them the table has.
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
        return await asyncio.to_thread(rows.sort_by, "_rowid")
    return rows.sort_by("_rowid") if rows.num_rows > 1 else rows


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
    """The ids of the matching rows, as they stand in the table's files: after changes not in order."""
    query = handle.query().select([]).with_row_id()
    if where := await _asked(handle, where):
        query = query.where(where)
    found: np.ndarray = (await _rows(query))["_rowid"].to_numpy()
    return found


async def count(handle: Any, where: str | None) -> int:
    """How many rows match."""
    if (await prefilter.apart(handle, where))[0]:
        return int((await scan(handle, where, [])).num_rows)
    return int(await handle.count_rows(await _asked(handle, where)))


async def written_last(handle: Any, n: int, columns: Sequence[str]) -> pa.Table:
    """About the last `n` rows, of which nothing else is read.

    They are those that stand last in the table's files: where upkeep has merged some since, these.
    """
    n_rows = await handle.count_rows()
    query = handle.query().select(await present(handle, columns)).with_row_id()
    return await _rows(query.offset(max(n_rows - n, 0)).limit(min(n, n_rows)))


async def take(
    handle: Any, row_ids: Sequence[int] | np.ndarray, columns: Sequence[str]
) -> pa.Table:
    """The rows with these ids, in their order; those that are gone are left out."""
    wanted = [int(row_id) for row_id in row_ids]
    query = handle.take_row_ids(wanted).select(await present(handle, columns)).with_row_id()
    rows = await _rows(query)
    place = {row_id: index for index, row_id in enumerate(wanted)}
    places = [place[row_id] for row_id in rows["_rowid"].to_pylist()]
    if places == sorted(places):
        return rows
    # A list: of an array of numpy's, the first one has all of `numpy.ma` imported.
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
    """Part of the matching rows, in the order of their commits; `nothing` if that is empty.

    With `last` the `offset` is counted from the end. Rows outside the part are not read, only their
    ids.
    """
    if limit is None and last is None and offset == 0:
        return await scan(handle, where, columns)
    if limit is not None and limit > _MANY and offset == 0 and last is None:
        # Where there are as good as never so many, one query does: to list the ids is another one.
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
    """The last matching rows, in order, and how many match that come before them."""
    while True:
        version = await handle.version()
        rows, n = await asyncio.gather(
            slice_of(handle, where, columns, nothing=nothing, last=last), count(handle, where)
        )
        # Another read may have brought the handle forward in between.
        if await handle.version() == version:
            return rows, n - rows.num_rows


async def _last_ids(handle: Any, where: str | None, n: int | None) -> np.ndarray:
    """The ids of matching rows in order: of all, or of the last ones, `n` at least if there are so many.

    Rows are numbered as they come, so the last ones are looked for among the newest, and ever further
    back.
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
    """The best `limit` rows that meet `where`, as `find` tells them; `rows` are these, if it is long."""
    if where is None or rows is None:
        return await find(where, limit)
    if rows.version != await handle.version():
        rows = await narrow(handle, where)  # Others have written since.
    return await prefilter.search(rows, limit, find)


async def nearest(
    handle: Any, vector: np.ndarray, *, where: str | None, limit: int, columns: Sequence[str]
) -> pa.Table:
    """The `limit` rows nearest by cosine, best first, with `_rowid` and `_distance` in [0, 2].

    Rows without a vector never match. A zero vector has no direction: it is at distance 1 from
    everything. If as many rows match `where`, as many are returned. The table has all `columns`.
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
    """The `limit` rows that match words of `text` best, with `_rowid` and their BM25 `_score`."""
    selected = [*await _shown(handle, columns), "_score"]
    where = await _asked(handle, where)

    def query(where: str | None) -> Any:
        search = handle.query().nearest_to_text(text, columns=[SEARCH_TEXT]).limit(limit)
        search = search.select(selected).with_row_id()
        return search.where(where) if where else search

    # To look which of all rows are there takes as long as the search, and is seldom needed.
    hits = await _rows(query(where))
    return hits if hits.num_rows == limit else await _rows(query(_alive(where)))


async def present(handle: Any, columns: Sequence[str]) -> list[str]:
    """Those of `columns` that the table has; an earlier version may lack some."""
    if not columns:
        return []
    names = set((await handle.schema()).names)
    return [column for column in columns if column in names]


_columns: WeakKeyDictionary[Any, frozenset[str] | None] = WeakKeyDictionary()
"""The columns of what readers' handles show, once asked for."""


def has_moved_on(handle: Any) -> None:
    """Know that a reader's handle may show another version from now on; it is told each time."""
    _columns[handle] = None


async def _shown(handle: Any, columns: Sequence[str]) -> list[str]:
    """As `present`, for who only reads: what it shows was looked for just now, and is asked once."""
    if (names := _columns.get(handle)) is None:
        names = frozenset((await handle.schema()).names)
        if handle in _columns:
            _columns[handle] = names
    return [column for column in columns if column in names]


async def has_moved(handle: Any, error: Exception) -> bool:
    """Whether a file was missing because others went on and removed the handle's version."""
    if not is_missing_file(error):
        return False
    version = await handle.version()
    with suppress(Exception):  # Then `error` says what is wrong.
        await handle.checkout_latest()
    return bool(await handle.version() != version)


async def _rows(query: Any) -> pa.Table:
    """What a query finds.

    One that does not know its table leaves out what lancedb does first: it reads the schema in
    search of blob columns, which no table of ours has, and that is a twentieth of a short query.
    """
    query._table = None  # noqa: SLF001
    return await query.to_arrow()


async def _asked(handle: Any, where: str | None) -> str | None:
    """`where`, as it is asked of a version that may lack columns which came later."""
    if not where or not any(f"`{name}`" in where for name in ADDED_SINCE_V1):
        return where
    lacking = set(ADDED_SINCE_V1).difference((await handle.schema()).names)
    return _NAMES.sub(lambda found: "NULL" if found[1] in lacking else found[0], where)


def _alive(where: str | None) -> str:
    """`where`, said in a way that makes the engine look which rows are there.

    Without it, an index that is older than a deletion and a compaction proposes rows that are gone,
    and the engine drops these from the best instead of taking the next ones.
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
    """`rows` with one more column of 32-bit floats, all alike."""
    return rows.append_column(name, pa.array([value] * rows.num_rows, pa.float32()))


# What a query of a table found: by columns of Python's values, made when they are asked for.


class Found(Protocol):
    """Some rows, in one order, with what the query says of each."""

    @property
    def ids(self) -> Sequence[int]:
        """Which rows these are; the lower, the earlier one was written."""

    @property
    def scores(self) -> Sequence[float] | np.ndarray:
        """What a search channel says of each: the distance, or BM25."""

    def column(self, name: str) -> Sequence[Any]:
        """One value of each row; None where a row, or the table, has none."""

    def table(self) -> pa.Table:
        """All of it, with `_rowid`, and `_distance` or `_score`."""


class Rows:
    """Those of the engine."""

    def __init__(self, rows: pa.Table, score: str = "") -> None:
        """`score` is the column of the scores, if there is one."""
        self._rows = rows
        self._score = score

    @property
    def ids(self) -> list[int]:
        """Which rows these are."""
        return self.column("_rowid")

    @property
    def scores(self) -> list[float]:
        """What a search channel says of each."""
        return self.column(self._score)

    def column(self, name: str) -> list[Any]:
        """One value of each row."""
        if name not in self._rows.column_names:
            return [None] * self._rows.num_rows
        values: list[Any] = self._rows[name].to_pylist()
        return values

    def table(self) -> pa.Table:
        """All of it."""
        return self._rows

    def with_texts(self, name: str, values: Sequence[str | None]) -> "Rows":
        """The same with one more column."""
        return Rows(self._rows.append_column(name, pa.array(values, pa.string())), self._score)
