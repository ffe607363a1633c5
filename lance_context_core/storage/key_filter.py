"""Key filter: finds keys and ids that a table surely lacks, without disk access.

Most named writes are new, and checking that costs the engine a millisecond or more. So a process
that checks often reads all names once, and stores a 64-bit hash of each. A hash that is present
proves nothing: two names may share one.
"""

import asyncio
import struct
import threading
import weakref
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from lance_context_core._loop import store_loop
from lance_context_core.errors import ContextStoreError
from lance_context_core.storage.lance.arrow import Row
from lance_context_core.storage.lance.errors import translated
from lance_context_core.storage.wal.entries import Moment

# The memory budget, over all tables of the process.


class Forgetting(Protocol):
    """A cache of one table."""

    def forget(self) -> None:
        """Clear it."""


class Budget:
    """Bytes that many caches share; the oldest are evicted. Safe to share between threads."""

    def __init__(self, most_bytes: int) -> None:
        """A budget of that size; a single cache may be larger."""
        self._most_bytes = most_bytes
        self._sizes: weakref.WeakKeyDictionary[Forgetting, int] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def make_room(self, newest: Forgetting, n_bytes: int) -> list[Forgetting]:
        """The caches to clear, now that this one has this size."""
        with self._lock:
            self._sizes.pop(newest, None)
            sizes = list(self._sizes.items())
            self._sizes[newest] = n_bytes
            too_many = n_bytes + sum(size for _, size in sizes) - self._most_bytes
            former = []
            for one, size in sizes:
                if too_many <= 0:
                    break
                too_many -= size
                former.append(one)
                del self._sizes[one]
            return former


_ROWS_PER_LOOK = 25_000
"""The number of names that are read in the time of one lookup."""

_MOST_ROWS = 2_000_000
"""Larger tables are looked up: their hashes would take more than 16 MB a column."""

_MOST_BYTES = 64 * 1024 * 1024
"""The memory budget of all tables of the process; the oldest are evicted."""

_MOST_INLINE = 2_000
"""More names are read in the background, and lookups go to the table meanwhile: a hundred thousand
take some fifty times as long as a lookup."""

_MOST_LOOSE = 4096
_WIDTH = 16
"""The number of bytes that are hashed, from either end."""

_FACTORS = np.array(
    [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93], np.uint64
)
_FACTORS_AS_INTS = tuple(map(int, _FACTORS))
_WORDS = struct.Struct("=4Q")
_ALL_BITS = 2**64 - 1


@dataclass(slots=True)
class _Reading:
    """A column that is being read."""

    moment: Moment
    """The version whose names it will contain, together with those `since`."""
    since: list[Row] = field(default_factory=list)


class KeyFilter:
    """The known names of one table, at one version."""

    def __init__(self, snapshot: Callable[[Moment], Awaitable[Any]], label: str) -> None:
        """Reads nothing before enough lookups make it pay.

        `snapshot` gives the engine's handle at a version; `label` names the table in messages.
        """
        self._snapshot = snapshot
        self._label = label
        self._moment: Moment | None = None
        self._columns: dict[str, _Numbers] = {}
        self._n_looks: dict[str, int] = {}
        self._readings: dict[str, _Reading] = {}
        """By column, the reads in the background."""
        self._empty: tuple[Moment, bool] | None = None
        self._lock = threading.Lock()

    async def lacks(self, moment: Moment, column: str, values: Collection[str]) -> bool:
        """Whether the table surely has none of these values in that column and version."""
        if not values:
            return True
        with self._lock:
            known = self._columns.get(column) if self._moment == moment else None
        if known is None and (known := await self._read(moment, column)) is None:
            return False
        return not any(known.may_have(_number(value)) for value in values)

    def lacks_now(self, moment: Moment, column: str, values: Collection[str]) -> bool:
        """As `lacks`, without a wait: from known names only, so False proves nothing."""
        if not values or self._empty == (moment, True):
            return True
        with self._lock:
            known = self._columns.get(column) if self._moment == moment else None
        return known is not None and not any(known.may_have(_number(one)) for one in values)

    async def is_empty(self, moment: Moment) -> bool:
        """Whether the table has no rows at that version."""
        if (known := self._empty) is None or known[0] != moment:
            handle = await self._snapshot(moment)
            with translated(f"read {self._label}"):
                known = self._empty = moment, await handle.count_rows() == 0
        return known[1]

    def forget(self) -> None:
        """Clear it, until enough lookups happen again."""
        with self._lock:
            self._moment, self._columns = None, {}

    def grow(self, before: Moment, version: int, rows: Iterable[Row]) -> None:
        """Advance to this version of the same table, which adds only these rows."""
        after, rows = before._replace(version=version), list(rows)
        with self._lock:
            if (empty := self._empty) is not None and empty[0] == before:
                self._empty = after, empty[1] and not rows
            for reading in self._readings.values():
                if reading.moment == before:
                    reading.moment = after
                    reading.since += rows
            if self._moment != before:
                return
            self._moment = after
            # Concurrent lookups keep the names of their version.
            self._columns = {name: one.copy() for name, one in self._columns.items()}
            for row in rows:
                for column, known in self._columns.items():
                    if (value := row.get(column)) is not None:
                        known.add(_number(value))

    # Helpers

    async def _read(self, moment: Moment, column: str) -> "_Numbers | None":
        """Read a whole column if it pays by now; None if not, or not finished."""
        n_looks = self._n_looks[column] = self._n_looks.get(column, 0) + 1
        handle = await self._snapshot(moment)
        with translated(f"read {self._label}"):
            n_rows = await handle.count_rows()
            if n_rows > min(_MOST_ROWS, n_looks * _ROWS_PER_LOOK):
                return None
            if column not in (await handle.schema()).names:
                return None
        with self._lock:
            if column in self._readings:
                return None
            self._readings[column] = reading = _Reading(moment)
        if n_rows <= _MOST_INLINE:
            return await self._learn(handle, column, reading)
        store_loop.spawn_apart(self._learn_beside(handle, column, reading))
        return None

    async def _learn_beside(self, handle: Any, column: str, reading: _Reading) -> None:
        # The version may be removed meanwhile, or the table closed: then nothing is known.
        with suppress(ContextStoreError):
            await self._learn(handle, column, reading)

    async def _learn(self, handle: Any, column: str, reading: _Reading) -> "_Numbers":
        """Store all names of a column."""
        try:
            with translated(f"read {self._label}"):
                values = (await handle.query().select([column]).to_arrow())[column]
            is_small = len(values) <= _MOST_INLINE
            known = (
                _Numbers.of(values) if is_small else await asyncio.to_thread(_Numbers.of, values)
            )
        except BaseException:
            with self._lock:
                del self._readings[column]
            raise
        with self._lock:
            del self._readings[column]
            for row in reading.since:
                if (value := row.get(column)) is not None:
                    known.add(_number(value))
            self._n_looks[column] = 0
            if self._moment != (moment := reading.moment):
                if self._moment is not None and self._moment > moment:
                    return known  # other threads know a newer version
                self._moment, self._columns = moment, {}
            self._columns[column] = known
            n_bytes = sum(one.n_bytes for one in self._columns.values())
        for former in _kept.make_room(self, n_bytes):
            former.forget()
        return known


_kept = Budget(_MOST_BYTES)


class _Numbers:
    """Numbers, most of them sorted."""

    def __init__(self, settled: np.ndarray, loose: frozenset[int] | set[int] = frozenset()) -> None:
        self._settled = settled
        self._loose = set(loose)

    @classmethod
    def of(cls, names: pa.ChunkedArray) -> "_Numbers":
        chunks = [numbers(chunk.drop_null()) for chunk in names.chunks]
        return cls(np.unique(np.concatenate([np.empty(0, np.uint64), *chunks])))

    @property
    def n_bytes(self) -> int:
        return self._settled.nbytes

    def copy(self) -> "_Numbers":
        if len(self._loose) <= _MOST_LOOSE:
            return _Numbers(self._settled, self._loose)
        loose = np.fromiter(self._loose, np.uint64, len(self._loose))
        return _Numbers(np.sort(np.concatenate([self._settled, loose])))

    def add(self, number: int) -> None:
        self._loose.add(number)

    def may_have(self, number: int) -> bool:
        if number in self._loose:
            return True
        if not len(self._settled):
            return False
        place = int(self._settled.searchsorted(np.uint64(number)))
        return place < len(self._settled) and int(self._settled[place]) == number


def _number(name: str) -> int:
    data = name.encode()
    ends = data[:_WIDTH].ljust(_WIDTH, b"\0") + data[-_WIDTH:].ljust(_WIDTH, b"\0")
    # As `_mixed`, which is several times slower for a single name.
    mixed = 0
    for word, factor in zip(_WORDS.unpack(ends), _FACTORS_AS_INTS, strict=True):
        mixed ^= word * factor
    return mixed & _ALL_BITS


def numbers(names: pa.StringArray) -> np.ndarray:
    """The hashes of non-null names, which several may share; those of one length together."""
    if len(names) == 0:
        return np.empty(0, np.uint64)
    bounds = np.frombuffer(names.buffers()[1], np.int32)[names.offset :][: len(names) + 1]
    data = np.frombuffer(names.buffers()[2] or b"", np.uint8)
    starts, lengths = bounds[:-1].astype(np.int64), np.diff(bounds)
    found = np.empty(len(names), np.uint64)
    for length in np.unique(lengths):
        places = np.flatnonzero(lengths == length)
        width = min(int(length), _WIDTH)
        ends = np.zeros((len(places), 2 * _WIDTH), np.uint8)
        for side, first in ((0, 0), (_WIDTH, int(length) - width)):
            ends[:, side : side + width] = data[
                starts[places, None] + first + np.arange(width)[None, :]
            ]
        found[places] = _mixed(ends.view(np.uint64))
    return found


def _mixed(words: np.ndarray) -> np.ndarray:
    mixed: np.ndarray = np.bitwise_xor.reduce(words * _FACTORS[None, :], axis=1)
    return mixed
