"""A search engine in memory: for tests, and to show the contract."""

import math
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from lance_context_core.engines._protocol import EngineHits, EngineRow, EngineState
from lance_context_core.errors import DimensionMismatchError

K1, B = 1.2, 0.75
"""The constants of BM25, as LanceDB has them."""


@dataclass(slots=True)
class _Index:
    dimension: int | None
    rows: dict[str, EngineRow] = field(default_factory=dict)
    position: str = ""
    n_written: int = 0

    @property
    def state(self) -> EngineState:
        n = len(self.rows)
        return EngineState(position=self.position, n_rows=n, n_lost=self.n_written - n)


class MemoryEngine:
    """A `SearchEngine` that has its indexes in memory, and reads all rows for each search."""

    channels = frozenset(("text", "vector"))
    max_words_bytes = 2**31

    def __init__(self, name: str = "memory") -> None:
        """Create an engine without indexes."""
        self.name = name
        self._indexes: dict[str, _Index] = {}
        self._lock = threading.Lock()

    def tables(self) -> list[str]:
        """The tables that have an index."""
        return [*self._indexes]

    def state(self, table: str) -> EngineState | None:
        """The state of a table's index; None without one."""
        with self._lock:
            index = self._indexes.get(table)
            return None if index is None else index.state

    def clear(self, table: str, *, dimension: int | None) -> None:
        """Replace a table's index by an empty one."""
        with self._lock:
            self._indexes[table] = _Index(dimension)

    def drop(self, table: str) -> None:
        """Remove the index of a table."""
        with self._lock:
            self._indexes.pop(table, None)

    def write(
        self,
        table: str,
        *,
        puts: Sequence[EngineRow] = (),
        removes: Sequence[str] = (),
        position: str | None = None,
    ) -> None:
        """Put and remove rows, and set the position, in one step."""
        with self._lock:
            index = self._indexes[table]
            for row in puts:
                if row.vector is not None and len(row.vector) != index.dimension:
                    raise DimensionMismatchError(
                        f"a vector of length {len(row.vector)} for an index of {index.dimension}"
                    )
            for key in removes:
                index.rows.pop(key, None)
            index.rows.update((row.key, row) for row in puts)
            index.n_written = len(index.rows)
            if position is not None:
                index.position = position

    def revisions(self, table: str) -> dict[str, int]:
        """The revision of each row, by key."""
        with self._lock:
            return {key: row.revision for key, row in self._indexes[table].rows.items()}

    def match(
        self, table: str, words: Sequence[str], *, where: Mapping[str, str | None], limit: int
    ) -> EngineHits:
        """The rows that have any of the words, by the BM25 of the rows that meet `where`."""
        return self._best(table, where, limit, lambda rows: bm25(words, rows))

    def nearest(
        self, table: str, vector: Sequence[float], *, where: Mapping[str, str | None], limit: int
    ) -> EngineHits:
        """The rows with the highest cosine."""
        asked = np.asarray(vector, np.float32)
        asked = asked / np.linalg.norm(asked)

        def cosines(rows: Sequence[EngineRow]) -> Iterable[float | None]:
            for row in rows:
                if row.vector is None:
                    yield None
                else:
                    one = np.asarray(row.vector, np.float32)
                    yield float(asked @ one / np.linalg.norm(one))

        return self._best(table, where, limit, cosines)

    def close(self) -> None:
        """Do nothing: the indexes stay as long as the engine."""

    def _best(
        self,
        table: str,
        where: Mapping[str, str | None],
        limit: int,
        score: Callable[[Sequence[EngineRow]], Iterable[float | None]],
    ) -> EngineHits:
        with self._lock:
            index = self._indexes[table]
            state = index.state
            rows = [
                row
                for row in index.rows.values()
                if all(row.fields.get(name) == value for name, value in where.items())
            ]
        scored = zip(score(rows), rows, strict=True)
        found = [(one, row.key) for one, row in scored if one is not None]
        found.sort(key=lambda pair: -pair[0])
        return EngineHits(
            state=state,
            keys=[key for _, key in found[:limit]],
            scores=[one for one, _ in found[:limit]],
        )


def bm25(words: Sequence[str], rows: Sequence[EngineRow]) -> list[float | None]:
    """The score of each row; None without any of the words. Words of the query may repeat."""
    counts = [Counter(row.words) for row in rows]
    n = sum(bool(row.words) for row in rows)
    mean = sum(len(row.words) for row in rows) / max(1, n) or 1.0
    asked = Counter(words)
    there = {word: sum(word in one for one in counts) for word in asked}
    weight = {
        word: times * (K1 + 1) * math.log(1 + (n - there[word] + 0.5) / (there[word] + 0.5))
        for word, times in asked.items()
    }
    scores: list[float | None] = []
    for row, count in zip(rows, counts, strict=True):
        norm = K1 * (1 - B + B * len(row.words) / mean)
        mine = [weight[word] * count[word] / (count[word] + norm) for word in asked if count[word]]
        scores.append(sum(mine) if mine else None)
    return scores
