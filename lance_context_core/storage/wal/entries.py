"""What the journal holds of one table: entries, in the order in which they were acknowledged."""

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

# A row as the journal keeps it: its plain values as JSON, then the bytes of what is none.
#
# The columns that are null are left out. Layout: the length of the JSON (4 bytes, little-endian), the
# JSON, and the buffers in the order in which the JSON lists them.

_LENGTH = struct.Struct("<I")
_TIMES, _BUFFERS = "\0times", "\0buffers"
"""No column can be called so."""

_quoted = json.encoder.encode_basestring_ascii
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def encoded(row: Mapping[str, Any]) -> bytes:
    """The row, without nulls, as bytes: texts, numbers, times, bytes, lists and mappings, vectors."""
    plain: dict[str, Any] = {}
    times: list[str] = []
    shapes: list[tuple[str, Any]] = []
    buffers: list[bytes] = []
    for name, value in row.items():
        if type(value) is str or type(value) is int:  # as most are
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
    """Rows that have most of their values in common: these are made JSON of once."""

    __slots__ = ("_head",)

    def __init__(self, texts: Mapping[str, str], *, times: Sequence[str]) -> None:
        """Those that have these texts in common, and of `times` each its own."""
        self._head = _encode({**texts, _TIMES: [*times]})[:-1]

    def encoded(
        self, *, texts: Mapping[str, str], numbers: Mapping[str, int], times: Mapping[str, str]
    ) -> bytes:
        """As `encoded`, of one that has these values too, times in ISO 8601."""
        parts = [self._head]
        parts += [f'"{name}":{_quoted(text)}' for name, text in (*texts.items(), *times.items())]
        parts += [f'"{name}":{number}' for name, number in numbers.items()]
        head = f"{','.join(parts)}}}".encode()
        return _LENGTH.pack(len(head)) + head


def decoded(payload: bytes) -> dict[str, Any]:
    """The row that `encoded` made this of. Raises ValueError if nothing did."""
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
        raise ValueError(f"not a row of the journal: {error}") from error
    if start != len(payload):
        raise ValueError(f"a row of the journal has {len(payload)} bytes, and tells of {start}")
    return row


# Entries that grow at their end, as they were at one moment: a new one costs no copy of the others.


class Placed(Protocol):
    """What has a place among others, and is about a key."""

    @property
    def seq(self) -> int:
        """Its place; those of later ones are larger."""

    @property
    def key(self) -> str:
        """What it is about."""

    @property
    def replaces(self) -> bool:
        """Whether it changes what there is of its key."""


T = TypeVar("T", bound=Placed)

_NOWHERE = -1


class Log(Generic[T]):
    """Entries in order of their places. One thread at a time adds some; any number look at it."""

    __slots__ = ("_before", "_entries", "_last", "_replacing")

    def __init__(self, entries: Iterable[T] = ()) -> None:
        """It begins with `entries`."""
        self._entries: list[T] = []
        self._before: list[int] = []
        """For each entry, where the one before it is that has its key."""
        self._last: dict[str, int] = {}
        """Where the last one of each key is."""
        self._replacing: list[int] = []
        """Where those are that replace something."""
        self.add(entries)

    def add(self, entries: Iterable[T]) -> None:
        """Add entries, behind all others."""
        for entry in entries:
            # Whoever looks meanwhile finds by key what is in both lists already.
            self._before.append(self._last.get(entry.key, _NOWHERE))
            self._entries.append(entry)
            self._last[entry.key] = place = len(self._entries) - 1
            if entry.replaces:
                self._replacing.append(place)

    def now(self) -> "Logged[T]":
        """What is in it, and stays so whatever is added."""
        return Logged(self._entries, self._before, self._last, self._replacing)


class Logged(Sequence[T]):
    """The entries of a log at one moment."""

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
        """The last one about that key; None if there is none."""
        place = self._last.get(key, _NOWHERE)
        while place >= self._n:  # It came later.
            place = self._before[place]
        return None if place == _NOWHERE else self._entries[place]

    def about(self, keys: Iterable[str]) -> list[T]:
        """All that are about one of these keys, in order."""
        places = []
        for key in keys:
            place = self._last.get(key, _NOWHERE)
            while place != _NOWHERE:
                if place < self._n:
                    places.append(place)
                place = self._before[place]
        return [self._entries[place] for place in sorted(places)]

    def replacing(self) -> list[T]:
        """All that replace something, in order."""
        return [self._entries[place] for place in self._replacing[: self._n_replacing]]

    def after(self, seq: int) -> list[T]:
        """Those behind that place."""
        if not self._n or self._entries[self._n - 1].seq <= seq:
            return []
        start = bisect_right(self._entries, seq, hi=self._n, key=attrgetter("seq"))
        return self._entries[start : self._n]


class How(IntEnum):
    """What becomes of a row of that key which the table has."""

    APPEND = 0
    """There is none: the key is new."""
    PUT = 1
    """It is replaced."""
    REMOVE = 2


@frozen
class New:
    """An entry that is about to be written."""

    how: How
    key: str
    row: Row
    """Nothing for a removal."""
    payload: bytes | None
    """The row as the journal's file has it."""

    @classmethod
    def of(cls, how: How, row: Row, columns: Container[str]) -> "New":
        """That there is to be this row, of which the table has these columns."""
        kept = {name: value for name, value in row.items() if value is not None and name in columns}
        return cls(how, row[KEY], kept, encoded(kept))

    @classmethod
    def removing(cls, key: str) -> "New":
        """That the row of that key is to go."""
        return cls(How.REMOVE, key, {}, None)


def size_of(new: Iterable[New]) -> int:
    """Their bytes in the journal's file."""
    return sum(len(one.payload or b"") for one in new)


@frozen
class Entry:
    """An entry that was acknowledged."""

    seq: int
    """Its place among all entries of the store."""
    how: How
    key: str
    row: Row
    size: int
    """Its bytes."""
    told: int
    """The version of which its writer was told that it shows it: see `TableLog.names`."""
    at: int
    """When it was acknowledged, in microseconds since 1970."""

    @property
    def replaces(self) -> bool:
        """Whether the table's row of its key, if it has one, does not count any more."""
        return self.how is not How.APPEND


class Moment(NamedTuple):
    """A version of a table, which never changes."""

    table: int
    """Which one: if it is made anew under its name, it is another."""
    version: int


_IN_THE_TABLE = 0
"""No entry's place."""


@dataclass(frozen=True)
class View:
    """What the journal held of one table at one moment, and which version of the table goes with it."""

    version: int
    """Of the table: with the entries laid over it, it is all that was acknowledged.

    0 while somebody commits to it directly, or was killed at that: then there are no entries, what
    was acknowledged is in the newest version, and nothing is written until that is noted.
    """
    token: int
    """Another one after each change of what the table holds."""
    entries: Sequence[Entry]
    table: int
    """Which one: if it is made anew under its name, it is another."""
    size: int = 0
    """The bytes of all entries."""
    is_folding: bool = False
    """Whether some entries are being folded, in the version after this one, or were when that failed."""
    last: int = 0
    """The last entry that was ever there, folded or not."""

    @property
    def next_told(self) -> int:
        """The version of which whoever writes an entry now is told."""
        # What is being folded leaves out what comes meanwhile.
        return max(self.version + 1 + self.is_folding, self.entries[-1].told if self.entries else 0)

    def told_beside(self, keys: Collection[str]) -> int:
        """As `next_told`, of one who changes rows of these keys: the next, if that is to show them."""
        told = self.next_told
        is_shown = any(entry.told == told for entry in self.last_of(keys).values())
        return told + is_shown

    @property
    def told(self) -> int:
        """A version that shows all entries, as their writers were told."""
        return self.entries[-1].told if self.entries else self.version

    @property
    def moment(self) -> Moment:
        """The version of the table, and of which one."""
        return Moment(self.table, self.version)

    @property
    def n_commits(self) -> int:
        """How many commits the entries are, where each version is to show what its writers were told."""
        return self.entries[-1].told - self.entries[0].told + 1 if self.entries else 0

    @property
    def commits(self) -> Sequence[Sequence[Entry]]:
        """The entries of each of these commits."""
        return [[*some] for _, some in groupby(self.entries, key=attrgetter("told"))]

    def until(self, last: int) -> "View":
        """Without what was acknowledged after that entry."""
        entries = [entry for entry in self.entries if entry.seq <= last]
        return replace(self, entries=entries, size=sum(entry.size for entry in entries))

    def of(self, keys: Collection[str] | None) -> "View":
        """Without the entries of other keys than these; None is all."""
        if keys is None or not self.entries:
            return self
        if isinstance(self.entries, Logged):
            entries: Sequence[Entry] = self.entries.about({*keys})
        else:
            entries = [entry for entry in self.entries if entry.key in keys]
        return replace(self, entries=entries)

    def last_of(self, keys: Collection[str]) -> dict[str, Entry]:
        """The last entry of each of these keys that has any."""
        entries = self.entries
        if not isinstance(entries, Logged):
            return {entry.key: entry for entry in entries if entry.key in keys}
        found = ((key, entries.last_of(key)) for key in keys)
        return {key: entry for key, entry in found if entry is not None}

    def places(self, keys: Collection[str]) -> dict[str, int]:
        """Which entry is the last of each of these keys that has any."""
        return {key: entry.seq for key, entry in self.last_of(keys).items()}

    @cached_property
    def shown(self) -> Sequence[Entry]:
        """The entries whose rows are there, in the order of these; first those `in_place`."""
        if not self.replaced:
            return self.entries
        return [entry for _, entry in sorted(self._placed, key=itemgetter(0))]

    @cached_property
    def in_place(self) -> Mapping[str, Entry]:
        """By key, those of the entries that are shown whose rows stand where the table has theirs."""
        if not self.replaced:
            return {}
        return {entry.key: entry for place, entry in self._placed if place == _IN_THE_TABLE}

    @cached_property
    def replaced(self) -> frozenset[str]:
        """The keys whose rows in the table do not count any more."""
        return frozenset(entry.key for entry in self._replacing)

    @cached_property
    def removed(self) -> frozenset[str]:
        """The keys whose rows in the table are gone; a new row of one comes behind all others."""
        return frozenset(entry.key for entry in self._replacing if entry.how is How.REMOVE)

    @property
    def _replacing(self) -> Sequence[Entry]:
        if isinstance(self.entries, Logged):
            return self.entries.replacing()
        return [entry for entry in self.entries if entry.replaces]

    @cached_property
    def _placed(self) -> Sequence[tuple[int, Entry]]:
        """The entries whose rows are there, each with the entry whose place it took."""
        rows: dict[str, list[tuple[int, Entry]]] = {}
        for entry in self.entries:
            there = rows.get(entry.key)
            if entry.how is How.REMOVE:
                rows[entry.key] = []
            elif entry.how is How.APPEND:
                # Two that were appended under one key are both there.
                rows[entry.key] = [*(there or ()), (entry.seq, entry)]
            elif there is None:
                rows[entry.key] = [(_IN_THE_TABLE, entry)]
            else:
                rows[entry.key] = [(there[0][0] if there else entry.seq, entry)]
        return [one for some in rows.values() for one in some]


@frozen
class News:
    """What has happened to a table since somebody looked."""

    view: View
    """What the journal holds now."""
    entries: Sequence[Entry] | None
    """What was written since, folded or not; None if it is not known, or was not all."""


def checksum(how: int, key: str, payload: bytes | None) -> int:
    """What the journal's file keeps beside a row, so that one is not taken for another: a CRC-32."""
    return zlib.crc32(payload or b"", zlib.crc32(f"{int(how)}{key}".encode()))


def entry_of(
    seq: int, how: int, key: str, payload: bytes | None, told: int, at: int, crc: int | None
) -> Entry:
    """The entry as the journal's file has it. Raises ValueError for what is none, or has changed."""
    if not isinstance(payload, bytes | None) or not isinstance(key, str):
        raise ValueError(f"row {seq} has a text where bytes should be, or the other way round")  # noqa: TRY004
    if crc is not None and checksum(how, key, payload) != crc:
        raise ValueError(f"row {seq} has not the checksum that it was written with")
    row = {} if payload is None else decoded(payload)
    return Entry(seq, How(how), key, row, len(payload or b""), told, at)


def is_whole(*row: Any) -> bool:
    """Whether the journal's file has an entry there, as for `entry_of`."""
    try:
        entry_of(*row)
    except ValueError:
        return False
    return True
