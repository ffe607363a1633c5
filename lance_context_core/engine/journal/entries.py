"""What the journal holds of one table: entries, in the order in which they were acknowledged."""

import zlib
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple

from lance_context_core._util.frozen import frozen
from lance_context_core.engine.journal.log import Logged
from lance_context_core.engine.journal.payload import decoded, encoded
from lance_context_core.engine.schema import KEY
from lance_context_core.engine.table.arrow import Row


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
    """The version of which its writer was told that it shows it: see `Ledger.names`."""
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
        return self.version + 1 + self.is_folding

    @property
    def told(self) -> int:
        """A version that shows all entries, as their writers were told."""
        return self.entries[-1].told if self.entries else self.version

    @property
    def moment(self) -> Moment:
        """The version of the table, and of which one."""
        return Moment(self.table, self.version)

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
