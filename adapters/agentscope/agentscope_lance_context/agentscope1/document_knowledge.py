"""The store's documents as a knowledge base of agentscope 1.x."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from agentscope_lance_context._cited import CitedDocuments
from agentscope_lance_context._owning import StoreOwner
from agentscope_lance_context.agentscope1._framework import DocMetadata, KnowledgeBase
from agentscope_lance_context.agentscope1._framework import Document as Chunk
from lance_context_core import DocumentScope, InvalidRequestError
from lance_context_core.adapting import Handle, LoadedText, StoreLike, listed
from lance_context_core.arguments import FilterLike, SearchMode
from lance_context_core.results import DocumentChunk, SearchHit


class LanceContextDocumentKnowledge(StoreOwner, KnowledgeBase):
    """Searches passages of `store.documents` by words and by meaning, with citations.

    The `knowledge` of a `ReActAgent`; `retrieve_knowledge` is its tool. Documents from every framework
    are found, and the store's embedder computes the vectors.
    """

    def __init__(
        self,
        store: StoreLike,
        *,
        embedder: Any = None,
        scope: DocumentScope | Sequence[DocumentScope] | None = None,
        type: str | Sequence[str] | None = None,
        filter: FilterLike | None = None,
        mode: SearchMode | None = None,
        is_cited: bool = True,
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        - `embedder`: for a store at a URI; see `AsyncContextStore.open`.
        - `scope`: of the documents to search; absent means all. Adding needs a single one.
        - `type`: file types, such as `pdf`; absent means all.
        - `filter`: of passages, in the store's filter language.
        - `mode`: `"hybrid"`, `"vector"` or `"text"`; default: hybrid with an embedder, else text.
        - `is_cited`: whether a text begins with its citation, such as `[handbook.pdf, p. 3]`, which
          an agent does not get otherwise.
        """
        self._handle = Handle(store, embedder=embedder)
        self._cited = CitedDocuments(scope=scope, type=type, filter=filter, mode=mode)
        self._is_cited = is_cited

    async def retrieve(
        self, query: str, limit: int = 5, score_threshold: float | None = None, **_: Any
    ) -> list[Chunk]:
        """The passages that match `query` best, best first, at most `limit`.

        Their `doc_id` is the id of the store's document, `chunk_id` the position in it, and the
        score in [0, 1], not below `score_threshold`. A blank query or a limit below 1 finds
        nothing.
        """
        found = await self._cited.found(self._handle.aio, query, limit, score_threshold)
        return [self._chunk(hit, total) for hit, total in found]

    async def add_documents(self, documents: Iterable[Chunk], **_: Any) -> None:
        """Adds the output of AgentScope's readers, the passages of each `doc_id` as one document.

        Its name is the `doc_id`, since readers return no name: `store.documents.add(path)` reads a
        file with its name, pages and headings. Existing rows are unchanged. Raises
        InvalidRequestError, before anything is written, for non-text content.
        """
        given = listed(documents, "documents")
        texts = []
        for doc_id, chunks in groupby(given, key=lambda one: one.metadata.doc_id):
            for one in sorted(chunks, key=lambda one: one.metadata.chunk_id):
                content = one.metadata.content
                if content.get("type") != "text":
                    raise InvalidRequestError(
                        f"documents has {content!r:.80}: give texts, and add pictures to store.images"
                    )
                texts.append(LoadedText(text=content["text"], source=doc_id))
        await self._cited.added(self._handle.aio, texts)

    def _chunk(self, hit: SearchHit[DocumentChunk], total: int) -> Chunk:
        passage = hit.record
        text = f"[{passage.citation}] {passage.text}" if self._is_cited else passage.text
        about = DocMetadata(
            content={"type": "text", "text": text},
            doc_id=passage.document_id,
            chunk_id=passage.position,
            total_chunks=total,
        )
        return Chunk(metadata=about, id=passage.id, score=hit.score)
