"""A collection of the store as LlamaIndex's property graph store."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from llama_index.core.graph_stores.types import (
    LabelledNode,
    PropertyGraphStore,
    Relation,
    Triplet,
)
from llama_index.core.vector_stores.types import VectorStoreQuery

from lance_context_core import Vectors
from lance_context_core.adapting import Handle, HandleOwner, StoreLike, block_on, listed
from lance_context_core.filters import And
from llama_index_lance_context._cypher import answered, schema_of, schema_text
from llama_index_lance_context._filters import to_filter
from llama_index_lance_context._given import collection_given, store_given
from llama_index_lance_context._graph_log import GraphLog
from llama_index_lance_context._graphs import ARE_NODES, property_place, with_ids
from llama_index_lance_context._queries import Ask, ask
from llama_index_lance_context._shared_graph import SharedGraph


class LanceContextPropertyGraphStore(HandleOwner, PropertyGraphStore):
    """A graph of entities, chunks and relations in one collection of a store, with their vectors.

    Entities and relations are also in `store.graph`, with their document in the collection as
    source, for all frameworks. They are written there second, so that a call that died can be
    repeated, and deleted there first, unless they have another source.

    In the collection, nodes and relations are written and deleted in one commit each, and a
    relation is deleted with either of its endpoints, so that no triplet lacks one. `properties`
    must all match. An empty list of ids, names or labels finds nothing.

    Each asynchronous method equals the blocking one, and blocks no event loop.
    """

    supports_vector_queries = True

    def __init__(
        self,
        store: StoreLike | None = None,
        *,
        uri: StoreLike | None = None,
        collection: str | None = None,
        table_name: str | None = None,
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        `uri` and `table_name` are other names of `store` and `collection`, as in other stores; the
        default collection is "graph".
        """
        self._handle = Handle(store_given(store, uri))
        collection = collection_given(collection, table_name)
        collection = "graph" if collection is None else collection
        self._collection = collection
        aio = self._handle.aio
        self._graph = aio.graph
        self.supports_structured_queries = True
        self._log = GraphLog(aio.vectors(collection), SharedGraph(aio))

    @property
    def client(self) -> Vectors:
        """The collection itself."""
        return self._handle.sync.vectors(self._collection)

    # Reading

    def get(
        self, properties: dict[str, Any] | None = None, ids: list[str] | None = None
    ) -> list[LabelledNode]:
        """The nodes with these ids and properties, with their embeddings; without either, all.

        In the order of `ids`, or of writing. Unknown ids are left out.
        """
        return block_on(self._log.get(properties, ids))

    async def aget(
        self, properties: dict[str, Any] | None = None, ids: list[str] | None = None
    ) -> list[LabelledNode]:
        """As `get`."""
        return await self._log.get(properties, ids)

    def get_triplets(
        self,
        entity_names: list[str] | None = None,
        relation_names: list[str] | None = None,
        properties: dict[str, Any] | None = None,
        ids: list[str] | None = None,
    ) -> list[Triplet]:
        """The triplets that match all conditions; without conditions, none.

        `entity_names` and `ids` are those of either endpoint. `properties` are those of the
        relation, or of one of its endpoints.
        """
        return block_on(self._log.get_triplets(entity_names, relation_names, properties, ids))

    async def aget_triplets(
        self,
        entity_names: list[str] | None = None,
        relation_names: list[str] | None = None,
        properties: dict[str, Any] | None = None,
        ids: list[str] | None = None,
    ) -> list[Triplet]:
        """As `get_triplets`."""
        return await self._log.get_triplets(entity_names, relation_names, properties, ids)

    def get_rel_map(
        self,
        graph_nodes: list[LabelledNode],
        depth: int = 2,
        limit: int = 30,
        ignore_rels: list[str] | None = None,
    ) -> list[Triplet]:
        """The triplets within `depth` steps of these nodes, each once, the nearest first.

        Relations are followed both ways. Labels in `ignore_rels` are followed too, but left out of
        the result and of the `limit`.
        """
        return block_on(self._log.get_rel_map(graph_nodes, depth, limit, ignore_rels))

    async def aget_rel_map(
        self,
        graph_nodes: list[LabelledNode],
        depth: int = 2,
        limit: int = 30,
        ignore_rels: list[str] | None = None,
    ) -> list[Triplet]:
        """As `get_rel_map`."""
        return await self._log.get_rel_map(graph_nodes, depth, limit, ignore_rels)

    def vector_query(
        self, query: VectorStoreQuery, **kwargs: Any
    ) -> tuple[list[LabelledNode], list[float]]:
        """The nodes that answer the query best, without embeddings, and their similarities.

        Filters apply to the nodes' properties, and `doc_ids` to `ref_doc_id`; modes and
        similarities are those of `LanceContextVectorStore`, without semantic_hybrid. Nodes without
        an embedding are found by filters and ids alone.
        """
        return block_on(self._log.vector_query(_asked(query, **kwargs)))

    async def avector_query(
        self, query: VectorStoreQuery, **kwargs: Any
    ) -> tuple[list[LabelledNode], list[float]]:
        """As `vector_query`."""
        return await self._log.vector_query(_asked(query, **kwargs))

    def structured_query(
        self, query: str, param_map: dict[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """The rows of a read-only Cypher query; `param_map` has the values of `$name`.

        It queries the store's graph, like `store.graph.cypher`: entities and relations of every
        framework, without chunks. Raises InvalidRequestError for a query that writes or is not
        supported.
        """
        return block_on(answered(self._graph, query, param_map))

    async def astructured_query(
        self, query: str, param_map: dict[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """As `structured_query`."""
        return await answered(self._graph, query, param_map)

    def get_schema(
        self,
        refresh: bool = False,  # noqa: FBT001, FBT002 - the name and place of LlamaIndex's own
    ) -> dict[str, Any]:
        """The names for Cypher queries: `node_props`, `rel_props` and `relationships`.

        It is read on each call; `refresh` is ignored. Raises as `structured_query`.
        """
        return block_on(self.aget_schema(refresh))

    async def aget_schema(  # type: ignore[override] # there a str, of which its callers make one
        self,
        refresh: bool = False,  # noqa: ARG002, FBT001, FBT002
    ) -> dict[str, Any]:
        """As `get_schema`."""
        return await schema_of(self._graph)

    def get_schema_str(
        self,
        refresh: bool = False,  # noqa: FBT001, FBT002
    ) -> str:
        """The schema in words, with the rules of a query, for a model that writes one."""
        return schema_text(self.get_schema(refresh))

    async def aget_schema_str(
        self,
        refresh: bool = False,  # noqa: FBT001, FBT002
    ) -> str:
        """As `get_schema_str`."""
        return schema_text(await self.aget_schema(refresh))

    # Writing

    def upsert_nodes(self, nodes: Sequence[LabelledNode]) -> None:
        """Adds nodes, or replaces those with existing ids, in one commit."""
        block_on(self._log.upsert_nodes(nodes))

    async def aupsert_nodes(self, nodes: Sequence[LabelledNode]) -> None:
        """As `upsert_nodes`."""
        await self._log.upsert_nodes(nodes)

    def upsert_relations(self, relations: list[Relation]) -> None:
        """Adds relations, or replaces those with the same endpoints and label, in one commit.

        A missing endpoint becomes an entity of that name, in an earlier commit. Endpoints may be
        names instead of ids, since LlamaIndex replaces quotes in a name by blanks.
        """
        block_on(self._log.upsert_relations(relations))

    async def aupsert_relations(self, relations: list[Relation]) -> None:
        """As `upsert_relations`."""
        await self._log.upsert_relations(relations)

    def delete(
        self,
        entity_names: list[str] | None = None,
        relation_names: list[str] | None = None,
        properties: dict[str, Any] | None = None,
        ids: list[str] | None = None,
    ) -> None:
        """Deletes every node and relation that matches one of these.

        Deleting a node deletes its relations; deleting a chunk, what it alone mentions: see
        `delete_llama_nodes`. Raises InvalidRequestError without arguments; an empty list, or no
        properties, deletes nothing.
        """
        block_on(self._log.delete(entity_names, relation_names, properties, ids))

    async def adelete(
        self,
        entity_names: list[str] | None = None,
        relation_names: list[str] | None = None,
        properties: dict[str, Any] | None = None,
        ids: list[str] | None = None,
    ) -> None:
        """As `delete`."""
        await self._log.delete(entity_names, relation_names, properties, ids)

    def delete_llama_nodes(
        self, node_ids: list[str] | None = None, ref_doc_ids: list[str] | None = None
    ) -> None:
        """Deletes chunks, by their ids or documents, and what they alone mention.

        An entity or relation that another chunk mentions stays until the last of these is deleted.
        A chunk mentions what has its id as `triplet_source_id`, and the ends of such relations.
        What was written without a source stays. A call that died can be repeated.
        """
        block_on(self._log.delete_said(node_ids, ref_doc_ids))

    async def adelete_llama_nodes(
        self, node_ids: list[str] | None = None, ref_doc_ids: list[str] | None = None
    ) -> None:
        """As `delete_llama_nodes`."""
        await self._log.delete_said(node_ids, ref_doc_ids)


def _asked(query: VectorStoreQuery, **kwargs: Any) -> Ask:
    said = [] if query.filters is None else [to_filter(query.filters, place=property_place)]
    if query.node_ids:
        said.append(with_ids(listed(query.node_ids, "node_ids")))
    if query.doc_ids is not None:
        said.append(property_place("ref_doc_id").is_in(listed(query.doc_ids, "doc_ids")))
    asked = ask(query, restriction=And(tuple(said)) if said else None, **kwargs)
    return replace(asked, arguments={**asked.arguments, "filter": And((ARE_NODES, *said))})
