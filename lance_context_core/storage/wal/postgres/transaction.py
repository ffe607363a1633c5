"""A log session on PostgreSQL, with few round trips.

A read is one statement, which returns the notes on a table and its new entries together. A write
transaction first works on what the session has read last, and is sent whole, as one statement: the
server refuses it if others have written since (`OutrunError`). After a refusal, the next
transactions lock the log first; then a write is two round trips, and cannot be outrun. Statements
that return nothing wait for the next one that does, or for the commit.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import psycopg

from lance_context_core.errors import StorageError
from lance_context_core.storage.wal.log import (
    BusyError,
    OutrunError,
    Part,
    Stored,
    TableState,
    Unplaced,
)
from lance_context_core.storage.wal.postgres import statements as sql
from lance_context_core.storage.wal.postgres.server import LOST_LOCK, Watch, end_quietly

_BUSY_SECONDS = 0.02

_QUIET = 3
"""The number of transactions without another writer after which one no longer locks first."""


class Counts(NamedTuple):
    """The last numbers that a store has given out."""

    last: int
    tables: int
    locks: int
    epoch: int


class _Ahead(NamedTuple):
    """Entries that came with the last look."""

    part: Part
    state: TableState
    after: int
    entries: list[Stored]

    @property
    def is_all(self) -> bool:
        return len(self.entries) < sql.AT_ONCE

    def after_of(self, table: int, after: int, most: int) -> list[Stored] | None:
        """As `LogSession.entries`; None if unknown."""
        if table != self.state.table or after < self.after:
            return None
        found = [one for one in self.entries if one[0] > after]
        return found[:most] if self.is_all or len(found) >= most else None


_NONE, _READING, _HOPING, _LOCKED = range(4)
"""The kinds of transactions: none; a snapshot; on what was read last; with the lock."""


class TransactionalSession:
    """The transactions of a session, and the statements in them. Borrows connections."""

    def __init__(self, watch: Watch, store: int, *, is_private: bool = False) -> None:
        """The log of the store with that number; one that `is_private` always locks first."""
        self._is_private = is_private
        self._watch, self._server, self.store = watch, watch.server, store
        self._mode = _NONE
        self._connection: Any = None
        """Of the open transaction, once it has reached the server."""
        self._known: dict[Part, tuple[TableState | None, float]] = {}
        """The notes on tables as last read, and when."""
        self._after: dict[int, int] = {}
        """By table, the last position that was handed out."""
        self._ahead: _Ahead | None = None
        self._hopes = False
        """Whether a transaction may begin without the lock."""
        self._n_quiet = 0
        self._busy_until = 0.0
        """How long another is taken to have the lock still."""
        self._hint: Part | None = None
        """The table of the last write."""
        self._states: dict[Part, TableState | None] = {}
        """In a transaction: the notes on tables, with its own changes."""
        self._seen: dict[Part, TableState] = {}
        """While hoping: the notes that the transaction depends on."""
        self._counts: Counts | None = None
        """The last numbers, with those of the transaction; None before the first lock."""
        self._first: Counts | None = None
        """The numbers at the beginning of the transaction."""
        self._new: list[tuple[int, int, Unplaced]] = []
        """While hoping: the positions and tables of the new entries, and these."""
        self._placed: dict[int, int] = {}
        """In a transaction: by table, the position of its last new entry."""
        self._changes: dict[int, int] = {}
        """While hoping: by table, the number of its changes."""
        self._ops: list[tuple[str, Sequence[object]]] = []
        """With the lock: statements that were not sent yet."""
        self._saved: _Saved | None = None

    # Transactions

    @property
    def in_transaction(self) -> bool:
        """As `LogSession.in_transaction`."""
        return self._mode != _NONE

    def begin(self) -> None:
        """As `LogSession.begin`; without a call, if others have not written lately."""
        self._watch.require()
        self._ahead = None
        if self._hopes and self._counts is not None:
            self._reset(_HOPING)
            self._states = {part: state for part, (state, _) in self._known.items()}
            self._first = self._counts
        else:
            self._lock()

    def begin_locked(self) -> None:
        """As `begin`, with the lock."""
        self._watch.require()
        self._lock()

    def begin_reading(self) -> None:
        """As `LogSession.begin_reading`; its first read defines the moment."""
        self._watch.require()
        ahead = self._ahead
        self._reset(_READING)
        self._ahead = ahead

    def is_current(self) -> bool:
        """As `LogSession.is_current`."""
        if self._mode != _HOPING:
            return True
        try:
            with self._server.connection() as one:
                return not self._seen or self._sent(one, [], {}) >= 0
        except BusyError:
            return False

    def commit(self) -> None:
        """As `LogSession.commit`."""
        if self._mode == _READING:
            self._end(has_committed=self._connection is not None)
            return
        if self._mode == _HOPING:
            self._commit_hoping()
            return
        counts, connection = self._counts, self._connection
        if counts != self._first and counts is not None:
            self._ops.append((sql.COUNTS, (*counts[:3], self.store)))
        ops, self._ops = self._ops, []
        try:
            with self._server.translated(), connection.pipeline():
                for statement, values in ops:
                    connection.execute(statement, values)
                connection.execute("COMMIT")
        except BaseException:
            self._break()
            raise
        self._remember()
        self._end()

    def undo(self) -> None:
        """As `LogSession.undo`."""
        if self._mode in (_HOPING, _LOCKED):
            self._counts = self._first
        self._end(has_committed=True)

    def save(self) -> None:
        """As `LogSession.save`; nothing is sent before something depends on it."""
        self._saved = _Saved(
            len(self._ops), dict(self._states), self._counts, len(self._new), dict(self._changes)
        )
        if self._mode == _LOCKED:
            self._ops.append(("SAVEPOINT one", ()))

    def undo_to_save(self) -> None:
        """As `LogSession.undo_to_save`."""
        saved = self._saved
        assert saved is not None
        self._states, self._counts = dict(saved.states), saved.counts
        del self._new[saved.n_new :]
        self._changes = dict(saved.changes)
        self._ahead = None
        if self._mode == _LOCKED:
            if saved.n_ops is None:
                self._ops = []
                # Alone: after it the driver prepares its statements anew.
                with self._server.translated():
                    self._connection.execute("ROLLBACK TO SAVEPOINT one")
            else:
                del self._ops[saved.n_ops + 1 :]

    def release(self) -> None:
        """As `LogSession.release`."""
        saved, self._saved = self._saved, None
        if self._mode == _LOCKED and saved is not None:
            if saved.n_ops is None:
                self._ops.append(("RELEASE SAVEPOINT one", ()))
            else:
                del self._ops[saved.n_ops]

    # Reads and writes of a transaction

    def state(self, part: Part) -> TableState | None:
        """As `LogSession.state`; outside a transaction as fresh as the read consistency asks."""
        if self._mode == _NONE:
            known = self._known.get(part)
            if known is not None and time.monotonic() - known[1] < self._watch.age_seconds:
                return known[0]
            with self._server.connection() as one:
                return self._look(one, part)
        if self._mode == _READING and (ahead := self._ahead) is not None and ahead.part == part:
            return ahead.state
        if self._mode == _HOPING:
            if (state := self._states.get(part)) is not None:
                self._seen.setdefault(part, state)
                return state
            self._require_lock()
        if part not in self._states:
            self._send()
            self._states[part] = self._look(self._connected(), part)
        return self._states[part]

    def insert(self, table: int, new: Sequence[Unplaced]) -> list[int]:
        """As `LogSession.insert`."""
        with self._writing():
            if not new:
                return []
            assert self._counts is not None
            first = self._counts.last + 1
            places = [*range(first, first + len(new))]
            self._counts = self._counts._replace(last=places[-1])
            if self._mode == _HOPING:
                self._new += [(place, table, one) for place, one in zip(places, new, strict=True)]
                self._placed[table] = places[-1]
            else:
                self._insert(table, places, new)
            return places

    def change(self, table: int) -> None:
        """As `LogSession.change`."""
        with self._writing():
            if self._mode == _HOPING:
                self._changes[table] = self._changes.get(table, 0) + 1
            else:
                self._ops.append((sql.CHANGE, (self.store, table)))
            self._ahead = None
            for part, state in self._states.items():
                if state is not None and state.table == table:
                    self._states[part] = state._replace(
                        token=state.token + 1, stamp=state.stamp + 1
                    )
                    self._hint = part

    # For the index of tasks

    def query(self, statement: str, values: Sequence[object]) -> list[Any]:
        """The rows of a statement, in the transaction if one is open."""
        return self._all(statement, values)

    def do(self, statement: str, values: Sequence[object]) -> None:
        """Have a statement without a result executed, at the latest at the commit."""
        if self._mode == _HOPING:
            self._require_lock()
        self._ops.append((statement, values))

    # Statements

    def _all(self, statement: str, values: Sequence[object]) -> list[Any]:
        if self._mode == _NONE:
            self._watch.require()
            with self._server.connection() as one:
                found: list[Any] = one.execute(statement, values, binary=True).fetchall()
                return found
        if self._mode == _HOPING:
            self._require_lock()
        self._send()
        try:
            with self._server.translated():
                connection = self._connected()
                found = connection.execute(statement, values, binary=True).fetchall()
        except BaseException:
            self._break()
            raise
        return found

    def _do(self, statement: str, values: Sequence[object], part: Part | None) -> None:
        """As `do`, for a statement that changes the notes on a table, or on any if None."""
        self.do(statement, values)
        if part is not None:
            self._require_epoch()
        self._ahead = None
        for gone in [*self._states, *self._known] if part is None else [part]:
            self._states.pop(gone, None)
            self._known.pop(gone, None)

    def _insert(self, table: int, places: Sequence[int], new: Sequence[Unplaced]) -> None:
        columns = [list(column) for column in zip(*new, strict=True)]
        columns[1] = [*map(bytes_of, columns[1])]
        self._placed[table] = places[-1]
        self._ops.append((sql.INSERT, (self.store, table, [*places], *columns)))

    def _send(self) -> None:
        """Execute the waiting statements."""
        if not self._ops:
            return
        ops, self._ops = self._ops, []
        if self._saved is not None:
            self._saved = self._saved._replace(n_ops=None)
        try:
            with self._server.translated(), self._connection.pipeline():
                for statement, values in ops:
                    self._connection.execute(statement, values)
        except BaseException:
            self._break()
            raise

    def _connected(self) -> Any:
        """The connection of the open transaction, which a read begins with its first statement."""
        if self._connection is None:
            self._connection = one = self._server.borrow()
            with self._server.translated():
                one.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return self._connection

    def _look(self, connection: Any, part: Part) -> TableState | None:
        """The notes on a table, and its new entries for the next call."""
        now = time.monotonic()
        try:
            with self._server.translated():
                rows = self._looking(connection, part).fetchall()
        except BaseException:
            if self._connection is not None:
                self._break()
            raise
        return self._looked(part, rows, now)

    def _looking(self, connection: Any, part: Part) -> Any:
        """The cursor of a look at a table; see `_looked`."""
        known = self._known.get(part, (None, 0.0))[0]
        table, stamp = (known.table, known.stamp) if known is not None else (0, -1)
        values = (*names_of(part), self._after.get(table, 0), stamp, sql.AT_ONCE, self.store)
        return connection.execute(sql.LOOK, values, binary=True)

    def _looked(self, part: Part, rows: Sequence[Any], now: float) -> TableState | None:
        """The result of a look that began `now`."""
        known = self._known.get(part, (None, 0.0))[0]
        table = known.table if known is not None else 0
        after = self._after.get(table, 0)
        self._watch.see(rows[0][0] if rows else None)
        state = None if rows[0][1] is None else TableState(*rows[0][1:7])
        self._ahead = None
        if state is not None and state != known:
            is_same = state.table == table
            entries = [stored_of(row[7:]) for row in rows if row[7] is not None]
            # Of another table, or after a flush, the first of them are of no use, or all are.
            self._ahead = _Ahead(part, state, after if is_same else 0, entries)
            if not is_same and after:
                self._ahead = None
        if self._mode in (_NONE, _READING):
            self._known[part] = state, now
        return state

    # The transaction

    def _writing(self) -> "_Writing":
        """A write: alone in a transaction of its own if none is open."""
        return _Writing(self)

    def _locked_counts(self) -> Counts:
        if self._mode == _HOPING:
            self._require_lock()
        assert self._counts is not None
        return self._counts

    def _lock(self) -> None:
        """Begin a transaction with the lock. Raises BusyError while another has it."""
        if not self._is_private and time.monotonic() < self._busy_until:
            raise BusyError
        before, hint = self._counts, self._hint
        self._reset(_LOCKED)
        self._connection = one = self._server.borrow()
        try:
            # In one round trip; the look is made once the lock is there.
            with self._server.translated(), one.pipeline():
                one.execute("BEGIN")
                locked = one.execute(sql.LOCK, (self.store,), binary=True)
                look = None if hint is None else self._looking(one, hint)
                found = locked.fetchone()
                rows = None if look is None else look.fetchall()
            self._watch.see(found[0] if found else None)
            self._counts = self._first = Counts(*found)
            if hint is not None and rows is not None:
                self._states[hint] = self._looked(hint, rows, time.monotonic())
        except BaseException as error:
            self._break()
            if isinstance(error, BusyError):
                # Whoever waits behind this caller would find the same.
                self._busy_until = time.monotonic() + _BUSY_SECONDS
            raise
        known = self._known.get(hint, (None, 0.0))[0] if hint is not None else None
        is_quiet = before is not None and before.last == self._counts.last
        if hint is not None and known != self._states[hint]:
            is_quiet = False
        self._n_quiet = self._n_quiet + 1 if is_quiet else 0
        self._hopes = self._n_quiet >= _QUIET and not self._is_private

    def _require_epoch(self) -> None:
        """Raise StorageError if this process had the exclusive lock, and another has it now."""
        epoch = self._watch.epoch
        if epoch is not None and self._counts is not None and self._counts.epoch != epoch:
            raise StorageError(LOST_LOCK.format(self._server.address.host))

    def _require_lock(self) -> None:
        """From hoping to the lock. Raises OutrunError if the transaction saw what is old by now."""
        seen, new, changes = self._seen, self._new, self._changes
        saved, first = self._saved, self._first
        hint, self._hint = self._hint, None
        self._lock()
        self._hint = hint
        counts = self._counts
        is_outrun = bool(new) and (first is None or counts is None or first.last != counts.last)
        if is_outrun or any(self._look(self._connection, part) != seen[part] for part in seen):
            self._break()
            raise OutrunError
        self._states.update(seen)
        for place, table, one in new:
            self._insert(table, [place], [one])
            assert self._counts is not None
            self._counts = self._counts._replace(last=place)
        for table, n in changes.items():
            for _ in range(n):
                self.change(table)
        if saved is not None:
            self.save()

    def _sent(
        self, connection: Any, new: Sequence[tuple[int, int, Unplaced]], changes: dict[int, int]
    ) -> int:
        """Send a transaction as one statement; returns -1 if others have written since."""
        assert self._first is not None
        seen = [*self._seen.values()]
        if len(new) == len(seen) == 1:
            return self._sent_alone(connection, new[0], seen[0], changes)
        columns: list[list[Any]] = [[table for _, table, _ in new]]
        columns += [[one[n] for *_, one in new] for n in range(6)]
        columns[2] = [*map(bytes_of, columns[2])]
        values = (
            self.store,
            self._first.last,
            [state.table for state in seen],
            [state.stamp for state in seen],
            [changes.get(state.table, 0) for state in seen],
            *columns,
        )
        with self._server.translated():
            return int(connection.execute(sql.WRITE, values, binary=True).fetchone()[0])

    def _sent_alone(
        self,
        connection: Any,
        new: tuple[int, int, Unplaced],
        seen: TableState,
        changes: dict[int, int],
    ) -> int:
        """As `_sent`, for one entry of the one table that was read."""
        assert self._first is not None
        place, table, (how, key, *others) = new
        if table != seen.table or place != self._first.last + 1:
            return -1
        n_changes = changes.get(table, 0)
        begun = (self.store, self._first.last, table, seen.stamp, n_changes, how)
        values = (*begun, bytes_of(key), *others)
        with self._server.translated():
            try:
                found = connection.execute(sql.APPEND, values, binary=True).fetchone()
            except psycopg.errors.SerializationFailure:
                return -1
        return int(found[0])

    def _commit_hoping(self) -> None:
        if not self._seen and not self._new:
            self._end()
            return
        connection = self._server.borrow()
        try:
            done = self._sent(connection, self._new, self._changes)
        except BaseException:
            self._break(connection)
            raise
        self._server.give_back(connection)
        if done < 0:
            self._hopes, self._n_quiet = False, 0
            self._counts = self._first
            raise OutrunError
        self._remember()
        self._end()

    def _remember(self) -> None:
        """After a commit: its notes on tables are what was read last."""
        now = time.monotonic()
        touched = (
            self._states if self._mode == _LOCKED else {p: self._states[p] for p in self._seen}
        )
        for part, state in touched.items():
            self._known[part] = state, now
        if self._counts is not None:
            self._watch.last = max(self._watch.last, self._counts.last)
        self._after.update(self._placed)

    def _reset(self, mode: int) -> None:
        self._mode, self._connection, self._saved = mode, None, None
        self._ahead = None
        self._states, self._seen, self._changes = {}, {}, {}
        self._new, self._ops, self._placed = [], [], {}

    def _end(self, *, has_committed: bool = False) -> None:
        """End the transaction here; the server rolls back what was not committed."""
        connection = self._connection
        self._reset(_NONE)
        if connection is not None:
            if has_committed:
                with suppress(psycopg.Error):
                    connection.execute("ROLLBACK")
            self._server.give_back(connection)

    def _break(self, connection: Any = None) -> None:
        """End a transaction whose outcome is unknown, or failed."""
        connection = connection or self._connection
        self._connection = None
        self._counts, self._hopes, self._n_quiet = None, False, 0
        self._known.clear()
        self._reset(_NONE)
        if connection is not None:
            if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                try:
                    connection.execute("ROLLBACK")
                except psycopg.Error:
                    end_quietly(connection)
            self._server.give_back(connection)

    def _of(self, part: Part) -> tuple[int, bytes, bytes]:
        return self.store, *names_of(part)


class _Saved(NamedTuple):
    """The state of a transaction at its savepoint."""

    n_ops: int | None
    """The index of its statement; None once that was sent."""
    states: dict[Part, TableState | None]
    counts: Counts | None
    n_new: int
    changes: dict[int, int]


class _Writing:
    """Runs a write in a transaction of its own, unless one is open."""

    __slots__ = ("_is_alone", "_session")

    def __init__(self, session: TransactionalSession) -> None:
        self._session = session

    def __enter__(self) -> None:
        self._is_alone = not self._session.in_transaction
        if self._is_alone:
            self._session.begin_locked()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._is_alone:
            (self._session.commit if error is None else self._session.undo)()


def bytes_of(text: str) -> bytes:
    """A text as it is stored."""
    return text.encode("utf-8", "surrogatepass")


def text_of(stored: bytes) -> str:
    """A stored text."""
    return stored.decode("utf-8", "surrogatepass")


def names_of(part: Part) -> tuple[bytes, bytes]:
    """The name and the ref of a table as they are stored."""
    return bytes_of(part.name), bytes_of(part.ref)


def stored_of(row: Sequence[Any]) -> Stored:
    """An entry as it was read."""
    seq, how, key, payload, told, at, crc = row
    return seq, how, text_of(key), payload, told, at, crc
