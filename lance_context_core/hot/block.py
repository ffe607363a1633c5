"""The rows of one scope, in memory, and what both channels of a search find among them."""

import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lance_context_core.engine.journal.entries import Entry, How
from lance_context_core.engine.schema import KEY, SEARCH_TEXT, VECTOR, vector_length
from lance_context_core.engine.sql.clauses import Clause
from lance_context_core.engine.table.following import State
from lance_context_core.hot.postings import Postings
from lance_context_core.hot.words import Words, are_sure

Row = Mapping[str, Any]

_ROWS_AT_A_TIME = 128
"""Arrow makes Python's values of so many rows in a millisecond or two, in which no other thread runs."""

_FEWEST_ROOM = 16


class OutdatedError(Exception):
    """What came about cannot be followed: the block is to be read anew."""


class UnsureError(Exception):
    """Of these texts only the engine can tell what their words are."""


class Block:
    """The rows of one scope, as they were at a state of their table; safe to share between threads."""

    def __init__(
        self,
        scope: Clause,
        state: State,
        rows: pa.Table,
        *,
        vectors: pa.Field | None,
        words: Words,
    ) -> None:
        """Of the rows of that scope, in order; `scope` is asked of what comes later.

        `vectors` is the table's column of vectors, if it has one.
        """
        self.state = state
        """What of the table is in it."""
        self.lock = threading.Lock()
        """Is held by whoever follows the table, or searches."""
        self.is_sound = True
        """Whether it is as its state says: what could not be followed is of no use any more."""
        self.vectors = vectors
        self._scope = scope
        self._words = words
        n = rows.num_rows
        self._rows: list[Row] = _plain(rows)
        self._numbers = {row[KEY]: number for number, row in enumerate(self._rows)}
        self._row_bytes = sum(map(_size, self._rows))
        self._n_unsure = 0
        self._next_place = n
        self._postings = Postings(map(self._words_of, self._rows))
        self._room = 0
        self._places = np.empty(0, np.int64)
        self._is_alive = np.empty(0, bool)
        self._has_text = np.empty(0, bool)
        self._has_vector = np.empty(0, bool)
        self._norms = np.empty(0, np.float32)
        dimension = 0 if self.vectors is None else vector_length(self.vectors)
        self._matrix = np.empty((0, dimension), np.float32)
        self._make_room(n)
        self._places[:n] = np.arange(n)
        self._is_alive[:n] = True
        self._has_text[:n] = [row.get(SEARCH_TEXT) is not None for row in self._rows]
        if self.vectors is not None:
            self._take_vectors(rows[VECTOR].combine_chunks())

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def n_bytes(self) -> int:
        """What it takes in memory, about."""
        arrays = self._room * (8 + 3 + 4 + 4 * self._matrix.shape[1])
        return 2_000 + arrays + self._row_bytes + self._postings.n_bytes

    def follow(self, state: State, entries: Sequence[Entry]) -> None:
        """Be what the table is at `state`, after these. Raises OutdatedError, and as `scope`."""
        self.is_sound = False
        for entry in entries:
            if entry.seq <= self.state.last:
                continue
            known = self._numbers.get(entry.key)
            is_mine = entry.how is not How.REMOVE and bool(self._scope.holds(entry.row))  # type: ignore[misc]
            if entry.how is How.APPEND:
                if known is not None and is_mine:
                    raise OutdatedError
                if is_mine:
                    self._add(entry.row, self._next_place)
                continue
            if known is None and is_mine:
                # It came from another scope, and stands where it stood.
                raise OutdatedError
            if known is not None:
                self._remove(entry.key)
                if is_mine:
                    self._add(entry.row, int(self._places[known]))
        if len(self._rows) > 2 * len(self._numbers) + _FEWEST_ROOM:
            raise OutdatedError
        self.state, self.is_sound = state, True

    def nearest(self, where: Clause, vector: np.ndarray, limit: int) -> dict[int, float]:
        """The cosines of the nearest rows that meet `where`, by number, best first.

        Raises as `where.holds`, as do the others.
        """
        n = len(self._rows)
        among = np.flatnonzero(self._is_alive[:n] & self._has_vector[:n])
        return self._best(among, self._cosines(vector)[among], limit, where)

    def match(self, where: Clause, text: str, limit: int) -> dict[int, float]:
        """The scores of the rows that match words of `text` best. Raises UnsureError."""
        if self._n_unsure or not are_sure(text):
            raise UnsureError
        n = len(self._rows)
        bm25 = self._postings.bm25(self._words(text), self._is_alive[:n] & self._has_text[:n])
        among = np.flatnonzero(bm25 > 0)
        return self._best(among, bm25[among], limit, where)

    def matching(self, where: Clause) -> list[int]:
        """The numbers of the rows that meet `where`, in the order of writing."""
        holds: Any = where.holds
        there = [number for number in self._numbers.values() if holds(self._rows[number])]
        return sorted(there, key=self.place)

    def numbers_of(self, places: Sequence[int]) -> list[int]:
        """The numbers of the rows at these places, in their order; without those that are gone."""
        n = len(self._rows)
        there = np.flatnonzero(np.isin(self._places[:n], list(places)) & self._is_alive[:n])
        by_place = {self.place(int(number)): int(number) for number in there}
        return [by_place[place] for place in places if place in by_place]

    def place(self, number: int) -> int:
        """The lower, the earlier a row was written."""
        return int(self._places[number])

    def row(self, number: int, columns: Sequence[str]) -> Row:
        """These columns of a row."""
        row = self._rows[number]
        if VECTOR in columns and self._has_vector[number]:
            return {**row, VECTOR: self._matrix[number]}
        return row

    # Helpers

    def _words_of(self, row: Row) -> list[str]:
        text = row.get(SEARCH_TEXT)
        if text is None:
            return []
        self._n_unsure += not are_sure(text)
        return self._words(text)

    def _cosines(self, vector: np.ndarray) -> np.ndarray:
        n = len(self._rows)
        length = float(np.linalg.norm(vector))
        if not length:
            # It has no direction, and is as far from everything.
            return np.zeros(n, np.float32)
        # `matrix @ vector` gives equal rows different last bits, depending on where they stand.
        dots = np.einsum("ij,j->i", self._matrix[:n], vector)
        lengths = self._norms[:n] * length
        cosines: np.ndarray = np.divide(
            dots, lengths, out=np.zeros(n, np.float32), where=lengths > 0
        )
        return cosines

    def _best(
        self, numbers: np.ndarray, scores: np.ndarray, limit: int, where: Clause
    ) -> dict[int, float]:
        """The `limit` best of those that hold, best first, equals in the order of writing."""
        holds: Any = where.holds
        found: dict[int, float] = {}
        n_asked, n = 0, min(2 * limit, len(numbers))
        while n_asked < len(numbers) and len(found) < limit:
            if n < len(numbers):
                least = np.partition(scores, len(scores) - n)[len(scores) - n]
                among = np.flatnonzero(scores >= least)
            else:
                among = np.arange(len(numbers))
            order = among[np.lexsort((self._places[numbers[among]], -scores[among]))]
            for place in order[n_asked:].tolist():
                if len(found) < limit and holds(self._rows[number := int(numbers[place])]):
                    found[number] = float(scores[place])
            n_asked, n = len(order), min(4 * n, len(numbers))
        return found

    def _add(self, row: Row, place: int) -> None:
        number = len(self._rows)
        self._make_room(number + 1)
        vector = row.get(VECTOR)
        kept = {name: value for name, value in row.items() if name not in (VECTOR, "blob")}
        self._rows.append(kept)
        self._numbers[row[KEY]] = number
        self._postings.add(self._words_of(kept))
        self._row_bytes += _size(kept)
        self._places[number] = place
        self._next_place = max(self._next_place, place + 1)
        self._is_alive[number] = True
        self._has_text[number] = kept.get(SEARCH_TEXT) is not None
        self._has_vector[number] = vector is not None
        if vector is not None:
            self._matrix[number] = vector
            self._norms[number] = np.linalg.norm(self._matrix[number])

    def _remove(self, key: str) -> None:
        number = self._numbers.pop(key)
        former = self._rows[number]
        self._is_alive[number] = False
        self._row_bytes -= _size(former)
        text = former.get(SEARCH_TEXT)
        self._n_unsure -= text is not None and not are_sure(text)
        self._rows[number] = {}

    def _make_room(self, n: int) -> None:
        if n <= self._room and self._room:
            return
        room = max(n, self._room + self._room // 4, _FEWEST_ROOM)
        for name in ("_places", "_is_alive", "_has_text", "_has_vector", "_norms", "_matrix"):
            former = getattr(self, name)
            more = np.zeros((room, *former.shape[1:]), former.dtype)
            more[: len(former)] = former
            setattr(self, name, more)
        self._room = room

    def _take_vectors(self, vectors: pa.FixedSizeListArray) -> None:
        n = len(vectors)
        there = ~np.asarray(vectors.is_null().to_numpy(zero_copy_only=False), bool)
        self._has_vector[:n] = there
        if there.any():
            flat = vectors.drop_null().flatten().to_numpy(zero_copy_only=False)
            self._matrix[:n][there] = flat.reshape(int(there.sum()), -1)
        self._norms[:n] = np.linalg.norm(self._matrix[:n], axis=1)


def _plain(rows: pa.Table) -> list[Row]:
    """The rows without vectors, each without what is null."""
    kept = rows.drop_columns([name for name in (VECTOR, "_rowid") if name in rows.column_names])
    made: list[Row] = []
    for start in range(0, kept.num_rows, _ROWS_AT_A_TIME):
        made += [
            {name: value for name, value in row.items() if value is not None}
            for row in kept.slice(start, _ROWS_AT_A_TIME).to_pylist()
        ]
    return made


def _size(row: Row) -> int:
    return sys.getsizeof(row) + sum(map(_size_of_value, row.values()))


def _size_of_value(value: Any) -> int:
    if isinstance(value, Collection) and not isinstance(value, str | bytes):
        parts = value.values() if isinstance(value, Mapping) else value
        return sys.getsizeof(value) + sum(map(_size_of_value, parts))
    return sys.getsizeof(value)
