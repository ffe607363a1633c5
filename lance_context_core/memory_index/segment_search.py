"""Searches a hot scope with the interface of its table."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa

from lance_context_core._util import cooperative as steps
from lance_context_core.memory_index.columns import Condition
from lance_context_core.memory_index.segment import LARGE, Joined, Segment, UnsureError
from lance_context_core.storage import sql
from lance_context_core.storage.lance.arrow import Row, column_of
from lance_context_core.storage.lance.reads import Found
from lance_context_core.storage.lance.schema import KEY, LINK, VECTOR, TableSpec
from lance_context_core.storage.sql.predicates import named
from lance_context_core.storage.table import Table

R = TypeVar("R")
K = TypeVar("K")

_NONE, _NO_SCORES = np.empty(0, np.int64), np.empty(0)

_STEPS = 8
_ROWS_A_STEP = 1_000
"""A search takes two thirds of a millisecond, and three in twenty thousand rows."""

_READ_AS_ONE = 4
"""Rows read in the time that `_steps` counts for a record."""

_MANY = 512
"""Rows evaluated in a millisecond or two; more of them outside the loop."""


@dataclass(slots=True)
class Picked:
    """Some rows of a block: a `Found`."""

    block: Segment
    numbers: np.ndarray
    """The numbers of its rows, valid for that `revision`."""
    revision: int
    ids: list[int]
    rows: list[Row]
    scores: np.ndarray
    score: str
    """The name of the score column; empty without one."""
    schema: pa.Schema
    """The columns of the table without vectors."""
    vector: pa.Field | None
    """The column of vectors, if any."""
    vectors: list[Any] | None
    """None unless requested."""
    own: np.ndarray | None = None
    """Word scores without the words of other turns; None if none have any."""
    coverage: float = 1.0
    """For a search by words: the best score as a share of the maximum."""
    _columns: dict[str, list[Any]] = field(default_factory=dict)

    def column(self, name: str) -> list[Any]:
        """Return one value of each row."""
        if name == VECTOR and self.vectors is not None:
            return self.vectors
        if (known := self._columns.get(name)) is None:
            known = self._columns[name] = [row.get(name) for row in self.rows]
        return known

    def note(self, name: str, values: list[Any]) -> None:
        """Add a column of values that the rows do not contain."""
        self._columns[name] = values

    def table(self) -> pa.Table:
        """Return all columns as a table."""
        made = {
            one.name: column_of([{one.name: value} for value in self.column(one.name)], one)
            for one in [*self.schema, *([self.vector] if self.vector else [])]
            if one.name not in LARGE and (one.name != VECTOR or self.vectors is not None)
        }
        made["_rowid"] = pa.array(self.ids, pa.uint64())
        if self.score:
            made[self.score] = pa.array(self.scores, pa.float32())
        return pa.table(made)


def joined(found: Sequence[Found]) -> Joined | None:
    """Return all these rows if they are of one unchanged block; else None."""
    if not all(isinstance(one, Picked) for one in found):
        return None
    picked = cast("Sequence[Picked]", found)
    block = picked[0].block
    with block.lock:
        if any(one.block is not block or one.revision != block.revision for one in picked):
            return None
        return block.joined([one.numbers for one in picked])


def needed_columns(spec: TableSpec, where: Condition, columns: Iterable[str]) -> frozenset[str]:
    """The columns that must be in memory: the usual ones, those of `where`, and `columns`."""
    later = (column for column, _ in where.moments)
    seldom = named(spec.seldom, where.rest) | spec.seldom.intersection((*columns, *later))
    return (spec.usual | seldom).difference(LARGE)


class HotTable:
    """The rows of one scope, as of the first query of the search, or later."""

    def __init__(
        self, table: Table, block: Segment, asked: Condition, shown: Condition, *, was_known: bool
    ) -> None:
        """Create it for the rows of `block`, a part of `table`, that meet `asked`.

        The rarity of words is that among the rows `shown`, for any search.
        """
        self.was_known = was_known
        """Whether they were in memory before the search."""
        self.spec = table.spec
        self._table = table
        self._block = block
        self._asked = asked
        self._shown = shown
        self.state = block.state
        """The table's position of the last read."""
        self._found: dict[int, Row] = {}
        """The found rows, by the ids that were returned."""

    def where(
        self, asked: Condition, shown: Condition, *, columns: Iterable[str]
    ) -> "HotTable | None":
        """Return the same rows by other conditions, without another look at the table.

        None if a column that the conditions name, or that is read of the hits, is not in memory.
        """
        needed = needed_columns(self.spec, asked, columns)
        if not needed <= self._block.columns:
            return None
        return HotTable(self._table, self._block, asked, shown, was_known=True)

    @property
    def n_steps(self) -> int:
        """The approximate duration of a search, in `_steps.STEP`."""
        return _STEPS + self._block.n_rows // _ROWS_A_STEP

    def nothing(self, columns: Sequence[str], score: str = "") -> pa.Table:
        """As `Table.nothing`."""
        return self._table.nothing(columns, score or None)

    def none(self, score: str) -> Picked:
        """Return the result of an empty query."""
        return self._picked(_NONE, [], score, _NO_SCORES)

    async def nearest(
        self,
        vector: np.ndarray,
        *,
        model: str | None,
        limit: int,
        columns: Sequence[str],
    ) -> Picked:
        """As `Table.nearest`."""
        await self._ask(self._asked)
        with (block := self._sound()).lock:
            if block.vectors is None:
                return self._picked(_NONE, columns, "_distance", _NO_SCORES)
            if (length := len(vector), model) != block.is_asked_by:
                self._table.vectors.check(pa.schema([block.vectors]), length, model)
                block.is_asked_by = length, model
            numbers, cosines = block.nearest(self._asked, vector, limit)
            return self._picked(numbers, columns, "_distance", 1.0 - cosines)

    async def match(
        self,
        text: str,
        *,
        limit: int,
        columns: Sequence[str],
        preceding: float = 0.0,
        must_match: bool = True,
    ) -> Picked:
        """As `Table.match`, with the words of preceding turns, as `Segment.match`.

        Raises UnsureError if only the engine can split the words.
        """
        await self._ask(self._asked)
        if self._shown is not self._asked:
            await self._ask(self._shown)
        if not (block := self._sound()).has_words:
            await asyncio.to_thread(block.make_words)
        words = await steps.of_text(self._sound().words, text)
        with (block := self._sound()).lock:
            found = block.match(
                self._asked, self._shown, words, limit, preceding=preceding, must_match=must_match
            )
            picked = self._picked(found.best.numbers, columns, "_score", found.best.scores)
        picked.coverage = found.coverage
        if preceding:
            picked.own = found.own
        return picked

    async def beside(self, found: Sequence[Picked], *, columns: Sequence[str]) -> Picked:
        """Return the neighbours of the found rows, without these."""
        await self._ask(self._asked)
        with (block := self._sound()).lock:
            each = [self._numbers(one) for one in found]
            return self._picked(block.beside(self._asked, np.concatenate(each)), columns)

    async def read(
        self,
        more: sql.Clause,
        *,
        columns: Sequence[str],
        offset: int = 0,
        limit: int | None = None,
        last: int | None = None,
        by: str = "",
    ) -> list[dict[str, Any]]:
        """Return part of the rows that also meet `more`, as `Table.slice`.

        With `by` rows of equal values in that column are grouped, in the order of the groups' first
        rows, regardless of `more`. Raises the errors of `Clause.holds` if only the engine can
        evaluate it.
        """
        await self._ask(self._asked)
        with (block := self._sound()).lock:
            rows, self.state = block.meeting(self._asked), block.state
        holds: Any = more.holds
        found = [row for row in rows if holds(row)] if more else rows
        if by:
            begun: dict[Any, int] = {}
            for row in rows:
                begun.setdefault(row.get(by), len(begun))
            # In the order of writing: a sort keeps the order of equal ones.
            found.sort(key=lambda row: begun[row.get(by)])
        end = len(found) if last is None else max(len(found) - offset, 0)
        start = offset if last is None else max(end - last, 0)
        return [{name: row.get(name) for name in columns} for row in found[start:end][:limit]]

    async def made(
        self,
        row_ids: Sequence[int],
        *,
        columns: Sequence[str],
        read: Callable[[Mapping[str, Any]], R],
        in_two: tuple[Callable[[Row], Any], Callable[[Any], R]] | None,
    ) -> dict[int, R]:
        """Return the current result of `read` for each of these found rows, by id.

        With `in_two` steps the first result is cached: all callers must read the same columns in
        the same way, in any search.
        """
        if in_two is None or any(name in columns for name in (VECTOR, *LARGE)):
            taken = await self.take(row_ids, columns=columns)
            return dict(await steps.each(lambda row: (row["_rowid"], read(row)), taken))
        with (block := self._sound()).lock:
            found = [(id, block.number(self._found[id][KEY])) for id in row_ids]
        return await self._made_of(found, columns=columns, in_two=in_two)

    async def of_keys(
        self,
        keys: Sequence[str],
        *,
        columns: Sequence[str],
        in_two: tuple[Callable[[Row], Any], Callable[[Any], R]],
    ) -> dict[str, R]:
        """As `made`, for the rows with these keys, by key; without other conditions."""
        with (block := self._sound()).lock:
            found = [(key, block.number(key)) for key in keys]
        return await self._made_of(found, columns=columns, in_two=in_two)

    async def _made_of(
        self,
        found: Sequence[tuple[K, int | None]],
        *,
        columns: Sequence[str],
        in_two: tuple[Callable[[Row], Any], Callable[[Any], R]],
    ) -> dict[K, R]:
        """Return the results for rows of these numbers, by name; removed rows are left out."""
        first, second = in_two
        with (block := self._sound()).lock:
            there = [(name, number) for name, number in found if number is not None]
            known = {number: block.made(number) for _, number in there}
            rows = [(number, block.row(number)) for number, made in known.items() if made is None]

        def one(numbered: tuple[int, Row]) -> tuple[int, Any]:
            number, row = numbered
            return number, first({name: row.get(name) for name in columns})

        new = await steps.each(one, rows, n_as_one=_READ_AS_ONE)
        with block.lock:
            for number, made in new:
                block.keep(number, made)
        known.update(new)
        return {name: second(known[number]) for name, number in there}

    async def take(self, row_ids: Sequence[int], *, columns: Sequence[str]) -> list[dict[str, Any]]:
        """Return found rows with their `_rowid`, in order and in their current state."""
        large = [name for name in columns if name in LARGE]
        with (block := self._sound()).lock:
            there = [(id, block.number(self._found[id][KEY])) for id in row_ids]
            rows: list[dict[str, Any]] = [
                {name: row.get(name) for name in columns} | {"_rowid": id}
                for id, number in there
                if number is not None and (row := block.row(number))
            ]
            if VECTOR in columns:
                numbers = [number for _, number in there if number is not None]
                for one, number in zip(rows, numbers, strict=True):
                    vector = block.vector(number)
                    one[VECTOR] = None if vector is None else vector.tolist()
        if not large or not rows:
            return rows
        # Large columns are not cached.
        keys = [self._found[row["_rowid"]][KEY] for row in rows]
        mine = sql.in_list(KEY, keys)
        found = (await self._table.select(mine, columns=[KEY, *large])).to_pylist()
        by_key = {one[KEY]: {name: one[name] for name in large} for one in found}
        both = ((row, by_key.get(key)) for row, key in zip(rows, keys, strict=True))
        return [{**row, **more} for row, more in both if more is not None]

    # Helpers

    def _sound(self) -> Segment:
        if not self._block.is_sound:
            raise UnsureError
        return self._block

    async def _ask(self, where: Condition) -> None:
        """Evaluate a condition on all rows, outside the loop if there are many."""
        while True:
            with (block := self._sound()).lock:
                first = block.masks.n_asked(where)
                if block.n_rows - first <= _MANY:
                    return
                rows = block.rows(first)
            answers = await asyncio.to_thread(where.asked, rows)
            with block.lock:
                block.masks.note(where, answers, first)

    def _numbers(self, found: Picked) -> np.ndarray:
        """Return the current numbers of the rows in the block, without removed ones."""
        if found.revision == self._block.revision:
            return found.numbers
        there = [self._block.number(row[KEY]) for row in found.rows]
        return np.array([one for one in there if one is not None], np.int64)

    def _picked(
        self,
        numbers: np.ndarray,
        columns: Sequence[str],
        score: str = "",
        scores: np.ndarray | None = None,
    ) -> Picked:
        there, block = numbers.tolist(), self._block
        rows, ids = block.some(there), block.places(numbers)
        self._found.update(zip(ids, rows, strict=True))
        picked = Picked(
            block,
            numbers,
            block.revision,
            ids,
            rows,
            _NO_SCORES if scores is None else scores,
            score,
            self._table.spec.schema,
            block.vectors,
            [block.vector(number) for number in there] if VECTOR in columns else None,
        )
        if LINK in columns:
            picked.note(LINK, block.before(numbers))
        return picked
