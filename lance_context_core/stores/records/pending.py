"""Embedding later: vectors for what was stored without one, or was embedded by another model."""

from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Any

from lance_context_core._checks import check_span
from lance_context_core._embedding import embedded
from lance_context_core._resources import Resources
from lance_context_core.embedders._service import EmbeddingService
from lance_context_core.engine import sql
from lance_context_core.engine.database import DOCUMENTS_TABLE
from lance_context_core.engine.names import collection_of
from lance_context_core.engine.revisions import next_revision
from lance_context_core.engine.schema import (
    DOCUMENTS,
    SEARCH_TEXT,
    VECTOR,
    VECTORS,
    vector_model,
)
from lance_context_core.engine.table.table import Table
from lance_context_core.errors import (
    DimensionMismatchError,
    EmbeddingModelMismatchError,
    InvalidRequestError,
)
from lance_context_core.filters import DOCUMENT_FIELDS, RECORD_FIELDS, FilterLike
from lance_context_core.rows import documents, sources
from lance_context_core.rows.records import from_row
from lance_context_core.stores.records.scoped import Records
from lance_context_core.versioning.places import Whole

_BATCH = 1000


async def embed_all(records: Records, *, filter: FilterLike | None, limit: int | None) -> int:
    """Embed the matching records that have no vector, then such documents; returns how many."""
    resources = records.resources
    done = await embed_records(resources, records.everything(), filter=filter, limit=limit)
    rest = None if limit is None else limit - done
    return done + await embed_documents(resources, records.inside(), filter=filter, limit=rest)


async def embed_records(
    resources: Resources,
    where: sql.Clause,
    *,
    filter: FilterLike | None = None,
    limit: int | None = None,
) -> int:
    """Embed the matching records that have no vector, oldest first; returns how many there were."""

    def text_of(row: Mapping[str, Any]) -> str | None:
        return resources.composer.embed_text(from_row(row))

    _check(resources, limit)
    where = sql.all_of([where, sql.filtered(filter, columns=RECORD_FIELDS)])
    return await _embed(resources.records, resources, where, text_of=text_of, limit=limit)


async def embed_documents(
    resources: Resources,
    where: sql.Clause,
    *,
    filter: FilterLike | None = None,
    limit: int | None = None,
) -> int:
    """The same for the matching documents of all collections, and then for the chunks of files.

    A collection whose vectors are of another length or model is passed by: they are its owner's.
    """

    def text_of(row: Mapping[str, Any]) -> str | None:
        created_at = row["created_at"].replace(tzinfo=UTC)
        shown = documents.as_record(documents.from_row(row), created_at=created_at)
        return resources.composer.embed_text(shown)

    def text_of_chunk(row: Mapping[str, Any]) -> str | None:
        return resources.composer.embed_text(sources.as_record(row))

    _check(resources, limit)
    where = sql.all_of([where, sql.filtered(filter, columns=DOCUMENT_FIELDS)])
    database, done = resources.database, 0
    # Of both, a filter can name the id, the text and the metadata.
    chunks = sql.all_of([where, sql.equals("kind", sources.CHUNK)])
    for name in await database.table_names():
        rest = None if limit is None else limit - done
        try:
            if collection_of(name) is not None:
                table = database.table(name, VECTORS)
                done += await _embed(table, resources, where, text_of=text_of, limit=rest)
            elif name == DOCUMENTS_TABLE:
                table = database.table(name, DOCUMENTS)
                done += await _embed(table, resources, chunks, text_of=text_of_chunk, limit=rest)
        except (DimensionMismatchError, EmbeddingModelMismatchError):
            continue
    return done


async def change_model(whole: Whole) -> None:
    """Empty the vectors of the records that another model than the embedder's made.

    The same for the chunks of files, and for each collection, that the records' model made; these come first, so that after a
    crash the records still tell which it was.
    """
    whole.require("change the model of")
    embeddings = _check(whole.resources, None)
    records = whole.resources.records
    old = await _model(records)
    if old == embeddings.model:
        return
    tables = [records]
    for table in await whole.tables():
        is_of_documents = collection_of(table.name) is not None or table.name == DOCUMENTS_TABLE
        if is_of_documents and old and await _model(table) == old:
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
    for table in tables:
        await table.vectors.empty(dimension, embeddings.model)


async def _model(table: Table) -> str | None:
    schema = await table.schema()
    return vector_model(schema.field(VECTOR)) if VECTOR in schema.names else None


async def _embed(
    table: Table,
    resources: Resources,
    where: sql.Clause,
    *,
    text_of: Callable[[Mapping[str, Any]], str | None],
    limit: int | None,
) -> int:
    done, first = 0, 0
    while limit is None or done < limit:
        columns = (await table.schema()).names
        has_text = sql.any_of([sql.is_present("text"), sql.is_present(SEARCH_TEXT)])
        pending = [where, has_text, f"_rowid >= {first}"]
        if VECTOR in columns:
            pending.append(sql.is_absent(VECTOR))
        wanted = _BATCH if limit is None else min(_BATCH, limit - done)
        found = await table.slice(sql.all_of(pending), columns=columns, limit=wanted)
        rows = found.to_pylist()
        if not rows:
            break
        # What the embedder finds no direction in stays without a vector: it is not asked for again.
        first = rows[-1]["_rowid"] + 1
        vectors = await embedded(
            table,
            resources,
            given=[None] * len(rows),
            texts=[text_of(row) for row in rows],
            even_if_deferred=True,
        )
        ready = [
            row | {VECTOR: vector, "revision": next_revision(row["revision"])}
            for row, vector in zip(rows, vectors, strict=True)
            if vector is not None
        ]
        done += await table.replace(ready) if ready else 0
    return done


def _check(resources: Resources, limit: int | None) -> EmbeddingService:
    check_span(offset=0, limit=limit, last=None)
    resources.writable()
    if resources.embeddings is None:
        raise InvalidRequestError("there is no embedder: open the store with embedder=")
    return resources.embeddings
