"""Collections of documents with vectors; each has its own table."""

import builtins
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from lance_context_core._embedding import embedded
from lance_context_core._handle import handle
from lance_context_core._progress import check_progress, tell_written
from lance_context_core._resources import Resources
from lance_context_core._util import cooperative as steps
from lance_context_core._util.calls import takes
from lance_context_core._util.checks import check_names, check_span, listed
from lance_context_core._util.retry import Attempts
from lance_context_core.codecs.documents import (
    COLUMNS,
    REPLACED,
    CheckedDocument,
    as_record,
    checked,
    from_row,
    refuse_other_types,
    to_row,
)
from lance_context_core.codecs.records import refuse_duplicates
from lance_context_core.erasure import erase, selector
from lance_context_core.errors import AlreadyExistsError, InvalidRequestError
from lance_context_core.filters import DOCUMENT_FIELDS, Columns, DeclaredField, FilterLike
from lance_context_core.scope import Scope
from lance_context_core.search import query as searching
from lance_context_core.search.options import SearchArguments
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import VECTOR, VECTORS
from lance_context_core.storage.names import collection_of, table_of
from lance_context_core.storage.table import Table
from lance_context_core.storage.write_batch import Mode, WriteBatch
from lance_context_core.stores.bulk_vectors import BulkAdd
from lance_context_core.types import Document, Erasure, Progress, SearchHit
from lance_context_core.versioning.locations import Whole

_Telling = Callable[[Progress], object] | None


@handle
class AsyncVectors:
    """A collection of documents; satisfies `VectorStore`.

    The first vector sets its dimension. A collection without a write reads as empty.
    """

    collection: str
    _resources: Resources
    _scope: Scope
    _fields: tuple[DeclaredField, ...] = ()

    def __post_init__(self) -> None:
        """Raise InvalidRequestError for a field that another handle declared with another type."""
        if self._fields:
            self._table.fields.want(self._fields)

    async def add(
        self,
        documents: Sequence[Document],
        *,
        progress: Callable[[Progress], object] | None = None,
    ) -> builtins.list[str]:
        """Add documents in one commit, all or none; returns their ids, in order.

        A document whose id exists with the same text and metadata is left unchanged, so a call
        whose outcome is unknown may be repeated; with other content AlreadyExistsError is raised
        before anything is written.

        `progress` is called as texts are embedded, up to 1,000 at a time, and once all is written;
        if it raises before that, for example to cancel, the call ends, and nothing is written.
        """
        return await self._written(documents, self._insert_absent, progress)

    async def _insert_absent(self, given: Sequence[CheckedDocument], progress: _Telling) -> None:
        attempts = Attempts("the same documents kept being written by others")
        while True:
            attempts.begin()
            existing = await self._existing(given)
            self._refuse_other_content(given, existing)
            new = [document for document in given if document.id not in existing]
            rows = await self._rows(new, {}, progress)
            if not rows or (await self._table.write(WriteBatch(rows, Mode.INSERT))).is_done:
                return
            # Another writer took some of the ids meanwhile: check its documents.

    async def add_arrow(
        self,
        data: object,
        *,
        id: str | None = None,
        text: str | None = None,
        vector: str | None = None,
        metadata: Sequence[str] | None = None,
        progress: Callable[[Progress], object] | None = None,
    ) -> int:
        """Add documents from columns of Arrow in one commit, all or none; returns how many are new.

        `data` is a pyarrow Table, RecordBatch or RecordBatchReader, several RecordBatches, or
        another table that exports an Arrow stream, such as a Polars or pandas DataFrame. Memory
        holds some 16,000 rows; a reader is read once, to its end, and the rows wait in a temporary
        file.

        `id`, `text` and `vector` name the columns, by default those of that name, if they exist:
        texts; texts; lists of floats of one length. Without ids they are generated; without a
        vector the embedder makes one from the text. The columns named by `metadata`, by default all
        others, become the metadata; a null is left out. They may have texts, numbers, booleans,
        dates, timestamps, and lists and structs of these; dates and timestamps are stored as
        `JsonCodec` encodes them, which filters compare with dates and datetimes.

        Ids that exist are treated as by `add`. Raises InvalidRequestError, which names the
        argument, for a column that is missing or of another type, and for an id that occurs twice;
        DimensionMismatchError for vectors of another length.

        `progress` is called with the rows read so far, and once all is written; if it raises before
        that, nothing is written.
        """
        loading = BulkAdd(
            self._table,
            self._resources,
            self._scope,
            fields=self._fields,
            collection=self.collection,
        )
        return await loading.add(
            data, id=id, text=text, vector=vector, metadata=metadata, progress=progress
        )

    async def upsert(
        self,
        documents: Sequence[Document],
        *,
        progress: Callable[[Progress], object] | None = None,
    ) -> builtins.list[str]:
        """Add documents, replacing those whose ids exist, in one commit; returns their ids.

        Only if another writer changes one of them at the same moment it takes a second commit, on
        top of the other's. `progress` as in `add`.
        """
        return await self._written(documents, self._upsert, progress)

    async def _upsert(self, given: Sequence[CheckedDocument], progress: _Telling) -> None:
        attempts = Attempts("the same documents kept being changed by others")
        pending, tried = given, set[tuple[str, int]]()
        while True:
            attempts.begin()
            existing = await self._existing(pending)
            # Rows written before the others were lost stay: another write would take them from
            # another writer that retries, for ever.
            done = {id for id, old in existing.items() if (id, old["revision"]) in tried}
            pending = [document for document in pending if document.id not in done]
            rows = await self._rows(pending, existing, progress)
            if not rows or (await self._table.write(WriteBatch(rows, Mode.UPSERT))).is_done:
                return
            tried |= {(row["id"], row["revision"]) for row in rows}

    @takes(SearchArguments, searching.DEFAULTS)
    async def search(
        self,
        query: str | Sequence[float] | None = None,
        *,
        include_embedding: bool = False,
        **arguments: Unpack[SearchArguments],
    ) -> builtins.list[SearchHit[Document]]:
        """Search the documents, best first. See `AsyncContextStore.search`.

        Documents do not answer each other as turns do: no boosts are added to the channels' scores.
        """
        searched = searching.Searched(
            table=self._table,
            resources=self._resources,
            where=self._where(),
            filterable=await self._filterable(arguments.get("filter")),
            columns=[*COLUMNS, *([VECTOR] if include_embedding else [])],
            read=from_row,
            scope=sql.all_equal(self._scope.parts()),
        )
        return await searching.search(searched, query, **arguments)

    async def get(
        self, ids: Sequence[str], *, include_embedding: bool = False
    ) -> builtins.list[Document]:
        """Return documents in the order of `ids`; unknown ids are skipped.

        The vectors are read only with `include_embedding`; else `embedding` is None.
        """
        ids = check_names(ids, "ids")
        where = self._where(sql.in_list("id", ids))
        columns = [*COLUMNS, *([VECTOR] if include_embedding else [])]
        rows = await self._table.select(where, columns=columns)
        found = {one.id: one for one in await steps.each_row(from_row, rows)}
        return [found[one] for one in ids if one in found]

    async def list(
        self,
        *,
        filter: FilterLike | None = None,
        limit: int | None = None,
        offset: int = 0,
        include_embedding: bool = False,
    ) -> builtins.list[Document]:
        """Return matching documents in the order of addition: `limit` after `offset`, or all.

        The vectors are read only with `include_embedding`; else `embedding` is None.
        """
        check_span(offset=offset, limit=limit, last=None)
        where = await self._matching(filter)
        columns = [*COLUMNS, *([VECTOR] if include_embedding else [])]
        rows = await self._table.slice(where, columns=columns, limit=limit, offset=offset)
        return await steps.each_row(from_row, rows)

    async def delete(
        self, ids: Sequence[str] | None = None, *, filter: FilterLike | None = None
    ) -> int:
        """Delete documents by id, by filter, or by both; returns their number.

        Raises InvalidRequestError without both, and for a filter alone that matches every document,
        such as {}: see `delete_collection`.
        """
        if ids is not None:
            named = sql.in_list("id", check_names(ids, "ids"))
            return await self._delete(self._where(named, filter=filter))
        instead = "pass ids or filter, or call delete_collection()"
        if filter is None:
            raise InvalidRequestError(f"delete what? {instead}")
        sql.restricting(filter, columns=DOCUMENT_FIELDS, instead=instead)
        return await self._delete(self._where(filter=filter))

    async def erase(
        self,
        ids: Sequence[str] | None = None,
        *,
        filter: FilterLike | None = None,
        sole_writer: bool = False,
        dry_run: bool = False,
        progress: Callable[[Progress], object] | None = None,
    ) -> Erasure:
        """Remove documents from every file of the collection. See `AsyncContextStore.erase`.

        Without `ids` and `filter`, in a scope, all documents of the scope in this collection; else
        raises InvalidRequestError, as for a filter alone that matches every document: see
        `delete_collection`.
        """
        check_progress(progress)
        whole = Whole(self._resources, self._scope)
        meant = selector.documents(self._scope, table_of(self.collection), ids=ids, filter=filter)
        return await erase.erase(
            whole, meant, sole_writer=sole_writer, dry_run=dry_run, progress=progress
        )

    async def count(self, *, filter: FilterLike | None = None) -> int:
        """Return the number of matching documents, or of all; 0 before the first write."""
        return await self._table.count(await self._matching(filter))

    async def list_collections(self) -> builtins.list[str]:
        """Return the names of collections with documents, in alphabetical order.

        In a scope: with documents of the scope.
        """
        names = await self._resources.database.table_names()
        found = sorted(c for name in names if (c := collection_of(name)) is not None)
        return [name for name in found if await replace(self, collection=name).count() > 0]

    async def delete_collection(self) -> int:
        """Delete this collection; returns the number of its documents.

        In a scope only the scope's documents are deleted.
        """
        n_documents = await self.count()
        if self._scope.parts():
            return await self._delete(self._where() or sql.EVERYTHING)
        await self._resources.writable().drop(table_of(self.collection))
        return n_documents

    @property
    def _table(self) -> Table:
        return self._resources.database.table(table_of(self.collection), VECTORS)

    async def _filterable(self, filter: FilterLike | None) -> Columns:
        """The columns for a filter, with the declared fields that can be asked now."""
        declared = {} if filter is None else await self._table.fields.usable()
        return replace(DOCUMENT_FIELDS, declared=declared) if declared else DOCUMENT_FIELDS

    async def _matching(self, filter: FilterLike | None) -> sql.Clause | None:
        """The condition of rows to read; None for all."""
        named = sql.filtered(filter, columns=await self._filterable(filter))
        return sql.all_of([sql.all_equal(self._scope.parts()), named]) or None

    def _where(self, *conditions: sql.Clause, filter: FilterLike | None = None) -> sql.Clause:
        named = sql.filtered(filter, columns=DOCUMENT_FIELDS)
        return sql.all_of([sql.all_equal(self._scope.parts()), *conditions, named])

    async def _written(
        self,
        documents: Sequence[Document],
        write: Callable[[Sequence[CheckedDocument], _Telling], Awaitable[None]],
        progress: _Telling,
    ) -> builtins.list[str]:
        """Write documents with this function, or append those without ids; returns the ids."""
        check_progress(progress)
        self._resources.writable()
        given, are_new = await self._checked(documents)
        if self._fields:
            await self._table.declare()
        await (self._append if are_new else write)(given, progress)
        await tell_written(progress, len(given))
        return [document.id for document in given]

    async def _checked(
        self, documents: Sequence[Document]
    ) -> tuple[builtins.list[CheckedDocument], bool]:
        """Return the documents in plain types, and whether all ids were generated here."""
        given = listed(documents, "documents")
        found = await steps.each(
            lambda one: checked(one[1], f"documents[{one[0]}]"), enumerate(given)
        )
        refuse_duplicates(("id", one.id) for one in found)
        for index, one in enumerate(found if self._fields else ()):
            refuse_other_types(one.metadata, self._fields, f"documents[{index}]")
        return found, all(one.id is None for one in given)

    async def _delete(self, where: sql.Clause) -> int:
        return (await self._table.write(WriteBatch(where=where))).n_removed

    async def _append(self, documents: Sequence[CheckedDocument], progress: _Telling) -> None:
        """Add documents with new ids, without the cost of a merge."""
        if rows := await self._rows(documents, {}, progress):
            await self._table.write(WriteBatch(rows))

    def _refuse_other_content(
        self, documents: Sequence[CheckedDocument], existing: Mapping[str, Mapping[str, Any]]
    ) -> None:
        for document in documents:
            if (row := existing.get(document.id)) is None:
                continue
            there = from_row(row)
            if (there.text, there.metadata) != (document.text, document.metadata):
                raise AlreadyExistsError(
                    f"id={document.id!r} is taken in collection {self.collection!r} by another "
                    "document: use upsert to replace it"
                )

    async def _existing(self, documents: Sequence[CheckedDocument]) -> dict[str, dict[str, Any]]:
        """Return the existing rows of the documents' ids, by id."""
        where = self._where(sql.in_list("id", [document.id for document in documents]))
        rows = (await self._table.select(where, columns=REPLACED)).to_pylist()
        return {row["id"]: row for row in rows}

    async def _rows(
        self,
        documents: Sequence[CheckedDocument],
        existing: Mapping[str, Mapping[str, Any]],
        progress: Callable[[Progress], object] | None,
    ) -> builtins.list[dict[str, Any]]:
        composer, now = self._resources.composer, self._resources.clock.now()

        def row(document: CheckedDocument) -> tuple[dict[str, Any], str | None]:
            old = existing.get(document.id)
            shown = as_record(document, created_at=old["created_at"] if old else now)
            words = composer.index_text(shown)
            made = to_row(
                document,
                search_text=words,
                scope=self._scope,
                now=now,
                author=self._resources.author,
                old=old,
            )
            return made, composer.embed_text(shown) if document.embedding is None else None

        pairs = await steps.each(row, documents)
        vectors = await embedded(
            self._table,
            self._resources,
            given=[document.embedding for document in documents],
            texts=[text for _, text in pairs],
            progress=progress,
        )
        return [made | {VECTOR: vector} for (made, _), vector in zip(pairs, vectors, strict=True)]
