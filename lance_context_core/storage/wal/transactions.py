"""What is read from the journal's file, and written into it: each time in one transaction of SQLite."""

import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from lance_context_core.storage.locks import fencing, lock_table
from lance_context_core.storage.wal import sqlite
from lance_context_core.storage.wal.connection_pool import ConnectionPool
from lance_context_core.storage.wal.entries import Entry, New, News, View, checksum
from lance_context_core.storage.wal.log_reader import LogReaders, ManyError
from lance_context_core.storage.wal.sqlite import Part

T = TypeVar("T")


class NotKnownError(Exception):
    """The journal does not know the table, or its version, at this moment."""


class Amending(NamedTuple):
    """What a change is given that looks at what is kept beside the entries of a table."""

    connection: sqlite3.Connection
    table: int
    """As `View.table`."""
    token: int
    """That of the table before the change; after it, if it writes anything, it is one more."""


class Transactions:
    """Each blocks its thread for a moment, and raises BusyError while somebody else writes.

    `view`, `news` and `write` also raise ManyError where much is new: prepare that, and ask again.
    """

    def __init__(self, root: Path, ways: ConnectionPool, mirrors: LogReaders) -> None:
        """Those with the journal of the store in the directory `root`."""
        self._root = root
        self._path = root / sqlite.NAME
        self._ways = ways
        self._mirrors = mirrors

    def view(self, part: Part) -> View | None:
        """What it holds of a table; None of one that it does not know."""
        with self._ways.lock:
            mirror = self._mirrors.now(self._ways.connection, part)
            return None if mirror is None else mirror.view

    def news(self, part: Part, token: int, last: int) -> News | None:
        """As `TableLog.news`."""
        with self._ways.lock:
            mirror = self._mirrors.now(self._ways.connection, part)
            return None if mirror is None else News(mirror.view, mirror.since(token, last))

    def prepare(self, many: ManyError) -> bool:
        """As `LogReaders.prepare`."""
        with self._ways.lock:
            return self._mirrors.prepare(self._ways.connection, many)

    def write(
        self,
        part: Part,
        decide: Callable[[View], Sequence[New] | None],
        *,
        keeps_states: bool = False,
    ) -> View | None:
        """As `TableLog.write`."""
        with self._ways.lock:
            if (transaction := self._ways.transaction) is None:
                return None
            written: list[Entry] = []
            with transaction as connection:
                self.require_fences(connection)
                mirror = self._mirrors.now(connection, part)
                if mirror is None or not (view := mirror.view).version:
                    return None
                if (new := decide(view)) is None:
                    return None
                told = view.told_beside([one.key for one in new] if keeps_states else ())
                # In the order of the entries, also where the clock was set back.
                at = max(time.time_ns() // 1000, mirror.last_at)
                for one in new:
                    crc = checksum(one.how, one.key, one.payload)
                    values = (mirror.id, one.how, one.key, one.payload, told, at, crc)
                    seq = connection.execute(sqlite.INSERT, values).lastrowid or 0
                    size = len(one.payload or b"")
                    written.append(Entry(seq, one.how, one.key, one.row, size, told, at))
                if written:
                    connection.execute(sqlite.CHANGED, (mirror.id,))
            mirror.add(written)
            return mirror.view

    def amend(self, part: Part, decide: Callable[[Amending], tuple[Sequence[New], T]]) -> T:
        """As `TableLog.amend`."""
        with self._ways.lock:
            if (transaction := self._ways.transaction) is None:
                raise NotKnownError
            with transaction as connection:
                self.require_fences(connection)
                state = connection.execute(sqlite.AMENDED, part).fetchone()
                if state is None or state[1] <= 0:
                    raise NotKnownError
                id, version, folded, folding, token, last = state
                new, outcome = decide(Amending(connection, id, token))
                # As `View.next_told`.
                told = version + 1 + (folding > folded)
                at = max(time.time_ns() // 1000, last or 0)
                if new:
                    values = []
                    for one in new:
                        crc = checksum(one.how, one.key, one.payload)
                        values.append((id, one.how, one.key, one.payload, told, at, crc))
                    connection.executemany(sqlite.INSERT, values)
                    connection.execute(sqlite.CHANGED, (id,))
                return outcome

    def do(self, done: sqlite.Statements) -> None:
        """Say these, all or none."""
        with self._ways.lock, self._ways.begun() as connection:
            for statement, values in done:
                connection.execute(statement, values)

    def transact(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do `work` in a transaction."""
        with self._ways.lock, self._ways.begun() as connection:
            return work(connection)

    def ask(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do `work`, which reads with one statement."""
        with self._ways.lock:
            try:
                return work(self._ways.shared())
            except sqlite3.Error as error:
                raise sqlite.meaning(self._path, error) from error

    def asked(self, statement: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        """What the file says; nothing if there is none."""
        with self._ways.lock:
            if (connection := self._ways.connection) is None:
                return []
            try:
                return connection.execute(statement, values).fetchall()
            except sqlite3.Error as error:
                raise sqlite.meaning(self._path, error) from error

    def require_fences(self, connection: sqlite3.Connection) -> None:
        """Raise StaleLockError if a lock that this task's writes depend on is held no more."""
        if fencing.are_any():
            for fence in fencing.at(str(self._root)):
                lock_table.require(connection, fence)
