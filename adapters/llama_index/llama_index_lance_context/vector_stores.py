"""A collection of the store as LlamaIndex's vector store."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from llama_index.core.bridge.pydantic import ConfigDict, Field, PrivateAttr, field_serializer
from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryResult,
)

from lance_context_core import Document
from lance_context_core.adapting import Handle, HandleOwner, StoreLike, in_steps, uri_of
from lance_context_core.filters import Field as Place
from lance_context_core.filters import Filter, FilterLike
from lance_context_core.protocols import Reranker
from lance_context_core.stores.vectors import AsyncVectors
from lance_context_core.sync import Vectors
from llama_index_lance_context._filters import EVERYTHING, of_sources, to_filter
from llama_index_lance_context._nodes import to_documents, to_node
from llama_index_lance_context._queries import Ask, answer, ask, ranked, restriction


class LanceContextVectorStore(HandleOwner, BasePydanticVectorStore):
    """A collection of nodes in a store, found by meaning, by words, by both, or diversely.

    `query` does what the mode of the `VectorStoreQuery` says, and raises InvalidRequestError, a
    ValueError, for a mode that it does not have. Filters, `doc_ids` and `node_ids` are applied
    before the best are taken. Similarities are, by mode:

    - default: the cosine, in [-1, 1];
    - text_search and sparse: BM25, above 0;
    - hybrid: in [0, 1], the mean of both channels' min-max normalised scores, weighted by `alpha`
      (0 asks the words alone, 1 the vectors alone; absent it is 0.5);
    - semantic_hybrid: those of the `reranker`, min-max normalised if they leave [0, 1];
    - mmr: the marginal relevance with which a node was picked.

    Each channel of a hybrid query brings at least 50 candidates; `sparse_top_k` bounds those of the
    words. Beside the query `query` takes `mmr_threshold`, which the query's own overrules, one of
    `mmr_prefetch_factor` and `mmr_prefetch_k`, and `where`, a further filter in the store's own
    language; any other keyword raises InvalidRequestError.

    An empty `node_ids` in a query restricts nothing, because indexes always pass one. The
    asynchronous methods block no event loop: it has its turn after every few nodes, also if a hundred
    queries are answered at once. Given by its URI a store can be pickled, and survives `to_dict` and
    `from_dict`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    stores_text: bool = True
    flat_metadata: bool = False
    store: Any = Field(description="An open store, or the URI of one.")
    collection: str = "default"
    """What the store calls it. It need not exist yet."""
    reranker: Any = None
    """Orders the candidates of semantic_hybrid queries: one of LanceDB's rerankers, or alike."""

    _handle: Handle = PrivateAttr()

    def __init__(
        self,
        store: StoreLike,
        *,
        collection: str = "default",
        reranker: Reranker | None = None,
        **kwargs: Any,
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again."""
        fields: dict[str, Any] = {"store": store, "collection": collection, "reranker": reranker}
        super().__init__(**fields, **kwargs)
        self._handle = Handle(store)

    @classmethod
    def class_name(cls) -> str:
        """The name under which LlamaIndex serialises it."""
        return "LanceContextVectorStore"

    @property
    def client(self) -> Vectors:
        """The collection itself."""
        return self._vectors

    # Writing

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Add nodes, or replace those whose ids exist, in one commit; returns all ids, in order.

        A node without an embedding is embedded by the store, if that has an embedder; else words
        alone find it. Of nodes with the same id the last one is kept. Metadata is JSON; what is
        none of it, and a vector of another length than the collection's, raise InvalidRequestError
        before anything is written. Other keywords are ignored: indexes pass on theirs.
        """
        del kwargs
        nodes = list(nodes)
        self._vectors.upsert(to_documents(nodes))
        return [node.node_id for node in nodes]

    async def async_add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """As `add`."""
        # Thousands of nodes are written down in a thread, beside the event loop.
        return await asyncio.to_thread(self.add, nodes, **kwargs)

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Delete all nodes that were made from the document `ref_doc_id`, in one commit."""
        del delete_kwargs
        self._vectors.delete(filter=of_sources([ref_doc_id]))

    async def adelete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """As `delete`."""
        del delete_kwargs
        await self._twin.delete(filter=of_sources([ref_doc_id]))

    def delete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
        **delete_kwargs: Any,
    ) -> None:
        """Delete by id, by filters, or by both at once, in one commit.

        An empty list of ids deletes nothing. Raises InvalidRequestError if neither is given.
        """
        del delete_kwargs
        self._vectors.delete(node_ids, filter=_optional(filters))

    async def adelete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
        **delete_kwargs: Any,
    ) -> None:
        """As `delete_nodes`."""
        del delete_kwargs
        await self._twin.delete(node_ids, filter=_optional(filters))

    def clear(self) -> None:
        """Delete all nodes; what the store keeps elsewhere stays."""
        self._vectors.delete(filter=EVERYTHING)

    async def aclear(self) -> None:
        """As `clear`."""
        await self._twin.delete(filter=EVERYTHING)

    # Reading

    def get_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """The nodes with these ids, in their order, or all in that of writing, that match `filters`.

        With their embeddings. Unknown ids are left out.
        """
        if node_ids is None or filters is not None:
            found = self._vectors.list(filter=_restricted(node_ids, filters))
            node_ids = _in_order(found, node_ids)
        return [to_node(one) for one in self._vectors.get(node_ids, include_embedding=True)]

    async def aget_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """As `get_nodes`."""
        if node_ids is None or filters is not None:
            found = await self._twin.list(filter=_restricted(node_ids, filters))
            node_ids = _in_order(found, node_ids)
        return await in_steps(to_node, await self._twin.get(node_ids, include_embedding=True))

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """What answers the query best, best first: nodes without embeddings, similarities, ids."""
        asked = self._asked(query, **kwargs)
        found = ranked(asked, self._vectors.search(**asked.arguments))
        return answer(found, [to_node(document) for document, _ in found])

    async def aquery(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """As `query`."""
        asked = self._asked(query, **kwargs)
        found = ranked(asked, await self._twin.search(**asked.arguments))
        return answer(found, await in_steps(to_node, [document for document, _ in found]))

    @property
    def _twin(self) -> AsyncVectors:
        return self._handle.aio.vectors(self.collection)

    @property
    def _vectors(self) -> Vectors:
        return self._handle.sync.vectors(self.collection)

    def _asked(
        self, query: VectorStoreQuery, *, where: FilterLike | None = None, **kwargs: Any
    ) -> Ask:
        return ask(query, restriction=restriction(query, where), reranker=self.reranker, **kwargs)

    @field_serializer("store")
    def _store_by_its_uri(self, store: StoreLike) -> str:
        return uri_of(store)

    def __getstate__(self) -> dict[str, Any]:
        uri_of(self.store)
        return super().__getstate__()


def _optional(filters: MetadataFilters | None) -> Filter | None:
    return None if filters is None else to_filter(filters)


def _restricted(node_ids: list[str] | None, filters: MetadataFilters | None) -> Filter:
    by_id = EVERYTHING if node_ids is None else Place("id").is_in(node_ids)
    return by_id & (_optional(filters) or EVERYTHING)


def _in_order(found: Iterable[Document], asked: list[str] | None) -> list[str]:
    """The ids of what was found, in the order in which they were asked for."""
    ids = {one.id: None for one in found if one.id is not None}
    return list(ids) if asked is None else [one for one in asked if one in ids]
