"""One table: the few verbs that the stores are written in, over the engine's handle."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from lance_context_core.engine import creation, indexes, reading, refs
from lance_context_core.engine.arrow import Row, to_table
from lance_context_core.engine.clauses import in_list
from lance_context_core.engine.errors import translated
from lance_context_core.engine.grouping import Group
from lance_context_core.engine.names import shown_name
from lance_context_core.engine.refs import At
from lance_context_core.engine.schema import (
    FORMAT_KEY,
    FORMAT_VERSION,
    KEY,
    VECTOR,
    TableSpec,
    vector_field,
    vector_model,
)
from lance_context_core.engine.text import TextIndex
from lance_context_core.errors import (
    AlreadyExistsError,
    ConflictError,
    ContextStoreError,
    DimensionMismatchError,
    EmbeddingModelMismatchError,
    NotFoundError,
    ReadOnlyError,
    StorageError,
    StoreFormatError,
)

if TYPE_CHECKING:
    from lance_context_core.engine.database import Database

T = TypeVar("T")

STABLE_ROW_IDS = {"new_table_enable_stable_row_ids": "true"}
"""A row's id then survives compaction and updates, and grows in the order of commits: it is the
order in which a session reads back."""

_MAX_ATTEMPTS = 5
"""How often a write is tried anew on top of what others committed; the engine retries by itself
where it can."""

_NULLS = {"on_bad_vectors": "null"}
"""A merge takes a row without a vector for one with a bad vector, and would refuse it."""

_UNCHANGED = "target.revision + 1 = source.revision"
"""New rows have revisions drawn at random: none replaces another."""

_running: set[asyncio.Task[Any]] = set()


class Pin(Protocol):
    """A moment of the store."""

    async def locate(self, name: str, handle: Any) -> At | None:
        """Where the table `name` was then; None if it did not exist. `handle` is of any line."""


class Table:
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
        self.name = name
        self.line = line
        self.label = shown_name(name)
        """What error messages call it."""
        self.spec = spec
        self._database = database
        self._pin = pin
        self._handle: Any = None
        self._creating = threading.Lock()
        self._refreshed_at = -float("inf")
        self._is_text_indexed = False
        self._appends = Group(self._append_all)
        self._inserts = Group(self._insert_all)

    @property
    def text_index(self) -> TextIndex:
        """How the table's texts are cut into words."""
        return self._database.text_index

    # Reading

    async def reader(self) -> Any | None:
        """The engine's handle, as fresh as the database's read consistency asks; None if absent."""
        self._database.require_open()
        if self._handle is None:
            self._handle = await self._open()
        elif self._pin is None and self._is_due():
            try:
                with translated(f"read {self.label}"):
                    await self._handle.checkout_latest()
            except StorageError:
                # Another process may have dropped the table; if it did not, this raises again.
                self._handle = await self._open()
            self._refreshed_at = time.monotonic()
        return self._handle

    async def schema(self) -> pa.Schema:
        """The columns of the table as they are; those of its specification if it is absent."""
        handle = await self.reader()
        return self.spec.schema if handle is None else await handle.schema()

    async def version(self) -> int:
        """The number of the version that is read; 0 if the table is absent."""
        handle = await self.reader()
        return 0 if handle is None else await handle.version()

    async def count(self, where: str | None = None) -> int:
        """How many rows match."""
        handle = await self.reader()
        if handle is None:
            return 0
        with translated(f"count {self.label}"):
            count: int = await handle.count_rows(where)
        return count

    async def select(self, where: str | None, *, columns: Sequence[str]) -> pa.Table:
        """The matching rows in the order of their commits, with their `_rowid`."""
        handle = await self.reader()
        if handle is None:
            return self.nothing(columns)
        with translated(f"read {self.label}"):
            return await reading.scan(handle, where, columns)

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
        handle = await self.reader()
        if handle is None:
            return self.nothing(columns)
        with translated(f"read {self.label}"):
            if limit is None and last is None and offset == 0:
                return await reading.scan(handle, where, columns)
            ids = (await reading.scan(handle, where, []))["_rowid"].to_numpy()
            end = len(ids) if last is None else max(len(ids) - offset, 0)
            start = offset if last is None else max(end - last, 0)
            wanted = ids[start:end][:limit]
            return (
                await reading.take(handle, wanted, columns)
                if len(wanted)
                else self.nothing(columns)
            )

    async def take(
        self, row_ids: Sequence[int] | np.ndarray, *, columns: Sequence[str]
    ) -> pa.Table:
        """The rows with these ids, in their order; those that are gone are left out."""
        handle = await self.reader()
        if handle is None or len(row_ids) == 0:
            return self.nothing(columns)
        with translated(f"read {self.label}"):
            return await reading.take(handle, row_ids, columns)

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
        handle = await self.reader()
        schema = self.spec.schema if handle is None else await handle.schema()
        if limit == 0 or VECTOR not in schema.names:
            return reading.with_column(self.nothing(columns), "_distance")
        self.check_vectors(schema, len(vector), model)
        columns = [column for column in columns if column in schema.names]
        with translated(f"search {self.label} by vector"):
            return await reading.nearest(handle, vector, where=where, limit=limit, columns=columns)

    async def match(
        self, text: str, *, where: str | None, limit: int, columns: Sequence[str]
    ) -> pa.Table:
        """The `limit` rows that match words of `text` best, with `_rowid` and their BM25 `_score`.

        A text without words, such as "" or "?!", matches nothing.
        """
        handle = await self.reader()
        if handle is None or limit == 0 or not await self._has_text_index(handle):
            return reading.with_column(self.nothing(columns), "_score")
        with translated(f"search {self.label} by words"):
            return await reading.match(handle, text, where=where, limit=limit, columns=columns)

    def nothing(self, columns: Sequence[str]) -> pa.Table:
        """No rows, with these columns and a `_rowid`."""
        fields = [field for field in self.spec.schema if field.name in columns]
        return pa.schema([*fields, pa.field("_rowid", pa.uint64())]).empty_table()

    # Writing

    async def writer(self) -> Any:
        """The engine's handle for writing; creates the table if it is absent."""
        if self._pin is not None:
            raise ReadOnlyError(
                f"{self.label} is open at an earlier version, for reading only: "
                "write through the store itself, or restore that version"
            )
        self._database.require_open()
        if self._handle is None:
            self._handle = await self._open() or await self._create()
        elif self.line is not None and self.line not in await refs.lines(self._handle, self.name):
            # The engine would write on, to where nobody reads.
            self._handle = await self._open() or await self._create()
        return self._handle

    @asynccontextmanager
    async def separately(self) -> AsyncIterator[Any]:
        """A handle for long work on the table, beside the one that reads and writes use.

        The engine leaves a handle at the version that its work ended with, even where others have
        meanwhile gone on through the same handle: they would be turned back.
        """
        await self.writer()
        connection = await self._database.connection()
        with translated(f"open {self.label}"):
            handle = await connection.open_table(self.name)
        if self.line is not None:
            handle = await refs.opened(handle, self.name, self.line)
        try:
            yield handle
        finally:
            handle.close()

    async def append(self, rows: Sequence[Row]) -> int:
        """Add rows whose keys are known to be new, in one commit; returns the version it made.

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

        A row that replaces another carries the revision that it was read with, plus one. Returns
        how many were written, and the version that is current afterwards: the rows that are
        missing in the number were written or changed by others since they were read.
        """

        async def write(handle: Any) -> tuple[int, int]:
            data = await self._arrow(handle, rows)
            merge = _updating(handle).when_not_matched_insert_all()
            result = await merge.execute(data, **_NULLS)
            n_written = int(result.num_inserted_rows) + int(result.num_updated_rows)
            return n_written, int(result.version or await handle.version())

        return await self._write("upsert into", write)

    async def replace(self, rows: Sequence[Row]) -> int:
        """As `upsert`, without adding any: what is gone stays gone. Returns how many were replaced."""

        async def write(handle: Any) -> int:
            data = await self._arrow(handle, rows)
            return int((await _updating(handle).execute(data, **_NULLS)).num_updated_rows)

        return await self._write("update", write)

    async def delete(self, where: str) -> int:
        """Remove the matching rows in one commit; returns how many there were."""
        if self._pin is not None:
            await self.writer()  # which says why not
        if await self.count(where) == 0:
            # A deletion of nothing would be a version of its own.
            return 0

        async def write(handle: Any) -> int:
            return int((await handle.delete(where)).num_deleted_rows)

        return await self._write("delete from", write)

    async def ensure_vectors(self, dimension: int, model: str | None) -> None:
        """Make sure that the table takes vectors of that length from that model.

        Raises DimensionMismatchError or EmbeddingModelMismatchError if it was built for others.
        """

        async def add(handle: Any) -> None:
            if VECTOR in (await handle.schema()).names:
                return
            try:
                await handle.add_columns(vector_field(dimension, model))
            except Exception:
                # Another writer may have added it first; what counts is what is there now.
                await handle.checkout_latest()
                if VECTOR not in (await handle.schema()).names:
                    raise

        handle = await self.writer()
        await self._insist(f"add a vector column to {self.label}", handle, add)
        self.check_vectors(await handle.schema(), dimension, model)

    def check_vectors(self, schema: pa.Schema, dimension: int, model: str | None) -> None:
        """Raise unless vectors of that length and model belong into a table of this schema."""
        if VECTOR not in schema.names:
            return
        field = schema.field(VECTOR)
        built_with = vector_model(field)
        if model and built_with and model != built_with:
            raise EmbeddingModelMismatchError(
                f"embedder model={model!r}, but the vectors in {self.label} were made by "
                f"{built_with!r}: open the store with that embedder, or use another store"
            )
        if dimension != field.type.list_size:
            raise DimensionMismatchError(
                f"embedding of length {dimension}, but the vectors in {self.label} have "
                f"{field.type.list_size} numbers: use the same embedder for all of them"
            )

    async def complete(self, handle: Any) -> None:
        """Give the table what an older release, a crash or a restored version left it without."""

        async def work(handle: Any) -> None:
            names = (await handle.schema()).names
            if missing := [field for field in self.spec.schema if field.name not in names]:
                await handle.add_columns(missing)
            if self.spec.is_searchable:
                await indexes.ensure_text_index(handle, self.text_index)

        await self._insist(f"bring {self.label} up to date", handle, work)

    def close(self) -> None:
        """Let go of the engine's handle."""
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.close()

    # Helpers

    async def _has_text_index(self, handle: Any) -> bool:
        self._is_text_indexed = self._is_text_indexed or await indexes.has_text_index(handle)
        return self._is_text_indexed

    def _is_due(self) -> bool:
        interval = self._database.read_consistency
        return (
            interval is not None
            and time.monotonic() - self._refreshed_at >= interval.total_seconds()
        )

    async def _open(self) -> Any | None:
        if not await self._database.has_place():
            return None
        connection = await self._database.connection()
        try:
            with translated(f"open {self.label}"):
                handle = await connection.open_table(self.name)
        except NotFoundError:
            return None
        schema = await handle.schema()
        check_format(schema, self.name)
        if self._pin is not None:
            at = await self._pin.locate(self.name, handle)
            return at and await refs.opened(handle, self.name, at.line, at.version)
        if self.line is not None:
            if self.line not in await refs.lines(handle, self.name):
                await self._database.require_branch(self.line)
                return None
            handle = await refs.opened(handle, self.name, self.line)
        await self.complete(handle)
        return handle

    async def _create(self) -> Any:
        """Make the table, or open it where another task or process was faster."""
        # Of two creations that overlap the engine may let the later one replace the table of the
        # earlier, rows included: those of this process wait for each other.
        while not self._creating.acquire(blocking=False):  # noqa: ASYNC110 - they share no loop
            await asyncio.sleep(0.001)
        try:
            made = self._create_alone if self.line is None else self._fork_empty
            return self._handle or await self._open() or await made()
        except (AlreadyExistsError, ConflictError):
            if (handle := await self._open()) is None:
                raise
            return handle
        finally:
            self._creating.release()

    async def _create_alone(self) -> Any:
        connection = await self._database.connection()
        with translated(f"create {self.label}"):
            handle = await creation.create(
                connection, self.name, schema=self.spec.schema, options=STABLE_ROW_IDS
            )
            if self.spec.is_searchable:
                await indexes.ensure_text_index(handle, self.text_index)
        return handle

    async def _fork_empty(self) -> Any:
        """Make a table that the main line may have, but had not when this branch was made."""
        root = await self._database.table(self.name, self.spec).writer()
        branch = str(refs.branch_of(self.line))
        base = refs.base(branch, 0)
        if base in await refs.lines(root, self.name):
            empty = await refs.opened(root, self.name, base)
        else:
            at = At(None, await root.version())
            empty = await refs.fork(root, self.name, base, at)
            with translated(f"create {self.label}"):
                await empty.delete("true")
        # What was the main line's is gone before the branch has the table.
        return await refs.fork(root, self.name, str(self.line), At(base, await empty.version()))

    async def _append_all(self, batches: Sequence[Sequence[Row]]) -> Sequence[int | Exception]:
        async def write(handle: Any) -> list[int | Exception]:
            prepared = await self._prepared(handle, batches)
            if not (sound := [one for one in prepared if isinstance(one, pa.Table)]):
                return [one for one in prepared if isinstance(one, Exception)]
            version = int((await handle.add(pa.concat_tables(sound))).version)
            return [one if isinstance(one, Exception) else version for one in prepared]

        return await self._write("append to", write)

    async def _insert_all(
        self, batches: Sequence[Sequence[Row]]
    ) -> Sequence[tuple[int, int] | Exception]:
        async def write(handle: Any) -> list[tuple[int, int] | Exception]:
            prepared = await self._prepared(handle, batches)
            if not (sound := [one for one in prepared if isinstance(one, pa.Table)]):
                return [one for one in prepared if isinstance(one, Exception)]
            rows = pa.concat_tables(sound)
            merge = handle.merge_insert(KEY).when_not_matched_insert_all()
            result = await merge.execute(rows, **_NULLS)
            version = int(result.version or await handle.version())
            if result.num_inserted_rows == rows.num_rows:
                n_added = [len(batch) for batch in batches]
            else:
                n_added = await _present(handle, batches)
            return [
                one if isinstance(one, Exception) else (n, version)
                for one, n in zip(prepared, n_added, strict=True)
            ]

        return await self._write("insert into", write)

    async def _prepared(
        self, handle: Any, batches: Sequence[Sequence[Row]]
    ) -> list[pa.Table | Exception]:
        """Each batch as the engine takes it, or why it cannot be."""
        schema = await handle.schema()
        vector = schema.field(VECTOR) if VECTOR in schema.names else None
        prepared: list[pa.Table | Exception] = []
        for batch in batches:
            try:
                with translated(f"write to {self.label}"):
                    prepared.append(to_table(batch, self.spec.schema, vector))
            except ContextStoreError as error:
                prepared.append(error)
        return prepared

    async def _arrow(self, handle: Any, rows: Sequence[Row]) -> pa.Table:
        schema = await handle.schema()
        return to_table(
            rows, self.spec.schema, schema.field(VECTOR) if VECTOR in schema.names else None
        )

    async def _write(self, action: str, write: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        handle = await self.writer()
        return await _uncancelled(self._insist(f"{action} {self.label}", handle, write))

    async def _insist(
        self, action: str, handle: Any, work: Callable[[Any], Coroutine[Any, Any, T]]
    ) -> T:
        """Do `work`, which is one commit; on top of what others committed, if that prevents it."""
        for _ in range(_MAX_ATTEMPTS - 1):
            try:
                with translated(action):
                    return await work(handle)
            except ConflictError:
                await handle.checkout_latest()
        with translated(action):
            return await work(handle)


def check_format(schema: pa.Schema, name: str) -> None:
    """Raise StoreFormatError unless this release reads tables of that schema."""
    written = (schema.metadata or {}).get(FORMAT_KEY, b"")
    if not written.isdigit():
        raise StoreFormatError(
            f"{shown_name(name)} was not written by lance_context_core: give the store a directory "
            "of its own"
        )
    if int(written) > FORMAT_VERSION:
        raise StoreFormatError(
            f"{shown_name(name)} has format {int(written)}, this release reads up to {FORMAT_VERSION}: "
            "upgrade lance-context-core"
        )


async def _present(handle: Any, batches: Sequence[Sequence[Row]]) -> list[int]:
    """How many rows of each batch are in the table; their revisions tell them from others'."""
    ours = {row[KEY]: row["revision"] for batch in batches for row in batch}
    query = handle.query().where(in_list(KEY, list(ours))).select([KEY, "revision"])
    there = {row[KEY] for row in await query.to_list() if row["revision"] == ours[row[KEY]]}
    return [sum(row[KEY] in there for row in batch) for batch in batches]


def _updating(handle: Any) -> Any:
    """A merge that replaces rows which nobody changed meanwhile."""
    merge = handle.merge_insert(KEY).when_matched_update_all(where=_UNCHANGED)
    # With an index on the key the engine panics over JSON columns: it updates them as plain texts.
    return merge.use_index(False)


async def _uncancelled(write: Awaitable[T]) -> T:
    """Await `write` so that cancelling the caller leaves it running to its end."""
    task = asyncio.ensure_future(write)
    _running.add(task)
    task.add_done_callback(_running.discard)
    return await asyncio.shield(task)
