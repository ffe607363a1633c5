"""Small writes of a table through the log: acknowledged there, and flushed with many others."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from lance_context_core._loop import WOULD_BLOCK
from lance_context_core._util.crowd import FairLock, SharedCall
from lance_context_core._util.retry import Attempts
from lance_context_core.storage import merge_on_read, put_if
from lance_context_core.storage.flush import Flushing
from lance_context_core.storage.lance import reads
from lance_context_core.storage.lance.arrow import Row
from lance_context_core.storage.lance.schema import KEY, VECTOR, vector_model
from lance_context_core.storage.lance.table_handle import TableHandle
from lance_context_core.storage.lance.vectors import Vectors, vectors_of
from lance_context_core.storage.optimistic import (
    Known,
    OptimisticTransaction,
    Sighted,
    UnfitError,
)
from lance_context_core.storage.row_cache import RowCache
from lance_context_core.storage.sql.predicates import Clause, UnsureError, in_list
from lance_context_core.storage.wal.entries import How, Moment, New, View, size_of
from lance_context_core.storage.wal.policy import JournalPolicy
from lance_context_core.storage.wal.table_log import TableLog
from lance_context_core.storage.wal.transactions import NotKnownError
from lance_context_core.storage.write_batch import BatchResult, Decide, Mode, WriteBatch

_LOOK_HOW_FULL_EVERY = 64
"""One of this many writes that read no entries checks how many there are."""

_DECIDED_FOLDS = 4
"""The factor by which a flush is larger for a table whose writers read no entries: a flush costs
per commit, and waiting entries cost no read."""


class WalWrites:
    """The small writes of one table; returns None for other writes."""

    def __init__(
        self,
        access: TableHandle,
        ledger: TableLog,
        *,
        vectors: Vectors,
        folding: Flushing,
        remembered: RowCache,
    ) -> None:
        """Writes to `ledger` for the table of `access`."""
        self._sighted = Sighted(access, ledger, folding, remembered)
        self._access = access
        self._ledger = ledger
        self._vectors = vectors
        self._folding = folding
        self._remembered = remembered
        self._n_decided = 0
        self._grown: _Grown | None = None
        self._known: Known | None = None
        self._looks = SharedCall[Known]()
        self._overtaken = FairLock()
        """The writers that lost a race, one at a time."""
        self._policy: JournalPolicy | None = None
        """The log's policy; None if not read yet, or if the log accepts nothing."""

    async def write(self, batch: WriteBatch) -> BatchResult | None:
        """As `Table.write`; None if it should be a commit of its own."""
        if batch.bulk is not None:
            return None
        rows = batch.rows
        is_plain = batch.expect is None and batch.where is None and not batch.deletes
        if batch.mode is not Mode.APPEND or not rows or not is_plain:
            return await self._write(batch)
        policy = await self._policy_for(len(rows))
        if policy is None or not await self._fit(rows):
            return None
        new = [New.of(How.APPEND, row, self._access.spec.columns) for row in rows]
        if size_of(new) > policy.batch_bytes:
            return None
        since: list[int] = []

        def grow(view: View | None) -> None:
            if view is not None:
                grown, before = self._grown, view.token - 1
                first = before if grown is None or not grown.has_only_grown(view) else grown.since
                self._grown = _Grown(first, view.token, view.moment, view.last)
                since.append(first)

        while (
            view := await self._ledger.write(self._if_known(known := self._known, rows, new), grow)
        ) is None:
            if self._known is known:
                self._known = None
            if not await self._fit(rows):
                return None
        await self._folding.relieve(view, policy)
        # In a transaction nothing is written yet.
        return BatchResult(
            version=view.told,
            token=view.token,
            n_rows=len(rows),
            grows_since=since[0] if since else view.token,
        )

    def write_now(self, batch: WriteBatch) -> BatchResult | None:
        """As `write`, in any thread, without a wait; also None instead of waiting.

        Only for writes that need not read the table: items, and decisions in the transaction.
        """
        if batch.decide is not None:
            return self._decided_now(batch.decide)
        if batch.mode is Mode.ITEM:
            return self._sighted.write_now(batch.rows, self._known, self._policy)
        return None

    async def take(
        self, row_ids: Sequence[int] | np.ndarray, *, columns: Sequence[str], nothing: pa.Table
    ) -> pa.Table:
        """The rows with these ids, some of them the log's, in their order."""
        ids = [int(row_id) for row_id in row_ids]
        below = [row_id for row_id in ids if row_id < merge_on_read.FIRST_ID]
        above = [
            row_id - merge_on_read.FIRST_ID for row_id in ids if row_id >= merge_on_read.FIRST_ID
        ]
        rows = await self._take(below, columns, nothing) if below else nothing
        if not above:
            return rows
        known = await self._ledger.recall(above)
        rows = merge_on_read.laid_over(rows, known.entries)
        if known.keys:
            rows = pa.concat_tables([rows, await self._folded(known.keys, rows.schema)])
        return merge_on_read.in_order(rows, ids)

    def relieve(self, view: View, policy: JournalPolicy) -> None:
        """Schedule a flush if the log is full, or once writes stop; waits for nothing."""
        self._folding.relieve_later(view, policy)

    # Helpers

    async def _write(self, batch: WriteBatch) -> BatchResult | None:
        """As `write`, for all but plain appends."""
        if batch.decide is not None:
            return await self._decided(batch.decide)
        if batch.mode is Mode.ITEM:
            return await self._write_items(batch)
        if batch.where is not None and batch.expect is None and not batch.rows:
            return await self._change(batch, batch.where)
        return await self._written(batch, lambda write: write.write(batch))

    async def _write_items(self, batch: WriteBatch) -> BatchResult | None:
        rows = batch.rows
        policy = await self._policy_for(len(rows))
        if policy and (done := await self._sighted.write(rows, self._known, policy)) is not None:
            return done

        async def put(write: OptimisticTransaction) -> BatchResult:
            return BatchResult(existed=await put_if.write_as_expected(write, rows, is_watched=True))

        return await self._written(batch, put)

    async def _decided(self, decide: Decide) -> BatchResult:
        """As `TableLog.amend`; also raises NotKnownError if the log accepts nothing."""
        self._access.require_writable()
        if (policy := await self._policy_for(0)) is None:
            raise NotKnownError
        self._n_decided += 1
        if self._n_decided % _LOOK_HOW_FULL_EVERY:
            self._folding.watch(policy)
        else:
            many = replace(
                policy, rows=policy.rows * _DECIDED_FOLDS, bytes=policy.bytes * _DECIDED_FOLDS
            )
            await self._folding.relieve_counted(*await self._ledger.fullness(), many)
        # No await follows the commit: a cancelled caller has written nothing.
        try:
            return BatchResult(outcome=await self._ledger.amend(decide))
        except NotKnownError:
            self._known = await self._look()
            return BatchResult(outcome=await self._ledger.amend(decide))

    def _decided_now(self, decide: Decide) -> BatchResult | None:
        self._access.require_writable()
        policy = self._policy
        if policy is None or (self._n_decided + 1) % _LOOK_HOW_FULL_EVERY == 0:
            return None
        try:
            outcome = self._ledger.amend_now(decide)
        except NotKnownError:
            return None
        if outcome is WOULD_BLOCK:
            return None
        self._n_decided += 1
        self._folding.watch(policy)
        return BatchResult(outcome=outcome)

    async def _folded(self, places: Mapping[str, int], schema: pa.Schema) -> pa.Table:
        """The rows of these keys, flushed by now, with their ids from before the flush."""
        where = in_list(KEY, places)
        asked = [*(name for name in schema.names if name not in (KEY, "_rowid")), KEY]
        rows = await self._access.look(
            "read {}", lambda handle: reads.scan(handle, where, asked), None
        )
        if rows is None:
            return schema.empty_table()
        ids = [merge_on_read.FIRST_ID + places[key] for key in rows[KEY].to_pylist()]
        column = rows.column_names.index("_rowid")
        rows = rows.set_column(column, "_rowid", pa.array(ids, pa.uint64()))
        return rows.select(schema.names).cast(schema)

    async def _take(
        self, ids: Sequence[int], columns: Sequence[str], nothing: pa.Table
    ) -> pa.Table:
        """The rows of the table with these ids, without a flush."""

        async def read(handle: Any) -> pa.Table:
            return await reads.take(handle, ids, columns)

        async def over(view: View) -> pa.Table:
            rows: pa.Table = await self._access.read_at(view.moment, "read {}", read)
            return rows

        found = await self._access.over(None, over)
        return await self._access.look("read {}", read, nothing) if found is None else found

    async def _change(self, batch: WriteBatch, where: Clause) -> BatchResult | None:
        """Delete the matching rows, or set columns of them.

        Also None if no row matches: another program may have written some to the table itself.
        """
        self._access.require_writable()
        if (seen := batch.observed) is not None and seen.view is not None and not seen.rows:
            return BatchResult()
        if (policy := await self._policy_for(0)) is None or where.holds is None:
            return None
        view = await self._ledger.view()
        if (view is None or not view.version) and await self._access.peek() is None:
            return None
        async with AsyncExitStack() as turn:
            write = self._transaction(batch, policy, turn)
            return await self._changed(write, where, batch.values, policy)

    async def _changed(
        self,
        write: OptimisticTransaction,
        where: Clause,
        values: Row | None,
        policy: JournalPolicy,
    ) -> BatchResult | None:
        spec = self._access.spec
        columns = [KEY] if values is None else [*spec.schema.names, VECTOR]
        attempts = Attempts(f"rows of {self._access.label} kept being changed by others")
        while True:
            attempts.begin()
            try:
                rows = await write.find(where, columns=columns)
            except UnsureError:
                return None
            keys = frozenset(row[KEY] for row in rows)
            if not 0 < len(keys) <= policy.batch_rows or not await self._are_all(
                write, keys, len(rows)
            ):
                return None
            if values is None:
                new = [New.removing(row[KEY]) for row in rows]
            else:
                new = [New.of(How.PUT, {**row, **values}, spec.columns) for row in rows]
            try:
                written = await write.commit(new)
            except UnfitError:
                return None
            if written is not None:
                await self._folding.relieve(written, policy)
                n = len(new)
                return BatchResult(n_removed=n) if values is None else BatchResult(n_replaced=n)

    async def _are_all(
        self, write: OptimisticTransaction, keys: Collection[str], n_rows: int
    ) -> bool:
        """Whether that many rows are all rows of these keys, by which they are written."""
        if not self._access.spec.repeats_keys or not keys:
            return len(keys) == n_rows
        return n_rows == len(keys) == await write.count(in_list(KEY, keys))

    async def _written(
        self,
        batch: WriteBatch,
        do: Callable[[OptimisticTransaction], Awaitable[BatchResult]],
    ) -> BatchResult | None:
        """The result of `do`, which writes the batch; None if it needs a direct commit.

        `do` may raise UnfitError to say so.
        """
        if (policy := await self._policy_for(batch.n_rows)) is None:
            return None
        async with AsyncExitStack() as turn:
            write = self._transaction(batch, policy, turn)
            try:
                done = await do(write)
            except UnfitError:
                return None
        if write.written is not None:
            await self._folding.relieve(write.written, policy)
        return done

    def _transaction(
        self, batch: WriteBatch, policy: JournalPolicy, turn: AsyncExitStack
    ) -> OptimisticTransaction:
        """A transaction that queues after a lost race, until the end of `turn`.

        If many change the same rows concurrently, they succeed one at a time.
        """

        async def take_turn() -> None:
            await turn.enter_async_context(self._overtaken.held())

        async def fit(view: View) -> bool:
            return await self._fit(batch.rows, at=view.moment)

        return OptimisticTransaction(
            self._access,
            self._ledger,
            self._remembered,
            self._look,
            fit,
            most_bytes=policy.batch_bytes,
            take_turn=take_turn,
            keeps_states=batch.keeps_states,
            observed=batch.observed,
        )

    async def _policy_for(self, n_rows: int) -> JournalPolicy | None:
        """The log's policy; None if it does not accept that many rows."""
        if self._policy is None:
            await self._access.mend()
            self._policy = await self._ledger.policy()
        policy = self._policy
        return policy if policy is not None and n_rows <= policy.batch_rows else None

    def _if_known(
        self, known: Known | None, rows: Sequence[Row], new: Sequence[New]
    ) -> Callable[[View], Sequence[New] | None]:
        """Write `new` if the table is as `known`, against which the rows were checked.

        Rows without vectors fit each version of the table: a flush requires no new check.
        """
        is_plain = not vectors_of(rows)

        def decide(view: View) -> Sequence[New] | None:
            if known is None:
                return None
            is_same = view.moment == known.moment
            return new if is_same or (is_plain and view.table == known.moment.table) else None

        return decide

    async def _fit(self, rows: Sequence[Row], *, at: Moment | None = None) -> bool:
        """Whether the rows fit the table, which is created and noted in the log first.

        `at` is the version to check, by default the last one seen.
        """
        wanted = self._vectors.column
        known = self._known
        if (
            known is None
            or at not in (None, known.moment)
            or (known.vectors is None and wanted is not None)
        ):
            known = self._known = await self._look()
        there = known.vectors
        for vector in vectors_of(rows):
            if there is None:
                return False
            model = None if wanted is None else vector_model(wanted)
            self._vectors.check(pa.schema([there]), len(vector), model)
        return True

    async def _look(self) -> Known:
        """The properties of the table, which the log notes if necessary.

        A hundred concurrent first writers share one read.
        """
        return await self._looks.of(lambda: self._access.follow(self._look_once))

    async def _look_once(self) -> Known:
        access = self._access
        while (view := await self._ledger.view()) is None or not view.version:
            await access.commits.know(await access.opened())
        schema = await access.schema_at(view.moment)
        return Known(view.moment, schema.field(VECTOR) if VECTOR in schema.names else None)


class _Grown(NamedTuple):
    """The token since which only appends happened, and the moment of the last check."""

    since: int
    token: int
    moment: Moment
    last: int
    """The last entry."""

    def has_only_grown(self, view: View) -> bool:
        """Whether that holds until a later view, which follows a write of this process.

        Others may have appended: a table of the same version has changed by its entries alone.
        """
        if view.token - 1 == self.token:
            return True
        later = takewhile(lambda one: one.seq > self.last, reversed(view.entries))
        return view.moment == self.moment and all(one.how is How.APPEND for one in later)
