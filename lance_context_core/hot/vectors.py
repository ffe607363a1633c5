"""The vectors of rows by number, of which one may have several, or none: cosines over arrays."""

import math
from typing import Any

import numpy as np
import pyarrow as pa

_FEWEST_ROOM = 16


class Matrix:
    """Vectors of one length, each of a row; rows come in the order of their numbers."""

    def __init__(self, dimension: int) -> None:
        """None yet."""
        self._matrix = np.empty((0, dimension), np.float32)
        self._norms = np.empty(0, np.float32)
        self._n = 0
        self._starts: list[int] = []
        self._rows: list[int] = []
        """The first vector of each row that has any, and which row that is."""
        self._arrays: tuple[np.ndarray, np.ndarray] | None = None
        self._index: dict[int, int] | None = None

    @property
    def n_bytes(self) -> int:
        """What it takes in memory, about."""
        return self._matrix.nbytes + self._norms.nbytes + 100 * len(self._rows)

    def take(self, column: pa.Array) -> None:
        """Those of the rows 0, 1 and so on, as a table has them."""
        counts = ~np.asarray(column.is_null().to_numpy(zero_copy_only=False), bool)
        flat = column.drop_null()
        if pa.types.is_list(column.type):
            counts = np.where(counts, column.value_lengths().fill_null(0), 0)
            flat = flat.flatten()
        if not len(flat):
            return
        numbers = flat.flatten().to_numpy(zero_copy_only=False)
        self._matrix = numbers.astype(np.float32, copy=True).reshape(len(flat), -1)
        self._norms = np.linalg.norm(self._matrix, axis=1)
        self._n = len(flat)
        there = np.flatnonzero(counts)
        self._rows = there.tolist()
        self._starts = (np.cumsum(counts[there]) - counts[there]).tolist()

    def add(self, row: int, value: Any) -> None:
        """Those of one row more: a vector, or a list of them; None if it has none."""
        if value is None or not len(value):
            return
        vectors = np.atleast_2d(np.asarray(value, np.float32))
        end = self._n + len(vectors)
        if end > len(self._norms):
            room = max(end, self._n + self._n // 4, _FEWEST_ROOM)
            self._matrix = _with_room(self._matrix, room)
            self._norms = _with_room(self._norms, room)
        self._matrix[self._n : end] = vectors
        self._norms[self._n : end] = np.linalg.norm(vectors, axis=1)
        self._starts.append(self._n)
        self._rows.append(row)
        self._n = end
        self._arrays = None
        if self._index is not None:
            self._index[row] = len(self._rows) - 1

    def blank(self, row: int) -> None:
        """Leave nothing of the vectors of a row that is gone."""
        if (span := self._span(row)) is not None:
            self._matrix[span] = 0
            self._norms[span] = 0

    def of(self, row: int) -> np.ndarray | None:
        """The vectors of a row; None if it has none."""
        return None if (span := self._span(row)) is None else self._matrix[span]

    def cosines(self, vector: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows that have vectors, and of each the cosine of the nearest one."""
        if self._arrays is None:
            self._arrays = np.array(self._rows, np.int64), np.array(self._starts, np.int64)
        rows, starts = self._arrays
        length = math.sqrt(vector.dot(vector))
        if not length or not len(rows):
            # It has no direction, and is as far from everything.
            return rows, np.zeros(len(rows), np.float32)
        # `matrix @ vector` gives equal rows different last bits, depending on where they stand.
        dots = np.einsum("ij,j->i", self._matrix[: self._n], vector)
        lengths = self._norms[: self._n] * length
        cosines: np.ndarray
        if lengths.all():
            cosines = dots / lengths
        else:
            cosines = np.divide(dots, lengths, out=np.zeros_like(dots), where=lengths > 0)
        return rows, cosines if len(rows) == self._n else np.maximum.reduceat(cosines, starts)

    def _span(self, row: int) -> slice | None:
        if self._index is None:
            self._index = {row: place for place, row in enumerate(self._rows)}
        if (place := self._index.get(row)) is None:
            return None
        return slice(self._starts[place], ([*self._starts[place + 1 : place + 2], self._n])[0])


def _with_room(former: np.ndarray, room: int) -> np.ndarray:
    more = np.zeros((room, *former.shape[1:]), former.dtype)
    more[: len(former)] = former
    return more
