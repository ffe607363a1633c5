"""One table: the few verbs that the stores are written in, over the engine's handle."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from lance_context_core.engine.errors import translated
from lance_context_core.engine.revisions import SUCCEEDS
from lance_context_core.engine.schema import KEY, VECTOR, TableSpec, vector_model
from lance_context_core.engine.sql.clauses import in_list, timestamp
from lance_context_core.engine.table import (
    indexes,
    keyed,
    reading,
)
from lance_context_core.engine.table.access import Pin
from lance_context_core.engine.table.applying import (
    Applied,
    Changes,
    apply,
    with_revisions,
)
from lance_context_core.engine.table.arrow import Row, to_table
from lance_context_core.engine.table.grouping import Group, together
from lance_context_core.engine.table.vectors import VectorAccess
from lance_context_core.errors import ContextStoreError

if TYPE_CHECKING:
    from lance_context_core.engine.database import Database

_NULLS = {"on_bad_vectors": "null"}
"""A merge takes a row without a vector for one with a bad vector, and would refuse it."""


class Appended(NamedTuple):
    """What became of rows that were appended."""

    version: int
    """A version that shows them: the one it made, or a later one."""
    n_rows: int | None
    """How many rows that version added to the one before; None if others made it or the one before."""
    grows_since: int
    """Since which version nothing but rows appended through this table came about, until that one."""


class Table(VectorAccess):
    """A table by name, which need not exist: it reads as empty, and the first write creates it."""

    def __init__(
        self,
        database: "Database",
        name: str,
        spec: TableSpec,
        *,
        line: str | None = None,
        pin: Pin | None = None,
    ) -> None:
        """Name the table, and the line of its versions that is meant; None is the main one.

        With `pin` it is read as it was, and refuses writes.
        """
        super().__init__(database, name, spec, line=line, pin=pin)
        self._is_text_indexed = False
        self._nothings: dict[frozenset[str], pa.Table] = {}
        self._seen: _Seen | None = None
        self._grows = _Growth(0, 0)
        self._appends = Group(self._append_all)
        self._inserts = Group(self._insert_all)
        self._keyed = Group(lambda batches: keyed.write_all(self, batches))

    # Reading

    async def count(self, where: str | None = None) -> int:
        """How many rows match."""

        async def read(handle: Any) -> int:
            return int(await handle.count_rows(where))

        return await self.look("count {}", read, 0)

    async def select(self, where: str | None, *, columns: Sequence[str]) -> pa.Table:
        """The matching rows in the order of their commits, with their `_rowid`."""
        return await self.look(
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
        nothing = self.nothing(columns)

        async def read(handle: Any) -> pa.Table:
            if limit is None and last is None and offset == 0:
                return await reading.scan(handle, where, columns)
            ids = (await reading.scan(handle, where, []))["_rowid"].to_numpy()
            end = len(ids) if last is None else max(len(ids) - offset, 0)
            start = offset if last is None else max(end - last, 0)
            wanted = ids[start:end][:limit]
            return await reading.take(handle, wanted, columns) if len(wanted) else nothing

        return await self.look("read {}", read, nothing)

    async def take(
        self, row_ids: Sequence[int] | np.ndarray, *, columns: Sequence[str]
    ) -> pa.Table:
        """The rows with these ids, in their order; those that are gone are left out."""
        nothing = self.nothing(columns)
        if len(row_ids) == 0:
            return nothing
        return await self.look(
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
            schema = (await self._look_at(handle)).schema
            if limit == 0 or VECTOR not in schema.names:
                return nothing
            self.check_vectors(schema, len(vector), model)
            there = [column for column in columns if column in schema.names]
            return await reading.nearest(handle, vector, where=where, limit=limit, columns=there)

        return await self.look("search {} by vector", search, nothing)

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

        return await self.look("search {} by words", search, nothing)

    def nothing(self, columns: Sequence[str], score: str | None = None) -> pa.Table:
        """No rows, with these columns, a `_rowid`, and the `score` of a search channel."""
        names = frozenset([*columns, *([score] if score else [])])
        if names not in self._nothings:
            fields = [field for field in self.spec.schema if field.name in names]
            fields.append(pa.field("_rowid", pa.uint64()))
            fields += [pa.field(score, pa.float32())] if score else []
            self._nothings[names] = pa.schema(fields).empty_table()
        return self._nothings[names]

    # Writing

    async def append(self, rows: Sequence[Row]) -> Appended:
        """Add rows whose keys are known to be new, in one commit.

        What many callers append at the same time is one commit.
        """
        await self.writer()
        return await self._appends.write(rows)

    async def insert_absent(self, rows: Sequence[Row]) -> tuple[int, int]:
        """Add the rows whose keys are absent, in one commit; the others stay as they are.

        Returns how many were added, and the version that is current afterwards. What many callers
        insert at the same time is one commit.
        """
        await self.writer()
        return await self._inserts.write(rows)

    async def upsert(self, rows: Sequence[Row]) -> tuple[int, int]:
        """Add rows, and replace those by key that nobody changed meanwhile, in one commit.

        A row that replaces another carries the next revision after the one that was read. Returns
        how many were written, and the version that is current afterwards: the rows that are
        missing in the number were written or changed by others since they were read.
        """

        async def write(handle: Any) -> tuple[int, int]:
            data = await self._arrow(handle, rows)
            merge = _updating(handle).when_not_matched_insert_all()
            result = await merge.execute(data, **_NULLS)
            n_written = int(result.num_inserted_rows) + int(result.num_updated_rows)
            return n_written, int(result.version or await handle.version())

        return await self.write("upsert into", write)

    async def replace(self, rows: Sequence[Row]) -> int:
        """As `upsert`, without adding any: what is gone stays gone. Returns how many were replaced."""

        async def write(handle: Any) -> int:
            data = await self._arrow(handle, rows)
            return int((await _updating(handle).execute(data, **_NULLS)).num_updated_rows)

        return await self.write("update", write)

    async def apply(self, changes: Changes) -> Applied:
        """Make many changes in one commit; returns what was done.

        If that is less than `changes.expected`, rows had changed since they were read: those are as
        they were, the others are done.
        """
        self.written.note(changes.rows)
        return await self.write("change", lambda handle: apply(handle, changes))

    async def exchange(self, rows: Sequence[Row], *, removed: Mapping[str, int]) -> None:
        """Add rows, behind all others, and remove those of these keys and revisions, in one commit.

        A row may have the key of one that is removed. What has another revision by now stays.
        """

        async def write(handle: Any) -> None:
            if not rows:
                await handle.delete(with_revisions(removed.items()))
                return
            merge = handle.merge_insert([KEY, "revision"]).when_not_matched_insert_all()
            if removed:
                merge = merge.when_not_matched_by_source_delete(with_revisions(removed.items()))
            # See `_updating` for why without an index.
            await merge.use_index(False).execute(await self._arrow(handle, rows), **_NULLS)

        await self.write("change", write)

    async def write_keyed(self, rows: Sequence[Row]) -> list[bool]:
        """Put, add and remove rows on top of what is there, in one commit; see `keyed`.

        Returns for each row whether there was one of its key, which had not expired. What many
        callers write at the same time is one commit.
        """
        await self.writer()
        return await self._keyed.write(rows)

    async def merge(
        self, rows: Sequence[Row], *, removed: Collection[str] = (), claims: Collection[str] = ()
    ) -> set[str]:
        """As `upsert`, and remove the rows with the keys `removed`, in one commit.

        Returns the keys of the rows that were not written, since others were faster. If one of the
        `claims` is among them, nothing is written, and InternalError is raised.
        """

        async def write(handle: Any) -> set[str]:
            if not rows:
                await handle.delete(in_list(KEY, removed))
                return set()
            merge = _updating(handle, claims).when_not_matched_insert_all()
            if removed:
                merge = merge.when_not_matched_by_source_delete(in_list(KEY, removed))
            result = await merge.execute(await self._arrow(handle, rows), **_NULLS)
            if result.num_inserted_rows + result.num_updated_rows == len(rows):
                return set()
            return {row[KEY] for row in rows} - await _there(handle, [rows])

        return await self.write("write to", write)

    async def update(self, where: str, values: Mapping[str, str]) -> int:
        """Set columns of the matching rows to the values of SQL expressions; returns how many.

        One commit, or none if nothing matches. The rows' revisions stay what they are.
        """
        if self._pin is not None:
            await self.writer()  # which says why not
        if await self.count(where) == 0:
            return 0

        async def write(handle: Any) -> int:
            done = await handle.update(where=where, updates_sql=dict(values))
            self.written.rows += done.rows_updated
            return int(done.rows_updated)

        return await self.write("update", write)

    async def delete(self, where: str) -> int:
        """Remove the matching rows in one commit; returns how many there were."""
        if self._pin is not None:
            await self.writer()  # which says why not
        if await self.count(where) == 0:
            # A deletion of nothing would be a version of its own.
            return 0

        async def write(handle: Any) -> int:
            return int((await handle.delete(where)).num_deleted_rows)

        return await self.write("delete from", write)

    # Helpers

    async def _has_text_index(self, handle: Any) -> bool:
        self._is_text_indexed = self._is_text_indexed or await indexes.has_text_index(handle)
        return self._is_text_indexed

    async def _append_all(self, batches: Sequence[Sequence[Row]]) -> Sequence[Appended | Exception]:
        async def write(handle: Any) -> list[Appended | Exception]:
            # What an addition costs grows with its columns, and of a record's most are empty.
            rows, refusals = await self._prepared(handle, batches, is_sparse=True)
            if rows is None:
                return [refusal for refusal in refusals if refusal]
            before = self._seen
            version = int((await handle.add(rows)).version)
            # The engine tells what is current after it, which may be the commit of another process.
            if is_next := before is not None and version == before.version + 1:
                self._seen = before._replace(version=version)
            since = version if not is_next else version - 1
            self._grows = _Growth(
                self._grows.since if self._grows.until == since else since, version
            )
            done = Appended(version, rows.num_rows if is_next else None, self._grows.since)
            return [refusal or done for refusal in refusals]

        return await self.write("append to", write)

    async def _insert_all(
        self, batches: Sequence[Sequence[Row]]
    ) -> Sequence[tuple[int, int] | Exception]:
        async def write(handle: Any) -> list[tuple[int, int] | Exception]:
            rows, refusals = await self._prepared(handle, batches)
            if rows is None:
                return [refusal for refusal in refusals if refusal]
            if self.spec.is_ordered:
                await _make_way(handle, batches)
            merge = handle.merge_insert(KEY).when_not_matched_insert_all()
            result = await merge.execute(rows, **_NULLS)
            version = int(result.version or await handle.version())
            if result.num_inserted_rows == rows.num_rows:
                n_added = [len(batch) for batch in batches]
            else:
                n_added = await _present(handle, batches)
            return [refusal or (n, version) for refusal, n in zip(refusals, n_added, strict=True)]

        return await self.write("insert into", write)

    async def _prepared(
        self, handle: Any, batches: Sequence[Sequence[Row]], *, is_sparse: bool = False
    ) -> tuple[pa.Table | None, list[ContextStoreError | None]]:
        """The rows as the engine takes them, and for each batch why it is not among them."""
        schema = (await self._look_at(handle)).schema
        known = self._vectors
        if known is not None and VECTOR not in schema.names and any(map(_vectors, batches)):
            # Restored to a moment before it had any, after the rows were checked.
            await handle.add_columns(known)
            schema = await handle.schema()
        field = schema.field(VECTOR) if VECTOR in schema.names else None
        is_as_checked = known is None or field is None or known.equals(field, check_metadata=True)

        def convert(rows: Sequence[Row]) -> pa.Table:
            for vector in [] if is_as_checked else _vectors(rows):
                self.check_vectors(schema, len(vector), known and vector_model(known))
            with translated(f"write to {self.label}"):
                return to_table(rows, self.spec.schema, field, is_sparse=is_sparse)

        rows, refusals = together(batches, convert)
        if rows is not None:
            self.written.note(rows)
        return rows, refusals

    async def _look_at(self, handle: Any) -> "_Seen":
        """Where the handle is, and its columns there, which are read again if it has moved."""
        version = int(await handle.version())
        if self._seen is None or self._seen[:2] != (handle, version):
            self._seen = _Seen(handle, version, await handle.schema())
        return self._seen

    async def _arrow(self, handle: Any, rows: Sequence[Row]) -> pa.Table:
        table, (refusal,) = await self._prepared(handle, [rows])
        if refusal is not None:
            raise refusal
        return table


class _Growth(NamedTuple):
    """The versions that came about one after the other by appending through a table."""

    since: int
    until: int


class _Seen(NamedTuple):
    """What a handle showed."""

    handle: Any
    version: int
    schema: pa.Schema


async def _present(handle: Any, batches: Sequence[Sequence[Row]]) -> list[int]:
    """How many rows of each batch are in the table."""
    there = await _there(handle, batches)
    return [sum(row[KEY] in there for row in batch) for batch in batches]


async def _there(handle: Any, batches: Sequence[Sequence[Row]]) -> set[str]:
    """The keys of the rows that are in the table; their revisions tell them from others'."""
    ours = {row[KEY]: row["revision"] for batch in batches for row in batch}
    query = handle.query().where(in_list(KEY, list(ours))).select([KEY, "revision"])
    return {row[KEY] for row in await query.to_list() if row["revision"] == ours[row[KEY]]}


async def _make_way(handle: Any, batches: Sequence[Sequence[Row]]) -> None:
    """Remove the expired rows that have the keys of new ones: these come last, not in their place.

    Nobody sees that commit. Each new row says by `updated_at` what the time is.
    """
    keys = [row[KEY] for batch in batches for row in batch]
    now = min(row["updated_at"] for batch in batches for row in batch)
    expired = f"{in_list(KEY, keys)} AND expires_at <= {timestamp(now)}"
    if await handle.count_rows(expired):
        await handle.delete(expired)


def _vectors(rows: Sequence[Row]) -> list[Sequence[float]]:
    """The vectors of the rows; of those that have several, one each."""
    vectors = [row[VECTOR] for row in rows if row.get(VECTOR) is not None]
    return [one[0] if np.ndim(one) == 2 else one for one in vectors if len(one)]


def _updating(handle: Any, claims: Collection[str] = ()) -> Any:
    """A merge that replaces rows which nobody changed meanwhile; fails where one of `claims` was."""
    guard = SUCCEEDS
    if claims:
        # The engine has no merge that fails where a row matches. A division by zero is one.
        is_fine = f"{SUCCEEDS} OR NOT source.{in_list(KEY, claims)}"
        guard = f"1 / CAST(({is_fine}) AS BIGINT) = 1 AND {SUCCEEDS}"
    merge = handle.merge_insert(KEY).when_matched_update_all(where=guard)
    # With an index on the key the engine panics over JSON columns: it updates them as plain texts.
    return merge.use_index(False)
