"""Collections of the store as the vector store of knowledge bases of agentscope 2.x."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from agentscope_lance_context._owning import StoreOwner
from agentscope_lance_context._places import COLLECTIONS
from agentscope_lance_context.agentscope2 import _chunks
from agentscope_lance_context.agentscope2._framework import (
    Chunk,
    DocumentSummary,
    VectorRecord,
    VectorSearchResult,
    VectorStoreBase,
)
from lance_context_core import (
    AsyncContextStore,
    AsyncVectors,
    Document,
    Filter,
    InvalidRequestError,
    Item,
    NotFoundError,
)
from lance_context_core.adapting import Handle, StoreLike
from lance_context_core.errors import DimensionMismatchError

_PAGE = 5_000
"""Number of documents in one read of all, so that the event loop is not blocked."""


class LanceContextVectorStore(StoreOwner, VectorStoreBase):
    """Chunks of documents by collection, with given vectors.

    A collection is one of the store's, shared by every framework. A missing one reads as empty. A
    `metadata_filter` is applied before the nearest are taken, to the metadata of chunks; its keys
    are literal, and None matches absent and null values.
    """

    def __init__(
        self,
        store: StoreLike,
        *,
        embedder: Any = None,
        name: str = COLLECTIONS.name,
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        - `embedder`: for a store at a URI and for other users of it: here the vectors are given.
        - `name`: of the list of collections, which is `store.kv(name)`.
        """
        self._handle = Handle(store, embedder=embedder)
        self._name = name

    async def create_collection(self, name: str, dimensions: int) -> None:
        """Creates a collection for vectors of that length; an existing one is unchanged.

        Raises DimensionMismatchError if it exists with another length.
        """
        if isinstance(dimensions, bool) or not isinstance(dimensions, int) or dimensions < 1:
            raise InvalidRequestError(
                f"dimensions={dimensions!r:.80}: give a whole number from 1 on"
            )
        self._documents(name)  # which refuses what is no name
        items = self._handle.aio.kv(self._name)
        namespace, key = COLLECTIONS.key(name)
        item = Item(namespace=namespace, key=key, value={"dimensions": dimensions})
        (is_new,) = await items.add([item])
        known = dimensions if is_new else await self._dimensions(name)
        if known is not None and known != dimensions:
            raise DimensionMismatchError(
                f"dimensions={dimensions}: collection {name!r:.80} has vectors of length {known}"
            )

    async def delete_collection(self, name: str) -> None:
        """Deletes a collection with its documents; a missing one is ignored."""
        await self._documents(name).delete_collection()
        await self._handle.aio.kv(self._name).delete([COLLECTIONS.key(name)])

    async def has_collection(self, name: str) -> bool:
        """Whether a collection was created here, or other frameworks added documents to it."""
        documents = self._documents(name)
        return await self._dimensions(name) is not None or await documents.count() > 0

    async def insert(self, collection: str, records: Sequence[VectorRecord]) -> None:
        """Writes records in one commit, atomically; an empty list is allowed.

        A record replaces the one with the same document and `chunk_index`. Raises NotFoundError for
        a missing collection, DimensionMismatchError for a vector of another length.
        """
        documents = {one.id: one for one in map(_chunks.to_document, records)}
        if not documents:
            return
        dimensions = await self._dimensions(collection)
        if dimensions is None and not await self.has_collection(collection):
            raise NotFoundError(f"collection {collection!r:.80} does not exist: create it first")
        for record in records:
            if dimensions not in {None, len(record.vector)}:
                raise DimensionMismatchError(
                    f"a vector of document {record.document_id!r:.80} has the length "
                    f"{len(record.vector)}: those of collection {collection!r:.80} have {dimensions}"
                )
        await self._documents(collection).upsert([*documents.values()])

    async def delete(
        self, collection: str, document_id: str, metadata_filter: dict[str, Any] | None = None
    ) -> None:
        """Deletes the matching chunks of a document; none is allowed."""
        where = _chunks.of_document(document_id) & _chunks.matching(metadata_filter)
        await self._documents(collection).delete(filter=where)

    async def search(
        self,
        collection: str,
        query_vector: Sequence[float],
        top_k: int = 5,
        metadata_filter: dict[str, Any] | None = None,
    ) -> list[VectorSearchResult]:
        """The nearest chunks, nearest first; as many as `top_k` if as many match the filter.

        The score is the cosine. A `top_k` below 1 finds nothing.
        """
        if top_k < 1:
            return []
        hits = await self._documents(collection).search(
            vector=list(query_vector),
            mode="vector",
            filter=_chunks.matching(metadata_filter),
            limit=top_k,
        )
        return [
            VectorSearchResult(
                score=hit.channels["vector"].raw,
                document_id=_chunks.document_id_of(hit.record),
                chunk=_chunks.to_chunk(hit.record),
            )
            for hit in hits
        ]

    async def list_documents(
        self, collection: str, metadata_filter: dict[str, Any] | None = None
    ) -> list[DocumentSummary]:
        """The documents with matching chunks, in the order of adding.

        Each with its number of these chunks; source and metadata are those of the first.
        """
        summaries: dict[str, DocumentSummary] = {}
        seen: set[str | None] = set()
        async for document in self._each(collection, _chunks.matching(metadata_filter)):
            if document.id in seen:
                continue
            seen.add(document.id)
            id = _chunks.document_id_of(document)
            if id not in summaries:
                chunk = _chunks.to_chunk(document)
                summaries[id] = DocumentSummary(
                    document_id=id, source=chunk.source, chunk_count=0, metadata=chunk.metadata
                )
            summaries[id].chunk_count += 1
        return [*summaries.values()]

    async def list_chunks(
        self,
        collection: str,
        document_id: str,
        *,
        offset: int = 0,
        limit: int = 30,
        metadata_filter: dict[str, Any] | None = None,
    ) -> list[Chunk]:
        """At most `limit` chunks of a document, in order, with a `chunk_index` from `offset`.

        Missing and non-matching indexes are left out. A limit below 1 is an empty page.
        """
        if offset < 0:
            raise InvalidRequestError(f"offset={offset}: count from 0")
        if limit < 1:
            return []
        where = (
            _chunks.of_document(document_id)
            & _chunks.from_index(offset, offset + limit)
            & _chunks.matching(metadata_filter)
        )
        found = await self._documents(collection).list(filter=where)
        return sorted(map(_chunks.to_chunk, found), key=lambda chunk: chunk.chunk_index)

    def get_client(self) -> AsyncContextStore:
        """The store itself."""
        return self._handle.aio

    # Helpers

    def _documents(self, collection: str) -> AsyncVectors:
        return self._handle.aio.vectors(collection)

    async def _dimensions(self, collection: str) -> int | None:
        """The dimension of a created collection; None if it was not created."""
        (item,) = await self._handle.aio.kv(self._name).get([COLLECTIONS.key(collection)])
        return None if item is None or item.value is None else item.value["dimensions"]

    async def _each(self, collection: str, filter: Filter) -> AsyncIterator[Document]:
        offset = 0
        while True:
            page = await self._documents(collection).list(filter=filter, limit=_PAGE, offset=offset)
            for document in page:
                yield document
            if len(page) < _PAGE:
                return
            offset += _PAGE
