"""Checks a store's integrity: its files, keys, rows, indexes and write-ahead log."""

import asyncio
import json
from array import array
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lance_context_core._progress import check_progress, tell
from lance_context_core._resources import Resources
from lance_context_core._util.frozen import frozen_by_name, own_first
from lance_context_core.codecs.blobs import BLOB, n_pieces
from lance_context_core.errors import ContextStoreError, StorageError
from lance_context_core.maintenance.leases import UPKEEP_TABLE
from lance_context_core.scope import SCOPE_PARTS
from lance_context_core.storage.database import spec_of
from lance_context_core.storage.lance import reads
from lance_context_core.storage.lance.branches import MAIN
from lance_context_core.storage.lance.schema import BLOBS, COLD, KEY, RECORDS, SEARCH_TEXT, VECTOR
from lance_context_core.storage.lance.torn_manifests import damaged
from lance_context_core.storage.repair import WAY_OUT
from lance_context_core.storage.sql import equals
from lance_context_core.storage.table import Table
from lance_context_core.storage.wal.table_log import TableLog
from lance_context_core.types import Progress
from lance_context_core.types.answers import Checked, Wrong
from lance_context_core.versioning import branches
from lance_context_core.versioning.locations import Whole, turn

# Checks that the bytes of blobs match their hashes.

_COLUMNS = (*SCOPE_PARTS, "id", "hash", "kind", "position", "size", "data")


class Hashes:
    """The hashes of the blobs whose rows were read so far."""

    def __init__(self) -> None:
        """Starts empty."""
        self._pieces: dict[tuple[Any, ...], tuple[Any, int]] = {}
        """For each blob in pieces, its running hash, and how many pieces were read."""
        self._sizes: dict[tuple[Any, ...], tuple[str, int]] = {}

    def wrong(self, batch: pa.RecordBatch) -> Iterator[str]:
        """Returns the ids of the blobs in these rows whose bytes differ; keeps track of those in pieces."""
        for row in batch.select(_COLUMNS).to_pylist():
            blob = (*(row[name] for name in SCOPE_PARTS), row["hash"])
            if row["kind"] == BLOB:
                if row["data"] is not None and sha256(row["data"]).hexdigest() != row["hash"]:
                    yield row["id"]
                elif row["data"] is None:
                    self._sizes[blob] = row["id"], n_pieces(row["size"] or 0)
                continue
            digest, n_seen = self._pieces.get(blob, (sha256(), 0))
            if digest is None or row["position"] != n_seen:
                self._pieces[blob] = None, n_seen  # They come in another order: no verdict.
                continue
            digest.update(row["data"] or b"")
            self._pieces[blob] = digest, n_seen + 1

    def wrong_pieces(self) -> Iterator[str]:
        """Returns the ids of the blobs in pieces whose bytes differ, or are incomplete."""
        for blob, (id, n_wanted) in self._sizes.items():
            digest, n_seen = self._pieces.get(blob, (sha256(), 0))
            if digest is None or not n_wanted:
                continue
            if n_seen != n_wanted or digest.hexdigest() != blob[-1]:
                yield id


# Checks all guarantees about stored data, and names the violations.

_BATCH_ROWS = 4_096
_SAMPLES = 16
"""How many values of a column are looked up by its index, and counted without it."""

_MOST = 100
"""How many problems with rows are reported one by one."""

_SAME = ("id", "kind", "context", "tenant", "user_id", "agent_id", "session_id", "external_id")
"""Values stored in a record's columns, and again in the packed field that reads use."""

_JSON = ("fields", "parts", "native", "metadata", "state_metadata", "value", "properties")

_ACCEPT = "restore the files from a copy, or call accept_loss(), which goes on without them"

_RESTORE = "restore the file from a copy, or an earlier version with restore()"


@frozen_by_name
class Problem(Wrong):
    """An integrity problem."""

    kind: str
    """`file`, `table`, `row`, `key`, `index` or `journal`."""
    where: str
    """The file, or the table with its branch and the row's id."""
    way_out: str
    """The remedy, if one exists."""


@own_first
@frozen_by_name
class Verification(Checked):
    """The checked parts, and the problems."""

    files: int
    """On an object store no files are checked directly: reads find missing ones."""
    rows: int
    """Of all tables on all branches, in their current state."""
    indexes: int
    problems: tuple[Problem, ...] = ()


async def verify(whole: Whole, *, progress: Callable[[Progress], object] | None) -> Verification:
    """See `ContextStore.verify`."""
    whole.require("verify")
    check_progress(progress)
    found = await _look(whole, progress)
    if not found.problems:
        return found
    # Others may have removed a version, a branch or a table during the check. A real problem
    # persists once they are done.
    async with turn(whole.resources.database.root.connection):
        again = await _look(whole, progress)
    seen = {(one.kind, one.where) for one in found.problems}
    problems = [one for one in again.problems if (one.kind, one.where) in seen]
    return replace(again, problems=tuple(problems))


async def _look(whole: Whole, progress: Callable[[Progress], object] | None) -> Verification:
    looked = _Looked(progress)
    place = Path(whole.resources.database.uri)
    names = await whole.resources.database.table_names()
    if place.is_absolute():
        await asyncio.to_thread(looked.files_of, place, names)
    await looked.journal(whole.resources)
    await looked.acknowledged(whole.resources)
    try:
        there = [MAIN, *(one.name for one in await branches.listed(whole))]
    except ContextStoreError as error:
        looked.failed("table", "records", "its branches cannot be read", error)
        there = [MAIN]
    for branch in there:
        try:
            tables = await whole.on(branch).tables()
        except ContextStoreError as error:
            looked.failed("table", branch, "cannot be read", error)
            continue
        for table in tables:
            await looked.table(table, branch)
    return Verification(
        files=len(looked.files),
        rows=looked.rows,
        indexes=looked.indexes,
        problems=tuple(looked.problems),
    )


class _Looked:
    """The results so far."""

    def __init__(self, progress: Callable[[Progress], object] | None) -> None:
        self.files: set[Path] = set()
        self.rows = self.indexes = 0
        self.problems: list[Problem] = []
        self._n_rows_told = 0
        self._lacking: set[tuple[str, str]] = set()
        self._failures: set[str] = set()
        self._progress = progress

    def wrong(self, kind: str, where: str, what: str, way_out: str) -> None:
        """Adds a problem."""
        self.problems.append(Problem(kind=kind, where=where, what=what, way_out=way_out))

    def failed(self, kind: str, where: str, what: str, error: Exception) -> None:
        """Adds an unreadable part, unless the same error was reported before."""
        if str(error) not in self._failures:
            self._failures.add(str(error))
            self.wrong(kind, where, f"{what}: {error}", _RESTORE)

    def files_of(self, place: Path, names: list[str]) -> None:
        """Checks the files of all versions."""
        for name in names:
            try:
                for file, what in damaged(place / f"{name}.lance", self.files):
                    self.wrong("file", str(file), what, _RESTORE)
            except FileNotFoundError as error:
                # A folder was removed while it was listed, as with a branch.
                self.wrong("file", name, f"cannot be read: {error}", _RESTORE)

    async def journal(self, resources: Resources) -> None:
        """Checks the write-ahead log, if one exists."""
        journal = resources.current().connection.journal
        if journal is None:
            return
        try:
            if not await journal.exists():
                return
            for fault in await journal.faults():
                self.wrong("journal", str(journal.path), fault, _RESTORE)
            for part in await journal.parts():
                await TableLog(journal, part.name, part.ref or None).view()
        except (ContextStoreError, OSError, ValueError) as error:
            self.failed("journal", str(journal.path), "cannot be read", error)

    async def acknowledged(self, resources: Resources) -> None:
        """Checks that the acknowledged state of each table, branch and tag exists."""
        try:
            found = await resources.current().connection.lacking(UPKEEP_TABLE)
        except StorageError:
            return  # The write-ahead log is damaged, which was reported.
        for part, where, what in found:
            self._lacking.add(part)
            self._failures.add(f"{what}: {WAY_OUT}")
            self.wrong("table", str(where), what, _ACCEPT)

    async def table(self, table: Table, branch: str) -> None:
        """Checks all rows of a table on a branch, its keys and its indexes."""
        if (table.name, table.ref or "") in self._lacking:
            return
        where = table.name if branch == MAIN else f"{table.name} on {branch}"
        keys, hashes = _Keys(), Hashes()
        try:
            async with table.access.explained():
                async for batch in _all(table):
                    self.rows += batch.num_rows
                    await asyncio.to_thread(
                        self._check, batch, where, is_record=table.spec in (RECORDS, COLD)
                    )
                    await asyncio.to_thread(keys.add, batch.column(KEY))
                    if table.spec is BLOBS:
                        await asyncio.to_thread(self._check_blobs, hashes.wrong(batch), where)
                    now = Progress(n_done=self.rows, what="rows", name=table.name)
                    await tell(self._progress, now)
            handle = await table.access.reader()
            n_repeated = 0 if table.spec.repeats_keys else await keys.count_repeated(table)
        except ContextStoreError as error:
            self.failed("table", where, "cannot be read", error)
            return
        self._check_blobs(hashes.wrong_pieces(), where)
        if keys.n_absent and not table.spec.repeats_keys:
            self.wrong("key", where, f"{keys.n_absent} rows have no key", _RESTORE)
        if n_repeated:
            self.wrong("key", where, f"{n_repeated} keys occur twice", _RESTORE)
        if handle is not None:
            await self._check_indexes(handle, where)

    def _check(self, batch: pa.RecordBatch, where: str, *, is_record: bool) -> None:
        columns = {
            name: column.storage if isinstance(column, pa.ExtensionArray) else column
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        }
        ids = columns["id"].to_pylist()
        for name in _JSON:
            if name not in columns or columns[name].null_count == batch.num_rows:
                continue
            if is_record and name in ("metadata", "state_metadata"):
                continue  # Both are packed, too, and read from there.
            texts = columns[name].to_pylist()
            values = [_read(text) for text in texts]
            for id, value in zip(ids, values, strict=True) if _BROKEN in values else ():
                if value is _BROKEN:
                    self._row(where, id, f"{name!r} is not JSON")
            if name == "fields" and is_record:
                self._check_packed(values, columns, ids, where)
        if (vectors := columns.get(VECTOR)) is not None and vectors.null_count < len(vectors):
            flat = vectors.flatten()
            numbers = (flat.flatten() if pa.types.is_nested(flat.type) else flat).drop_null()
            if not np.isfinite(np.asarray(numbers)).all():
                self.wrong("row", where, "a vector has numbers that are none", "embed_pending()")

    def _check_packed(
        self, packed: list[Any], columns: dict[str, pa.Array], ids: list[str], where: str
    ) -> None:
        for name in _SAME:
            stored = columns[name].to_pylist()
            if [one.get(name) if isinstance(one, dict) else None for one in packed] == stored:
                continue
            for id, one, value in zip(ids, packed, stored, strict=True):
                if isinstance(one, dict) and one.get(name) != value:
                    self._row(where, id, f"its {name} is {value!r}, and reads as {one.get(name)!r}")

    def _check_blobs(self, wrong: Iterable[str], where: str) -> None:
        for id in wrong:
            self._row(where, id, "its bytes have not the hash that it is kept under")

    def _row(self, where: str, id: str, what: str) -> None:
        self._n_rows_told += 1
        if self._n_rows_told <= _MOST:
            self.wrong("row", f"{where}: {id}", what, _RESTORE)

    async def _check_indexes(self, handle: Any, where: str) -> None:
        n_rows = await handle.count_rows()
        for index in await handle.list_indices():
            self.indexes += 1
            [column] = index.columns
            try:
                stats = await handle.index_stats(index.name)
                if stats is not None and stats.num_indexed_rows > n_rows + stats.num_unindexed_rows:
                    self._index(where, column, "knows more rows than there are")
                if column not in (SEARCH_TEXT, VECTOR):
                    await self._look_up(handle, column, where)
                elif column == SEARCH_TEXT:
                    await reads.match(handle, "the", where=None, limit=1, columns=["id"])
            except Exception as error:  # noqa: BLE001 - whatever the engine says of its own index
                self._index(where, column, f"cannot be asked: {str(error)[:200]}")

    async def _look_up(self, handle: Any, column: str, where: str) -> None:
        """Looks some values up by the index, and counts the same values without it."""
        some = await reads.written_last(handle, 50 * _SAMPLES, [column])
        values = [one for one in some[column].unique().to_pylist() if one is not None]
        for value in values[:: max(len(values) // _SAMPLES, 1)][:_SAMPLES]:
            clause = equals(column, value)
            asked = await reads.count(handle, clause)
            # A condition that no index can answer.
            counted = await reads.count(handle, f"({clause}) IS TRUE")
            if asked != counted:
                self._index(where, column, f"finds {asked} rows of {value!r}, there are {counted}")
                return

    def _index(self, where: str, column: str, what: str) -> None:
        self.wrong("index", f"{where}: {column}", what, "maintain(), which rebuilds it")


class _Keys:
    """The keys of a table, eight bytes a row: checked rows are not held in memory."""

    def __init__(self) -> None:
        self.n_absent = 0
        self._digests = array("q")

    def add(self, keys: pa.Array) -> None:
        """Adds the keys of some rows."""
        self.n_absent += keys.null_count
        self._digests.extend(map(hash, keys.drop_null().to_pylist()))

    async def count_repeated(self, table: Table) -> int:
        """Returns how many rows repeat an earlier key; reads possible repetitions again."""
        digests, counts = np.unique(np.frombuffer(self._digests, np.int64), return_counts=True)
        suspects = {*digests[counts > 1].tolist()}
        if not suspects:
            return 0
        found: Counter[str] = Counter()
        async for batch in _all(table, [KEY]):
            found.update(one for one in batch.column(KEY).to_pylist() if hash(one) in suspects)
        return sum(n - 1 for n in found.values())


async def _all(table: Table, columns: Sequence[str] | None = None) -> AsyncIterator[pa.RecordBatch]:
    snapshot = await table.snapshot()
    try:
        columns = columns or [*table.spec.schema.names, VECTOR]
        read = snapshot.batches(None, columns=columns, batch_rows=_BATCH_ROWS)
        async for batch in read:
            yield batch
    finally:
        snapshot.close()


_BROKEN = object()


def _read(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return _BROKEN


# Continuing with the rest of a store that lacks acknowledged data.


async def accept_loss(whole: Whole) -> tuple[Problem, ...]:
    """See `ContextStore.accept_loss`."""
    whole.require("accept a loss")
    database = whole.resources.writable().root
    connection = database.connection
    lost = []
    if (journal := connection.journal) is not None and (wrong := await journal.accept_loss()):
        lost.append(_problem("journal", str(journal.path), wrong))
    for part, where, what in await connection.lacking(UPKEEP_TABLE, is_damaged=True):
        is_wanted = await connection.accept(part.name, part.ref)
        if not part.ref:
            access = database.table(part.name, spec_of(part.name)).access
            access.close()
            if is_wanted:
                await access.commits.know(await access.opened())
        lost.append(_problem("table", str(where), what))
    return tuple(lost)


def _problem(kind: str, where: str, what: str) -> Problem:
    return Problem(kind=kind, where=where, what=what, way_out="none: the loss is accepted")
