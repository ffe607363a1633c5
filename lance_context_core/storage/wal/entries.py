"""The entries of one table in the write-ahead log, in the order of their acknowledgement."""

import json
import struct
import zlib
from bisect import bisect_right
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import IntEnum
from functools import cached_property
from itertools import groupby, islice
from operator import attrgetter, itemgetter
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, overload

import numpy as np

from lance_context_core._util.frozen import frozen
from lance_context_core.storage.lance.arrow import Row
from lance_context_core.storage.lance.schema import KEY, VECTOR

# The encoding of a row in the log: its plain values as JSON, then the bytes of the other values.
#
# Null columns are left out. Layout: the length of the JSON (4 bytes, little-endian), the JSON, and
# the buffers in the order in which the JSON lists them.

_LENGTH = struct.Struct("<I")
_TIMES, _BUFFERS = "\0times", "\0buffers"
"""No column can have this name."""

_quoted = json.encoder.encode_basestring_ascii
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def encoded(row: Mapping[str, Any]) -> bytes:
    """The row as bytes, without nulls: texts, numbers, times, bytes, lists, mappings, vectors."""
    plain: dict[str, Any] = {}
    times: list[str] = []
    shapes: list[tuple[str, Any]] = []
    buffers: list[bytes] = []
    for name, value in row.items():
        if type(value) is str or type(value) is int:  # the most common types
            plain[name] = value
        elif name == VECTOR:
            numbers = np.ascontiguousarray(value, dtype=np.float32)
            shapes.append((name, numbers.shape))
            buffers.append(numbers.tobytes())
        elif isinstance(value, datetime):
            plain[name] = value.isoformat()
            times.append(name)
        elif isinstance(value, bytes):
            shapes.append((name, len(value)))
            buffers.append(value)
        else:
            plain[name] = value
    if times:
        plain[_TIMES] = times
    if shapes:
        plain[_BUFFERS] = shapes
    head = _encode(plain).encode()
    return b"".join([_LENGTH.pack(len(head)), head, *buffers])


class Alike:
    """Encodes rows that share most of their values: encodes the shared ones once."""

    __slots__ = ("_head",)

    def __init__(self, texts: Mapping[str, str], *, times: Sequence[str]) -> None:
        """The shared texts; each row has its own value for each of `times`."""
        self._head = _encode({**texts, _TIMES: [*times]})[:-1]

    def encoded(
        self, *, texts: Mapping[str, str], numbers: Mapping[str, int], times: Mapping[str, str]
    ) -> bytes:
        """A row with these values too, encoded as by `encoded`; times in ISO 8601."""
        parts = [self._head]
        parts += [f'"{name}":{_quoted(text)}' for name, text in (*texts.items(), *times.items())]
        parts += [f'"{name}":{number}' for name, number in numbers.items()]
        head = f"{','.join(parts)}}}".encode()
        return _LENGTH.pack(len(head)) + head


def decoded(payload: bytes) -> dict[str, Any]:
    """The row that `encoded` encoded. Raises ValueError for other bytes."""
    try:
        (length,) = _LENGTH.unpack_from(payload)
        start = _LENGTH.size + length
        row: dict[str, Any] = json.loads(payload[_LENGTH.size : start])
        for name in row.pop(_TIMES, ()):
            row[name] = datetime.fromisoformat(row[name])
        for name, shape in row.pop(_BUFFERS, ()):
            if isinstance(shape, int):
                row[name] = payload[start : start + shape]
                start += shape
            else:
                count = int(np.prod(shape))
                numbers = np.frombuffer(payload, np.float32, count, start).reshape(shape)
                row[name] = numbers if len(shape) == 1 else list(numbers)
                start += 4 * count
    except (struct.error, AttributeError, TypeError, KeyError) as error:
        raise ValueError(f"not an entry of the write-ahead log: {error}") from error
    if start != len(payload):
        raise ValueError(
            f"an entry of the write-ahead log has {len(payload)} bytes, but declares {start}"
        )
    return row


# An append-only log with snapshots: adding an entry copies no other entry.


class Placed(Protocol):
    """An item with a position and a key."""

    @property
    def seq(self) -> int:
        """Its position; later items have larger ones."""

    @property
    def key(self) -> str:
        """Its key."""

    @property
    def replaces(self) -> bool:
        """Whether it replaces the row of its key."""


T = TypeVar("T", bound=Placed)

_NOWHERE = -1


class Log(Generic[T]):
    """Entries in order of position. One thread at a time adds; any number read."""

    __slots__ = ("_before", "_entries", "_last", "_replacing")

    def __init__(self, entries: Iterable[T] = ()) -> None:
        """Starts with `entries`."""
        self._entries: list[T] = []
        self._before: list[int] = []
        """For each entry, the index of the previous entry with its key."""
        self._last: dict[str, int] = {}
        """The index of the last entry of each key."""
        self._replacing: list[int] = []
        """The indexes of the entries that replace a row."""
        self.add(entries)

    def add(self, entries: Iterable[T]) -> None:
        """Append entries."""
        for entry in entries:
            # A concurrent reader that finds an index by key finds the entry in both lists.
            self._before.append(self._last.get(entry.key, _NOWHERE))
            self._entries.append(entry)
            self._last[entry.key] = place = len(self._entries) - 1
            if entry.replaces:
                self._replacing.append(place)

    def now(self) -> "Logged[T]":
        """A snapshot of the log; later entries do not change it."""
        return Logged(self._entries, self._before, self._last, self._replacing)


class Logged(Sequence[T]):
    """The entries of a log in one snapshot."""

    __slots__ = ("_before", "_entries", "_last", "_n", "_n_replacing", "_replacing")

    def __init__(
        self, entries: list[T], before: list[int], last: dict[str, int], replacing: list[int]
    ) -> None:
        self._entries, self._before, self._last = entries, before, last
        self._replacing = replacing
        self._n, self._n_replacing = len(entries), len(replacing)

    def __len__(self) -> int:
        return self._n

    def __iter__(self) -> Iterator[T]:
        return islice(self._entries, self._n)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self._entries[place] for place in range(self._n)[index]]
        if not -self._n <= index < self._n:
            raise IndexError(index)
        return self._entries[index if index >= 0 else self._n + index]

    def last_of(self, key: str) -> T | None:
        """The last entry of the key; None if it has none."""
        place = self._last.get(key, _NOWHERE)
        while place >= self._n:  # added after the snapshot
            place = self._before[place]
        return None if place == _NOWHERE else self._entries[place]

    def about(self, keys: Iterable[str]) -> list[T]:
        """All entries of these keys, in order."""
        places = []
        for key in keys:
            place = self._last.get(key, _NOWHERE)
            while place != _NOWHERE:
                if place < self._n:
                    places.append(place)
                place = self._before[place]
        return [self._entries[place] for place in sorted(places)]

    def replacing(self) -> list[T]:
        """All entries that replace a row, in order."""
        return [self._entries[place] for place in self._replacing[: self._n_replacing]]

    def after(self, seq: int) -> list[T]:
        """The entries after that position."""
        if not self._n or self._entries[self._n - 1].seq <= seq:
            return []
        start = bisect_right(self._entries, seq, hi=self._n, key=attrgetter("seq"))
        return self._entries[start : self._n]


class How(IntEnum):
    """The effect of an entry on the table's row of its key."""

    APPEND = 0
    """The key is new: the table has no row of it."""
    PUT = 1
    """The row is replaced."""
    REMOVE = 2


@frozen
class New:
    """An entry that is not written yet."""

    how: How
    key: str
    row: Row
    """Empty for a removal."""
    payload: bytes | None
    """The row as the log's file stores it."""

    @classmethod
    def of(cls, how: How, row: Row, columns: Container[str]) -> "New":
        """An entry that puts this row, of a table with these columns."""
        kept = {name: value for name, value in row.items() if value is not None and name in columns}
        return cls(how, row[KEY], kept, encoded(kept))

    @classmethod
    def removing(cls, key: str) -> "New":
        """An entry that removes the row of that key."""
        return cls(How.REMOVE, key, {}, None)


def size_of(new: Iterable[New]) -> int:
    """The size of these entries in the log's file, in bytes."""
    return sum(len(one.payload or b"") for one in new)


@frozen
class Entry:
    """An acknowledged entry."""

    seq: int
    """Its position among all entries of the store."""
    how: How
    key: str
    row: Row
    size: int
    """Its size in bytes."""
    told: int
    """The version that was reported to its writer: see `TableLog.names`."""
    at: int
    """The moment of its acknowledgement, in microseconds since 1970."""

    @property
    def replaces(self) -> bool:
        """Whether it replaces or removes the table's row of its key, if one exists."""
        return self.how is not How.APPEND


class Moment(NamedTuple):
    """A version of a table, which never changes."""

    table: int
    """The table's number: a table that is created again under its name has another one."""
    version: int


_IN_THE_TABLE = 0
"""A position that no entry has."""


@dataclass(frozen=True)
class View:
    """The log's entries of one table in one snapshot, with the version they go with."""

    version: int
    """The version of the table: merged with the entries, it is all that was acknowledged.

    0 during a direct commit, and after a crash in one: then the log has no entries of the table,
    the newest version holds all that was acknowledged, and no write happens until the log notes it.
    """
    token: int
    """Changes with each change of the table's content."""
    entries: Sequence[Entry]
    table: int
    """The table's number: a table that is created again under its name has another one."""
    size: int = 0
    """The size of all entries in bytes."""
    is_folding: bool = False
    """Whether a flush of some entries into the next version is under way, or has failed."""
    last: int = 0
    """The position of the last entry that ever existed, flushed or not."""

    @property
    def next_told(self) -> int:
        """The version that is reported to the writer of the next entry."""
        # A flush under way does not include later entries.
        return max(self.version + 1 + self.is_folding, self.entries[-1].told if self.entries else 0)

    def told_beside(self, keys: Collection[str]) -> int:
        """As `next_told`, for changes of these keys; one more if it shows them already."""
        told = self.next_told
        is_shown = any(entry.told == told for entry in self.last_of(keys).values())
        return told + is_shown

    @property
    def told(self) -> int:
        """A version that shows all entries, as reported to their writers."""
        return self.entries[-1].told if self.entries else self.version

    @property
    def moment(self) -> Moment:
        """The table's number and its version."""
        return Moment(self.table, self.version)

    @property
    def n_commits(self) -> int:
        """The number of commits of a flush that keeps all versions reported to writers."""
        return self.entries[-1].told - self.entries[0].told + 1 if self.entries else 0

    @property
    def commits(self) -> Sequence[Sequence[Entry]]:
        """The entries of each of these commits."""
        return [[*some] for _, some in groupby(self.entries, key=attrgetter("told"))]

    def until(self, last: int) -> "View":
        """The view without the entries after that one."""
        entries = [entry for entry in self.entries if entry.seq <= last]
        return replace(self, entries=entries, size=sum(entry.size for entry in entries))

    def of(self, keys: Collection[str] | None) -> "View":
        """The view with the entries of these keys only; None for all."""
        if keys is None or not self.entries:
            return self
        if isinstance(self.entries, Logged):
            entries: Sequence[Entry] = self.entries.about({*keys})
        else:
            entries = [entry for entry in self.entries if entry.key in keys]
        return replace(self, entries=entries)

    def last_of(self, keys: Collection[str]) -> dict[str, Entry]:
        """The last entry of each of these keys that has one."""
        entries = self.entries
        if not isinstance(entries, Logged):
            return {entry.key: entry for entry in entries if entry.key in keys}
        found = ((key, entries.last_of(key)) for key in keys)
        return {key: entry for key, entry in found if entry is not None}

    def places(self, keys: Collection[str]) -> dict[str, int]:
        """The index of the last entry of each of these keys that has one."""
        return {key: entry.seq for key, entry in self.last_of(keys).items()}

    @cached_property
    def shown(self) -> Sequence[Entry]:
        """The entries whose rows are visible, in this order; first those `in_place`."""
        if not self.replaced:
            return self.entries
        return [entry for _, entry in sorted(self._placed, key=itemgetter(0))]

    @cached_property
    def in_place(self) -> Mapping[str, Entry]:
        """By key, the visible entries whose rows stay in the position of the table's row."""
        if not self.replaced:
            return {}
        return {entry.key: entry for place, entry in self._placed if place == _IN_THE_TABLE}

    @cached_property
    def replaced(self) -> frozenset[str]:
        """The keys whose rows in the table are replaced or removed."""
        return frozenset(entry.key for entry in self._replacing)

    @cached_property
    def removed(self) -> frozenset[str]:
        """The keys whose rows were removed; a new row of such a key comes last."""
        return frozenset(entry.key for entry in self._replacing if entry.how is How.REMOVE)

    @property
    def _replacing(self) -> Sequence[Entry]:
        if isinstance(self.entries, Logged):
            return self.entries.replacing()
        return [entry for entry in self.entries if entry.replaces]

    @cached_property
    def _placed(self) -> Sequence[tuple[int, Entry]]:
        """The visible entries, each with the entry whose position it has."""
        rows: dict[str, list[tuple[int, Entry]]] = {}
        for entry in self.entries:
            there = rows.get(entry.key)
            if entry.how is How.REMOVE:
                rows[entry.key] = []
            elif entry.how is How.APPEND:
                # Two appends under one key are both visible.
                rows[entry.key] = [*(there or ()), (entry.seq, entry)]
            elif there is None:
                rows[entry.key] = [(_IN_THE_TABLE, entry)]
            else:
                rows[entry.key] = [(there[0][0] if there else entry.seq, entry)]
        return [one for some in rows.values() for one in some]


@frozen
class News:
    """The changes of a table since the caller's last read."""

    view: View
    """The current content of the log."""
    entries: Sequence[Entry] | None
    """The entries since then, flushed or not; None if unknown or incomplete."""


def checksum(how: int, key: str, payload: bytes | None) -> int:
    """The CRC-32 stored with each row of the log's file; detects mixed-up rows."""
    return zlib.crc32(payload or b"", zlib.crc32(f"{int(how)}{key}".encode()))


def entry_of(
    seq: int, how: int, key: str, payload: bytes | None, told: int, at: int, crc: int | None
) -> Entry:
    """Decodes an entry of the log's file. Raises ValueError if it is invalid or damaged."""
    if not isinstance(payload, bytes | None) or not isinstance(key, str):
        raise ValueError(f"row {seq} has a text where bytes should be, or the other way round")  # noqa: TRY004
    if crc is not None and checksum(how, key, payload) != crc:
        raise ValueError(f"row {seq} has not the checksum that it was written with")
    row = {} if payload is None else decoded(payload)
    return Entry(seq, How(how), key, row, len(payload or b""), told, at)


def is_whole(*row: Any) -> bool:
    """Whether the log's file has a valid entry there, as for `entry_of`."""
    try:
        entry_of(*row)
    except ValueError:
        return False
    return True
