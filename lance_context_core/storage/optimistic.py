"""Rows written by key on top of what is there, the journal's and the table's, into the journal."""

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
"""From here on are the places of entries that their transaction has not written yet."""


class UnfitError(Exception):
    """What is to be written is too large, or does not fit the table: it is to be a commit of its own."""


class OptimisticTransaction:
    """One write: what it has seen, and what it makes of it. `put_if` writes through it as through a table.

    Nobody is kept from anything meanwhile: what is written is refused if others have changed what was
    seen of its keys.
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
        """Write through `ledger`, which takes so many bytes at once; `keeps_states` as `TableLog.write`.

        The first try is on top of what was `observed`; the next one reads anew.

        `take_turn` is waited for once others were faster, before it is tried again.

        `know` makes the table known to it, `fits` says whether what is to be written fits the table
        as it was then.
        """
        self.label = access.label
        self.view: View = View(0, 0, (), 0)
        """What was seen last of the journal."""
        self.written: View | None = None
        """The journal after what was written last; None if nothing was."""
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
        """The keys that were looked for since the last try; None if nothing was."""
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
        """How many rows match, of what was seen last."""
        return await merge_on_read.count(self._access, self.view, where)

    async def look(self, keys: Collection[str]) -> dict[str, Row]:
        """What there is of these keys."""
        if self._observed is not None:
            await self._access.follow(lambda: self._look_beside(keys))
        elif self._asked is None or not self._asked.issuperset(keys):
            await self.find(in_list(KEY, keys), columns=_COLUMNS)
        return self._there

    async def _look_beside(self, keys: Collection[str]) -> None:
        """Know what there is of these keys beside the rows that were observed, at the same moment."""
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
        """Write the entries, if no other writer has changed their keys since; else None.

        The same holds for the `watched` keys. Rows that others have written since and that match `unless`
        refuse it, too; if it `takes_later` ones they are removed instead. Raises UnfitError if they are too large.
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
        """As `Table.write`, of rows in memory. Raises UnfitError.

        What has to be the end is that of what was observed, if anything was.
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
                elif last != [*batch.tail.keys]:
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
        """The entry of a row: in the place of what was seen of its key, or behind all others."""
        is_behind = mode is Mode.APPEND or row[KEY] not in self._there
        return New.of(How.APPEND if is_behind else How.PUT, row, self._access.spec.columns)

    async def _last(self, where: Clause, tail: Tail | None) -> list[str]:
        """The keys of the rows that match, in order: so many of the last as tell whether that is the tail."""
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
        """The matching rows of the table and the journal.

        What the table has at that version is looked up once, however often others are faster: where
        many want the same key, the next try is done before anybody else has a turn.
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
    """The keys of the rows there that match, and that others have written since.

    Raises UnfitError if only the engine can tell.
    """
    # What the same transaction wrote is behind all that others did.
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
    """The condition of rows that refuse the batch if they are added meanwhile, or that are removed then."""
    return batch.where if batch.tail is None else batch.tail.where


def _takes(batch: WriteBatch, row: Row, there: Mapping[str, Row]) -> bool:
    """Whether a row is written, by what is there of its key. Raises UnfitError if only a commit can tell."""
    key, mode = row[KEY], batch.mode
    if mode is Mode.APPEND or (batch.expect is not None and key in batch.expect):
        return True
    if (old := there.get(key)) is None:
        return mode is not Mode.REPLACE
    if mode is not Mode.INSERT:
        return succeeds(row["revision"], old["revision"])
    if old.get("expires_at") is not None:
        raise UnfitError  # It may have expired, and then makes way.
    return False


def _result(
    batch: WriteBatch, rows: Sequence[Row], gone: Sequence[str], there: Mapping[str, Row]
) -> BatchResult:
    """What became of a batch of which these rows are written, and those keys removed."""
    written = {row[KEY] for row in rows}
    lost = {key for key in batch.keys if key not in written}
    n_replaced = 0 if batch.mode is Mode.APPEND else len(written & there.keys())
    is_done = not lost and set(gone) >= there.keys() & set(batch.deletes)
    return BatchResult(is_done, lost, n_replaced, len(gone))


def _revision(row: Row | None) -> int | None:
    return None if row is None else row["revision"]


# Small keyed writes in one transaction that reads what they replace: also in the caller's own thread.
#
# Nothing here belongs to one event loop. What is decided is decided in the transaction, of what the
# journal says then; all else that is looked at never changes, or has a lock of its own.

_FEW_ROWS = 8
"""So many are looked for among the entries while others wait for the journal."""


class Known(NamedTuple):
    """What was seen of a version of the table."""

    moment: Moment
    vectors: pa.Field | None
    """Its column of vectors, if it has one."""


class Sighted:
    """Such writes of one table; safe to share between threads and loops."""

    def __init__(
        self, access: TableHandle, ledger: TableLog, folding: Flushing, remembered: RowCache
    ) -> None:
        """Write into `ledger` what the table of `access` takes; some of its rows are `remembered`."""
        self._access = access
        self._ledger = ledger
        self._folding = folding
        self._remembered = remembered

    async def write(
        self, rows: Sequence[Row], known: Known | None, policy: JournalPolicy
    ) -> BatchResult | None:
        """For each row whether its key held one; None if that cannot be told without a look.

        The table is as `known` to take the rows. Raises `put_if.Taken` and `put_if.Unexpected`.
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
        """As `write`, in any thread; None, too, where one would have to wait."""
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
        """Whether it is remembered what the table has of the keys on which a write depends."""
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
        """For each row whether its key held one, once it is decided."""
        self.missed: Collection[str] = ()
        """The keys of which it would have to be known what the table has."""
        self.seen: tuple[Moment, Mapping[str, Sequence[Row]]] = _NOTHING_SEEN
        """The rows of some keys, at a version of the table."""

    def decide(self, view: View) -> Sequence[New] | None:
        """The entries; None if they cannot be told of what is known, or it is to be folded before."""
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
        """Whether it is known what the table has of the keys that have no entry; it is put `there`."""
        others = self._keys - there.keys()
        if self._access.presence.lacks_now(moment, KEY, others):
            return True
        when, rows = self.seen
        # What the journal had of a key then, it has still, or another version holds it.
        if when != moment or any(len(rows.get(key, _SEVERAL)) > 1 for key in others):
            self.missed = others
            return False
        there |= {key: rows[key][0] for key in others if rows[key]}
        return True

    def _entries(self, there: Mapping[str, Row | None], last: Collection[str]) -> Iterable[New]:
        """The entries of the rows, on top of what is `there`; says which existed."""
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
