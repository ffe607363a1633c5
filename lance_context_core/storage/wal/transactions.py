"""Reads and writes of the log's file: concurrent calls share a transaction."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Generic, NamedTuple, TypeVar, cast

from lance_context_core._util import cooperative as steps
from lance_context_core.storage.locks import fencing
from lance_context_core.storage.wal.entries import Entry, New, News, View, checksum
from lance_context_core.storage.wal.log import (
    BusyError,
    LogSession,
    OutrunError,
    Part,
    Unplaced,
    WriteAheadLog,
)
from lance_context_core.storage.wal.log_reader import LogReader, LogReaders, ManyError
from lance_context_core.storage.wal.waiting import Waiting

T = TypeVar("T")


class NotKnownError(Exception):
    """The log does not know the table, or its version, at this moment."""


class Amending(NamedTuple):
    """The argument of a change to the data stored with a table's entries."""

    session: LogSession
    table: int
    """As `View.table`."""
    token: int
    """The token of the table before the change; a change that writes increments it."""


Work = Callable[[LogSession | None], T]
"""One write: it has the session exclusively, in a transaction, all or nothing. None means that no
log exists at this moment."""


Then = Callable[[T], None]
"""Receives the result of a write after its commit, in the order of the commits; raises nothing."""


class Transaction:
    """Commits its body, or nothing of it if the body raises. Reusable.

    Raises BusyError, before anything is done, while another process writes.
    """

    # Not a generator: each small write enters one, which would cost as much as a row.
    __slots__ = ("_session",)

    def __init__(self, session: LogSession) -> None:
        self._session = session

    def __enter__(self) -> LogSession:
        self._session.begin()
        return self._session

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            try:
                self._session.commit()
            except BaseException:
                self._session.undo()
                raise
            return
        is_current = self._session.is_current()
        self._session.undo()
        if not is_current:  # the error is about what others have changed since
            raise OutrunError from error


class _Brought(Generic[T]):
    """A write that waits for the next transaction, and its result."""

    __slots__ = ("_context", "_done", "_then", "_work", "error", "is_done", "outcome", "until")

    def __init__(
        self, work: Work[T], then: Then[T] | None, done: "asyncio.Future[None] | None" = None
    ) -> None:
        """`done` belongs to a waiting task; a thread waits for the lock of the log."""
        self._work = work
        self._then = then
        # Whichever task commits it, it depends on the locks of the task that brought it.
        self._context = copy_context()
        self._done = done
        self.until = 0.0
        """How long a task waits."""
        self.is_done = False
        self.outcome: T | None = None
        self.error: Exception | None = None

    def do(self, session: LogSession | None) -> None:
        """Run it; stores its error."""
        self.error = None
        try:
            self.outcome = self._context.run(self._work, session)
        except Exception as error:  # noqa: BLE001 - it is raised where it was brought
            self.error = error

    def end(self, error: Exception | None = None) -> None:
        """Wake the waiter: it is done, or nothing of it was."""
        self.error, self.is_done = error or self.error, True
        if self.error is None and self._then is not None:
            self._then(cast("T", self.outcome))
        if (done := self._done) is None:
            return
        loop = done.get_loop()
        if asyncio._get_running_loop() is loop:  # noqa: SLF001 - the public one raises where none runs
            _wake(done)
        else:
            with suppress(RuntimeError):  # the loop has ended, with all waiters on it
                loop.call_soon_threadsafe(_wake, done)

    def have_flushed(self, flush: Callable[[], None]) -> None:
        """Schedule `flush` on the loop of a waiting task: its write began and was undone."""
        if self._done is not None:
            with suppress(RuntimeError):
                self._done.get_loop().call_soon_threadsafe(flush)

    def is_of(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether a task of that loop waits for it."""
        return self._done is not None and self._done.get_loop() is loop

    def result(self) -> T:
        """Its result."""
        if self.error is not None:
            raise self.error
        return cast("T", self.outcome)


def _wake(done: "asyncio.Future[None]") -> None:
    if not done.done():
        done.set_result(None)


class _Round:
    """The writes of one turn of an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.first: int | None = None
        """The task that has written in this turn; None if none has."""
        self.is_crowd = False
        """Whether several tasks wrote in the last turn: they will again, and all wait for the
        next."""
        self.is_due = False
        """Whether the waiting writes are committed after this turn, or after the pause."""
        self.pause_seconds = 0.0
        """How long to pause while another process uses the file; 0 while none does."""

    def is_quiet(self, task: int) -> bool:
        """Whether that task may write at once, because no other does."""
        return not self.is_due and not self.is_crowd and self.first in (None, task)


class _Here(threading.local):
    """The state of a thread."""

    round: _Round | None = None
    """The state of its event loop."""


class Transactions:
    """Runs reads and writes of a log; raises BusyError while another process writes.

    Each call blocks its thread for a moment. Concurrent writes of several threads and tasks share
    one transaction, in the order of arrival: each has its own result, and an error of one undoes
    none of the others. A task that writes alone does so at once. While another process uses the
    file, one task of each loop asks for it.

    `view`, `news` and `write` also raise ManyError if many entries are new: prepare, and call
    again.
    """

    def __init__(
        self, place: object, log: WriteAheadLog, mirrors: LogReaders, waiting: Waiting
    ) -> None:
        """The transactions of that log of the store at that path, as fences name it."""
        self._place = place
        self._log = log
        self._mirrors = mirrors
        self._waiting = waiting
        self._brought: deque[_Brought[Any]] = deque()
        """In the order of arrival."""
        self._here = _Here()
        # What is outrun is taken back: where no write can be, nothing is noted for that.
        self._is_outrun_possible = not log.is_quick
        self._add = LogReader.add if log.is_quick else mirrors.add

    # Reading

    def view(self, part: Part) -> View | None:
        """The entries of a table; None if the table is unknown."""
        with self._log.lock:
            mirror = self._mirrors.now(self._log.session, part)
            return None if mirror is None else mirror.view

    def news(self, part: Part, token: int, last: int, version: int = 0) -> News | None:
        """As `TableLog.news`."""
        with self._log.lock:
            mirror = self._mirrors.now(self._log.session, part)
            return None if mirror is None else News(mirror.view, mirror.since(token, last, version))

    def prepare(self, many: ManyError) -> bool:
        """As `LogReaders.prepare`."""
        with self._log.lock:
            return self._mirrors.prepare(self._log.session, many)

    def ask(self, work: Callable[[LogSession], T]) -> T:
        """Run `work`, which reads with one statement."""
        with self._log.lock:
            return work(self._log.shared())

    def asked(self, work: Callable[[LogSession], T], absent: T) -> T:
        """As `ask`; `absent` if no log exists."""
        with self._log.lock:
            return absent if (session := self._log.session) is None else work(session)

    # Writes

    def write(
        self,
        part: Part,
        decide: Callable[[View], Sequence[New] | None],
        *,
        keeps_states: bool = False,
    ) -> Work[View | None]:
        """As `TableLog.write`."""

        def work(session: LogSession | None) -> View | None:
            if session is None:
                return None
            self.require_fences(session)
            mirror = self._mirrors.now(session, part)
            if mirror is None or not (view := mirror.view).version:
                return None
            if (new := decide(view)) is None:
                return None
            # Nothing fails from here on. Later writes in the same transaction see it.
            entries = _inserted(session, mirror, new, keeps_states=keeps_states)
            self._add(mirror, entries)
            return mirror.view

        return work

    def write_all(
        self,
        parts: Sequence[Part],
        decide: Callable[[Sequence[View]], Sequence[Sequence[New]] | None],
        changes: Sequence[tuple[Part, Callable[[Amending], tuple[Sequence[New], object]]]] = (),
        *,
        keeping: Collection[Part] = (),
    ) -> Work[Sequence[View] | None]:
        """As `TableLog.write_all`."""

        def work(session: LogSession | None) -> Sequence[View] | None:
            if session is None:
                return None
            self.require_fences(session)
            mirrors: list[LogReader] = []
            for part in parts:
                mirror = self._mirrors.now(session, part)
                if mirror is None or not mirror.view.version:
                    return None
                mirrors.append(mirror)
            if (new := decide([mirror.view for mirror in mirrors])) is None:
                return None
            written = [
                _inserted(session, mirror, some, keeps_states=part in keeping)
                for part, mirror, some in zip(parts, mirrors, new, strict=True)
            ]
            for part, change in changes:
                _amended(session, part, change)
            # As by `write`.
            for mirror, entries in zip(mirrors, written, strict=True):
                self._add(mirror, entries)
            return [mirror.view for mirror in mirrors]

        return work

    def amend(self, part: Part, decide: Callable[[Amending], tuple[Sequence[New], T]]) -> Work[T]:
        """As `TableLog.amend`."""

        def work(session: LogSession | None) -> T:
            if session is None:
                raise NotKnownError
            self.require_fences(session)
            return _amended(session, part, decide)

        return work

    def transact(self, do: Callable[[LogSession], T]) -> Work[T]:
        """Run `do`. Raises StorageError if the file has just gone."""

        def work(session: LogSession | None) -> T:
            return do(self._log.shared() if session is None else session)

        return work

    def require_fences(self, session: LogSession) -> None:
        """Raise StaleLockError, or StorageError, if a lock that this task's writes need was lost."""
        if fencing.are_any():
            for fence in fencing.at(self._place):
                fence.check_in(session)

    # Committing

    def commit_now(self, work: Work[T], then: Then[T] | None = None) -> T:
        """Run `work` at once, in any thread, with the writes already waiting."""
        if not self._brought and self._log.lock.acquire(blocking=False):
            try:
                try:
                    outcome = self._commit_alone(work)
                except OutrunError:
                    outcome = self._commit_alone(work)
                if then is not None:
                    then(outcome)
                return outcome
            finally:
                self._log.lock.release()
        self._brought.append(mine := _Brought(work, then))
        with self._log.lock:
            while not mine.is_done:
                self._commit_brought(mine)
        return mine.result()

    def _commit_alone(self, work: Work[T]) -> T:
        """Commit one write alone; requires the lock of the session."""
        if (session := self._log.session) is None:
            return work(None)
        is_done = False
        if self._is_outrun_possible:
            self._mirrors.forget_added()
        try:
            with Transaction(session):
                outcome = work(session)
                is_done = True
        except OutrunError:
            self._mirrors.take_back()
            raise
        except BaseException:
            if is_done:
                self._mirrors.clear()  # they contain rolled-back entries
            raise
        if self._is_outrun_possible:
            self._mirrors.forget_added()
        return outcome

    async def commit(self, work: Work[T], then: Then[T] | None = None) -> T:
        """Run `work`, with this turn's other writes, once no other process uses the file.

        A cancelled task has written nothing, or all of it.
        """
        if not self._log.is_quick:
            return await self._waiting.insist(self.commit_now, work, then)
        now = self._round()
        task = id(asyncio.current_task())
        if now.is_quiet(task):
            # Nothing else here yields: a caller without a pause would block the loop.
            await steps.may_take(1)
            if now.is_quiet(task):
                if now.first is None:
                    now.first = task
                    now.loop.call_soon(self._come_round)
                with suppress(BusyError):
                    return self.commit_now(work, then)
        mine = _Brought(work, then, done := now.loop.create_future())
        mine.until = time.monotonic() + self._waiting.patience_seconds
        self._brought.append(mine)
        if not now.is_due:
            now.is_due = True
            now.loop.call_soon(self._flush)
        try:
            await done
        except BaseException:
            with suppress(ValueError):  # begun in another thread
                self._brought.remove(mine)
            raise
        return mine.result()

    def _round(self) -> _Round:
        loop = asyncio.get_running_loop()
        if (now := self._here.round) is None or now.loop is not loop:
            now = self._here.round = _Round(loop)
        return now

    def _come_round(self) -> None:
        """In the turn of a loop after one in which a task has written."""
        self._round().first = None

    def _flush(self) -> None:
        """Commit the waiting writes, on a loop of some of their tasks."""
        now = self._round()
        try:
            n_done = self._waiting.at_first(self._commit_waiting)
        except BusyError:
            now.pause_seconds = self._waiting.longer(now.pause_seconds)
            self._refuse_late(now.loop)
            now.loop.call_later(now.pause_seconds, self._flush)
            return
        now.is_crowd, now.pause_seconds = n_done > 1, 0.0
        now.is_due = bool(self._brought)
        if now.is_due:
            now.loop.call_soon(self._flush)

    def _commit_waiting(self) -> int:
        with self._log.lock:
            return self._commit_brought() if self._brought else 0

    def _refuse_late(self, loop: asyncio.AbstractEventLoop) -> None:
        """Fail the writes of a loop that have waited too long, with nothing written."""
        for late in [*self._brought]:
            if late.is_of(loop) and time.monotonic() > late.until:
                with suppress(ValueError):  # another thread has begun it
                    self._brought.remove(late)
                    late.end(self._waiting.locked(self._waiting.patience_seconds))

    def _commit_brought(self, mine: _Brought[Any] | None = None) -> int:
        """Commit as many waiting writes as one turn allows; requires the lock of the session.

        Returns their number. Raises BusyError; then all but `mine` keep waiting.
        """
        begun: list[_Brought[Any]] = []
        if self._is_outrun_possible:
            self._mirrors.forget_added()
        try:
            self._do_brought(begun)
        except BaseException as error:
            if isinstance(error, OutrunError):
                self._mirrors.take_back()
            elif begun:
                # Later writes have seen the rolled-back ones.
                self._mirrors.clear()
            if isinstance(error, Exception) and not isinstance(error, BusyError):
                for one in begun or self._all_brought():
                    one.end(error)
                return len(begun)
            self._brought.extendleft(reversed(begun))
            if mine is not None:
                self._brought.remove(mine)
            for one in begun:
                one.have_flushed(self._flush)
            raise
        if self._is_outrun_possible:
            self._mirrors.forget_added()
        for one in begun:
            one.end()
        return len(begun)

    def _do_brought(self, begun: list[_Brought[Any]]) -> None:
        """Run the waiting writes in one transaction; `begun` gets those begun, even on failure."""
        if (session := self._log.session) is None:
            for one in self._all_brought():
                begun.append(one)
                one.do(None)
            return
        with Transaction(session):
            end = steps.end_of_turn()
            begun.append(one := self._brought.popleft())
            if not self._brought:
                one.do(session)
                if one.error is not None:
                    raise one.error
                return
            self._do_apart(one, session)
            while self._brought and not steps.is_over(end):
                begun.append(one := self._brought.popleft())
                self._do_apart(one, session)

    def _do_apart(self, one: _Brought[Any], session: LogSession) -> None:
        """Run one write of several: its error undoes none of the others."""
        session.save()
        one.do(session)
        if one.error is not None:
            if not session.in_transaction:
                raise one.error  # all of it is rolled back
            session.undo_to_save()
        session.release()

    def _all_brought(self) -> list[_Brought[Any]]:
        """All waiting writes, to be woken at once."""
        brought = []
        while self._brought:
            brought.append(self._brought.popleft())
        return brought


def _inserted(
    session: LogSession, mirror: LogReader, new: Sequence[New], *, keeps_states: bool
) -> list[Entry]:
    """The entries, which are the table's last ones once the transaction is committed.

    All of them get one version: it shows all of them, and the previous version none.
    """
    told = mirror.view.told_beside([one.key for one in new] if keeps_states else ())
    # In the order of the entries, even if the clock was set back.
    at = max(time.time_ns() // 1000, mirror.last_at)
    places = session.insert(mirror.id, [_unplaced(one, told, at) for one in new])
    if places:
        session.change(mirror.id)
    return [
        Entry(place, one.how, one.key, one.row, len(one.payload or b""), told, at)
        for place, one in zip(places, new, strict=True)
    ]


def _amended(
    session: LogSession,
    part: Part,
    decide: Callable[[Amending], tuple[Sequence[New], T]],
) -> T:
    state = session.state(part)
    if state is None or state.version <= 0:
        raise NotKnownError
    new, outcome = decide(Amending(session, state.table, state.token))
    if new:
        # As `View.next_told`.
        told = state.version + 1 + (state.folding > state.folded)
        at = max(time.time_ns() // 1000, session.last_at(state.table))
        session.insert(state.table, [_unplaced(one, told, at) for one in new])
        session.change(state.table)
    return outcome


def _unplaced(one: New, told: int, at: int) -> Unplaced:
    return one.how, one.key, one.payload, told, at, checksum(one.how, one.key, one.payload)
