"""What the journal holds, as this process saw it last: so that a look at it reads what is new alone."""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from lance_context_core.errors import StorageError
from lance_context_core.storage.wal.entries import Entry, Log, Logged, View, entry_of
from lance_context_core.storage.wal.log import DAMAGED, LogSession, Part, Stored

# What was seen of the journal lately: who reads a page by its ids has it after it was folded, too.

MOST_PAST = 2048
_MOST_BYTES_OF_PAST = 4 * 1024 * 1024
"""How much is remembered of what is folded, of all tables together."""

_MOST_KEYS = 16 * 1024
"""How many more are known by their keys alone."""


class RecentEntries:
    """The entries, until there are too many; of others their keys."""

    def __init__(self) -> None:
        """None yet."""
        self._entries: OrderedDict[tuple[Part, int], Entry] = OrderedDict()
        self._n_bytes = 0
        self._keys: OrderedDict[tuple[Part, int], str] = OrderedDict()

    def find(self, part: Part, seq: int) -> Entry | str | None:
        """The entry; its key if that is all that is left of it."""
        return self._entries.get((part, seq)) or self._keys.get((part, seq))

    def reduce(self, part: Part) -> None:
        """Leave nothing but the keys of what was seen of a table: the rest may be erased by now."""
        for place in [place for place in self._entries if place[0] == part]:
            entry = self._entries.pop(place)
            self._n_bytes -= entry.size
            self._keys[place] = entry.key

    def reduce_all(self) -> None:
        """As `reduce`, of every table."""
        for part in {part for part, _ in self._entries}:
            self.reduce(part)

    def add(self, part: Part, entries: Iterable[Entry]) -> None:
        """Have seen these of a table."""
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
"""How much of how many tables is remembered; one alone may have more."""

MOST_AT_ONCE = 128
"""How many entries are decoded until the others on a loop have their turn: two milliseconds."""


class Recalled(NamedTuple):
    """What is known of some entries, by their places."""

    entries: Sequence[Entry]
    keys: Mapping[str, int]
    """The places of those of which only the keys are known: the table has their rows."""


class LogReader:
    """What the journal holds of one table, as this process saw it last."""

    def __init__(self, part: Part, id: int, past: RecentEntries) -> None:
        self.part = part
        self.id = id
        self.last = 0
        """The last entry that was seen."""
        self.last_at = 0
        """When it was acknowledged, as `Entry.at`."""
        self.n_bytes = 0
        self._log = Log[Entry]()
        self.state: tuple[int, ...] = ()
        """What the journal says of the table: while it says the same, nothing has changed."""
        self.ahead: list[Entry] = []
        """The entries behind the last that are read already, in order."""
        self._past = past
        self._folded: deque[int] = deque()
        """The places of the entries that were folded last, in order."""
        self._gone = 0
        """The last place that is not among them any more."""
        self._grows_since = 0
        """The token since which nothing came about but entries that were seen here."""
        self._view: View | None = None
        self.on_break: Callable[[Part], None] = lambda _: None
        """Is called where something came about that was not seen, such as an erasure."""

    @property
    def entries(self) -> Logged[Entry]:
        """Those that are there."""
        return self._log.now()

    @property
    def view(self) -> View:
        """All of it, as it is now."""
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
        """Be what the journal holds now: those that are folded are gone, and these are new."""
        _, former_version, former_folded, _, former_token, _ = self.state or (0, 0, 0, 0, 0, 0)
        if version != former_version and token != former_token:
            # Others wrote as well as committed: what they folded, or wrote otherwise, was not seen.
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
        """Keep of the entries up to that place, which are folded, what came about since."""
        kept = self.entries
        gone = [entry for entry in kept if entry.seq <= folded]
        if not gone:
            return
        self._past.add(self.part, gone)
        self._folded.extend(entry.seq for entry in gone)
        while len(self._folded) > MOST_PAST:
            self._gone = self._folded.popleft()
        self.n_bytes -= sum(entry.size for entry in gone)
        # What is seen of the former one stays as it was.
        self._log = Log(kept[len(gone) :])

    def since(self, token: int, last: int) -> list[Entry] | None:
        """The entries behind `last`, if these are all that has come about since `token`."""
        if token < self._grows_since or last < self._gone:
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
        """Follow what was written here and now, on top of what was seen."""
        if entries:
            _, version, folded, folding, token, stamp = self.state
            self.move(version, folded, folding, token + 1, stamp + 1, entries)


class ManyError(Exception):
    """So much is new of a table that it is to be read step by step before: see `LogReaders.prepare`."""

    def __init__(self, part: Part, id: int) -> None:
        """Of the table of that number."""
        super().__init__(f"more than {MOST_AT_ONCE} new entries of {part}")
        self.part, self.id = part, id


class LogReaders:
    """Those of the tables that were asked for last; for who has the lock of the session."""

    def __init__(self, path: Path) -> None:
        """None yet, of the journal at `path`."""
        self._path = path
        self.on_break: list[Callable[[Part], None]] = []
        """Each as `LogReader.on_break`, of all tables, and where it is not known what was seen of one."""
        self._mirrors: OrderedDict[Part, LogReader] = OrderedDict()
        self._past = RecentEntries()

    def now(self, session: LogSession | None, part: Part) -> LogReader | None:
        """What there is of a table; None if there is nothing of it. Raises ManyError.

        Also for who is in a transaction.
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
        """Read the next of those many entries, for the look that follows; whether there may be more."""
        mirror = self._mirrors.get(many.part)
        if session is None or mirror is None or mirror.id != many.id:
            return False
        new = _unread(session, mirror, MOST_AT_ONCE)
        mirror.ahead += self._decoded(new)
        return len(new) == MOST_AT_ONCE

    def drop(self, part: Part) -> None:
        """Forget what the journal held of a table."""
        if self._mirrors.pop(part, None) is not None:
            self._broken(part)

    def clear(self) -> None:
        """Forget everything."""
        for part in list(self._mirrors):
            self.drop(part)
        self._past = RecentEntries()

    def reduce_past(self) -> None:
        """Keep of what is no longer in the journal the keys alone, of all tables: it may be erased."""
        self._past.reduce_all()

    def recall(self, part: Part, seqs: Iterable[int]) -> Recalled:
        """What is known of the entries of those places, whatever has become of them."""
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
        # An entry that was read is there until it is folded.
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
            raise StorageError(f"the journal {str(self._path)!r} {DAMAGED} ({error})") from error

    def _begin(self, part: Part, id: int) -> LogReader:
        """A new one, of a table of which nothing is remembered."""
        n_bytes = sum(mirror.n_bytes for mirror in self._mirrors.values())
        while len(self._mirrors) >= _MOST_TABLES or n_bytes > _MOST_BYTES:
            _, former = self._mirrors.popitem(last=False)
            n_bytes -= former.n_bytes
            # Who has just seen them may ask for them once more, when they are folded.
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
    """The first entries that were not read yet, as the file has them."""
    begin = mirror.ahead[-1].seq if mirror.ahead else mirror.last
    return session.entries(mirror.id, begin, most)
