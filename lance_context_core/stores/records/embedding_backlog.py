"""Deferred embedding: vectors for rows without one, or with another model's."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC
from functools import partial
from typing import Any

from lance_context_core._embedding import embedded
from lance_context_core._progress import check_progress, tell
from lance_context_core._resources import Resources
from lance_context_core._util.checks import check_span
from lance_context_core._util.frozen import frozen
from lance_context_core.codecs import documents, sources
from lance_context_core.codecs.records import NO_CONTEXT, from_row
from lance_context_core.embedders._service import EmbeddingService
from lance_context_core.errors import (
    DimensionMismatchError,
    EmbeddingModelMismatchError,
    InvalidRequestError,
)
from lance_context_core.filters import DOCUMENT_FIELDS, RECORD_FIELDS, FilterLike
from lance_context_core.storage import sql
from lance_context_core.storage.database import COLD_TABLE, DOCUMENTS_TABLE
from lance_context_core.storage.lance.schema import (
    DOCUMENTS,
    SEARCH_TEXT,
    VECTOR,
    VECTORS,
    vector_model,
)
from lance_context_core.storage.names import collection_of, next_revision
from lance_context_core.storage.table import Table
from lance_context_core.storage.write_batch import Mode, WriteBatch
from lance_context_core.stores.records.scoped import Records
from lance_context_core.types import Progress
from lance_context_core.versioning.locations import Whole

_BATCH = 1000


Texts = Callable[[Mapping[str, Any]], str | None]
"""Returns the text of a row to embed."""


@frozen
class _Part:
    """The rows of one table to embed, if they have a text and no vector."""

    table: Table
    where: sql.Clause
    text_of: Texts
    is_anothers: bool = False
    """Whether it is skipped if its vectors have another length or model."""

    async def pending(self) -> list[str]:
        """Return the conditions of rows with a text and without a vector."""
        has_text = sql.any_of([sql.is_present("text"), sql.is_present(SEARCH_TEXT)])
        found: list[str] = [self.where, has_text]
        if VECTOR in (await self.table.schema()).names:
            found.append(sql.is_absent(VECTOR))
        return found

    async def count(self, embeddings: EmbeddingService) -> int:
        """Return the number of rows to embed; 0 if skipped."""
        try:
            await self.table.vectors.require_room(
                dimension=embeddings.dimension, model=embeddings.model
            )
        except (DimensionMismatchError, EmbeddingModelMismatchError):
            return 0
        return await self.table.count(sql.all_of(await self.pending()))


async def embed_all(
    records: Records,
    *,
    filter: FilterLike | None,
    limit: int | None,
    progress: Callable[[Progress], object] | None = None,
) -> int:
    """Embed matching records without a vector, then such documents; returns their number."""
    resources = records.resources
    _check(resources, limit)
    parts = [_of_records(resources, records.everything(), filter)]
    parts += await _of_documents(resources, records.inside(), filter)
    return await _embed_parts(parts, resources, limit, progress)


def with_background(resources: Resources) -> Resources:
    """Return the resources, whose background embedding, if any, begins with the next write."""
    if resources.behind is not None:
        resources.behind.embed = partial(_embed_batch, resources)
    return resources


async def _embed_batch(resources: Resources, table: Table) -> None:
    """Embed one batch of the pending rows of a table; its write schedules the next one."""
    limit = _check(resources, None).batch_size
    if table.name == resources.records.name:
        parts = [_of_records(resources, sql.differs("context", NO_CONTEXT), None)]
    else:
        parts = await _of_documents(resources, sql.all_of([]), None)
    mine = [one for one in parts if one.table.name == table.name]
    await _embed_parts(mine, resources, limit, None)


async def embed_records(
    resources: Resources,
    where: sql.Clause,
    *,
    filter: FilterLike | None = None,
    limit: int | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> int:
    """Embed matching records without a vector, oldest first; returns their number."""
    _check(resources, limit)
    return await _embed_parts([_of_records(resources, where, filter)], resources, limit, progress)


def _of_records(resources: Resources, where: sql.Clause, filter: FilterLike | None) -> _Part:
    def text_of(row: Mapping[str, Any]) -> str | None:
        return resources.composer.embed_text(from_row(row))

    where = sql.all_of([where, sql.filtered(filter, columns=RECORD_FIELDS)])
    return _Part(resources.records, where, text_of)


async def _of_documents(
    resources: Resources, where: sql.Clause, filter: FilterLike | None
) -> list[_Part]:
    """Return the matching documents of all collections, and the chunks of files."""

    def text_of(row: Mapping[str, Any]) -> str | None:
        created_at = row["created_at"].replace(tzinfo=UTC)
        shown = documents.as_record(documents.from_row(row), created_at=created_at)
        return resources.composer.embed_text(shown)

    def text_of_chunk(row: Mapping[str, Any]) -> str | None:
        return resources.composer.embed_text(sources.as_record(row))

    where = sql.all_of([where, sql.filtered(filter, columns=DOCUMENT_FIELDS)])
    database = resources.database
    # A filter on both can name the id, the text and the metadata.
    chunks = sql.all_of([where, sql.equals("kind", sources.CHUNK)])
    parts: list[_Part] = []
    for name in await database.table_names():
        if collection_of(name) is not None:
            table = database.table(name, VECTORS)
            parts.append(_Part(table, where, text_of, is_anothers=True))
        elif name == DOCUMENTS_TABLE:
            table = database.table(name, DOCUMENTS)
            parts.append(_Part(table, chunks, text_of_chunk, is_anothers=True))
    return parts


async def change_model(
    whole: Whole, *, progress: Callable[[Progress], object] | None = None
) -> None:
    """Clear the vectors of the records that another model than the embedder's made.

    Also those of archived sessions, chunks of files, and collections by the records' model; these
    come first, so that after a crash the records still show which one it was.
    """
    check_progress(progress)
    whole.require("change the model of")
    embeddings = _check(whole.resources, None)
    records = whole.resources.records
    old = await _model(records)
    if old == embeddings.model:
        return
    tables = [records]
    for table in await whole.tables():
        follows = collection_of(table.name) is not None or table.name in (
            DOCUMENTS_TABLE,
            COLD_TABLE,
        )
        if follows and old and await _model(table) == old:
            tables.insert(0, table)
    for table in tables:
        without = sql.all_of(
            [sql.is_present(VECTOR), sql.is_absent("text"), sql.is_absent(SEARCH_TEXT)]
        )
        if VECTOR in (await table.schema()).names and (n := await table.count(without)):
            raise InvalidRequestError(
                f"{n} vectors in {table.label} belong to nothing that has a text: no model could "
                "make them anew. Delete these, or use another store"
            )
    dimension = embeddings.dimension or len(await embeddings.embed_query("how many numbers?"))
    for n, table in enumerate(tables, 1):
        await table.vectors.empty(dimension, embeddings.model)
        now = Progress(n_done=n, n_total=len(tables), what="tables", name=table.name)
        await tell(progress, now)


async def _model(table: Table) -> str | None:
    schema = await table.schema()
    return vector_model(schema.field(VECTOR)) if VECTOR in schema.names else None


async def _embed_parts(
    parts: Sequence[_Part],
    resources: Resources,
    limit: int | None,
    progress: Callable[[Progress], object] | None,
) -> int:
    """Embed the pending rows of each part in turn; returns their number."""
    check_progress(progress)
    n_total = None if progress is None else await _count(parts, resources, limit)
    done = n_seen = 0
    for part in parts:
        async for n_rows, n_embedded in _embed(part, resources, limit, done):
            done, n_seen = done + n_embedded, n_seen + n_rows
            if n_total is not None:
                # Others may have added rows; and a row without a direction does not count towards
                # the limit.
                n_total = max(n_total, n_seen)
            now = Progress(n_done=n_seen, n_total=n_total, what="texts", name=part.table.name)
            await tell(progress, now)
    return done


async def _count(parts: Sequence[_Part], resources: Resources, limit: int | None) -> int:
    embeddings = _check(resources, limit)
    n = sum([await part.count(embeddings) for part in parts])
    return n if limit is None else min(n, limit)


async def _embed(
    part: _Part, resources: Resources, limit: int | None, done: int
) -> AsyncIterator[tuple[int, int]]:
    """Yield after each commit the numbers of rows read, and of embedded ones.

    `done` of `limit` were embedded before.
    """
    table, first = part.table, 0
    while limit is None or done < limit:
        columns = (await table.schema()).names
        pending = [*await part.pending(), f"_rowid >= {first}"]
        wanted = _BATCH if limit is None else min(_BATCH, limit - done)
        found = await table.slice(sql.all_of(pending), columns=columns, limit=wanted)
        rows = found.to_pylist()
        if not rows:
            break
        # Rows for which the embedder finds no direction get no vector: they are not embedded again.
        first = rows[-1]["_rowid"] + 1
        try:
            n_embedded = await _give_vectors(part, resources, rows)
        except (DimensionMismatchError, EmbeddingModelMismatchError):
            if not part.is_anothers:
                raise
            return
        done += n_embedded
        yield len(rows), n_embedded


async def _give_vectors(
    part: _Part, resources: Resources, rows: Sequence[Mapping[str, Any]]
) -> int:
    """Embed the rows in one commit; returns the number with a vector now."""
    vectors = await embedded(
        part.table,
        resources,
        given=[None] * len(rows),
        texts=[part.text_of(row) for row in rows],
        even_if_deferred=True,
    )
    ready = [
        {**row, VECTOR: vector, "revision": next_revision(row["revision"])}
        for row, vector in zip(rows, vectors, strict=True)
        if vector is not None
    ]
    done = await part.table.write(WriteBatch(ready, Mode.REPLACE))
    return len(ready) - len(done.lost)


def _check(resources: Resources, limit: int | None) -> EmbeddingService:
    check_span(offset=0, limit=limit, last=None)
    resources.writable()
    if resources.embeddings is None:
        raise InvalidRequestError("the store has no embedder: open the store with embedder=")
    return resources.embeddings
