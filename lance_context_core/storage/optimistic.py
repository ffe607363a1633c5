"""Optimistic transactions: writes by key, on top of log and table, into the log."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from lance_context_core._util.retry import Attempts
from lance_context_core.storage import merge_on_read, put_if
from lance_context_core.storage.flush import Flushing, is_overfull
from lance_context_core.storage.lance import reads
from lance_context_core.storage.lance.arrow import Row
from lance_context_core.storage.lance.schema import KEY, VECTOR
from lance_context_core.storage.lance.table_handle import TableHandle
from lance_context_core.storage.names import succeeds
from lance_context_core.storage.preconditions import NO_KEYS
from lance_context_core.storage.row_cache import RowCache
from lance_context_core.storage.sql.predicates import Clause, UnsureError, in_list
from lance_context_core.storage.wal.entries import How, Moment, New, View, size_of
from lance_context_core.storage.wal.policy import JournalPolicy
from lance_context_core.storage.wal.table_log import TableLog
from lance_context_core.storage.write_batch import (
    NOT_AS_EXPECTED,
    BatchResult,
    Mode,
    Observed,
    Tail,
    WriteBatch,
)

_COLUMNS = (KEY, "expires_at", "revision")

FIRST_PENDING = 1 << 50
"""The first position of entries that their transaction has not written yet."""


class UnfitError(Exception):
    """The batch is too large, or unfit for the table: it needs a direct commit."""


class OptimisticTransaction:
    """One write: the rows it has read, and its entries. A table for `put_if`.

    It locks nothing: the write is refused if others have changed its keys since they were read.
    """

    def __init__(
        self,
        access: TableHandle,
        ledger: TableLog,
        remembered: RowCache,
        know: Callable[[], Awaitable[object]],
        fits: Callable[[View], Awaitable[bool]],
        *,
        most_bytes: int,
        take_turn: Callable[[], Awaitable[None]],
        keeps_states: bool = True,
        observed: Observed | None = None,
    ) -> None:
        """Writes `most_bytes` through `ledger` at most; `keeps_states` as in `TableLog.write`.

        The first try uses the `observed` rows; the next one reads again.

        Before a retry, once others were faster, awaits `take_turn`.

        `know` notes the table in the log, `fits` says whether the rows fit the table as it was
        then.
        """
        self.label = access.label
        self.view: View = View(0, 0, (), 0)
        """The log as last read."""
        self.written: View | None = None
        """The log after the last write; None before one."""
        self._access = access
        self._ledger = ledger
        self._remembered = remembered
        self._know = know
        self._fits = fits
        self._most_bytes = most_bytes
        self._take_turn = take_turn
        self._has_turn = False
        self._observed = observed if observed is not None and observed.view is not None else None
        self._keeps_states = keeps_states and access.spec.tells_versions
        self._beneath: tuple[object, list[Row]] | None = None
        self._asked: frozenset[str] | None = None
        """The keys that were read since the last try; None before a read."""
        self._there: dict[str, Row] = {}

    async def find(self, where: str | None, *, columns: Sequence[str]) -> list[Row]:
        """The matching rows. Raises UnfitError, and as `fits`."""
        return await self._access.follow(lambda: self._find(where, columns))

    async def _find(self, where: str | None, columns: Sequence[str]) -> list[Row]:
        observed, self._observed = self._observed, None
        if observed is not None and (view := observed.view) is not None:
            if not await self._fits(view):
                raise UnfitError
            self.view, self._there = view, {row[KEY]: row for row in observed.rows}
            self._asked = frozenset(self._there)
            return [*observed.rows]
        while (view := await self._ledger.view()) is None or not view.version:
            await self._know()
        if not await self._fits(view):
            raise UnfitError
        self.view, keys = view, merge_on_read.keys_of(where)
        rows = await self._look_up(view.of(keys), where, columns)
        self._asked = keys or frozenset()
        self._there = {row[KEY]: row for row in rows}
        return rows

    async def count(self, where: str) -> int:
        """The number of matching rows, as last read."""
        return await merge_on_read.count(self._access, self.view, where)

    async def look(self, keys: Collection[str]) -> dict[str, Row]:
        """Read the rows of these keys."""
        if self._observed is not None:
            await self._access.follow(lambda: self._look_beside(keys))
        elif self._asked is None or not self._asked.issuperset(keys):
            await self.find(in_list(KEY, keys), columns=_COLUMNS)
        return self._there

    async def _look_beside(self, keys: Collection[str]) -> None:
        """Read these keys' other rows besides the observed ones, at the same moment."""
        await self._find(None, _COLUMNS)
        asked = self._asked or frozenset()
        if others := frozenset(keys) - asked:
            where = in_list(KEY, others)
            rows = await self._look_up(self.view.of(others), where, _COLUMNS)
            self._there |= {row[KEY]: row for row in rows}
            self._asked = asked | others

    async def commit(
        self,
        new: Sequence[New],
        watched: Collection[str] = (),
        unless: Clause | None = None,
        *,
        takes_later: bool = False,
    ) -> View | None:
        """Write the entries unless other writers changed their keys since; else returns None.

        The same holds for the `watched` keys. Other writers' new rows that match `unless` also
        refuse it; with `takes_later` they are deleted instead. Raises UnfitError if the entries are
        too large.
        """
        if size_of(new) > self._most_bytes:
            raise UnfitError
        before, keys = self.view, {*watched, *(one.key for one in new)}
        self._asked = None

        def decide(view: View) -> Sequence[New] | None:
            is_same = view is before or (
                view.moment == before.moment and view.places(keys) == before.places(keys)
            )
            if not is_same or unless is None:
                return new if is_same else None
            later = _later(view, before, unless)
            if later and not takes_later:
                return None
            return [*new, *map(New.removing, later)]

        self.written = await self._ledger.write(decide, keeps_states=self._keeps_states)
        if self.written is None and not self._has_turn:
            await self._take_turn()
            self._has_turn = True
        return self.written

    async def write(self, batch: WriteBatch) -> BatchResult:
        """As `Table.write`, for rows in memory. Raises UnfitError.

        Expected last rows are checked on the observed rows, if any.
        """
        expect, until = batch.expect or {}, _until(batch)
        keys = () if batch.mode is Mode.APPEND else batch.keys
        asked = [*dict.fromkeys([*expect, *batch.deletes, *keys])]
        attempts = Attempts(f"the same rows of {self.label} kept being changed by others")
        while True:
            attempts.begin()
            is_observed = self._observed is not None
            there = await self.look(asked)
            changed = {key for key, seen in expect.items() if _revision(there.get(key)) != seen}
            if changed and batch.is_whole:
                return NOT_AS_EXPECTED
            gone = [key for key in batch.deletes if key in there and key not in changed]
            if until is not None and not is_observed:
                last = await self._last(until, batch.tail)
                if batch.tail is None:
                    gone = [*dict.fromkeys([*gone, *last])]
                elif not batch.tail.is_of(last):
                    return NOT_AS_EXPECTED
            rows = [
                row for row in batch.rows if row[KEY] not in changed and _takes(batch, row, there)
            ]
            done = _result(batch, rows, gone, there)
            new = [*map(New.removing, gone), *(self._putting(batch.mode, row) for row in rows)]
            if not new and not expect:
                return done._replace(version=self.view.told)
            written = await self.commit(new, expect, until, takes_later=batch.tail is None)
            if written is not None:
                return done._replace(version=written.told)
            if expect and batch.is_whole:
                return NOT_AS_EXPECTED

    # Helpers

    def _putting(self, mode: Mode, row: Row) -> New:
        """The entry of a row: replaces the row seen under its key, or is appended."""
        is_behind = mode is Mode.APPEND or row[KEY] not in self._there
        return New.of(How.APPEND if is_behind else How.PUT, row, self._access.spec.columns)

    async def _last(self, where: Clause, tail: Tail | None) -> list[str]:
        """The keys of the last matching rows, in order: enough to compare with the tail."""
        last = await merge_on_read.slice_of(
            self._access,
            self.view,
            where,
            columns=[KEY],
            offset=0,
            limit=None,
            last=None if tail is None else tail.n_looked_at,
            nothing=NO_KEYS,
        )
        keys: list[str] = last[KEY].to_pylist()
        return keys

    async def _look_up(self, view: View, where: str | None, columns: Sequence[str]) -> list[Row]:
        """The matching rows of the table and the log.

        Reads the table at that version once, however often others are faster: if many want the same
        key, the next try ends before another writer's turn.
        """
        mine = merge_on_read.as_rows(merge_on_read.matching(view, where), columns)
        if await merge_on_read.is_answered(view, where, self._access.presence):
            return mine
        if isinstance(where, Clause):
            known = self._remembered.find(where, columns, at=self.view)
            if known is not None:
                return known
        asked = view.moment, where, tuple(columns)
        if self._beneath is None or self._beneath[0] != asked:
            found = await self._access.read_at(
                view.moment, "read {}", lambda handle: reads.scan(handle, where, columns)
            )
            self._beneath = asked, found.drop_columns(["_rowid"]).to_pylist()
        return [row for row in self._beneath[1] if row[KEY] not in view.replaced] + mine


def _later(view: View, before: View, where: Clause) -> list[str]:
    """The keys of matching rows that others have written since.

    Raises UnfitError if only the engine can tell.
    """
    # Entries of the same transaction follow those of all others.
    keys = {one.key for one in view.entries if before.last < one.seq < FIRST_PENDING}
    there = {key: one for key, one in view.last_of(keys).items() if one.how is not How.REMOVE}
    if not there:
        return []
    if (holds := where.holds) is None:
        raise UnfitError
    try:
        return [key for key, one in there.items() if holds(one.row)]
    except UnsureError as error:
        raise UnfitError from error


def _until(batch: WriteBatch) -> Clause | None:
    """The condition of concurrent rows that refuse the batch, or that it deletes."""
    return batch.where if batch.tail is None else batch.tail.where


def _takes(batch: WriteBatch, row: Row, there: Mapping[str, Row]) -> bool:
    """Whether to write a row over the existing one. Raises UnfitError if unknown."""
    key, mode = row[KEY], batch.mode
    if mode is Mode.APPEND or (batch.expect is not None and key in batch.expect):
        return True
    if (old := there.get(key)) is None:
        return mode is not Mode.REPLACE
    if mode is not Mode.INSERT:
        return succeeds(row["revision"], old["revision"])
    if old.get("expires_at") is not None:
        raise UnfitError  # it may have expired, and is then replaced
    return False


def _result(
    batch: WriteBatch, rows: Sequence[Row], gone: Sequence[str], there: Mapping[str, Row]
) -> BatchResult:
    """The result of a batch that writes these rows and deletes those keys."""
    written = {row[KEY] for row in rows}
    lost = {key for key in batch.keys if key not in written}
    n_replaced = 0 if batch.mode is Mode.APPEND else len(written & there.keys())
    is_done = not lost and set(gone) >= there.keys() & set(batch.deletes)
    return BatchResult(is_done, lost, n_replaced, len(gone))


def _revision(row: Row | None) -> int | None:
    return None if row is None else row["revision"]


# Small keyed writes in one transaction that reads the rows they replace, also in the caller's
# thread.
#
# Nothing here belongs to an event loop. Decisions are made in the transaction, from the log at that
# moment; all other data that is read never changes, or has its own lock.

_FEW_ROWS = 8
"""The maximum number of keys that are searched in the entries while others wait for the log."""


class Known(NamedTuple):
    """The known properties of a version of the table."""

    moment: Moment
    vectors: pa.Field | None
    """Its column of vectors, if it has one."""


class Sighted:
    """Such writes of one table; safe to share between threads and loops."""

    def __init__(
        self, access: TableHandle, ledger: TableLog, folding: Flushing, remembered: RowCache
    ) -> None:
        """Writes to `ledger` for the table of `access`; `remembered` caches some of its rows."""
        self._access = access
        self._ledger = ledger
        self._folding = folding
        self._remembered = remembered

    async def write(
        self, rows: Sequence[Row], known: Known | None, policy: JournalPolicy
    ) -> BatchResult | None:
        """Per row, whether its key held one; None if unknown without disk access.

        The rows fit the table if it is as `known`. Raises `put_if.Taken` and `put_if.Unexpected`.
        """
        if known is None or not _are_fit(rows):
            return None
        work = _Work(self._access, rows, known, policy)
        written = await self._ledger.write(work.decide)
        if written is None and self._may_know(work):
            written = await self._ledger.write(work.decide)
        if written is None:
            return None
        await self._folding.relieve(written, policy)
        return BatchResult(existed=work.existed, token=written.token)

    def write_now(
        self, rows: Sequence[Row], known: Known | None, policy: JournalPolicy | None
    ) -> BatchResult | None:
        """As `write`, in any thread; also None instead of waiting."""
        if policy is None or known is None or not _are_fit(rows):
            return None
        work = _Work(self._access, rows, known, policy)
        written = self._ledger.write_now(work.decide)
        if written is None and self._may_know(work):
            written = self._ledger.write_now(work.decide)
        if written is None:
            return None
        self._folding.relieve_later(written, policy)
        return BatchResult(existed=work.existed, token=written.token)

    def _may_know(self, work: "_Work") -> bool:
        """Whether the cache has the table's rows of the keys on which a write depends."""
        if not work.missed:
            return False
        seen = self._remembered.looked_up(work.missed)
        work.seen = seen or work.seen
        return seen is not None


class _Work:
    """One write."""

    __slots__ = ("_access", "_keys", "_known", "_policy", "_rows", "existed", "missed", "seen")

    def __init__(
        self, access: TableHandle, rows: Sequence[Row], known: Known, policy: JournalPolicy
    ) -> None:
        self._access = access
        self._rows = rows
        self._keys: Collection[str] = {row[KEY] for row in rows}
        self._known = known
        self._policy = policy
        self.existed: list[bool] = []
        """For each row, whether its key held one, once it is decided."""
        self.missed: Collection[str] = ()
        """The keys whose rows in the table are needed and unknown."""
        self.seen: tuple[Moment, Mapping[str, Sequence[Row]]] = _NOTHING_SEEN
        """The rows of some keys, at a version of the table."""

    def decide(self, view: View) -> Sequence[New] | None:
        """The entries; None if too few rows are known, or a flush should come first."""
        self.missed = ()
        if view.moment != self._known.moment or is_overfull(view, self._policy):
            return None
        last = view.last_of(self._keys)
        there = {key: None if one.how is How.REMOVE else one.row for key, one in last.items()}
        if len(there) < len(self._keys) and not self._is_told(view.moment, there):
            return None
        self.existed.clear()
        new = [*self._entries(there, last)]
        return new if size_of(new) <= self._policy.batch_bytes else None

    def _is_told(self, moment: Moment, there: dict[str, Row | None]) -> bool:
        """Whether the table's rows of keys without entries are known; adds them to `there`."""
        others = self._keys - there.keys()
        if self._access.presence.lacks_now(moment, KEY, others):
            return True
        when, rows = self.seen
        # The log still has its entries of that time, or another version contains them.
        if when != moment or any(len(rows.get(key, _SEVERAL)) > 1 for key in others):
            self.missed = others
            return False
        there |= {key: rows[key][0] for key in others if rows[key]}
        return True

    def _entries(self, there: Mapping[str, Row | None], last: Collection[str]) -> Iterable[New]:
        """The entries of the rows, on top of `there`; also returns which rows existed."""
        for row in self._rows:
            key = row[KEY]
            old = there.get(key)
            is_there, settled = put_if.outcome_of(row, old)
            self.existed.append(is_there)
            if settled is not None:
                how = How.APPEND if old is None and key not in last else How.PUT
                yield New.of(how, settled, self._access.spec.columns)
            elif old is not None and row[put_if.HOW] == put_if.REMOVE:
                yield New.removing(key)


_NOTHING_SEEN: tuple[Moment, Mapping[str, Sequence[Row]]] = (Moment(-1, 0), {})
_SEVERAL: Sequence[Row] = ({}, {})


def _are_fit(rows: Sequence[Row]) -> bool:
    return len(rows) <= _FEW_ROWS and all(row.get(VECTOR) is None for row in rows)
