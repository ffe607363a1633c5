"""`add_arrow` of a collection: columns of Arrow become one commit, in bounded memory."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from lance_context_core._progress import check_progress, tell, tell_written
from lance_context_core._resources import Resources
from lance_context_core._util.checks import loads, shown
from lance_context_core.codecs import arrow_fields
from lance_context_core.codecs.arrow_documents import Columns, Named, columns_of, spread, to_rows
from lance_context_core.codecs.documents import CheckedDocument, as_record
from lance_context_core.errors import (
    AlreadyExistsError,
    DimensionMismatchError,
    InvalidRequestError,
)
from lance_context_core.filters import DeclaredField
from lance_context_core.scope import Scope
from lance_context_core.storage import sql
from lance_context_core.storage.bulk import Spooled
from lance_context_core.storage.key_filter import numbers
from lance_context_core.storage.lance import reads
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.storage.table import Table
from lance_context_core.text.analysis import index_words_of_all
from lance_context_core.text.composer import Composable, dated, spoken
from lance_context_core.types import Progress

_ROWS = 16_384
"""The rows of one step."""

_LOOKED_UP = 1_024
"""The ids of one query."""


def reader_of(data: object) -> pa.RecordBatchReader:
    """The batches of a table, a reader, a batch, or several of one schema.

    Raises InvalidRequestError for anything else.
    """
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    if isinstance(data, Iterable) and not isinstance(data, str | bytes | dict):
        rest = iter(data)
        first = next(rest, None)
        if isinstance(first, pa.RecordBatch):
            return pa.RecordBatchReader.from_batches(first.schema, chain([first], rest))
    raise InvalidRequestError(
        f"data={shown(data)}: pass a pyarrow Table, RecordBatchReader or RecordBatches, or another "
        "table that exports an Arrow stream"
    )


class BulkAdd:
    """One call of `add_arrow`."""

    def __init__(
        self,
        table: Table,
        resources: Resources,
        scope: Scope,
        *,
        fields: Collection[DeclaredField],
        collection: str,
    ) -> None:
        """Adds to `table`, in that scope; `fields` are declared by the caller's handle."""
        self._table, self._resources, self._scope = table, resources, scope
        self._collection = collection
        self._fields = fields
        self._all_fields: frozenset[DeclaredField] = frozenset(fields)
        """With those that other handles have declared."""
        self._now = resources.clock.now()
        self._dimension: int | None = None
        self._model: str | None = None
        """Of the vectors that were made here."""
        self._keys = _Keys()
        self._existing: _Existing | None = None

    async def add(
        self,
        data: object,
        *,
        id: str | None,
        text: str | None,
        vector: str | None,
        metadata: Sequence[str] | None,
        progress: Callable[[Progress], object] | None,
    ) -> int:
        """As `AsyncVectors.add_arrow`."""
        check_progress(progress)
        self._resources.writable()
        reader = reader_of(data)
        named = Named.of(reader.schema, id=id, text=text, vector=vector, metadata=metadata)
        arrow_fields.check_types(reader.schema, named.metadata, self._fields)
        self._all_fields |= await self._table.fields.there()
        steps, spooled = _steps(reader), Spooled()
        while (batch := await asyncio.to_thread(next, steps, None)) is not None:
            columns = await asyncio.to_thread(columns_of, batch, named, spooled.n_rows)
            columns = await self._with_vectors(columns)
            more = arrow_fields.columns_of(batch, named.metadata, self._all_fields)
            await asyncio.to_thread(
                self._spool, columns, more, spooled, has_ids=named.id is not None
            )
            await tell(progress, Progress(n_done=spooled.n_rows, what="rows"))
        n_added = await self._write(spooled, has_ids=named.id is not None)
        await tell_written(progress, spooled.n_rows)
        return n_added

    async def _write(self, spooled: Spooled, *, has_ids: bool) -> int:
        if not spooled.n_rows:
            return 0
        await self._table.declare()
        if self._dimension is not None:
            await self._table.vectors.ensure(self._dimension, self._model)
        return await self._table.load(spooled, kept=self._absent if has_ids else None)

    def _spool(
        self,
        columns: Columns,
        more: Mapping[str, pa.Array],
        spooled: Spooled,
        *,
        has_ids: bool,
    ) -> None:
        composer = self._resources.composer
        if composer.index_text is dated:
            words = index_words_of_all(columns.texts)
        else:
            words = pa.array(_composed(columns, composer.index_text, self._now), pa.string())
        rows = to_rows(
            columns,
            search_texts=words,
            scope=self._scope,
            now=self._now,
            author=self._resources.author,
            more=more,
        )
        if has_ids and (row := self._keys.add(rows[KEY])) is not None:
            raise InvalidRequestError(
                f"id={shown(columns.ids[row].as_py())} occurs twice in one call: give each once"
            )
        spooled.add(rows)

    # Vectors

    async def _with_vectors(self, columns: Columns) -> Columns:
        """The columns with vectors for texts without one, by the embedder; all of one length."""
        if columns.vectors is not None:
            await self._expect(columns.dimension, None, "vector")
        if columns.vectors is not None and not columns.vectors.null_count:
            return columns
        embeddings = self._resources.embeddings
        if embeddings is None or self._resources.defer_embedding:
            return columns
        is_given = np.zeros(len(columns.ids), bool)
        if columns.vectors is not None:
            is_given = columns.vectors.is_valid().to_numpy(zero_copy_only=False)
        texts = await asyncio.to_thread(self._texts, columns)
        places = [i for i, one in enumerate(texts) if one is not None and not is_given[i]]
        if not places:
            return columns
        await self._table.vectors.require_room(model=embeddings.model)
        made = await embeddings.embed_documents([str(texts[place]) for place in places])
        await self._expect(made.shape[1], embeddings.model, "the embedder")
        whole = np.zeros((len(texts), made.shape[1]), np.float32)
        if columns.vectors is not None:
            given = columns.vectors.flatten().to_numpy().reshape(-1, made.shape[1])
            whole[is_given] = given
        whole[places] = made
        # Zeros say that the model found no direction in the text.
        is_given[places] = made.any(axis=1)
        return columns._replace(vectors=spread(whole[is_given], is_given))

    async def _expect(self, dimension: int | None, model: str | None, what: str) -> None:
        if self._dimension not in (None, dimension):
            raise DimensionMismatchError(
                f"{what}: vectors of lengths {self._dimension} and {dimension} in one call: one "
                "table holds one length"
            )
        if self._dimension is None:
            await self._table.vectors.require_room(dimension=dimension)
        self._dimension, self._model = dimension, self._model or model

    def _texts(self, columns: Columns) -> list[str | None]:
        composer = self._resources.composer
        if composer.embed_text is spoken:
            return [
                None if one is None or not one or one.isspace() else one
                for one in columns.texts.to_pylist()
            ]
        return _composed(columns, composer.embed_text, self._now)

    # Ids that exist

    async def _absent(self, handle: Any, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that the table lacks.

        Raises AlreadyExistsError if it has another document under one of the ids.
        """
        version = int(await handle.version())
        if self._existing is None or self._existing.version != version:
            self._existing = await _Existing.of(handle, version, self._in_scope())
        if not len(places := self._existing.among(batch["id"])):
            return batch
        there: dict[str, dict[str, Any]] = {}
        for start in range(0, len(places), _LOOKED_UP):
            ids = batch["id"].take(pa.array(places[start : start + _LOOKED_UP])).to_pylist()
            where = sql.all_of([self._in_scope(), sql.in_list("id", ids)])
            rows = await reads.scan(handle, where, ["id", "text", "metadata"])
            there |= {row["id"]: row for row in rows.to_pylist()}
        is_new = np.ones(batch.num_rows, bool)
        given = batch.select(["id", "text", "metadata"]).take(pa.array(places)).to_pylist()
        for place, row in zip(places, given, strict=True):
            if (old := there.get(row["id"])) is None:
                continue
            if _content(old) != _content(row):
                raise AlreadyExistsError(
                    f"id={row['id']!r} is taken in collection {self._collection!r} by another "
                    "document: use upsert to replace it"
                )
            is_new[place] = False
        return batch.filter(pa.array(is_new))

    def _in_scope(self) -> sql.Clause:
        return sql.all_equal(self._scope.parts())


class _Existing:
    """The ids that a table has at one version, as hashes."""

    def __init__(self, version: int, hashes: np.ndarray) -> None:
        self.version = version
        self._hashes = hashes

    @classmethod
    async def of(cls, handle: Any, version: int, where: str) -> "_Existing":
        found = [np.empty(0, np.uint64)]
        if await handle.count_rows():
            batches = reads.stream(handle, where or None, ["id"], _ROWS)
            found += [numbers(batch["id"]) async for batch in batches]
        return cls(version, np.unique(np.concatenate(found)))

    def among(self, ids: pa.Array) -> np.ndarray:
        """The places of ids that may exist."""
        if not len(self._hashes):
            return np.empty(0, np.int64)
        return np.flatnonzero(np.isin(numbers(ids), self._hashes))


class _Keys:
    """All keys of one call, as numbers in sorted runs, of which each is twice as long as the next."""

    def __init__(self) -> None:
        self._runs: list[np.ndarray] = []

    def add(self, keys: pa.Array) -> int | None:
        """Note keys; returns the place of one that stands twice, if one does."""
        # A key has 32 digits.
        start, end = 32 * keys.offset, 32 * (keys.offset + len(keys))
        digests = bytes.fromhex(keys.buffers()[2].slice(start, end - start).to_pybytes().decode())
        new = np.frombuffer(digests, np.uint64)[::2]
        run = np.sort(new)
        if len(twice := run[1:][run[1:] == run[:-1]]):
            return int(np.flatnonzero(new == twice[0])[1])
        for known in self._runs:
            at = np.searchsorted(known, new)
            is_there = known[np.minimum(at, len(known) - 1)] == new
            if is_there.any():
                return int(np.flatnonzero(is_there)[0])
        while self._runs and len(self._runs[-1]) <= len(run):
            run = np.sort(np.concatenate([self._runs.pop(), run]), kind="stable")
        self._runs.append(run)
        return None


def _steps(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """The rows of a reader, so many at a time."""
    waiting: list[pa.RecordBatch] = []
    n_waiting = 0
    for batch in reader:
        for start in range(0, batch.num_rows, _ROWS):
            part = batch.slice(start, _ROWS)
            waiting.append(part)
            n_waiting += part.num_rows
            if n_waiting >= _ROWS:
                yield _joined(waiting)
                waiting, n_waiting = [], 0
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _composed(
    columns: Columns, compose: Callable[[Composable], str | None], now: datetime
) -> list[str | None]:
    """What a composer of the caller's own makes of each document."""
    rows = zip(
        columns.ids.to_pylist(),
        columns.texts.to_pylist(),
        columns.metadata.to_pylist(),
        strict=True,
    )
    return [
        compose(
            as_record(
                CheckedDocument(id, text, None, loads(metadata, "metadata"), metadata),
                created_at=now,
            )
        )
        for id, text, metadata in rows
    ]


def _content(row: dict[str, Any]) -> tuple[Any, Any]:
    return row["text"], loads(row["metadata"], "metadata") if row["metadata"] else {}
