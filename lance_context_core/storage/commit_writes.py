"""Batches as commits of a table; concurrent ones share a commit where possible."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from lance_context_core._util.retry import ATTEMPTS
from lance_context_core.errors import InternalError
from lance_context_core.storage import preconditions, put_if
from lance_context_core.storage.group_commit import Group, Incoming
from lance_context_core.storage.lance import writes
from lance_context_core.storage.lance.arrow import Row
from lance_context_core.storage.lance.errors import is_division_by_zero
from lance_context_core.storage.lance.schema import ACKNOWLEDGED, KEY
from lance_context_core.storage.lance.writes import Merged, Written
from lance_context_core.storage.locks import fencing
from lance_context_core.storage.names import SUCCEEDS
from lance_context_core.storage.shared_commits import (
    Outcome,
    SharedCommits,
    digest,
    meeting_place,
)
from lance_context_core.storage.spooled_batch import SpooledBatch
from lance_context_core.storage.sql.predicates import Clause, all_of, in_list, literal
from lance_context_core.storage.table_reads import TableReads
from lance_context_core.storage.wal.transactions import NotKnownError
from lance_context_core.storage.write_batch import (
    NOT_AS_EXPECTED,
    BatchResult,
    Mode,
    Seen,
    WriteBatch,
)

Work = Callable[[Any], Awaitable[BatchResult]]


class CommitWrites:
    """The direct commits to one table."""

    def __init__(self, table: TableReads, incoming: Incoming, written: Written) -> None:
        """Writes to `table` rows that `incoming` has converted; `written` counts them."""
        self.label = table.label
        self.find = table.find
        self._table, self._access = table, table.access
        self._incoming = incoming
        self._written = written
        self._grows = _Growth(0, 0)
        self._appends = Group(self._append_all)
        self._inserts = Group(self._insert_all)
        self._items = Group(partial(put_if.write_all, self))
        self.shared: SharedCommits | None = None
        """The appends of all processes of this machine; None if each commits for itself."""
        access = table.access
        if not access.is_pinned and (
            place := meeting_place(access.connection, access.name, access.ref)
        ):
            self.shared = SharedCommits(
                place,
                self.label,
                append=self._append_for_others,
                columns=self._columns,
                refresh=self._refresh,
            )

    async def write(self, batch: WriteBatch) -> BatchResult:
        """As `Table.write`."""
        access, rows = self._access, batch.rows
        if batch.decide is not None:
            raise NotKnownError
        if batch.where is not None:
            if batch.rows or batch.expect is not None:
                return await self._exchange(batch, batch.where)
            return await self._change(batch, batch.where)
        await access.ready()
        if batch.expect is not None and batch.is_whole:
            return await self._write_if(batch, batch.expect)
        if not batch.deletes and batch.bulk is None:
            if batch.mode is Mode.APPEND:
                if self.shared is not None:
                    self.shared.keep_leading()
                return await self._appends.write(rows)
            if batch.mode is Mode.INSERT:
                return await self._inserts.write(rows)
            if batch.mode is Mode.ITEM:
                return BatchResult(existed=await self._items.write(rows))
        return await self._merge(batch)

    async def arrow(self, handle: Any, rows: Sequence[Row]) -> pa.Table:
        """One caller's rows in the engine's format; raises if they cannot be converted."""
        if any(ACKNOWLEDGED in row for row in rows):
            # They were read, and change with this commit.
            rows = [{**row, ACKNOWLEDGED: None} for row in rows]
        table, (refusal,) = await self._incoming.prepared(handle, [rows])
        if refusal is not None:
            raise refusal
        self._written.note(table)
        return table

    # Each row for itself

    async def _merge(self, batch: WriteBatch) -> BatchResult:
        """Put and delete rows, each of them unless it has changed since it was read."""
        n_rows, how = batch.n_rows - len(batch.deletes), _merging(batch)
        if not n_rows and how["removes"] is None:
            return BatchResult()

        async def write(handle: Any) -> BatchResult:
            done = await writes.merge(handle, await self._data(handle, batch), **how)
            lost = await self._lost(handle, batch) if _n_put(done) < n_rows else frozenset()
            is_done = not lost and (batch.expect is None or done.n_removed == len(batch.deletes))
            return BatchResult(is_done, lost, done.n_replaced, done.n_removed, done.version)

        if self._access.spec.serves_the_store:
            return await self._commit_for_store(write)
        return await self._access.write("write to", write)

    async def _commit_for_store(self, write: Work) -> BatchResult:
        """Commit to a table of the store itself, which has no log and no upkeep.

        Its versions are removed by age alone, even during this commit.
        """
        access = self._access
        handle = await access.opened()
        if fencing.are_any():
            await fencing.require(access.connection.place)

        async def work(handle: Any) -> BatchResult:
            # On top of a version whose successors are gone, a commit would see no conflict.
            await handle.checkout_latest()
            return await write(handle)

        done = await access.commits.insist(f"write to {self.label}", handle, work)
        await access.commits.sync(handle)
        return done

    async def _data(self, handle: Any, batch: WriteBatch) -> pa.Table | None:
        """The rows of a batch in the engine's format; None without rows."""
        if (bulk := batch.bulk) is None:
            return await self.arrow(handle, batch.rows) if batch.rows else None
        if isinstance(bulk, SpooledBatch):
            return bulk.table()
        if not len(bulk):
            return None
        self._written.note(bulk)
        return await writes.fitted(handle, writes.anew(bulk))

    async def _lost(self, handle: Any, batch: WriteBatch) -> frozenset[str]:
        """The keys of the rows that were not written as given."""
        rows = batch.rows
        if (bulk := batch.bulk) is not None:
            data = bulk.table() if isinstance(bulk, SpooledBatch) else bulk
            rows = data.select([KEY, "revision"]).to_pylist()
        return frozenset(batch.keys) - await writes.there(handle, rows)

    # All or nothing

    async def _write_if(self, batch: WriteBatch, expect: Seen) -> BatchResult:
        """Put rows and delete others if the preconditions hold.

        A second commit undoes it only if a concurrent commit made a change that no commit can
        depend on: a row was deleted, or one was added under a key that is only checked.
        """
        at, bulk = self._access.at, batch.bulk

        async def write(handle: Any) -> BatchResult:
            if isinstance(bulk, SpooledBatch) and batch.mode is Mode.APPEND:
                (key,) = expect
                return BatchResult(await preconditions.append(handle, at, bulk, key=key))
            data = await self._data(handle, batch)
            if batch.tail is not None and batch.mode is Mode.APPEND:
                return BatchResult(
                    await preconditions.exchange(handle, at, data, expect, batch.tail)
                )
            if not all(map(expect.__contains__, batch.keys)):
                return await self._claim(handle, batch, data, expect)
            gone, tail = batch.deletes, batch.tail
            return BatchResult(await preconditions.write(handle, at, data, gone, expect, tail))

        try:
            return await self._access.write("write to", write)
        except InternalError as error:
            if is_division_by_zero(error):
                return NOT_AS_EXPECTED
            raise

    async def _claim(
        self, handle: Any, batch: WriteBatch, data: pa.Table | None, claims: Seen
    ) -> BatchResult:
        """Write nothing unless all claims succeed; each other row counts for itself."""
        removes = in_list(KEY, batch.deletes) if batch.deletes else None
        over = writes.claiming(claims.keys())
        done = await writes.merge(handle, data, over=over, removes=removes)
        n_lost = len(batch.rows) - _n_put(done)
        lost = await self._lost(handle, batch) if n_lost else frozenset()
        return BatchResult(not lost, lost, done.n_replaced, done.n_removed, done.version)

    # By condition

    async def _change(self, batch: WriteBatch, where: Clause) -> BatchResult:
        """Delete the matching rows, or set columns of them; no commit without matches."""
        self._access.require_writable()
        if await self._table.count(where) == 0:
            return BatchResult()
        if batch.values is None:

            async def delete(handle: Any) -> BatchResult:
                return BatchResult(n_removed=int((await handle.delete(where)).num_deleted_rows))

            return await self._access.write("delete from", delete)
        said = {name: "NULL" if one is None else literal(one) for name, one in batch.values.items()}

        async def update(handle: Any) -> BatchResult:
            done = await handle.update(where=where, updates_sql=said)
            self._written.rows += done.rows_updated
            return BatchResult(n_replaced=int(done.rows_updated))

        return await self._access.write("update", update)

    async def _exchange(self, batch: WriteBatch, where: Clause) -> BatchResult:
        """Replace all matching rows with these, in one commit.

        Matching rows that others added meanwhile are deleted in a second one.
        """
        gone = {key: seen for key, seen in (batch.expect or {}).items() if seen is not None}
        rows, before = batch.rows, where
        for _ in range(ATTEMPTS):
            await self._merge(WriteBatch(rows, deletes=[*gone], expect=gone, is_whole=False))
            if batch.rows:
                mine = in_list(KEY, batch.keys)
                first = (await self._table.select(mine, columns=[KEY]))["_rowid"]
                if len(first) == 0:
                    break  # another writer has replaced them in turn
                rows, before = (), all_of([where, f"_rowid < {first[0].as_py()}"])
            found = await self._table.select(before, columns=[KEY, "revision"])
            gone = dict(zip(found[KEY].to_pylist(), found["revision"].to_pylist(), strict=True))
            if not gone:
                break
        return BatchResult()

    # Rows of several callers in one commit

    async def _append_all(
        self, batches: Sequence[Sequence[Row]]
    ) -> Sequence[BatchResult | Exception]:
        # Other callers' rows do not depend on this caller's locks.
        if self.shared is not None and not fencing.are_any():
            version = await self.shared.write(batches)
            if version is Outcome.IN_DOUBT:
                return await self._append_here(batches, is_in_doubt=True)
            if isinstance(version, int):
                self._access.expect_newer()
                self._written.rows += sum(map(len, batches))
                self._access.commits.tell()
                done = BatchResult(version=version, token=version, grows_since=version)
                return [done] * len(batches)
        return await self._append_here(batches)

    async def _append_for_others(self, rows: Sequence[Row]) -> int:
        """Append the rows of another process; returns the version that shows them."""
        return (await self._appends.write(rows)).version

    async def _columns(self) -> bytes:
        """A digest of the table's columns, as last seen, to compare with other processes."""
        handle = self._access.handle or await self._access.opened()
        vectors = (await self._incoming.look_at(handle)).vectors
        return digest(f"{vectors} {vectors and vectors.metadata}")

    async def _refresh(self) -> None:
        self._access.expect_newer()
        await self._access.opened()

    async def _append_here(
        self, batches: Sequence[Sequence[Row]], *, is_in_doubt: bool = False
    ) -> Sequence[BatchResult | Exception]:
        """Appends the rows; of those in doubt, the ones that another process has not appended."""

        async def write(handle: Any) -> list[BatchResult | Exception]:
            # The cost of an append grows with its columns, and most of a record's are empty.
            rows, refusals = await self._incoming.prepared(
                handle, batches, is_sparse=not is_in_doubt
            )
            if rows is None:
                return [refusal for refusal in refusals if refusal]
            self._written.note(rows)
            done = await (self._append_absent if is_in_doubt else self._append)(handle, rows)
            return [refusal or done for refusal in refusals]

        return await self._access.write("append to", write, is_guarded=is_in_doubt)

    async def _append_absent(self, handle: Any, rows: pa.Table) -> BatchResult:
        version = (await writes.merge(handle, rows)).version
        return BatchResult(version=version, token=version, grows_since=version)

    async def _append(self, handle: Any, rows: pa.Table) -> BatchResult:
        before = self._incoming.seen
        version = int((await handle.add(rows)).version)
        # The engine knows the current version afterwards, which may be another process's commit.
        if is_next := before is not None and version == before.version + 1:
            self._incoming.seen = before._replace(version=version)
        since = version if not is_next else version - 1
        self._grows = _Growth(self._grows.since if self._grows.until == since else since, version)
        return BatchResult(
            version=version,
            token=version,
            n_rows=rows.num_rows if is_next else None,
            grows_since=self._grows.since,
        )

    async def _insert_all(
        self, batches: Sequence[Sequence[Row]]
    ) -> Sequence[BatchResult | Exception]:
        async def write(handle: Any) -> list[BatchResult | Exception]:
            rows, refusals = await self._incoming.prepared(handle, batches)
            if rows is None:
                return [refusal for refusal in refusals if refusal]
            self._written.note(rows)
            whole = [row for batch in batches for row in batch]
            if self._access.spec.is_ordered:
                await writes.make_way(handle, whole)
            done = await writes.merge(handle, rows)
            is_all = done.n_added == rows.num_rows
            there = None if is_all else await writes.there(handle, whole)
            results: list[BatchResult | Exception] = []
            for batch, refusal in zip(batches, refusals, strict=True):
                keys = frozenset(row[KEY] for row in batch)
                lost = frozenset() if there is None else keys - there
                results.append(refusal or BatchResult(not lost, lost, version=done.version))
            return results

        return await self._access.write("insert into", write)


class _Growth(NamedTuple):
    """The consecutive versions that were made by appends through a table."""

    since: int
    until: int


def _merging(batch: WriteBatch) -> dict[str, Any]:
    """The merge of a batch into a table whose rows each count for themselves."""
    expect, mode = batch.expect, batch.mode
    over = SUCCEEDS if mode in (Mode.UPSERT, Mode.REPLACE) else None
    removes: Clause | None = in_list(KEY, batch.deletes) if batch.deletes else None
    if expect is not None:
        replaced = [one for key in batch.keys if (one := expect.get(key)) is not None]
        if mode is not Mode.APPEND:
            over = writes.has_revision(replaced) if replaced else None
        gone = [(key, one) for key in batch.deletes if (one := expect[key]) is not None]
        removes = writes.with_revisions(gone) if gone else None
    # A deleted row may be appended again: as another one, by its revision.
    on = (KEY, "revision") if mode is Mode.APPEND else (KEY,)
    return {"adds": mode is not Mode.REPLACE, "over": over, "removes": removes, "on": on}


def _n_put(done: Merged) -> int:
    return done.n_added + done.n_replaced
