"""The rows of one scope, in memory, and what both channels of a search find among them."""

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

# The vectors of rows by number, of which one may have several, or none: cosines over arrays.


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


_HEARD = 0.99
"""What words are worth at most to a turn that has none of its own, of their worth to the turn before."""

LARGE = ("blob", "data")
"""The columns that are not kept."""

_MADE_BYTES = 1_500
_MOST_MADE = 1_000
"""About what a record takes that was made of a row, whose texts it shares; and of how many it is kept."""

_MOST_NEWS = 128
"""So many rows are taken in one after the other; of more, the scope is read anew beside the loop."""

_FEWEST_ROOM = 16

_FEW_GONE = 512
"""So many rows that are gone cost less than to read the scope anew."""

_FEW_TO_SORT = 256
"""So many are sorted as soon as the best of them are found."""

_MOST_SHOWN = 8


class OutdatedError(Exception):
    """What came about cannot be followed: the block is to be read anew."""


class UnsureError(Exception):
    """Of these texts only the engine can tell what their words are."""


class Best(NamedTuple):
    """The numbers of rows with their scores, best first, equals in the order of writing."""

    numbers: np.ndarray
    scores: np.ndarray


class Matching(NamedTuple):
    """The rows that match a text, and what of their scores is due to their own words."""

    best: Best
    own: np.ndarray
    """What they would have without the words that the turn before hands on; 0 without own ones."""
    coverage: float
    """The share in [0, 1] that the best has of what the question's words could score."""


class Joined(NamedTuple):
    """Rows that several queries found, each once, in the order of writing."""

    ids: list[int]
    previous: np.ndarray
    """Which of them is the turn before each, or -1."""
    rows: list[Row]
    parts: list[np.ndarray]
    """Which of them each query found."""


class Segment:
    """The rows of one scope, as they were at a state of their table; safe to share between threads."""

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
        """Of the rows of that scope, in order; `scope` is asked of what comes later.

        `columns` were read of them, those among these that the table has. `vectors` is the table's
        column of vectors, if it has one. Without `words` only the engine can match a text. Raises
        OutdatedError if a key is there twice.
        """
        self.state = state
        """What of the table is in it."""
        self.columns = columns
        """What is known of its rows."""
        self.lock = threading.Lock()
        """Is held by whoever follows the table, or searches: for a millisecond or two."""
        self.is_sound = True
        """Whether it is as its state says: what could not be followed is of no use any more."""
        self.revision = 0
        """Another one after each change of its rows: the numbers of two queries may be told together
        while it is the same."""
        self.vectors = vectors
        self.is_asked_by: tuple[int, str | None] | None = None
        """The length and the model of the vectors that it was asked by last, to which its own are alike."""
        self._scope, self._words = scope, words
        self._made: dict[int, Any] = {}
        """What was made of rows that were found, by their numbers."""
        n = rows.num_rows
        self._rows: list[Row] = plain(rows)
        self._numbers = {row[KEY]: number for number, row in enumerate(self._rows)}
        if len(self._numbers) < n:
            raise OutdatedError
        self.masks = Bitmaps(self._rows)
        self._shown_now: dict[str, Bitmap] = {}
        """By the names of conditions, the rows that are there and meet them."""
        self._handed: tuple[np.ndarray, np.ndarray] | None = None
        """Among which rows words were handed on last, and as `_handing`."""
        self._row_bytes = size_of_rows(rows, self._rows)
        self._next_place, self._is_in_order = n, True
        """Whether rows of higher numbers were written later."""
        self._is_searched = SEARCH_TEXT in columns or VECTOR in columns
        """Whether it is kept for searches, too; else nothing is made of its rows for these."""
        self._postings: Postings | None = None
        self._unsure = set[int]()
        """The words of the rows, and the rows whose words only the engine can tell: see `make_words`."""
        self._making = threading.Lock()
        self.has_grown = False
        """Whether it takes more memory than it did, though its rows are the same."""
        self._turns = Turns(self._numbers)
        self._is_short = array("b")
        """Of each row whether its text is short."""
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
        """What it takes in memory, about."""
        arrays = 19 * self._room + self._matrix.n_bytes + self.masks.n_bytes
        made = _MADE_BYTES * min(len(self), _MOST_MADE) if self._is_searched else 0
        words = 0 if self._postings is None else self._postings.n_bytes
        return 2_000 + arrays + self._row_bytes + words + made

    def follow(self, state: Position, entries: Iterable[Entry]) -> None:
        """Be what the table is at `state`, after these. Raises OutdatedError, and as `scope`."""
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
                # It came from another scope, and stands where it stood.
                raise OutdatedError
            if known is not None and is_mine:
                if session_of(self._rows[known]) != session_of(entry.row):
                    # It stands between the turns of another session.
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
        """How many it has, with those that are gone."""
        return len(self._rows)

    def rows(self, first: int) -> list[Row]:
        """All from that number on; those that are gone are empty."""
        return self._rows[first:]

    def nearest(self, where: Condition, vector: np.ndarray, limit: int) -> Best:
        """The nearest rows that meet `where`, by their cosines; raises as `where.asked`."""
        rows, cosines = self._matrix.cosines(vector)
        there = self._shown(where)[rows]
        return self._best(rows[there], cosines[there], limit)

    def meeting(self, where: Condition) -> list[Row]:
        """The rows that meet `where`, in the order of writing; raises as `where.asked`."""
        return self.some(self._in_order(np.flatnonzero(self._shown(where))).tolist())

    @property
    def has_words(self) -> bool:
        """Whether the words of its rows are made."""
        return self._postings is not None

    def make_words(self) -> None:
        """Make the words of its rows, for `words` and `match`; in a thread, as it may take a second.

        The rows are followed meanwhile: a search by vectors alone needs no words.
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
        """Those of a question, as the rows have them; UnsureError if only the engine can tell them."""
        # All texts here are sure, so that none has what a question has in such a script.
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
        """The rows that meet `where` and match some of the `words` best; raises as `where.asked`.

        A short turn has the words of a short one before it that meets `where`, too, each as a share
        `preceding` of one of its own, of which it needs one if it `must_match`.

        How rare a word is, and how long a text, is told by those that meet `among`. Raises
        UnsureError if there are rows by now whose words only the engine can tell.
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
            # Who has said it comes before who only heard it.
            heard = ((bm25 > 0) & (own == 0)).nonzero()[0]
            bm25[heard] = np.minimum(bm25[heard], _HEARD * bm25[handing[heard]])
        found = (((own if must_match else bm25) > 0) & shown).nonzero()[0]
        best = self._best(found, bm25[found], limit)
        most = self._postings.attainable(words, counts)
        coverage = min(1.0, float(best.scores[0]) / most) if len(best.scores) else 0.0
        return Matching(best, own[best.numbers], coverage)

    def beside(self, where: Condition, numbers: np.ndarray) -> np.ndarray:
        """The rows that meet `where` just before and just after these, but these themselves; in order."""
        before = self._turns.before
        are_these = np.zeros(len(before), bool)
        are_these[numbers] = True
        near = are_these[before] & (before >= 0)
        stand_before = before[numbers]
        near[stand_before[stand_before >= 0]] = True
        return self._in_order((near & self._shown(where) & ~are_these).nonzero()[0])

    def joined(self, found: Sequence[np.ndarray]) -> Joined:
        """What several queries found of it as it is."""
        places = np.full(len(self._rows) + 1, -1)
        for one in found:
            places[one] = 0
        numbers = self._in_order((places == 0).nonzero()[0])
        places[numbers] = np.arange(len(numbers))
        # That of none is the last of all places, where there is none.
        previous = places[self._turns.before[numbers]]
        rows = self.some(numbers.tolist())
        return Joined(self.places(numbers), previous, rows, [places[one] for one in found])

    def before(self, numbers: np.ndarray) -> list[str | None]:
        """The keys of the turns before these; None of what has none."""
        there = self._turns.before[numbers].tolist() if self._is_searched else []
        return [self._rows[one].get(KEY) if one >= 0 else None for one in there]

    def number(self, key: str) -> int | None:
        """Which row has this key; None if none has it any more."""
        return self._numbers.get(key)

    def places(self, numbers: np.ndarray) -> list[int]:
        """The lower, the earlier each row was written."""
        there: list[int] = self._places[numbers].tolist()
        return there

    def row(self, number: int) -> Row:
        """A row, without what is null, and without its vectors."""
        return self._rows[number]

    def some(self, numbers: Iterable[int]) -> list[Row]:
        """Those of many."""
        return [*map(self._rows.__getitem__, numbers)]

    def made(self, number: int) -> Any:
        """What was made of a row, if it was kept; else None."""
        return self._made.get(number)

    def keep(self, number: int, made: Any) -> None:
        """Keep what was made of a row, while that is there; what was kept longest goes, if need be."""
        if self._rows[number]:
            self._made[number] = made
            if len(self._made) > _MOST_MADE:
                del self._made[next(iter(self._made))]

    def vector(self, number: int) -> np.ndarray | None:
        """The vector of a row, if it has one."""
        return None if (found := self._matrix.of(number)) is None else found[0]

    # Helpers

    def _shown(self, where: Condition) -> np.ndarray:
        """The same array as long as it says the same: what else depends on it is remembered by that."""
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
        """Of rows whose numbers rise."""
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
        """Numbers that rise, in the order of writing."""
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
        """For each row the number of the turn whose words it has, too, or -1."""
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
