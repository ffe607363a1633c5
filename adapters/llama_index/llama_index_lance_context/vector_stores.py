"""A collection of the store as LlamaIndex's vector store."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from llama_index.core.bridge.pydantic import ConfigDict, Field, PrivateAttr, field_serializer
from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryResult,
)

from lance_context_core import AsyncVectors, Document, Filter, InvalidRequestError, Vectors
from lance_context_core import Field as Place
from lance_context_core.adapting import (
    Handle,
    HandleOwner,
    StoreLike,
    block_on,
    check_name,
    check_names,
    in_steps,
    listed,
    uri_of,
)
from lance_context_core.arguments import FilterLike
from lance_context_core.protocols import Reranker
from llama_index_lance_context._filters import EVERYTHING, of_sources, to_filter
from llama_index_lance_context._given import collection_given, refuse_unknown, store_given
from llama_index_lance_context._nodes import to_documents, to_node
from llama_index_lance_context._noted import ARE_OTHERS, are_noted, is_noted
from llama_index_lance_context._queries import answer, ask, find, ranked, restriction
from llama_index_lance_context._words import in_words_of

_FIELDS_OF_ALL = ("stores_text", "is_embedding_query", "flat_metadata")
"""The fields of every vector store, for `to_dict` and `from_dict`."""


class LanceContextVectorStore(HandleOwner, BasePydanticVectorStore):
    """A collection of nodes in a store, searched by meaning, words, both, or with diversity.

    `query` uses the mode of the `VectorStoreQuery`, and raises InvalidRequestError, a ValueError,
    for an unsupported one. Filters, `doc_ids` and `node_ids` are applied before the best are taken.
    A query without an embedding and a text returns up to `similarity_top_k` matches, in the order
    of writing, each with the similarity 1.0. Else similarities are, by mode:

    - default: the cosine, in [-1, 1];
    - text_search and sparse: BM25, above 0;
    - hybrid: in [0, 1], the mean of both channels' min-max normalised scores, weighted by `alpha`
      (0 asks the words alone, 1 the vectors alone; absent it is 0.5);
    - semantic_hybrid: those of the `reranker`, min-max normalised if they leave [0, 1];
    - mmr: the marginal relevance with which a node was picked.

    Each channel of a hybrid query returns at least 50 candidates; `sparse_top_k` bounds those of
    the words. `query` also takes `mmr_threshold`, which the query's own overrides, one of
    `mmr_prefetch_factor` and `mmr_prefetch_k`, and `where`, a further filter in the store's own
    language; any other keyword raises InvalidRequestError.

    An empty `node_ids` in a query restricts nothing, because indexes always pass one; neither does
    one with only index or image nodes if other nodes exist, because an index with both passes the
    ids of the former and means all. `where={"id": {"$in": [...]}}` always restricts. The
    asynchronous methods block no event loop: they yield after every few nodes, also for a hundred
    concurrent queries. With a store given by its URI it can be pickled, and survives `to_dict` and
    `from_dict`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    stores_text: bool = True
    flat_metadata: bool = False
    store: Any = Field(description="An open store, or the URI of one.")
    collection: str = "default"
    """Its name in the store. It need not exist yet."""
    reranker: Any = None
    """Orders the candidates of semantic_hybrid queries: one of LanceDB's rerankers, or a similar
    object."""

    _handle: Handle = PrivateAttr()
    _declared: Mapping[str, type] | None = PrivateAttr(default=None)

    def __init__(
        self,
        store: StoreLike | None = None,
        *,
        uri: StoreLike | None = None,
        collection: str | None = None,
        table_name: str | None = None,
        reranker: Reranker | None = None,
        fields: Mapping[str, type] | None = None,
        **kwargs: Any,
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        `fields` are keys of the metadata with their types, `str`, `int`, `float`, `bool` or
        `datetime`, which get a column with an index each: filters on them are faster.
        `uri` and `table_name` are other names of `store` and `collection`, as in other stores; the
        default collection is "default". Unsupported arguments raise InvalidRequestError.
        """
        refuse_unknown(
            self.class_name(),
            kwargs,
            known=("store", "collection", "reranker", "fields", *_FIELDS_OF_ALL),
        )
        store = store_given(store, uri)
        collection = collection_given(collection, table_name)
        given: dict[str, Any] = {
            "store": store,
            "collection": "default" if collection is None else collection,
            "reranker": reranker,
        }
        super().__init__(**given, **kwargs)
        self._handle = Handle(store)
        self._declared = fields

    @classmethod
    def from_params(
        cls,
        uri: StoreLike | None = None,
        *,
        collection: str | None = None,
        table_name: str | None = None,
        reranker: Reranker | None = None,
        fields: Mapping[str, type] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Creates the object, under the name that LlamaIndex's stores use."""
        named: dict[str, Any] = {
            "collection": collection,
            "table_name": table_name,
            "fields": fields,
        }
        return cls(uri, reranker=reranker, **named, **kwargs)

    @classmethod
    def class_name(cls) -> str:
        """The name in LlamaIndex's serialization."""
        return "LanceContextVectorStore"

    @property
    def client(self) -> Vectors:
        """The collection itself."""
        return self._vectors

    # Writing

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Adds nodes, or replaces those with existing ids, in one commit.

        Returns all ids, in order.

        The store embeds a node without an embedding, if it has an embedder; else only words find
        it. The last node of an id counts. Metadata reads back equal, with times, decimals, bytes,
        sets and others. Values that cannot be stored, and a vector of another length than the
        collection's, raise InvalidRequestError before anything is written. Other keywords are
        ignored: indexes pass theirs.
        """
        del kwargs
        nodes = _nodes(nodes)
        documents = to_documents(nodes)
        with in_words_of(documents):
            self._vectors.upsert(documents)
        return [node.node_id for node in nodes]

    async def async_add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """As `add`."""
        # Thousands of nodes are serialized in a thread, off the event loop.
        return await asyncio.to_thread(self.add, nodes, **kwargs)

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Deletes all nodes of the document `ref_doc_id`, in one commit."""
        del delete_kwargs
        self._vectors.delete(filter=_made_from(ref_doc_id))

    async def adelete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """As `delete`."""
        del delete_kwargs
        await self._aio.delete(filter=_made_from(ref_doc_id))

    def delete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
        **delete_kwargs: Any,
    ) -> None:
        """Deletes by id, by filters, or by both at once, in one commit.

        An empty list of ids deletes nothing. Raises InvalidRequestError if neither is given, and for
        filters alone that match every node: see `clear`.
        """
        del delete_kwargs
        self._vectors.delete(**_what_to_delete(node_ids, filters))

    async def adelete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
        **delete_kwargs: Any,
    ) -> None:
        """As `delete_nodes`."""
        del delete_kwargs
        await self._aio.delete(**_what_to_delete(node_ids, filters))

    def clear(self) -> None:
        """Deletes all nodes; other data of the store is unchanged."""
        self._vectors.delete(filter=_ALL)

    async def aclear(self) -> None:
        """As `clear`."""
        await self._aio.delete(filter=_ALL)

    # Reading

    def get_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """The nodes with these ids, in order, or all in order of writing, that match `filters`.

        With their embeddings. Unknown ids are left out.
        """
        return block_on(self.aget_nodes(node_ids, filters))

    async def aget_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """As `get_nodes`."""
        node_ids = None if node_ids is None else _ids(node_ids)
        if node_ids is None or filters is not None:
            found = await self._aio.list(filter=_restricted(node_ids, filters))
            node_ids = _in_order(found, node_ids)
        return await in_steps(to_node, await self._aio.get(node_ids, include_embedding=True))

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """The best nodes for the query, without embeddings, with similarities and ids."""
        return block_on(self.aquery(query, **kwargs))

    async def aquery(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """As `query`."""
        found = await self._found(query, **kwargs)
        return answer(found, await in_steps(to_node, [document for document, _ in found]))

    @property
    def _aio(self) -> AsyncVectors:
        return self._handle.aio.vectors(self.collection, fields=self._declared)

    @property
    def _vectors(self) -> Vectors:
        return self._handle.sync.vectors(self.collection, fields=self._declared)

    async def _found(self, query: VectorStoreQuery, **kwargs: Any) -> list[tuple[Document, float]]:
        """The result of the query."""
        is_compared = query.query_embedding is not None or query.query_str is not None
        if is_compared and query.node_ids and await are_noted(self._aio, _ids(query.node_ids)):
            found = await self._ranked(replace(query, node_ids=None), **kwargs)
            is_mixed = any(not is_noted(document) for document, _ in found)
            if is_mixed or await self._aio.list(filter=ARE_OTHERS, limit=1):
                return found
        return await self._ranked(query, **kwargs)

    async def _ranked(
        self,
        query: VectorStoreQuery,
        *,
        where: FilterLike | None = None,
        **kwargs: Any,
    ) -> list[tuple[Document, float]]:
        narrowed = restriction(query, where)
        asked = ask(query, restriction=narrowed, reranker=self.reranker, **kwargs)
        return ranked(asked, await find(self._aio, asked))

    @field_serializer("store")
    def _store_by_its_uri(self, store: StoreLike) -> str:
        return uri_of(store)

    def __getstate__(self) -> dict[str, Any]:
        uri_of(self.store)
        return super().__getstate__()


def _nodes(nodes: Any) -> list[BaseNode]:
    given: list[BaseNode] = listed(nodes, "nodes")
    for index, node in enumerate(given):
        if not isinstance(node, BaseNode):
            raise InvalidRequestError(f"nodes[{index}] is {node!r:.80}: give nodes, like TextNode")
    return given


def _ids(node_ids: list[str]) -> list[str]:
    return check_names(node_ids, "node_ids")


def _made_from(ref_doc_id: str) -> Filter:
    return of_sources([check_name(ref_doc_id, "ref_doc_id")])


_ALL = Place("id").exists()
"""Matches every node, which all have an id; empty filters are refused by deletions."""


def _what_to_delete(node_ids: list[str] | None, filters: MetadataFilters | None) -> dict[str, Any]:
    if node_ids is None and filters is None:
        raise InvalidRequestError("delete what? pass node_ids or filters, or call clear()")
    return {
        "ids": None if node_ids is None else _ids(node_ids),
        "filter": _optional(filters),
    }


def _optional(filters: MetadataFilters | None) -> Filter | None:
    return None if filters is None else to_filter(filters)


def _restricted(node_ids: list[str] | None, filters: MetadataFilters | None) -> Filter:
    by_id = EVERYTHING if node_ids is None else Place("id").is_in(node_ids)
    return by_id & (_optional(filters) or EVERYTHING)


def _in_order(found: Iterable[Document], asked: list[str] | None) -> list[str]:
    """The ids of the hits, in the order of the request."""
    ids = {one.id: None for one in found if one.id is not None}
    return list(ids) if asked is None else [one for one in asked if one in ids]
