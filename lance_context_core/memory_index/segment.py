"""The rows of one scope in memory, searched by vectors and by words."""

import math
import threading
from array import array
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from lance_context_core.memory_index.bm25 import Postings, Words, are_sure
from lance_context_core.memory_index.columns import (
    Bitmap,
    Bitmaps,
    Condition,
    Row,
    Turns,
    plain,
    session_of,
    size,
    size_of_rows,
)
from lance_context_core.storage.changes import Position
from lance_context_core.storage.lance.schema import KEY, SEARCH_TEXT, VECTOR, vector_length
from lance_context_core.storage.sql.predicates import Clause
from lance_context_core.storage.wal.entries import Entry, How
from lance_context_core.text.analysis import is_short, without_runs

# The vectors of rows by number, several or none per row: cosines over arrays.


class Matrix:
    """Vectors of one length with their rows, in the order of row numbers."""

    def __init__(self, dimension: int) -> None:
        """Create it without vectors."""
        self._matrix = np.empty((0, dimension), np.float32)
        self._norms = np.empty(0, np.float32)
        self._n = 0
        self._starts: list[int] = []
        self._rows: list[int] = []
        """The first vector of each row with vectors, and the number of that row."""
        self._arrays: tuple[np.ndarray, np.ndarray] | None = None
        self._index: dict[int, int] | None = None

    @property
    def n_bytes(self) -> int:
        """Approximate memory in bytes."""
        return self._matrix.nbytes + self._norms.nbytes + 100 * len(self._rows)

    def take(self, column: pa.Array) -> None:
        """Add the vectors of the rows 0, 1 and so on, from a table's column."""
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
        """Add the vectors of another row: one, a list, or None."""
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
        """Erase the vectors of a removed row."""
        if (span := self._span(row)) is not None:
            self._matrix[span] = 0
            self._norms[span] = 0

    def of(self, row: int) -> np.ndarray | None:
        """Return the vectors of a row; None without any."""
        return None if (span := self._span(row)) is None else self._matrix[span]

    def cosines(self, vector: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows with vectors, and the cosine of each one's nearest."""
        if self._arrays is None:
            self._arrays = np.array(self._rows, np.int64), np.array(self._starts, np.int64)
        rows, starts = self._arrays
        length = math.sqrt(vector.dot(vector))
        if not length or not len(rows):
            # It has no direction, and is equally far from all.
            return rows, np.zeros(len(rows), np.float32)
        # `matrix @ vector` gives equal rows different last bits, depending on their position.
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


_HEARD = 0.99
"""Maximum share of the previous turn's word score for a turn without own words."""

LARGE = ("blob", "data")
"""The columns that are not cached."""

_MADE_BYTES = 1_500
_MOST_MADE = 1_000
"""Approximate size of a row's record, which shares its texts; and the number cached."""

_MOST_NEWS = 128
"""Maximum rows added one by one; beyond, the scope is read again outside the loop."""

_FEWEST_ROOM = 16

_FEW_GONE = 512
"""Up to this many removed rows cost less than reading the scope again."""

_FEW_TO_SORT = 256
"""Sorting this many takes as long as selecting the best of them."""

_MOST_SHOWN = 8


class OutdatedError(Exception):
    """The changes cannot be applied: the block must be read again."""


class UnsureError(Exception):
    """Only the engine can split these texts into words."""


class Best(NamedTuple):
    """The numbers of rows with scores, best first, equal ones in the order of writing."""

    numbers: np.ndarray
    scores: np.ndarray


class Matching(NamedTuple):
    """The rows that match a text, with scores from their own words."""

    best: Best
    own: np.ndarray
    """The scores without the words of previous turns; 0 without own words."""
    coverage: float
    """In [0, 1]: the best score as a share of the query's maximum."""


class Joined(NamedTuple):
    """The rows of several queries, each once, in the order of writing."""

    ids: list[int]
    previous: np.ndarray
    """The index of each one's previous turn among them, or -1."""
    rows: list[Row]
    parts: list[np.ndarray]
    """The indexes of each query's rows."""


class Segment:
    """The rows of one scope at a table position; safe to share between threads."""

    def __init__(
        self,
        scope: Clause,
        state: Position,
        rows: pa.Table,
        *,
        columns: frozenset[str],
        vectors: pa.Field | None,
        words: Words | None,
    ) -> None:
        """Create it from the rows of that scope, in order; `scope` selects later rows.

        `columns` were read, as far as the table has them. `vectors` is the table's column of
        vectors, if any. Without `words` only the engine can match a text. Raises OutdatedError for
        a duplicate key.
        """
        self.state = state
        """The table's position that it includes."""
        self.columns = columns
        """The columns of its rows."""
        self.lock = threading.Lock()
        """Held by updates and searches, for a millisecond or two."""
        self.is_sound = True
        """Whether it matches its state; after a failed update it is useless."""
        self.revision = 0
        """Changes with its rows: numbers of two queries are comparable while it is equal."""
        self.vectors = vectors
        self.is_asked_by: tuple[int, str | None] | None = None
        """The length and the model of the last query's vectors, to which its own correspond."""
        self._scope, self._words = scope, words
        self._made: dict[int, Any] = {}
        """Objects made of found rows, by number."""
        n = rows.num_rows
        self._rows: list[Row] = plain(rows)
        self._numbers = {row[KEY]: number for number, row in enumerate(self._rows)}
        if len(self._numbers) < n:
            raise OutdatedError
        self.masks = Bitmaps(self._rows)
        self._shown_now: dict[str, Bitmap] = {}
        """By the names of conditions, the existing rows that meet them."""
        self._handed: tuple[np.ndarray, np.ndarray] | None = None
        """The rows among which words were last passed on, and the result of `_handing`."""
        self._row_bytes = size_of_rows(rows, self._rows)
        self._next_place, self._is_in_order = n, True
        """Whether rows with higher numbers were written later."""
        self._is_searched = SEARCH_TEXT in columns or VECTOR in columns
        """Whether it is for searches, too; else nothing is computed for them."""
        self._postings: Postings | None = None
        self._unsure = set[int]()
        """The words of the rows, and rows that only the engine can split: see `make_words`."""
        self._making = threading.Lock()
        self.has_grown = False
        """Whether it takes more memory than before, with the same rows."""
        self._turns = Turns(self._numbers)
        self._is_short = array("b")
        """Whether the text of each row is short."""
        for number, row in enumerate(self._rows if self._is_searched else ()):
            self._turns.add(row, number)
            self._is_short.append(is_short(row.get("text")))
        self._room = 0
        self._places, self._is_alive = np.empty(0, np.int64), np.empty(0, bool)
        self._make_room(n)
        self._places[:n] = np.arange(n)
        self._is_alive[:n] = True
        self._matrix = _matrix_of(rows, vectors)

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def n_bytes(self) -> int:
        """Approximate memory in bytes."""
        arrays = 19 * self._room + self._matrix.n_bytes + self.masks.n_bytes
        made = _MADE_BYTES * min(len(self), _MOST_MADE) if self._is_searched else 0
        words = 0 if self._postings is None else self._postings.n_bytes
        return 2_000 + arrays + self._row_bytes + words + made

    def follow(self, state: Position, entries: Iterable[Entry]) -> None:
        """Apply these entries, up to `state`. Raises OutdatedError, and as `scope`."""
        self.is_sound = False
        holds: Any = self._scope.holds
        mine: dict[int, bool] = {}
        touched: set[str] = set()
        news = [entry for entry in entries if entry.seq > self.state.last]
        for entry in news:
            is_mine = entry.how is not How.REMOVE and bool(holds(entry.row))
            if is_mine or entry.key in self._numbers or entry.key in touched:
                mine[entry.seq] = is_mine
                touched.add(entry.key)
        if len(mine) > _MOST_NEWS:
            raise OutdatedError
        for entry in news:
            if entry.seq not in mine:
                continue
            is_mine = mine[entry.seq]
            known = self._numbers.get(entry.key)
            if entry.how is How.APPEND:
                if known is not None and is_mine:
                    raise OutdatedError
                if is_mine:
                    self._add(entry.row, self._next_place)
                continue
            if known is None and is_mine:
                # It came from another scope, and keeps its place.
                raise OutdatedError
            if known is not None and is_mine:
                if session_of(self._rows[known]) != session_of(entry.row):
                    # Its place is between the turns of another session.
                    raise OutdatedError
                self._remove(entry.key)
                self._add(entry.row, int(self._places[known]), former=known)
            elif known is not None:
                if self._is_searched:
                    self._turns.remove(self._rows[known], known)
                self._remove(entry.key)
        if len(self._rows) > 2 * len(self._numbers) + _FEW_GONE:
            raise OutdatedError
        self.state, self.is_sound = state, True

    @property
    def n_rows(self) -> int:
        """The number of rows, including removed ones."""
        return len(self._rows)

    def rows(self, first: int) -> list[Row]:
        """Return all rows from that number on; removed ones are empty."""
        return self._rows[first:]

    def nearest(self, where: Condition, vector: np.ndarray, limit: int) -> Best:
        """Return the nearest rows that meet `where`, by cosine; raises as `where.asked`."""
        rows, cosines = self._matrix.cosines(vector)
        there = self._shown(where)[rows]
        return self._best(rows[there], cosines[there], limit)

    def meeting(self, where: Condition) -> list[Row]:
        """Return the rows that meet `where`, in writing order; raises as `where.asked`."""
        return self.some(self._in_order(np.flatnonzero(self._shown(where))).tolist())

    @property
    def has_words(self) -> bool:
        """Whether the words of its rows are computed."""
        return self._postings is not None

    def make_words(self) -> None:
        """Compute the words of its rows, in a thread, in up to a second.

        They are for `words` and `match`. Updates continue meanwhile: a search by vectors alone
        needs no words.
        """
        with self._making:
            if self._postings is not None:
                return
            with self.lock:
                rows = [*self._rows]
            unsure = {number for number, row in enumerate(rows) if self._is_unsure(row)}
            made = Postings(map(self._words_of, rows))
            with self.lock:
                for number in range(len(rows), len(self._rows)):
                    made.add(self._words_of(self._rows[number]))
                    unsure.update([number] if self._is_unsure(self._rows[number]) else [])
                self._unsure = {number for number in unsure if self._is_alive[number]}
                self._postings = made
                self.has_grown = True

    def words(self, text: str) -> list[str]:
        """Return the words of a query; raises UnsureError if only the engine can split it."""
        # All texts here are split surely, so that none has the query's words in such a script.
        text = text if text.isascii() else without_runs(text)
        if self._words is None or self._unsure or not are_sure(text):
            raise UnsureError
        return self._words(text)

    def match(
        self,
        where: Condition,
        among: Condition,
        words: Sequence[str],
        limit: int,
        *,
        preceding: float = 0.0,
        must_match: bool = True,
    ) -> Matching:
        """Return the rows that meet `where` and best match `words`.

        A short turn also has the words of a short previous one that meets `where`, each weighted by
        `preceding`; if it `must_match`, it needs a word of its own.

        The rarity of words and the lengths of texts are those of rows that meet `among`. Raises the
        errors of `where.asked`, and UnsureError if rows were added that only the engine can split.
        """
        if self._unsure:
            raise UnsureError
        assert self._postings is not None
        shown, counts = self._shown(where), self._shown(among)
        if not preceding:
            own = bm25 = self._postings.bm25(words, counts)
        else:
            handing = self._handing(shown if shown is counts else shown & counts)
            own, bm25 = self._postings.bm25_with_before(words, counts, handing, preceding)
            # Turns with own words come before those with passed words only.
            heard = ((bm25 > 0) & (own == 0)).nonzero()[0]
            bm25[heard] = np.minimum(bm25[heard], _HEARD * bm25[handing[heard]])
        found = (((own if must_match else bm25) > 0) & shown).nonzero()[0]
        best = self._best(found, bm25[found], limit)
        most = self._postings.attainable(words, counts)
        coverage = min(1.0, float(best.scores[0]) / most) if len(best.scores) else 0.0
        return Matching(best, own[best.numbers], coverage)

    def beside(self, where: Condition, numbers: np.ndarray) -> np.ndarray:
        """Return the neighbours of these rows that meet `where`, without these; in order."""
        before = self._turns.before
        are_these = np.zeros(len(before), bool)
        are_these[numbers] = True
        near = are_these[before] & (before >= 0)
        stand_before = before[numbers]
        near[stand_before[stand_before >= 0]] = True
        return self._in_order((near & self._shown(where) & ~are_these).nonzero()[0])

    def joined(self, found: Sequence[np.ndarray]) -> Joined:
        """Join the current rows of several queries."""
        places = np.full(len(self._rows) + 1, -1)
        for one in found:
            places[one] = 0
        numbers = self._in_order((places == 0).nonzero()[0])
        places[numbers] = np.arange(len(numbers))
        # A row without a previous one gets the last place, which is -1.
        previous = places[self._turns.before[numbers]]
        rows = self.some(numbers.tolist())
        return Joined(self.places(numbers), previous, rows, [places[one] for one in found])

    def before(self, numbers: np.ndarray) -> list[str | None]:
        """Return the keys of the previous turns; None without one."""
        there = self._turns.before[numbers].tolist() if self._is_searched else []
        return [self._rows[one].get(KEY) if one >= 0 else None for one in there]

    def number(self, key: str) -> int | None:
        """Return the number of the row with this key; None if absent."""
        return self._numbers.get(key)

    def places(self, numbers: np.ndarray) -> list[int]:
        """Return the places of rows, in the order of writing."""
        there: list[int] = self._places[numbers].tolist()
        return there

    def row(self, number: int) -> Row:
        """Return a row, without nulls and vectors."""
        return self._rows[number]

    def some(self, numbers: Iterable[int]) -> list[Row]:
        """Return several rows."""
        return [*map(self._rows.__getitem__, numbers)]

    def made(self, number: int) -> Any:
        """Return the cached object of a row; else None."""
        return self._made.get(number)

    def keep(self, number: int, made: Any) -> None:
        """Cache an object of an existing row; evicts the oldest if necessary."""
        if self._rows[number]:
            self._made[number] = made
            if len(self._made) > _MOST_MADE:
                del self._made[next(iter(self._made))]

    def vector(self, number: int) -> np.ndarray | None:
        """Return the vector of a row, if any."""
        return None if (found := self._matrix.of(number)) is None else found[0]

    # Helpers

    def _shown(self, where: Condition) -> np.ndarray:
        """Return the same array while it is unchanged: it is the key of dependent caches."""
        known = self._shown_now.get(where.name)
        if known is None or not known.holds(where):
            mask = self.masks.of(where)
            known = mask._replace(rows=mask.rows & self._is_alive[: len(self._rows)])
            if len(self._shown_now) >= _MOST_SHOWN:
                self._shown_now.clear()
            self._shown_now[where.name] = known
        return known.rows

    def _has_changed(self) -> None:
        self.revision += 1
        self._shown_now.clear()
        self._handed = None

    def _words_of(self, row: Row) -> list[str]:
        text = row.get(SEARCH_TEXT)
        return [] if text is None or self._words is None else self._words(text)

    def _is_unsure(self, row: Row) -> bool:
        text = row.get(SEARCH_TEXT)
        return self._words is not None and text is not None and not are_sure(text)

    def _best(self, numbers: np.ndarray, scores: np.ndarray, limit: int) -> Best:
        """Return the best of rows with ascending numbers."""
        if len(numbers) > max(limit, _FEW_TO_SORT):
            least = np.partition(scores, len(scores) - limit)[len(scores) - limit]
            there = scores >= least
            numbers, scores = numbers[there], scores[there]
        if self._is_in_order:
            order = (-scores).argsort(kind="stable")[:limit]
        else:
            order = np.lexsort((self._places[numbers], -scores))[:limit]
        return Best(numbers[order], scores[order])

    def _in_order(self, numbers: np.ndarray) -> np.ndarray:
        """Sort ascending numbers in the order of writing."""
        return numbers if self._is_in_order else numbers[np.argsort(self._places[numbers])]

    def _add(self, row: Row, place: int, *, former: int | None = None) -> None:
        number = len(self._rows)
        self._make_room(number + 1)
        kept = {
            name: value
            for name, value in row.items()
            if name != VECTOR and name not in LARGE and value is not None
        }
        self._rows.append(kept)
        self._numbers[row[KEY]] = number
        self._row_bytes += size(kept)
        self._places[number] = place
        self._is_in_order = self._is_in_order and place >= self._next_place
        self._has_changed()
        self._next_place = max(self._next_place, place + 1)
        self._is_alive[number] = True
        if self._is_searched:
            if self._postings is not None:
                self._postings.add(self._words_of(kept))
                self._unsure.update([number] if self._is_unsure(kept) else [])
            if self.vectors is not None:
                self._matrix.add(number, row.get(VECTOR))
            self._turns.add(kept, number, former=former)
            self._is_short.append(is_short(kept.get("text")))

    def _handing(self, handing: np.ndarray) -> np.ndarray:
        """Return for each row the number of the turn whose words it gets, or -1."""
        if self._handed is not None and self._handed[0] is handing:
            return self._handed[1]
        before = self._turns.before
        is_short = np.frombuffer(self._is_short, np.bool_)
        is_heard = (before >= 0) & is_short & (is_short & handing)[before]
        heard: np.ndarray = np.where(is_heard, before, -1)
        self._handed = handing, heard
        return heard

    def _remove(self, key: str) -> None:
        number = self._numbers.pop(key)
        former = self._rows[number]
        self._is_alive[number] = False
        self._has_changed()
        self._row_bytes -= size(former)
        self._unsure.discard(number)
        self._rows[number] = {}
        self._made.pop(number, None)
        self._matrix.blank(number)

    def _make_room(self, n: int) -> None:
        if n <= self._room and self._room:
            return
        room = max(n, self._room + self._room // 4, _FEWEST_ROOM)
        for name in ("_places", "_is_alive"):
            former = getattr(self, name)
            more = np.zeros(room, former.dtype)
            more[: len(former)] = former
            setattr(self, name, more)
        self._room = room


def _matrix_of(rows: pa.Table, vectors: pa.Field | None) -> Matrix:
    matrix = Matrix(0 if vectors is None else vector_length(vectors))
    if vectors is not None:
        matrix.take(rows[VECTOR].combine_chunks())
    return matrix
