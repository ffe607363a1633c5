"""The store's documents as a knowledge base of agentscope 2.x."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentscope_lance_context._cited import CitedDocuments, common
from agentscope_lance_context._owning import StoreOwner
from agentscope_lance_context.agentscope2._framework import (
    Chunk,
    DocumentSummary,
    KnowledgeBase,
    TextBlock,
    VectorSearchResult,
)
from lance_context_core import DocumentScope, Field, Filter, InvalidRequestError
from lance_context_core.adapting import Handle, LoadedText, StoreLike, citation_of, listed
from lance_context_core.arguments import FilterLike, SearchMode
from lance_context_core.results import DocumentChunk, SearchHit, SourceDocument

_CALLED = "agentscope_document_id"
"""The metadata key of a document's id in `insert`."""


class LanceContextDocumentKnowledgeBase(StoreOwner, KnowledgeBase):
    """Searches passages of `store.documents` by words and by meaning, with citations.

    Use it in the `knowledge_bases` of a `RAGMiddleware`, which shows an agent the `source` of each:
    its citation, such as `handbook.pdf, p. 3`. Documents from every framework are found, and the
    store's embedder computes the vectors, without an embedding model, vector store or collection.
    """

    def __init__(
        self,
        store: StoreLike,
        *,
        name: str = "documents",
        description: str = "The documents that were read.",
        embedder: Any = None,
        scope: DocumentScope | Sequence[DocumentScope] | None = None,
        type: str | Sequence[str] | None = None,
        filter: FilterLike | None = None,
        mode: SearchMode | None = None,
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        - `name`, `description`: shown to an agent.
        - `embedder`: for a store at a URI; see `AsyncContextStore.open`.
        - `scope`: of the documents to search; absent means all. Inserting needs a single one.
        - `type`: file types, such as `pdf`; absent means all.
        - `filter`: of passages, in the store's filter language.
        - `mode`: `"hybrid"`, `"vector"` or `"text"`; default: hybrid with an embedder, else text.
        """
        self.name = name
        self.description = description
        self._handle = Handle(store, embedder=embedder)
        self._cited = CitedDocuments(scope=scope, type=type, filter=filter, mode=mode)

    async def ensure_collection(self) -> None:
        """Does nothing: the first document creates the tables."""

    async def search(
        self, queries: Iterable[Any], top_k: int = 5, score_threshold: float | None = None
    ) -> list[VectorSearchResult]:
        """The passages that match any of the `queries` best, best first, at most `top_k`.

        Queries are texts; other content is ignored. A passage found by several has its best score,
        which is in [0, 1] and not below `score_threshold`. The chunk's metadata are the document's,
        with the citation under `lance_context`.
        """
        best: dict[str, VectorSearchResult] = {}
        for query in filter(None, map(_text_of, queries)):
            found = await self._cited.found(self._handle.aio, query, top_k, score_threshold)
            for hit, total in found:
                before = best.get(hit.record.id)
                if before is None or hit.score > before.score:
                    best[hit.record.id] = _result(hit, total)
        return sorted(best.values(), key=lambda one: -one.score)[: max(0, top_k)]

    async def insert_document(
        self,
        chunks: Sequence[Chunk],
        document_id: str | None = None,
        document_metadata: Mapping[str, Any] | None = None,
    ) -> str:
        """Adds the chunks of one file, each as a passage; returns the document's id.

        The id is `document_id`, or the store's own without one. The document has
        `document_metadata` and the entries that all chunks share; each chunk keeps its `page`. A
        document with the same texts is unchanged. Raises InvalidRequestError, before anything is
        written, for non-text content, and without any text: `store.documents.add(path)` reads a
        file with its headings.
        """
        texts = _texts(listed(chunks, "chunks"), document_metadata or {}, document_id)
        (added,) = await self._cited.added(self._handle.aio, texts)
        return _id_of(added)

    async def delete_document(self, document_id: str) -> None:
        """Deletes a document by its id in `list_documents`; an unknown one is ignored."""
        named = Field("id").eq(document_id) | Field("metadata", _CALLED).eq(document_id)
        for one in await self._documents(named):
            await self._handle.aio.documents.delete(one.id)

    async def list_documents(self) -> list[DocumentSummary]:
        """The documents of the search scope, in the order of adding."""
        return [
            DocumentSummary(
                document_id=_id_of(one),
                source=one.name,
                chunk_count=one.n_chunks,
                metadata=_own(one.metadata),
            )
            for one in await self._documents()
        ]

    async def _documents(self, *conditions: Filter) -> list[SourceDocument]:
        cited = self._cited
        given = [*conditions, *([] if cited.filter is None else [cited.filter])]
        return await self._handle.aio.documents.list(
            scope=cited.scope, type=cited.type, filter={"$and": given} if given else None
        )


def _text_of(query: Any) -> str | None:
    text = query if isinstance(query, str) else getattr(query, "text", None)
    return text if isinstance(text, str) else None


def _result(hit: SearchHit[DocumentChunk], total: int) -> VectorSearchResult:
    passage = hit.record
    return VectorSearchResult(
        score=hit.score,
        document_id=passage.metadata.get(_CALLED, passage.document_id),
        chunk=Chunk(
            content=TextBlock(text=passage.text),
            source=passage.citation,
            chunk_index=passage.position,
            total_chunks=total,
            metadata={**_own(passage.metadata), "lance_context": citation_of(passage)},
        ),
    )


def _texts(
    chunks: Sequence[Chunk], about: Mapping[str, Any], document_id: str | None
) -> list[LoadedText]:
    said = [_text_of(one.content) for one in chunks]
    if None in said or not any(text and text.strip() for text in said):
        raise InvalidRequestError(
            f"chunks={list(chunks)!r:.80}: give texts, one at least that is not blank; "
            "store.images takes pictures"
        )
    pages = [one.metadata.get("page") for one in chunks]
    metadata = {**about, **common([one.metadata for one in chunks])}
    metadata.pop("page", None)
    if document_id is not None:
        metadata[_CALLED] = document_id
    return [
        LoadedText(
            text=text or "",
            source=chunks[0].source,
            page=page if isinstance(page, int) and page >= 1 else None,
            metadata=metadata,
        )
        for text, page in zip(said, pages, strict=True)
    ]


def _id_of(document: SourceDocument) -> str:
    called: str = document.metadata.get(_CALLED, document.id)
    return called


def _own(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metadata.items() if name != _CALLED}
