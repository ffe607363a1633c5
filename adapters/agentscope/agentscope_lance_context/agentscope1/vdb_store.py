"""A collection of the store as the vector database of a knowledge base of agentscope 1.x."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentscope_lance_context._owning import StoreOwner
from agentscope_lance_context.agentscope1._framework import DocMetadata, VDBStoreBase
from agentscope_lance_context.agentscope1._framework import Document as Chunk
from lance_context_core import (
    AsyncContextStore,
    AsyncVectors,
    Document,
    Field,
    Filter,
    InvalidRequestError,
)
from lance_context_core.adapting import Handle, StoreLike

_CONTENT = "agentscope_content"
"""The metadata key of a document's block, if it is more than its text."""


class LanceContextVDBStore(StoreOwner, VDBStoreBase):
    """The chunks of one collection, with vectors by the knowledge base."""

    def __init__(
        self, store: StoreLike, collection: str = "default", *, embedder: Any = None
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        `embedder` is for a store at a URI and for other users of it: here the vectors are given.
        """
        self._handle = Handle(store, embedder=embedder)
        self._collection = collection

    async def add(self, documents: Sequence[Chunk], **_: Any) -> None:
        """Adds chunks in one commit, atomically; existing ones are replaced.

        Chunks are the same if they have the same `doc_id`, `chunk_id` and content. Raises
        InvalidRequestError for one without an embedding, DimensionMismatchError for one that is
        longer or shorter than those of the collection.
        """
        made = {one.id: one for one in map(_to_document, documents)}
        if made:
            await self._documents.upsert([*made.values()])

    async def search(
        self,
        query_embedding: Sequence[float],
        limit: int,
        score_threshold: float | None = None,
        *,
        filter: Mapping[str, Any] | Filter | None = None,
    ) -> list[Chunk]:
        """The nearest chunks, nearest first; as many as `limit` if as many match `filter`.

        Their score is the cosine, and not below `score_threshold`. The filter applies to `doc_id`,
        `chunk_id`, `total_chunks` and the other metadata. A limit below 1 finds nothing.
        """
        if limit < 1:
            return []
        hits = await self._documents.search(
            vector=list(query_embedding),
            mode="vector",
            filter=filter,
            limit=limit,
            include_embedding=True,
        )
        found = [_to_chunk(hit.record, hit.channels["vector"].raw) for hit in hits]
        return [
            one for one in found if score_threshold is None or (one.score or 0) >= score_threshold
        ]

    async def delete(
        self,
        ids: str | Iterable[str] | None = None,
        *,
        doc_id: str | None = None,
        filter: Mapping[str, Any] | Filter | None = None,
    ) -> int:
        """Deletes chunks by the ids from `search`, by document, or by a filter.

        All given conditions must hold. Returns their number. Raises InvalidRequestError without a
        condition.
        """
        if doc_id is not None:
            of_document: Filter = Field("metadata", "doc_id").eq(doc_id)
            filter = of_document if filter is None else {"$and": [of_document, filter]}
        if ids is not None:
            ids = [ids] if isinstance(ids, str) else list(ids)
        return await self._documents.delete(ids, filter=filter)

    def get_client(self) -> AsyncContextStore:
        """The store itself."""
        return self._handle.aio

    @property
    def _documents(self) -> AsyncVectors:
        return self._handle.aio.vectors(self._collection)


def _to_document(chunk: Chunk) -> Document:
    about = chunk.metadata
    if chunk.embedding is None:
        raise InvalidRequestError(
            f"the document {chunk.id!r:.80} has no embedding: add it through a knowledge base"
        )
    content = dict(about.content)
    text = content.get("text") if content.get("type") == "text" else None
    is_text = isinstance(text, str) and content.keys() == {"type", "text"}
    return Document(
        id=_id_of(about),
        text=text,
        embedding=chunk.embedding,
        metadata={
            "doc_id": about.doc_id,
            "chunk_id": about.chunk_id,
            "total_chunks": about.total_chunks,
            **({} if is_text else {_CONTENT: content}),
        },
    )


def _id_of(about: DocMetadata) -> str:
    told = json.dumps([about.doc_id, about.chunk_id, dict(about.content)], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()


def _to_chunk(document: Document, score: float) -> Chunk:
    """The chunk of a document; a document of another framework has a single one."""
    known = document.metadata
    content = known.get(_CONTENT) or {"type": "text", "text": document.text or ""}
    return Chunk(
        metadata=DocMetadata(
            content=content,
            doc_id=str(known.get("doc_id", document.id)),
            chunk_id=known.get("chunk_id", 0),
            total_chunks=known.get("total_chunks", 1),
        ),
        id=document.id or "",
        embedding=document.embedding,
        score=score,
    )
