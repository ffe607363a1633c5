"""Transactions over several tables: collected writes become one entry of the log, or none."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Never, Protocol, TypeVar, cast

from lance_context_core._util.checks import shown
from lance_context_core._util.frozen import frozen
from lance_context_core._util.retry import Attempts
from lance_context_core.errors import ConflictError, ContextStoreError, InvalidRequestError
from lance_context_core.storage import put_if
from lance_context_core.storage.lance.arrow import Row
from lance_context_core.storage.locks import fencing
from lance_context_core.storage.optimistic import FIRST_PENDING
from lance_context_core.storage.task_boards import BehindError
from lance_context_core.storage.wal.entries import Entry, New, View, decoded
from lance_context_core.storage.wal.log import Part
from lance_context_core.storage.wal.policy import JournalPolicy
from lance_context_core.storage.wal.table_log import TableLog
from lance_context_core.storage.wal.transactions import Amending, NotKnownError

T = TypeVar("T")

Decide = Callable[[View], Sequence[New] | None]

_AGAIN = "nothing was written. Run the block of the transaction again"

_block: ContextVar["WriteTransaction | None"] = ContextVar("_block", default=None)
"""The transaction whose block this task, or its parent, runs in."""


@frozen
class _Write:
    """One write of a call, which runs again on the latest state at commit."""

    run: Callable[[], Awaitable[Any]]
    told: Callable[[Any], object]
    """The part of its result that the caller received."""
    outcome: object


@frozen
class _Change:
    """A change that is decided in the log's transaction."""

    part: Part
    decide: Callable[[Amending], tuple[Sequence[New], Any]]
    outcome: str
    """The result as the caller sees it."""
    entries: Sequence[Entry]


class WriteTransaction:
    """Several writes, all or nothing; reads through its tables show them before the commit."""

    def __init__(self, place: object, policy: JournalPolicy) -> None:
        """Starts empty; accepts as much at once as a flush under `policy` brings."""
        self.place = place
        self.policy = replace(policy, batch_rows=policy.rows, batch_bytes=policy.bytes)
        self._task: asyncio.Task[Any] | None = None
        self._before: WriteTransaction | None = None
        self._is_open = False
        self._refusal: BaseException | None = None
        self._tables: dict[str, Member] = {}
        self._writes: list[_Write] = []
        self._decisions: list[tuple[TableLog, Decide]] = []
        self._keeping: set[Part] = set()
        """The tables that keep the states of changed or removed rows."""
        self._pending: list[tuple[Part, Entry]] = []
        self._changes: list[_Change] = []
        self._fences: list[fencing.AnyFence] = []
        self._n_rows = self._n_bytes = 0
        self._user: dict[str, str] = {}

    # Its block

    def enter(self, task: asyncio.Task[Any] | None) -> None:
        """Begin the block, in a task or the caller's context. Raises if nested."""
        others = [*_around()]
        if any(one.place == self.place and one.is_here(task) for one in others):
            raise InvalidRequestError(
                "a transaction cannot begin inside another one of the same store: use the one that is "
                "open, or end it before"
            )
        self._before = next(iter(others), None)
        self._task, self._is_open = task, True
        _block.set(self)

    def leave(self) -> None:
        """End the block, and with it all writes through it."""
        self._is_open = False
        _block.set(self._before)

    def is_here(self, task: asyncio.Task[Any] | None) -> bool:
        """Whether the caller is in the block, in that task."""
        if not self._is_open:
            return False
        return self in _around() if self._task is None else task is self._task

    @property
    def before(self) -> "WriteTransaction | None":
        """The transaction of another store in whose block this one began."""
        return self._before

    def require_open(self) -> None:
        """Raise InvalidRequestError if the block has ended."""
        if not self._is_open:
            raise InvalidRequestError(
                "the transaction has ended: nothing was written. Begin another one with "
                "store.transaction(), and use its stores inside its block"
            )

    def require_here(self) -> None:
        """Raise InvalidRequestError unless the caller is in the block and in its task."""
        self.require_open()
        if not self.is_here(_current_task()):
            raise InvalidRequestError(
                "the transaction was begun by another task or thread, and is used by that one alone: "
                "nothing was written by this call. Begin one in each task"
            )

    # Its tables

    def join(self, name: str, table: "Member") -> None:
        """Add a table."""
        self._tables[name] = table

    def over(self, part: Part, view: View) -> View:
        """The log's view of a table, with the pending writes merged in."""
        mine = [entry for where, entry in self._pending if where == part]
        mine += [entry for one in self._changes if one.part == part for entry in one.entries]
        return _laid(view, mine)

    # Writing

    async def take(
        self,
        run: Callable[[], Awaitable[T | None]],
        told: Callable[[T], object],
        *,
        n_rows: int = 0,
    ) -> T | None:
        """Collect a write for `commit`; returns None if the log does not accept it.

        `told` returns the part of its result that the caller received: it must be the same at
        commit.
        """
        self.require_here()
        with self._whole():
            self._require_few(self._n_rows + n_rows, self._n_bytes)
            outcome = await run()
            if outcome is not None:
                self._writes.append(_Write(run, told, told(outcome)))
                self._note_fences()
            return outcome

    async def change(
        self, log: TableLog, decide: Callable[[Amending], tuple[Sequence[New], T]]
    ) -> tuple[bool, T]:
        """Try a change that is decided in the log's transaction; returns whether it joins.

        It does not if it writes nothing.
        """
        self.require_here()
        with self._whole():
            if any(one == log.part for one, _ in self._pending):
                self.refuse("a change of tasks, whose items it writes too, ")

            def attempt(at: Amending) -> tuple[Sequence[New], object]:
                raise _Tried(*decide(at))

            earlier = [(one.part, one.decide) for one in self._changes]
            try:
                await log.write_all((), _nothing, [*earlier, (log.part, attempt)])
            except _Tried as end:
                new, outcome = end.new, cast(T, end.outcome)
            except BehindError as error:
                if any(part == log.part for part, _ in earlier):
                    raise ConflictError(
                        f"others changed the tasks in another way meanwhile: {_AGAIN}"
                    ) from error
                raise
            else:
                raise NotKnownError
            if not new:
                return False, outcome
            first = sum(len(one.entries) for one in self._changes)
            entries = self._note(View(0, 0, (), 0), new, first=first)
            self._changes.append(_Change(log.part, decide, repr(outcome), entries))
            self._note_fences()
            return True, outcome

    def collect(
        self, log: TableLog, decide: Decide, view: View, new: Sequence[New], *, keeps_states: bool
    ) -> None:
        """Collect entries that `decide` made of that view, and makes again at commit.

        `keeps_states` as in `TableLog.write`.
        """
        if any(one.part == log.part for one in self._changes):
            self.refuse("a write to items whose tasks it changes, too,")
        entries = self._note(view, new, first=len(self._pending))
        self._decisions.append((log, decide))
        self._keeping |= {log.part} if keeps_states else set()
        self._pending += [(log.part, entry) for entry in entries]

    def refuse(self, what: str, instead: str = "Do it before or after the transaction") -> Never:
        """Raise InvalidRequestError, now and at the end of the block: it cannot take part."""
        error = InvalidRequestError(
            f"{what} cannot be part of a transaction: nothing was written. {instead}"
        )
        self._refusal = self._refusal or error
        raise error

    async def commit(self) -> None:
        """Write everything in one log transaction. Raises ConflictError if others prevent it.

        That is if a result or an expectation of a call in the block no longer holds.
        """
        if isinstance(self._refusal, put_if.Taken | put_if.Unexpected):
            raise ConflictError(
                f"a call inside the transaction did not find what it expected: {_AGAIN}"
            ) from self._refusal
        if self._refusal is not None:
            raise InvalidRequestError(
                f"a call inside the transaction failed, so that nothing was written: {self._refusal}"
            ) from self._refusal
        if not self._writes and not self._changes:
            return
        attempts = Attempts(f"others kept changing what a transaction writes: {_AGAIN}, or")
        for table in self._tables.values():
            await table.make_room()
        while True:
            attempts.begin()
            with ExitStack() as fences:
                for fence in self._fences:
                    fences.enter_context(fencing.fenced(fence))
                if await self._written():
                    return
            await self._prepare()

    # Helpers

    async def _prepare(self) -> None:
        """Run the writes again, on the current state."""
        self._decisions, self._pending = [], []
        self._n_rows = self._n_bytes = 0
        for write in self._writes:
            try:
                outcome = await write.run()
            except (put_if.Taken, put_if.Unexpected) as error:
                raise _overtaken() from error
            if outcome is None or write.told(outcome) != write.outcome:
                raise _overtaken()

    async def _written(self) -> bool:
        """Write the prepared entries, unless others changed their preconditions since."""
        logs = {log.part: log for log, _ in self._decisions}
        parts = [*logs]

        def decide(views: Sequence[View]) -> Sequence[Sequence[New]] | None:
            before = dict(zip(parts, views, strict=True))
            mine: dict[Part, list[Entry]] = {part: [] for part in parts}
            made: dict[Part, list[New]] = {part: [] for part in parts}
            n = 0
            for log, one in self._decisions:
                part = log.part
                new = one(_laid(before[part], mine[part]))
                if new is None:
                    return None
                mine[part] += _pending(before[part], new, first=n)
                made[part] += new
                n += len(new)
            return [made[part] for part in parts]

        changes = [(one.part, _as_told(one)) for one in self._changes]
        any_log = next(iter(self._tables.values())).log
        try:
            views = await any_log.write_all(parts, decide, changes, keeping=self._keeping)
        except NotKnownError:
            return False
        except (BehindError, put_if.Taken, put_if.Unexpected) as error:
            raise _overtaken() from error
        if views is None:
            return False
        for part, view in zip(parts, views, strict=True):
            self._tables[part.name].relieve(view, self.policy)
        return True

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Run a write: its failure fails the transaction, even if its caller continues."""
        n_pending, n_decisions = len(self._pending), len(self._decisions)
        try:
            yield
        except (NotKnownError, BehindError):
            # It needs preparation, and the call starts again.
            del self._pending[n_pending:], self._decisions[n_decisions:]
            raise
        except BaseException as error:
            self._refusal = self._refusal or error
            raise

    def _note(self, view: View, new: Sequence[New], *, first: int) -> list[Entry]:
        """The entries of rows to write. Raises InvalidRequestError if they cannot be written."""
        entries = _pending(view, new, first=first)
        self._n_rows += len(new)
        self._n_bytes += sum(entry.size for entry in entries)
        self._require_few(self._n_rows, self._n_bytes)
        for entry in entries:
            self._require_one_user(entry.row)
        return entries

    def _require_few(self, n_rows: int, n_bytes: int) -> None:
        if n_rows > self.policy.rows or n_bytes > self.policy.bytes:
            self.refuse(
                f"so much at once ({n_rows:,} rows, {n_bytes:,} bytes; at most {self.policy.rows:,} "
                f"rows and {self.policy.bytes:,} bytes)",
                "Write many rows before it, or open the store with a larger "
                "journal=JournalPolicy(rows=..., bytes=...)",
            )

    def _require_one_user(self, row: Row) -> None:
        for name in ("tenant", "user_id"):
            if (one := row.get(name)) is None:
                continue
            if self._user.setdefault(name, one) != one:
                self.refuse(
                    f"a row of {name}={shown(one)} beside one of {name}={shown(self._user[name])}",
                    "Begin one transaction for each: store.scope(user_id=...).transaction()",
                )

    def depend_on(self, fence: fencing.AnyFence) -> None:
        """Write only while that fence holds, too."""
        self._fences.append(fence)

    def _note_fences(self) -> None:
        self._fences += [one for one in fencing.at(self.place) if one not in self._fences]


def _around() -> Iterator[WriteTransaction]:
    """The transactions in whose blocks the caller is, innermost first."""
    one = _block.get()
    while one is not None:
        yield one
        one = one.before


class Member(Protocol):
    """A table in the transaction."""

    @property
    def log(self) -> TableLog:
        """The log's part for it."""

    async def make_room(self) -> None:
        """Flush the table if the log holds too much of it."""

    def relieve(self, view: View, policy: JournalPolicy) -> None:
        """As `Table.relieve`."""


class _Tried(Exception):  # noqa: N818 - no error: the end of an attempt, which is taken back
    """The entries and the result of a tried change."""

    def __init__(self, new: Sequence[New], outcome: object) -> None:
        super().__init__()
        self.new, self.outcome = new, outcome


def _current_task() -> "asyncio.Task[Any] | None":
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _nothing(_: Sequence[View]) -> Sequence[Sequence[New]]:
    return ()


def _as_told(change: _Change) -> Callable[[Amending], tuple[Sequence[New], object]]:
    """The same change. Raises ConflictError if its result differs from the caller's."""

    def work(at: Amending) -> tuple[Sequence[New], object]:
        try:
            new, outcome = change.decide(at)
        except ContextStoreError as error:
            raise _overtaken() from error
        if repr(outcome) != change.outcome:
            raise _overtaken()
        return new, outcome

    return work


def _overtaken() -> ConflictError:
    return ConflictError(
        f"others changed what a call of the transaction has returned or expected: {_AGAIN}"
    )


def _laid(view: View, mine: Sequence[Entry]) -> View:
    if not mine:
        return view
    size = view.size + sum(entry.size for entry in mine)
    return replace(view, entries=[*view.entries, *mine], size=size)


def _pending(view: View, new: Sequence[New], *, first: int) -> list[Entry]:
    """The pending entries, after those of others and `first` of the same transaction."""
    at = time.time_ns() // 1000
    return [
        Entry(
            FIRST_PENDING + first + n,
            one.how,
            one.key,
            decoded(one.payload) if one.payload and not one.row else one.row,
            len(one.payload or b""),
            view.next_told,
            at,
        )
        for n, one in enumerate(new)
    ]
