"""One table: the few verbs that the stores are written in."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from lance_context_core.engine.errors import is_division_by_zero
from lance_context_core.engine.journal.entries import New, View
from lance_context_core.engine.journal.journal import Amending, NotKnownError
from lance_context_core.engine.schema import KEY, VECTOR
from lance_context_core.engine.sql.clauses import Clause, Value, literal
from lance_context_core.engine.table import conditional, indexes, keyed, overlay, reading, writing
from lance_context_core.engine.table.access import Access
from lance_context_core.engine.table.arrow import Row
from lance_context_core.engine.table.batches import Batches
from lance_context_core.engine.table.folding import Folding
from lance_context_core.engine.table.grouping import Group, Incoming
from lance_context_core.engine.table.journaled import Journaled
from lance_context_core.engine.table.nothing import Nothings
from lance_context_core.engine.table.opening import Beside
from lance_context_core.engine.table.vectors import Vectors
from lance_context_core.engine.table.writing import Appended, Applied, Changes, Written
from lance_context_core.errors import InternalError

T = TypeVar("T")


class Table:
    """A table by name, which need not exist: it reads as empty, and the first write creates it."""

    def __init__(self, access: Access) -> None:
        """The table, on the ref that `access` leads to."""
        access.commits.committed = self._committed
        self.access = access
        """The engine's handles of it, and what is done to them as a whole."""
        self.vectors = Vectors(access)
        """Which vectors it takes."""
        self.name, self.ref = access.name, access.ref
        self.label, self.spec = access.label, access.spec
        self._is_text_indexed = False
        self._nothings = Nothings(self.spec.schema)
        self.written = Written()
        self._incoming = Incoming(self.spec, self.vectors, self.label)
        self._batches = Batches(access, self._incoming, self.written)
        self._keyed = Group(partial(keyed.write_all, self))
        self._journaled: Journaled | None = None
        if access.ledger is not None:
            folding = Folding(access, access.ledger, self._incoming, self.written)
            self._journaled = Journaled(access, access.ledger, self.vectors, folding)
            access.commits.fold = folding.fold
            access.closing = folding.stop

    def on(self, ref: str, *, records: "Table") -> "Table":
        """This table, which is on main, on another ref; `records`, on main, tell whether it exists."""
        beside = Beside(ref, self.access, records.access)
        return Table(Access(self.access.connection, self.name, self.spec, beside=beside))

    # Reading

    async def schema(self) -> pa.Schema:
        """The columns of the table as they are; those of its specification if it is absent."""
        return await self.access.schema()

    async def exists(self) -> bool:
        """Whether there is such a table."""
        return await self.access.peek() is not None

    async def version(self) -> int:
        """The number of the version that is read; 0 if the table is absent.

        What the journal holds is in it: it is folded before.
        """
        handle = await self.access.reader()
        return 0 if handle is None else await handle.version()

    async def token(self) -> int:
        """A number that changes with whatever the table holds, and grows; 0 if the table is absent."""
        if (view := await self.access.view()) is not None:
            return view.token
        handle = await self.access.peek()
        return 0 if handle is None else int(await handle.version())

    async def last_seen(self) -> int:
        """As `token`, of what was read or written last; a write of one's own is in it."""
        if (view := await self.access.view()) is not None:
            return view.token
        return 0 if (handle := self.access.handle) is None else int(await handle.version())

    async def count(self, where: str | None = None) -> int:
        """How many rows match."""
        n = await self.access.over(where, lambda view: overlay.count(self.access, view, where))
        if n is not None:
            return n
        return await self.access.look("count {}", lambda handle: reading.count(handle, where), 0)

    async def select(self, where: str | None, *, columns: Sequence[str]) -> pa.Table:
        """The matching rows in the order of their commits, with their `_rowid`."""
        rows = await self.find(where, columns=columns, is_table=True)
        assert isinstance(rows, pa.Table)
        return rows

    async def find(
        self, where: str | None, *, columns: Sequence[str], is_table: bool = False
    ) -> pa.Table | list[Row]:
        """As `select`; rows that stand in the journal alone are not made a table of.

        Unless it `is_table` that is asked for.
        """

        async def over(view: View) -> pa.Table | list[Row]:
            mine = await overlay.all_matching(self.access, view, where)
            if mine is None:
                return await overlay.select(self.access, view, where, columns)
            if is_table:
                return overlay.laid_over(await self._nothing_at(view, columns), mine)
            return overlay.as_rows(mine, columns)

        if (rows := await self.access.over(where, over)) is not None:
            return rows
        return await self.access.look(
            "read {}", lambda handle: reading.scan(handle, where, columns), self.nothing(columns)
        )

    async def slice(
        self,
        where: str | None,
        *,
        columns: Sequence[str],
        offset: int = 0,
        limit: int | None = None,
        last: int | None = None,
    ) -> pa.Table:
        """Part of the matching rows, in the order of their commits.

        With `last` the `offset` is counted from the end: the last rows but `offset`. Rows outside
        the part are not read, only their ids.
        """
        span: dict[str, Any] = {"offset": offset, "limit": limit, "last": last}

        async def over(view: View) -> pa.Table:
            nothing = await self._nothing_at(view, columns)
            return await overlay.slice_of(
                self.access, view, where, columns=columns, nothing=nothing, **span
            )

        if (rows := await self.access.over(where, over)) is not None:
            return rows
        nothing = self.nothing(columns)
        return await self.access.look(
            "read {}",
            lambda handle: reading.slice_of(handle, where, columns, nothing=nothing, **span),
            nothing,
        )

    async def tail(
        self, where: str | None, *, columns: Sequence[str], last: int
    ) -> tuple[pa.Table, int]:
        """The last matching rows, as `slice` has them, and how many there are before these."""

        async def over(view: View) -> tuple[pa.Table, int]:
            nothing = await self._nothing_at(view, columns)
            return await overlay.tail_of(self.access, view, where, columns, last, nothing=nothing)

        if (found := await self.access.over(where, over)) is not None:
            return found
        nothing = self.nothing(columns)
        return await self.access.look(
            "read {}",
            lambda handle: reading.tail_of(handle, where, columns, last, nothing=nothing),
            (nothing, 0),
        )

    async def take(
        self, row_ids: Sequence[int] | np.ndarray, *, columns: Sequence[str]
    ) -> pa.Table:
        """The rows with these ids, in their order; those that are gone are left out."""
        nothing = self.nothing(columns)
        if len(row_ids) == 0:
            return nothing
        if self._journaled is not None:
            return await self._journaled.take(row_ids, columns=columns, nothing=nothing)
        if (view := await self.access.view()) is not None:
            ids = [int(one) for one in row_ids]
            return await overlay.take(self.access, view, ids, columns, nothing)
        return await self.access.look(
            "read {}", lambda handle: reading.take(handle, row_ids, columns), nothing
        )

    async def nearest(
        self,
        vector: np.ndarray,
        *,
        model: str | None,
        where: str | None,
        limit: int,
        columns: Sequence[str],
    ) -> pa.Table:
        """The `limit` rows nearest by cosine, best first, with `_rowid` and `_distance` in [0, 2].

        Raises as `ensure_vectors` if the table was built for vectors of others.
        """
        nothing = self.nothing(columns, "_distance")

        async def search(handle: Any) -> pa.Table:
            schema = (await self._incoming.look_at(handle)).schema
            if limit == 0 or VECTOR not in schema.names:
                return nothing
            self.vectors.check(schema, len(vector), model)
            there = [column for column in columns if column in schema.names]
            return await reading.nearest(handle, vector, where=where, limit=limit, columns=there)

        return await self.access.look("search {} by vector", search, nothing)

    async def match(
        self, text: str, *, where: str | None, limit: int, columns: Sequence[str]
    ) -> pa.Table:
        """The `limit` rows that match words of `text` best, with `_rowid` and their BM25 `_score`.

        A text without words, such as "" or "?!", matches nothing.
        """
        nothing = self.nothing(columns, "_score")

        async def search(handle: Any) -> pa.Table:
            if limit == 0 or not await self._has_text_index(handle):
                return nothing
            return await reading.match(handle, text, where=where, limit=limit, columns=columns)

        return await self.access.look("search {} by words", search, nothing)

    def nothing(self, columns: Sequence[str], score: str | None = None) -> pa.Table:
        """No rows, with these columns, a `_rowid`, and the `score` of a search channel."""
        return self._nothings.of(columns, score)

    # Writing

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
            return await writing.upsert(handle, await self._batches.arrow(handle, rows))

        return await self.access.write("upsert into", write)

    async def replace(self, rows: Sequence[Row]) -> int:
        """As `upsert`, without adding any: what is gone stays gone. Returns how many were replaced."""
        journaled = self._journaled
        if journaled is not None and (done := await journaled.upsert(rows, adds=False)) is not None:
            return done[0]

        async def write(handle: Any) -> int:
            return await writing.replace(handle, await self._batches.arrow(handle, rows))

        return await self.access.write("update", write)

    async def apply(self, changes: Changes) -> Applied:
        """Make many changes in one commit; returns what was done.

        If that is less than `changes.expected`, rows had changed since they were read: those are as
        they were, the others are done.
        """
        self.written.note(changes.rows)
        return await self.access.write("change", lambda handle: writing.apply(handle, changes))

    async def exchange(self, rows: Sequence[Row], *, removed: Mapping[str, int]) -> None:
        """Add rows, behind all others, and remove those of these keys and revisions, in one commit.

        A row may have the key of one that is removed. What has another revision by now stays.
        """

        async def write(handle: Any) -> None:
            data = await self._batches.arrow(handle, rows) if rows else None
            await writing.exchange(handle, data, removed)

        await self.access.write("change", write)

    async def write_keyed(self, rows: Sequence[Row]) -> list[bool]:
        """Put, add and remove rows on top of what is there, in one commit; see `keyed`.

        Returns for each row whether there was one of its key, which had not expired. What many
        callers write at the same time is one commit.
        """
        if self._journaled is not None and (done := await self._journaled.write(rows)) is not None:
            return done
        await self.access.ready()
        return await self._keyed.write(rows)

    async def amend(self, decide: Callable[[Amending], tuple[Sequence[New], T]]) -> T:
        """As `Journaled.amend`. Raises NotKnownError where there is no journal."""
        if self._journaled is None:
            raise NotKnownError
        return await self._journaled.amend(decide)

    async def merge(
        self, rows: Sequence[Row], *, removed: Collection[str] = (), claims: Collection[str] = ()
    ) -> set[str]:
        """As `upsert`, and remove the rows with the keys `removed`, in one commit.

        Returns the keys of the rows that were not written, since others were faster. If one of the
        `claims` is among them, nothing is written, and InternalError is raised.
        """

        async def write(handle: Any) -> set[str]:
            data = await self._batches.arrow(handle, rows) if rows else None
            if await writing.merge(handle, data, removed, claims) == len(rows):
                return set()
            return {row[KEY] for row in rows} - await writing.there(handle, rows)

        return await self.access.write("write to", write)

    async def write_if(
        self,
        rows: Sequence[Row],
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
        if journaled is not None:
            did = await journaled.write_if(rows, removed, seen, keeps_states=keeps_states)
            if did is not None:
                return did
        await self.access.ready()

        async def write(handle: Any) -> bool:
            data = await self._batches.arrow(handle, rows) if rows else None
            return await conditional.write(handle, self.access.at, data, removed, seen)

        try:
            return await self.access.write("write to", write)
        except InternalError as error:
            if is_division_by_zero(error):
                return False
            raise

    async def exchange_if(
        self, rows: Sequence[Row], *, seen: Mapping[str, int | None], tail: conditional.Tail
    ) -> bool:
        """Add rows, behind all others, and remove what was seen, if `tail` is the end; else nothing.

        As `write_if`; a row may have the key of one that is removed.
        """
        if (
            self._journaled
            and (did := await self._journaled.exchange(rows, seen, tail)) is not None
        ):
            return did

        async def write(handle: Any) -> bool:
            data = await self._batches.arrow(handle, rows) if rows else None
            return await conditional.exchange(handle, self.access.at, data, seen, tail)

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

    async def delete(self, where: Clause) -> int:
        """Remove the matching rows in one commit; returns how many there were."""
        self.access.require_writable()
        if self._journaled is not None and (n := await self._journaled.delete(where)) is not None:
            return n
        if await self.count(where) == 0:
            # A deletion of nothing would be a version of its own.
            return 0

        async def write(handle: Any) -> int:
            return int((await handle.delete(where)).num_deleted_rows)

        return await self.access.write("delete from", write)

    # Helpers

    async def _nothing_at(self, view: View, columns: Sequence[str]) -> pa.Table:
        """As `nothing`, with the vectors too, if they are among the columns."""
        if VECTOR not in columns:
            return self.nothing(columns)
        return self._nothings.beside(await self.access.schema_at(view.moment), columns)

    async def _has_text_index(self, handle: Any) -> bool:
        self._is_text_indexed = self._is_text_indexed or await indexes.has_text_index(handle)
        return self._is_text_indexed

    def _committed(self) -> None:
        if (on_commit := self.access.connection.on_commit) is not None:
            on_commit(self)
