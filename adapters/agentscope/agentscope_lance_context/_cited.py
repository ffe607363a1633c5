"""The store's documents for AgentScope's knowledge bases: passages with citations."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lance_context_core import AsyncContextStore, DocumentScope
from lance_context_core.adapting import LoadedText, add_loaded
from lance_context_core.arguments import FilterLike, SearchMode
from lance_context_core.documents import BlockChunker
from lance_context_core.results import DocumentChunk, SearchHit, SourceDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class CitedDocuments:
    """The filter and options of a search of documents."""

    scope: DocumentScope | Sequence[DocumentScope] | None = None
    """Scopes of the documents to search; absent means all. Adding needs a single one."""
    type: str | Sequence[str] | None = None
    """File types to search, such as `pdf`; absent means all."""
    filter: FilterLike | None = None
    mode: SearchMode | None = None

    async def found(
        self, store: AsyncContextStore, query: str, limit: int, least: float | None
    ) -> list[tuple[SearchHit[DocumentChunk], int]]:
        """The best passages, best first, with the number of passages of each document.

        None has a score below `least`. A blank query or a limit below 1 finds nothing.
        """
        if not query.strip() or limit < 1:
            return []
        hits = await store.documents.search(
            query,
            scope=self.scope,
            type=self.type,
            filter=self.filter,
            mode=self.mode,
            limit=limit,
        )
        hits = [hit for hit in hits if least is None or hit.score >= least]
        ids = list({hit.record.document_id for hit in hits})
        documents = await asyncio.gather(*(store.documents.get(id) for id in ids))
        totals = {one.id: one.n_chunks for one in documents if one is not None}
        # A document that is deleted meanwhile is left out.
        return [(hit, totals[of]) for hit in hits if (of := hit.record.document_id) in totals]

    async def added(
        self, store: AsyncContextStore, texts: Sequence[LoadedText]
    ) -> list[SourceDocument]:
        """The documents of these passages, each with its passages as given."""
        scope = self.scope if isinstance(self.scope, DocumentScope) else None
        return await add_loaded(store.documents, texts, scope=scope, chunker=BlockChunker())


def common(metadata: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The entries that all of these share."""
    first, *others = metadata
    return {
        name: value
        for name, value in first.items()
        if all(name in one and one[name] == value for one in others)
    }
