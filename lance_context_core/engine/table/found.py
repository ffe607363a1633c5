"""What a query of a table found: by columns of Python's values, made when they are asked for."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa


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
