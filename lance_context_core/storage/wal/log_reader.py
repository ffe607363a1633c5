"""The log as this process last read it: a read fetches new entries only."""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from lance_context_core.errors import StorageError
from lance_context_core.storage.wal.entries import Entry, Log, Logged, View, entry_of
from lance_context_core.storage.wal.log import DAMAGED, LogSession, Part, Stored

# Recently read entries: a read by ids finds flushed ones too.

MOST_PAST = 2048
_MOST_BYTES_OF_PAST = 4 * 1024 * 1024
"""The maximum number of remembered flushed entries, over all tables."""

_MOST_KEYS = 16 * 1024
"""The maximum number of further entries known by key only."""


class RecentEntries:
    """Recent entries up to a limit; older ones by key only."""

    def __init__(self) -> None:
        """Starts empty."""
        self._entries: OrderedDict[tuple[Part, int], Entry] = OrderedDict()
        self._n_bytes = 0
        self._keys: OrderedDict[tuple[Part, int], str] = OrderedDict()

    def find(self, part: Part, seq: int) -> Entry | str | None:
        """The entry; its key if only that is left."""
        return self._entries.get((part, seq)) or self._keys.get((part, seq))

    def reduce(self, part: Part) -> None:
        """Reduce a table's entries to their keys: the rest may be erased by now."""
        for place in [place for place in self._entries if place[0] == part]:
            entry = self._entries.pop(place)
            self._n_bytes -= entry.size
            self._keys[place] = entry.key

    def reduce_all(self) -> None:
        """As `reduce`, for every table."""
        for part in {part for part, _ in self._entries}:
            self.reduce(part)

    def add(self, part: Part, entries: Iterable[Entry]) -> None:
        """Add entries of a table."""
        for entry in entries:
            former = self._entries.pop((part, entry.seq), None)
            self._n_bytes += entry.size - (former.size if former else 0)
            self._entries[part, entry.seq] = entry
        while len(self._entries) > MOST_PAST or self._n_bytes > _MOST_BYTES_OF_PAST:
            place, entry = self._entries.popitem(last=False)
            self._n_bytes -= entry.size
            self._keys[place] = entry.key
        while len(self._keys) > _MOST_KEYS:
            self._keys.popitem(last=False)


_MOST_TABLES = 1024
_MOST_BYTES = 64 * 1024 * 1024
"""The maximum size and number of the remembered tables; one alone may be larger."""

MOST_AT_ONCE = 128
"""The entries decoded before other tasks of the loop run: two milliseconds."""


class Recalled(NamedTuple):
    """Known entries by position."""

    entries: Sequence[Entry]
    keys: Mapping[str, int]
    """The positions of the entries known by key only: the table has their rows."""


class LogReader:
    """The log's entries of one table, as this process last read them."""

    def __init__(self, part: Part, id: int, past: RecentEntries) -> None:
        self.part = part
        self.id = id
        self.last = 0
        """The last entry read."""
        self.last_at = 0
        """The moment of its acknowledgement, as `Entry.at`."""
        self.n_bytes = 0
        self._log = Log[Entry]()
        self.state: tuple[int, ...] = ()
        """The log's notes on the table: while they are the same, nothing has changed."""
        self.ahead: list[Entry] = []
        """The entries already read after the last one, in order."""
        self._past = past
        self._folded: deque[int] = deque()
        """The positions of the last flushed entries, in order."""
        self._gone = 0
        """The last position that is no longer among them."""
        self._grows_since = 0
        """The token since which all changes were entries read here."""
        self._began = (0, 0)
        """The version and the token at the first read."""
        self._view: View | None = None
        self.on_break: Callable[[Part], None] = lambda _: None
        """Called after a change that was not read as an entry, such as an erasure."""

    @property
    def entries(self) -> Logged[Entry]:
        """The current entries."""
        return self._log.now()

    @property
    def view(self) -> View:
        """A snapshot of all of it."""
        if self._view is None:
            _, version, folded, folding, token, _ = self.state
            self._view = View(
                max(version, 0),
                token,
                self._log.now(),
                self.id,
                self.n_bytes,
                is_folding=folding > folded,
                last=self.last,
            )
        return self._view

    def move(
        self,
        version: int,
        folded: int,
        folding: int,
        token: int,
        stamp: int,
        entries: Sequence[Entry],
    ) -> None:
        """Follow the log: flushed entries go, and these are new."""
        if not self.state:
            self._began = version, token
        _, former_version, former_folded, _, former_token, _ = self.state or (0, 0, 0, 0, 0, 0)
        if version != former_version and token != former_token:
            # Others wrote and committed: entries that they flushed or wrote directly were not seen.
            self._grows_since = token
            self.on_break(self.part)
        self.state = (self.id, version, folded, folding, token, stamp)
        if folded > former_folded:
            self._let_go(folded)
        self._log.add(entries)
        if entries:
            self.n_bytes += sum(entry.size for entry in entries)
            self.last_at = entries[-1].at
        self.last = max(self.last, folded, entries[-1].seq if entries else 0)
        self._view = None

    def _let_go(self, folded: int) -> None:
        """Keep what changed since from the flushed entries up to that position."""
        kept = self.entries
        gone = [entry for entry in kept if entry.seq <= folded]
        if not gone:
            return
        self._past.add(self.part, gone)
        self._folded.extend(entry.seq for entry in gone)
        while len(self._folded) > MOST_PAST:
            self._gone = self._folded.popleft()
        self.n_bytes -= sum(entry.size for entry in gone)
        # Snapshots of the former log stay as they are.
        self._log = Log(kept[len(gone) :])

    def since(self, token: int, last: int, version: int = 0) -> list[Entry] | None:
        """The entries after `last`, if they are all changes since `token`.

        `version` is that of the table at `token`, if known: if it was the same at the first read,
        the log had all changes in between.
        """
        has_all = version > 0 and self._began == (version, self._grows_since)
        if (token < self._grows_since and not has_all) or last < self._gone:
            return None
        if last >= self.last:
            return []
        new = self.entries.after(last)
        if not self._folded or self._folded[-1] <= last:
            return new
        folded = takewhile(lambda seq: seq > last, reversed(self._folded))
        found = [self._past.find(self.part, seq) for seq in folded][::-1]
        past = [entry for entry in found if isinstance(entry, Entry)]
        return past + new if len(past) == len(found) else None

    def add(self, entries: Sequence[Entry]) -> None:
        """Add entries that this process has just written."""
        if entries:
            _, version, folded, folding, token, stamp = self.state
            self.move(version, folded, folding, token + 1, stamp + 1, entries)

    def take_back(self, former: "Former") -> None:
        """Take back entries that were added, and not committed."""
        self.state, self.last, self.last_at, self.n_bytes, n = former
        self._log = Log(self.entries[:n])
        self._view = None

    @property
    def now(self) -> "Former":
        """Its state, for `take_back`."""
        return Former(self.state, self.last, self.last_at, self.n_bytes, len(self.entries))


class Former(NamedTuple):
    """The state of a reader before entries were added."""

    state: tuple[int, ...]
    last: int
    last_at: int
    n_bytes: int
    n_entries: int


class ManyError(Exception):
    """A table has too many new entries: read them stepwise with `LogReaders.prepare`."""

    def __init__(self, part: Part, id: int) -> None:
        """For the table with that number."""
        super().__init__(f"more than {MOST_AT_ONCE} new entries of {part}")
        self.part, self.id = part, id


class LogReaders:
    """The readers of the most recently used tables; requires the lock of the session."""

    def __init__(self, path: Path | str) -> None:
        """Starts empty, for the log at `path`."""
        self._path = path
        self.on_break: list[Callable[[Part], None]] = []
        """Each as `LogReader.on_break`, for all tables, and where a table's last read is
        unknown."""
        self._mirrors: OrderedDict[Part, LogReader] = OrderedDict()
        self._past = RecentEntries()
        self._added: list[tuple[LogReader, Former]] = []
        """In a transaction: the readers with new entries, each as it was before."""

    def now(self, session: LogSession | None, part: Part) -> LogReader | None:
        """The entries of a table; None if the log does not know it. Raises ManyError.

        May run in a transaction.
        """
        if session is None:
            return None
        if (known := self._mirrors.get(part)) is not None:
            self._mirrors.move_to_end(part)
        state = session.state(part)
        if known is not None and known.state == state:
            return known
        if state is None:
            self.drop(part)
            return None
        if session.in_transaction:
            return self._read(session, part)
        session.begin_reading()
        try:
            return self._read(session, part)
        finally:
            session.commit()

    def prepare(self, session: LogSession | None, many: ManyError) -> bool:
        """Read the next of many entries, before a read; returns whether more may follow."""
        mirror = self._mirrors.get(many.part)
        if session is None or mirror is None or mirror.id != many.id:
            return False
        new = _unread(session, mirror, MOST_AT_ONCE)
        mirror.ahead += self._decoded(new)
        return len(new) == MOST_AT_ONCE

    def forget_added(self) -> None:
        """Begin a transaction, or end one that has committed: nothing is taken back."""
        self._added = []

    def add(self, reader: LogReader, entries: Sequence[Entry]) -> None:
        """Add the entries of a transaction to a reader."""
        self._added.append((reader, reader.now))
        reader.add(entries)

    def take_back(self) -> None:
        """Take back what was added in the transaction, which has not been committed."""
        for reader, former in reversed(self._added):
            reader.take_back(former)
        self._added = []

    def drop(self, part: Part) -> None:
        """Forget the entries of a table."""
        if self._mirrors.pop(part, None) is not None:
            self._broken(part)

    def clear(self) -> None:
        """Forget everything."""
        for part in list(self._mirrors):
            self.drop(part)
        self._past = RecentEntries()

    def reduce_past(self) -> None:
        """Reduce all entries that left the log to their keys: they may be erased."""
        self._past.reduce_all()

    def recall(self, part: Part, seqs: Iterable[int]) -> Recalled:
        """The known data of the entries at these positions, flushed or not."""
        mirror = self._mirrors.get(part)
        there = {} if mirror is None else {entry.seq: entry for entry in mirror.entries}
        entries, keys = [], {}
        for seq in seqs:
            entry = there.get(seq) or self._past.find(part, seq)
            if isinstance(entry, str):
                keys[entry] = seq
            elif entry is not None:
                entries.append(entry)
        return Recalled(entries, keys)

    # Helpers

    def _read(self, session: LogSession, part: Part) -> LogReader | None:
        state = session.state(part)
        if state is None:
            self.drop(part)
            return None
        id, version, folded, folding, token, stamp = state
        mirror = self._mirrors.get(part)
        if mirror is None or mirror.id != id:
            mirror = self._begin(part, id)
        # An entry that was read exists until a flush.
        ahead = [one for one in mirror.ahead if one.seq > folded]
        new = _unread(session, mirror, MOST_AT_ONCE + 1)
        if len(new) > MOST_AT_ONCE:
            raise ManyError(part, id)
        mirror.move(version, folded, folding, token, stamp, [*ahead, *self._decoded(new)])
        mirror.ahead = []
        return mirror

    def _decoded(self, rows: Iterable[Stored]) -> list[Entry]:
        try:
            return [entry_of(*row) for row in rows]
        except ValueError as error:
            raise StorageError(
                f"the write-ahead log {str(self._path)!r} {DAMAGED} ({error})"
            ) from error

    def _begin(self, part: Part, id: int) -> LogReader:
        """A new reader, for a table of which nothing is remembered."""
        n_bytes = sum(mirror.n_bytes for mirror in self._mirrors.values())
        while len(self._mirrors) >= _MOST_TABLES or n_bytes > _MOST_BYTES:
            _, former = self._mirrors.popitem(last=False)
            n_bytes -= former.n_bytes
            # A recent reader may ask for these once more, after their flush.
            self._past.add(former.part, former.entries)
        mirror = self._mirrors[part] = LogReader(part, id, self._past)
        self._mirrors.move_to_end(part)
        mirror.on_break = self._broken
        self._broken(part)
        return mirror

    def _broken(self, part: Part) -> None:
        self._past.reduce(part)
        for forget in self.on_break:
            forget(part)


def _unread(session: LogSession, mirror: LogReader, most: int) -> list[Stored]:
    """The first unread entries, as the file has them."""
    begin = mirror.ahead[-1].seq if mirror.ahead else mirror.last
    return session.entries(mirror.id, begin, most)
