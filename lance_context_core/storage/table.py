"""One table: the few verbs that the stores are written in."""

import asyncio
from collections.abc import AsyncIterable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from lance_context_core._loop import WOULD_BLOCK, WouldBlock
from lance_context_core.errors import InternalError
from lance_context_core.storage import preconditions, put_if
from lance_context_core.storage.flush import Flushing
from lance_context_core.storage.group_commit import Group, GroupCommit
from lance_context_core.storage.lance import writes
from lance_context_core.storage.lance.arrow import Row, to_table
from lance_context_core.storage.lance.errors import is_division_by_zero
from lance_context_core.storage.lance.open_table import Beside
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.storage.lance.table_handle import TableHandle
from lance_context_core.storage.lance.writes import Appended, Applied, Changes, Written
from lance_context_core.storage.locks import fencing
from lance_context_core.storage.optimistic import Done
from lance_context_core.storage.side_table import SideTable
from lance_context_core.storage.spooled_batch import SpooledBatch
from lance_context_core.storage.sql.predicates import Clause, Value, literal
from lance_context_core.storage.table_reads import TableReads
from lance_context_core.storage.wal.entries import New, View
from lance_context_core.storage.wal.policy import JournalPolicy
from lance_context_core.storage.wal.transactions import Amending, NotKnownError
from lance_context_core.storage.wal_writes import WalWrites

T = TypeVar("T")


class Table(TableReads):
    """A table by name, which need not exist: it reads as empty, and the first write creates it."""

    def __init__(self, access: TableHandle) -> None:
        """The table, on the ref that `access` leads to."""
        super().__init__(access)
        if not access.spec.serves_the_store:
            access.commits.committed = self._committed
        self.written = Written()
        self._batches = GroupCommit(access, self._incoming, self.written)
        self._keyed = Group(partial(put_if.write_all, self))
        if access.ledger is not None:
            folding = Flushing(
                access,
                access.ledger,
                self._incoming,
                written=self.written,
                remembered=self.remembered,
            )
            self._journaled = WalWrites(
                access,
                access.ledger,
                vectors=self.vectors,
                folding=folding,
                remembered=self.remembered,
            )
            access.commits.fold = folding.fold
            access.finishing, access.closing = folding.finish, folding.stop
            if access.connection.is_read_only:
                self._aside = aside = SideTable(access, folding.lay)
                access.aside, access.closing = aside.newest, aside.close

    def on(self, ref: str, *, records: "Table") -> "Table":
        """This table, which is on main, on another ref; `records`, on main, tell whether it exists."""
        beside = Beside(ref, self.access, records.access)
        return Table(TableHandle(self.access.connection, self.name, self.spec, beside=beside))

    async def append(self, rows: Sequence[Row]) -> Appended:
        """Add rows whose keys are known to be new, in one commit.

        What many callers append at the same time is one commit.
        """
        if self._journaled is not None and (done := await self._journaled.append(rows)) is not None:
            return done
        return await self._batches.append(rows)

    async def insert_absent(self, rows: Sequence[Row]) -> tuple[int, int]:
        """Add the rows whose keys are absent, in one commit; the others stay as they are.

        Returns how many were added, and the version that is current afterwards. What many callers
        insert at the same time is one commit.
        """
        if self._journaled is not None and (n := await self._journaled.insert(rows)) is not None:
            return n
        return await self._batches.insert(rows)

    async def upsert(self, rows: Sequence[Row]) -> tuple[int, int]:
        """Add rows, and replace those by key that nobody changed meanwhile, in one commit.

        A row that replaces another carries the next revision after the one that was read. Returns
        how many were written, and the version that is current afterwards: the rows that are
        missing in the number were written or changed by others since they were read.
        """
        if self._journaled is not None and (done := await self._journaled.upsert(rows)) is not None:
            return done

        async def write(handle: Any) -> tuple[int, int]:
            return await writes.upsert(handle, await self._batches.arrow(handle, rows))

        return await self.access.write("upsert into", write)

    async def upsert_of_store(self, rows: Sequence[Row]) -> tuple[int, int]:
        """As `upsert`, into a table that serves the store, which has no journal and no upkeep.

        Its versions go by their age alone: nobody is kept from removing some meanwhile.
        """
        access, data = self.access, to_table(rows, self._incoming.fields)
        handle = await access.opened()
        if fencing.are_any():
            await fencing.require(access.connection.place)

        async def write(handle: Any) -> tuple[int, int]:
            # On top of a version whose successors are gone, a commit would take nothing for a conflict.
            await handle.checkout_latest()
            return await writes.upsert(handle, data)

        done = await access.commits.insist(f"upsert into {access.label}", handle, write)
        await access.commits.sync(handle)
        return done

    async def replace(
        self, rows: Sequence[Row], *, observed: preconditions.Observed | None = None
    ) -> int:
        """As `upsert`, without adding any: what is gone stays gone. Returns how many were replaced.

        What was `observed` of the rows that are replaced is not read again, unless others are faster.
        """
        if (journaled := self._journaled) is not None:
            done = await journaled.upsert(rows, adds=False, observed=observed)
            if done is not None:
                return done[0]

        async def write(handle: Any) -> int:
            return await writes.replace(handle, await self._batches.arrow(handle, rows))

        return await self.access.write("update", write)

    async def apply(self, changes: Changes) -> Applied:
        """Make many changes in one commit; returns what was done.

        If that is less than `changes.expected`, rows had changed since they were read: those are as
        they were, the others are done.
        """
        self.written.note(changes.rows)
        return await self.access.write("change", lambda handle: writes.apply(handle, changes))

    async def exchange(self, rows: Sequence[Row], *, removed: Mapping[str, int]) -> None:
        """Add rows, behind all others, and remove those of these keys and revisions, in one commit.

        A row may have the key of one that is removed. What has another revision by now stays.
        """

        async def write(handle: Any) -> None:
            data = await self._batches.arrow(handle, rows) if rows else None
            await writes.exchange(handle, data, removed)

        await self.access.write("change", write)

    async def gather(self, steps: AsyncIterable[Sequence[Row]]) -> SpooledBatch:
        """Rows that come in steps, of which one is in memory at a time, to be written at once."""
        await self.access.ready()
        gathered = SpooledBatch()
        async for rows in steps:
            data = await self._batches.arrow(await self.access.opened(), rows)
            await asyncio.to_thread(gathered.add, data)
        return gathered

    async def insert_gathered(self, rows: SpooledBatch, *, key: str, revision: int) -> bool:
        """Add rows, all of that new revision, in one commit, unless there is one of `key` by now.

        That is one of theirs, without which there is none of the others'. Returns whether they were
        added. Only without a journal, and where others add the same at the same moment, they are there
        twice until a second commit has taken the later ones back: see `take_back_later`.
        """

        async def write(handle: Any) -> bool:
            return await preconditions.append(
                handle, self.access.at, rows, key=key, revision=revision
            )

        return await self.access.write("insert into", write)

    async def take_back_later(self, where: Clause) -> int:
        """Remove what was inserted behind the same and stayed, as its writer was killed; returns how many.

        `where` says which rows have the `key` of an `insert_gathered`.
        """
        if await self.access.reader() is None:
            return 0

        async def write(handle: Any) -> int:
            await handle.checkout_latest()
            return await preconditions.take_back_later(handle, where)

        return await self.access.write("delete from", write)

    async def write_keyed(self, rows: Sequence[Row]) -> list[bool]:
        """Put, add and remove rows on top of what is there, in one commit; see `keyed`.

        Returns for each row whether there was one of its key, which had not expired. What many
        callers write at the same time is one commit.
        """
        if self._journaled is not None and (done := await self._journaled.write(rows)) is not None:
            return done
        await self.access.ready()
        return await self._keyed.write(rows)

    def write_keyed_now(self, rows: Sequence[Row]) -> Done | None:
        """As `write_keyed`, in any thread; None, and nothing is written, where one would have to wait."""
        return None if self._journaled is None else self._journaled.write_now(rows)

    async def amend(self, decide: Callable[[Amending], tuple[Sequence[New], T]]) -> T:
        """As `WalWrites.amend`. Raises NotKnownError where there is no journal."""
        if self._journaled is None:
            raise NotKnownError
        return await self._journaled.amend(decide)

    def amend_now(self, decide: Callable[[Amending], tuple[Sequence[New], T]]) -> T | WouldBlock:
        """As `WalWrites.amend_now`; LATER, too, where there is no journal."""
        return WOULD_BLOCK if self._journaled is None else self._journaled.amend_now(decide)

    def relieve(self, view: View, policy: JournalPolicy) -> None:
        """As `WalWrites.relieve`, after a transaction has written what the `view` shows."""
        if self._journaled is not None:
            self._journaled.relieve(view, policy)

    async def merge(
        self, rows: Sequence[Row], *, removed: Collection[str] = (), claims: Collection[str] = ()
    ) -> set[str]:
        """As `upsert`, and remove the rows with the keys `removed`, in one commit.

        Returns the keys of the rows that were not written, since others were faster. If one of the
        `claims` is among them, nothing is written, and InternalError is raised.
        """

        async def write(handle: Any) -> set[str]:
            data = await self._batches.arrow(handle, rows) if rows else None
            if await writes.merge(handle, data, removed, claims) == len(rows):
                return set()
            return {row[KEY] for row in rows} - await writes.there(handle, rows)

        return await self.access.write("write to", write)

    async def write_if(
        self,
        rows: Sequence[Row] | SpooledBatch,
        *,
        removed: Collection[str],
        seen: Mapping[str, int | None],
        keeps_states: bool = True,
    ) -> bool:
        """Write rows and remove others, if what has these keys has the revisions `seen`; else nothing.

        None is for what is absent. Returns whether it was done. One commit; only where others commit
        at the same moment what nothing in a commit can be made to depend on, it is taken back by a
        second one: that a row is gone, or that one came whose key is only looked at.
        `keeps_states=False` says that nobody was told of a version that has what is replaced.
        """
        journaled = self._journaled
        if journaled is not None and not isinstance(rows, SpooledBatch):
            did = await journaled.write_if(rows, removed, seen, keeps_states=keeps_states)
            if did is not None:
                return did
        await self.access.ready()

        async def write(handle: Any) -> bool:
            if isinstance(rows, SpooledBatch):
                data = rows.table()
            else:
                data = await self._batches.arrow(handle, rows) if rows else None
            return await preconditions.write(handle, self.access.at, data, removed, seen)

        try:
            return await self.access.write("write to", write)
        except InternalError as error:
            if is_division_by_zero(error):
                return False
            raise

    async def exchange_all(
        self,
        rows: Sequence[Row],
        *,
        seen: Mapping[str, int | None],
        where: Clause,
        observed: preconditions.Observed,
    ) -> bool | None:
        """Add rows, behind all others, and remove all that match then, if what was seen is the same.

        All that matched when it was `observed` was seen; what came since goes, too. None if it is to
        be a commit of its own, of which nothing is done.
        """
        if (journaled := self._journaled) is None:
            return None
        tail = preconditions.Tail(where, (), is_all=True)
        return await journaled.exchange(rows, seen, tail, observed, takes_later=True)

    async def exchange_if(
        self,
        rows: Sequence[Row],
        *,
        seen: Mapping[str, int | None],
        tail: preconditions.Tail,
        observed: preconditions.Observed | None = None,
    ) -> bool:
        """Add rows, behind all others, and remove what was seen, if `tail` is the end; else nothing.

        As `write_if`; a row may have the key of one that is removed. What was seen, and the tail, are
        not read again if they are what was `observed`.
        """
        if (journaled := self._journaled) is not None:
            did = await journaled.exchange(rows, seen, tail, observed)
            if did is not None:
                return did

        async def write(handle: Any) -> bool:
            data = await self._batches.arrow(handle, rows) if rows else None
            return await preconditions.exchange(handle, self.access.at, data, seen, tail)

        return await self.access.write("change", write)

    async def update(self, where: Clause, values: Mapping[str, Value | None]) -> int:
        """Set columns of the matching rows to these values; returns how many.

        One commit, or none if nothing matches. The rows' revisions stay what they are.
        """
        self.access.require_writable()
        journaled = self._journaled
        if journaled is not None and (n := await journaled.update(where, values)) is not None:
            return n
        if await self.count(where) == 0:
            return 0
        said = {name: "NULL" if one is None else literal(one) for name, one in values.items()}

        async def write(handle: Any) -> int:
            done = await handle.update(where=where, updates_sql=said)
            self.written.rows += done.rows_updated
            return int(done.rows_updated)

        return await self.access.write("update", write)

    async def delete(self, where: Clause, *, observed: preconditions.Observed | None = None) -> int:
        """Remove the matching rows in one commit; returns how many there were.

        If these were `observed`, they are not read again, unless others are faster.
        """
        self.access.require_writable()
        if observed is not None and observed.view is not None and not observed.rows:
            return 0
        journaled = self._journaled
        if journaled is not None and (n := await journaled.delete(where, observed)) is not None:
            return n
        if await self.count(where) == 0:
            # A deletion of nothing would be a version of its own.
            return 0

        async def write(handle: Any) -> int:
            return int((await handle.delete(where)).num_deleted_rows)

        return await self.access.write("delete from", write)

    def _committed(self) -> None:
        if (on_commit := self.access.connection.on_commit) is not None:
            on_commit(self)
