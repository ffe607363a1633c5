"""Collections of documents with vectors, each a table of its own."""

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Unpack

from lance_context_core import _steps as steps
from lance_context_core._checks import (
    check_name,
    check_names,
    check_text,
    listed,
    loads,
    written_json_object,
)
from lance_context_core._embedding import embedded
from lance_context_core._options import takes
from lance_context_core._resources import Resources
from lance_context_core._retrying import Attempts
from lance_context_core.engine import sql
from lance_context_core.engine.names import collection_of, table_of
from lance_context_core.engine.revisions import new_revision, next_revision
from lance_context_core.engine.schema import KEY, VECTOR, VECTORS
from lance_context_core.engine.table.table import Table
from lance_context_core.erasure import erase, target
from lance_context_core.errors import AlreadyExistsError, InvalidRequestError
from lance_context_core.filters import DOCUMENT_FIELDS, FilterLike
from lance_context_core.records import Document, Erasure, SearchHit
from lance_context_core.rows.documents import as_record
from lance_context_core.rows.records import (
    key_of,
    new_id,
    refuse_duplicates,
)
from lance_context_core.scope import Scope
from lance_context_core.search import query as searching
from lance_context_core.search.options import SearchArguments
from lance_context_core.stores.records.view import check_span
from lance_context_core.versioning.places import Whole

_COLUMNS = ("id", "text", "metadata")


@dataclass(frozen=True, slots=True)
class AsyncVectors:
    """One collection of documents; satisfies `VectorStore`.

    Its dimension is that of the first vector it is given. A collection that nobody wrote to reads
    as empty.
    """

    collection: str
    _resources: Resources
    _scope: Scope

    async def add(self, documents: Sequence[Document]) -> builtins.list[str]:
        """Add documents in one commit, all or none; returns their ids, in order.

        A document whose id is there already with the same text and metadata is left as it is, so a
        call whose outcome is unknown may be repeated; with another content AlreadyExistsError is
        raised before anything is written.
        """
        self._resources.writable()
        prepared = self._prepared(documents)
        if all(document.is_new for document in prepared):
            return await self._append(prepared)
        attempts = Attempts("the same documents kept being written by others")
        while True:
            attempts.begin()
            existing = await self._existing(prepared)
            self._refuse_other_content(prepared, existing)
            new = [document for document in prepared if document.id not in existing]
            rows = await self._rows(new, {})
            if not rows or (await self._table.insert_absent(rows))[0] == len(rows):
                return [document.id for document in prepared]
            # Another writer took some of the ids meanwhile: what it wrote is looked at.

    async def upsert(self, documents: Sequence[Document]) -> builtins.list[str]:
        """Add documents, replacing those whose ids exist, in one commit; returns their ids.

        Only where another writer changes one of them at the same moment it takes a second commit,
        on top of the other's.
        """
        self._resources.writable()
        prepared = self._prepared(documents)
        if all(document.is_new for document in prepared):
            return await self._append(prepared)
        attempts = Attempts("the same documents kept being changed by others")
        while True:
            attempts.begin()
            rows = await self._rows(prepared, await self._existing(prepared))
            if not rows or (await self._table.upsert(rows))[0] == len(rows):
                return [document.id for document in prepared]

    @takes(SearchArguments, searching.DEFAULTS)
    async def search(
        self,
        query: str | Sequence[float] | None = None,
        *,
        include_embedding: bool = False,
        **arguments: Unpack[SearchArguments],
    ) -> builtins.list[SearchHit[Document]]:
        """The documents that match best, best first. See `AsyncContextStore.search`.

        Documents do not answer each other as turns do: nothing is lent by neighbours.
        """
        searched = searching.Searched(
            table=self._table,
            resources=self._resources,
            where=self._where(),
            filterable=DOCUMENT_FIELDS,
            columns=[*_COLUMNS, *([VECTOR] if include_embedding else [])],
            read=_document,
        )
        return await searching.search(searched, query, **arguments)

    async def get(
        self, ids: Sequence[str], *, include_embedding: bool = False
    ) -> builtins.list[Document]:
        """Documents in the order of `ids`; unknown ids are left out.

        The vectors are read only with `include_embedding`; else `embedding` is None.
        """
        ids = check_names(ids, "ids")
        where = self._where(sql.in_list("id", ids))
        columns = [*_COLUMNS, *([VECTOR] if include_embedding else [])]
        rows = await self._table.select(where, columns=columns)
        found = {one.id: one for one in await steps.each_row(_document, rows)}
        return [found[one] for one in ids if one in found]

    async def list(
        self,
        *,
        filter: FilterLike | None = None,
        limit: int | None = None,
        offset: int = 0,
        include_embedding: bool = False,
    ) -> builtins.list[Document]:
        """Matching documents in the order in which they were added: `limit` after `offset`, or all.

        The vectors are read only with `include_embedding`; else `embedding` is None.
        """
        check_span(offset=offset, limit=limit, last=None)
        where = self._where(filter=filter) or None
        columns = [*_COLUMNS, *([VECTOR] if include_embedding else [])]
        rows = await self._table.slice(where, columns=columns, limit=limit, offset=offset)
        return await steps.each_row(_document, rows)

    async def delete(
        self, ids: Sequence[str] | None = None, *, filter: FilterLike | None = None
    ) -> int:
        """Delete by id, by filter, or by both at once; returns how many there were.

        Raises InvalidRequestError if neither is given: see `delete_collection`.
        """
        if ids is None and filter is None:
            raise InvalidRequestError(
                "delete what? pass ids or filter, or call delete_collection()"
            )
        conditions = [] if ids is None else [sql.in_list("id", check_names(ids, "ids"))]
        return await self._table.delete(self._where(*conditions, filter=filter) or "true")

    async def erase(
        self,
        ids: Sequence[str] | None = None,
        *,
        filter: FilterLike | None = None,
        sole_writer: bool = False,
        dry_run: bool = False,
    ) -> Erasure:
        """Remove documents from every file of the collection. See `AsyncContextStore.erase`.

        With neither `ids` nor `filter`, in a scope, all documents that the scope has in this
        collection; else InvalidRequestError is raised: see `delete_collection`.
        """
        whole = Whole(self._resources, self._scope)
        meant = target.documents(self._scope, table_of(self.collection), ids=ids, filter=filter)
        return await erase.erase(whole, meant, sole_writer=sole_writer, dry_run=dry_run)

    async def count(self, *, filter: FilterLike | None = None) -> int:
        """How many documents match; of all without a `filter`. 0 before the first write."""
        return await self._table.count(self._where(filter=filter) or None)

    async def list_collections(self) -> builtins.list[str]:
        """The names of the collections that hold a document, in alphabetical order.

        In a scope: a document of the scope.
        """
        names = await self._resources.database.table_names()
        found = sorted(c for name in names if (c := collection_of(name)) is not None)
        return [name for name in found if await replace(self, collection=name).count() > 0]

    async def delete_collection(self) -> int:
        """Remove this collection; returns how many documents it had.

        In a scope only the scope's documents are removed.
        """
        n_documents = await self.count()
        if self._scope.parts():
            return await self._table.delete(self._where() or "true")
        await self._resources.writable().drop(table_of(self.collection))
        return n_documents

    @property
    def _table(self) -> Table:
        return self._resources.database.table(table_of(self.collection), VECTORS)

    def _where(self, *conditions: str, filter: FilterLike | None = None) -> str:
        walls = [sql.equals(part, value) for part, value in self._scope.parts().items()]
        named = sql.filtered(filter, columns=DOCUMENT_FIELDS)
        return sql.all_of([*walls, *conditions, named])

    def _prepared(self, documents: Sequence[Document]) -> builtins.list["_Prepared"]:
        prepared = []
        for index, document in enumerate(listed(documents, "documents")):
            where = f"documents[{index}]"
            if not isinstance(document, Document):
                raise InvalidRequestError(
                    f"{where} is a {type(document).__name__}: pass Document(text=…)"
                )
            if document.text is None and document.embedding is None:
                raise InvalidRequestError(f"{where} has neither a text nor an embedding")
            metadata, written = written_json_object(document.metadata, f"{where}.metadata")
            prepared.append(
                _Prepared(
                    id=new_id() if document.id is None else check_name(document.id, f"{where}.id"),
                    text=None
                    if document.text is None
                    else check_text(document.text, f"{where}.text"),
                    embedding=document.embedding,
                    metadata=metadata,
                    written=written,
                    is_new=document.id is None,
                )
            )
        refuse_duplicates([document.id for document in prepared], "id")
        return prepared

    async def _append(self, documents: Sequence["_Prepared"]) -> builtins.list[str]:
        """Add documents that nobody else can have added, without the price of a merge."""
        if rows := await self._rows(documents, {}):
            await self._table.append(rows)
        return [document.id for document in documents]

    def _refuse_other_content(
        self, documents: Sequence["_Prepared"], existing: Mapping[str, Mapping[str, Any]]
    ) -> None:
        for document in documents:
            old = existing.get(document.id)
            if old is not None and (old["text"], loads(old["metadata"] or "{}", "metadata")) != (
                document.text,
                document.metadata,
            ):
                raise AlreadyExistsError(
                    f"id={document.id!r} is taken in collection {self.collection!r} by another "
                    "document: use upsert to replace it"
                )

    async def _existing(self, documents: Sequence["_Prepared"]) -> dict[str, dict[str, Any]]:
        where = self._where(sql.in_list("id", [document.id for document in documents]))
        columns = [KEY, "id", "text", "metadata", "created_at", "revision"]
        rows = (await self._table.select(where, columns=columns)).to_pylist()
        return {row["id"]: row for row in rows}

    async def _rows(
        self, documents: Sequence["_Prepared"], existing: dict[str, dict[str, Any]]
    ) -> builtins.list[dict[str, Any]]:
        composer, now = self._resources.composer, self._resources.clock.now()
        records = await steps.each(
            lambda one: as_record(
                id=one.id,
                text=one.text,
                metadata=one.metadata,
                created_at=existing[one.id]["created_at"] if one.id in existing else now,
            ),
            documents,
        )
        vectors = await embedded(
            self._table,
            self._resources,
            given=[document.embedding for document in documents],
            texts=await steps.each(composer.embed_text, records),
        )
        words = await steps.each(composer.index_text, records)
        rows = []
        for document, vector, found_by in zip(documents, vectors, words, strict=True):
            old = existing.get(document.id)
            rows.append(
                {
                    KEY: old[KEY] if old else key_of(self._scope, "document", document.id),
                    "id": document.id,
                    "created_at": old["created_at"] if old else now,
                    "updated_at": now,
                    "revision": next_revision(old["revision"]) if old else new_revision(),
                    "text": document.text,
                    "search_text": found_by,
                    "metadata": document.written,
                    VECTOR: vector,
                    **self._scope.parts(),
                }
            )
        return rows


class _Prepared(NamedTuple):
    """A document in plain types, to be written."""

    id: str
    text: str | None
    embedding: Any
    metadata: dict[str, Any]
    written: str
    """The metadata's text."""
    is_new: bool
    """Whether its id was made here."""


def _document(row: Any) -> Document:
    return Document(
        id=row["id"],
        text=row["text"],
        embedding=row.get(VECTOR),
        metadata=loads(row["metadata"], "metadata") if row["metadata"] else {},
    )
