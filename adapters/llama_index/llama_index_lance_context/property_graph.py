"""A collection of the store as LlamaIndex's property graph store."""

from collections.abc import Iterable, Sequence
from typing import Any

from llama_index.core.graph_stores.types import (
    TRIPLET_SOURCE_KEY,
    EntityNode,
    LabelledNode,
    PropertyGraphStore,
    Relation,
    Triplet,
)
from llama_index.core.vector_stores.types import VectorStoreQuery

from lance_context_core import (
    AlreadyExistsError,
    ConflictError,
    Document,
    InvalidRequestError,
    SearchHit,
)
from lance_context_core.adapting import Blocking, Handle, HandleOwner, StoreLike, at_once
from lance_context_core.filters import And, Field, Filter, Or
from lance_context_core.sync import Vectors
from llama_index_lance_context._filters import to_filter
from llama_index_lance_context._graphs import (
    ARE_NODES,
    ARE_RELATIONS,
    from_node,
    from_relation,
    id_of,
    labelled,
    node_key,
    property_place,
    to_labelled_node,
    to_relation,
    touching,
    with_ids,
    with_properties,
)
from llama_index_lance_context._queries import Ask, ask, ranked

_MAX_ATTEMPTS = 20


class LanceContextPropertyGraphStore(HandleOwner, PropertyGraphStore):
    """A graph of entities, chunks and relations in one collection of a store, with their vectors.

    Nodes and relations are written and deleted in one commit each, and a relation goes with either
    of its ends, so that no triplet ever lacks one. `properties` must all be there, with these
    values. Where ids, names or labels are asked for, an empty list finds nothing.

    Each asynchronous method does what its twin does, and blocks no event loop. There are no
    structured queries: Cypher raises NotImplementedError.
    """

    supports_structured_queries = False
    supports_vector_queries = True

    def __init__(self, store: StoreLike, *, collection: str = "graph") -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again."""
        self._handle = Handle(store)
        self._collection = collection
        self._aio = _Graph(self._handle.aio.vectors(collection))
        self._sync = _Graph(Blocking(self.client))

    @property
    def client(self) -> Vectors:
        """The collection itself."""
        return self._handle.sync.vectors(self._collection)

    # Reading

    def get(
        self, properties: dict[str, Any] | None = None, ids: list[str] | None = None
    ) -> list[LabelledNode]:
        """The nodes with these ids and properties, with their embeddings; without either, all.

        In the order of `ids`, or in that of writing. Unknown ids are left out.
        """
        return at_once(self._sync.get(properties, ids))

    async def aget(
        self, properties: dict[str, Any] | None = None, ids: list[str] | None = None
    ) -> list[LabelledNode]:
        """As `get`."""
        return await self._aio.get(properties, ids)

    def get_triplets(
        self,
        entity_names: list[str] | None = None,
        relation_names: list[str] | None = None,
        properties: dict[str, Any] | None = None,
        ids: list[str] | None = None,
    ) -> list[Triplet]:
        """The triplets of which all is true that is said; if nothing is said, none.

        `entity_names` and `ids` are those of either end. `properties` are those of the relation, or
        of one of its ends.
        """
        return at_once(self._sync.get_triplets(entity_names, relation_names, properties, ids))

    async def aget_triplets(
        self,
        entity_names: list[str] | None = None,
        relation_names: list[str] | None = None,
        properties: dict[str, Any] | None = None,
        ids: list[str] | None = None,
    ) -> list[Triplet]:
        """As `get_triplets`."""
        return await self._aio.get_triplets(entity_names, relation_names, properties, ids)

    def get_rel_map(
        self,
        graph_nodes: list[LabelledNode],
        depth: int = 2,
        limit: int = 30,
        ignore_rels: list[str] | None = None,
    ) -> list[Triplet]:
        """The triplets within `depth` steps of these nodes, each once, the nearest first.

        Relations are walked both ways, those with a label among `ignore_rels` not at all.
        """
        return at_once(self._sync.get_rel_map(graph_nodes, depth, limit, ignore_rels))

    async def aget_rel_map(
        self,
        graph_nodes: list[LabelledNode],
        depth: int = 2,
        limit: int = 30,
        ignore_rels: list[str] | None = None,
    ) -> list[Triplet]:
        """As `get_rel_map`."""
        return await self._aio.get_rel_map(graph_nodes, depth, limit, ignore_rels)

    def vector_query(
        self, query: VectorStoreQuery, **kwargs: Any
    ) -> tuple[list[LabelledNode], list[float]]:
        """The nodes that answer the query best, without embeddings, and their similarities.

        Filters are of the nodes' properties; modes and similarities are those of
        `LanceContextVectorStore`, without semantic_hybrid. Nodes without an embedding are not found.
        """
        asked = _asked(query, **kwargs)
        return _answer(asked, self.client.search(**asked.arguments))

    async def avector_query(
        self, query: VectorStoreQuery, **kwargs: Any
    ) -> tuple[list[LabelledNode], list[float]]:
        """As `vector_query`."""
        asked = _asked(query, **kwargs)
        vectors = self._handle.aio.vectors(self._collection)
        return _answer(asked, await vectors.search(**asked.arguments))

    def structured_query(self, query: str, param_map: dict[str, Any] | None = None) -> Any:
        """Raise NotImplementedError."""
        raise NotImplementedError(
            "the store has no query language for graphs: use get, get_triplets, get_rel_map or "
            "vector_query"
        )

    async def astructured_query(self, query: str, param_map: dict[str, Any] | None = None) -> Any:
        """Raise NotImplementedError."""
        return self.structured_query(query, param_map)

    # Writing

    def upsert_nodes(self, nodes: Sequence[LabelledNode]) -> None:
        """Add nodes, or replace those whose ids exist, in one commit."""
        at_once(self._sync.upsert_nodes(nodes))

    async def aupsert_nodes(self, nodes: Sequence[LabelledNode]) -> None:
        """As `upsert_nodes`."""
        await self._aio.upsert_nodes(nodes)

    def upsert_relations(self, relations: list[Relation]) -> None:
        """Add relations, or replace those with the same ends and label, in one commit.

        An end that does not exist becomes an entity of that name, in a commit before. Ends may be
        names, too, where these are not the ids: LlamaIndex makes blanks of the quotes in a name.
        """
        at_once(self._sync.upsert_relations(relations))

    async def aupsert_relations(self, relations: list[Relation]) -> None:
        """As `upsert_relations`."""
        await self._aio.upsert_relations(relations)

    def delete(
        self,
        entity_names: list[str] | None = None,
        relation_names: list[str] | None = None,
        properties: dict[str, Any] | None = None,
        ids: list[str] | None = None,
    ) -> None:
        """Delete every node and every relation of which one of these is true, in one commit.

        With a node go its relations, and nothing else. Raises InvalidRequestError if nothing is
        said; an empty list, or no properties, deletes nothing.
        """
        at_once(self._sync.delete(entity_names, relation_names, properties, ids))

    async def adelete(
        self,
        entity_names: list[str] | None = None,
        relation_names: list[str] | None = None,
        properties: dict[str, Any] | None = None,
        ids: list[str] | None = None,
    ) -> None:
        """As `delete`."""
        await self._aio.delete(entity_names, relation_names, properties, ids)

    async def adelete_llama_nodes(
        self, node_ids: list[str] | None = None, ref_doc_ids: list[str] | None = None
    ) -> None:
        """Delete chunks, and what was extracted from them, by their ids or their documents'."""
        found: list[LabelledNode] = []
        for key, ids in ((TRIPLET_SOURCE_KEY, node_ids), ("ref_doc_id", ref_doc_ids)):
            found += await self.aget(ids=ids or [])
            for id in ids or []:
                found += await self.aget(properties={key: id})
        await self.adelete(ids=[node.id for node in found])


class _Graph:
    """What both faces do, over a collection whose methods are awaited."""

    def __init__(self, vectors: Any) -> None:
        self._vectors = vectors

    async def get(
        self, properties: dict[str, Any] | None, ids: Iterable[str] | None
    ) -> list[LabelledNode]:
        documents = await self._nodes(properties, ids)
        return [to_labelled_node(one) for one in documents]

    async def get_triplets(
        self,
        entity_names: list[str] | None,
        relation_names: list[str] | None,
        properties: dict[str, Any] | None,
        ids: list[str] | None,
    ) -> list[Triplet]:
        said = [ARE_RELATIONS]
        said += [touching(map(_id_of_name, entity_names))] if entity_names is not None else []
        said += [labelled(relation_names)] if relation_names is not None else []
        said += [touching(ids)] if ids is not None else []
        if properties:
            ends = await self._ids(with_properties(properties))
            said.append(with_properties(properties) | touching(ends))
        if len(said) == 1:
            return []
        documents = await self._vectors.list(filter=And(tuple(said)))
        return await self._triplets([to_relation(one) for one in documents])

    async def get_rel_map(
        self,
        graph_nodes: list[LabelledNode],
        depth: int,
        limit: int,
        ignore_rels: list[str] | None,
    ) -> list[Triplet]:
        found: dict[str, Relation] = {}
        reached: set[str] = set()
        edge = {node.id for node in graph_nodes}
        walked = ~labelled(ignore_rels or [])
        for _ in range(depth):
            if not edge or len(found) >= limit:
                break
            reached |= edge
            for document in await self._vectors.list(filter=touching(sorted(edge)) & walked):
                found.setdefault(document.id, to_relation(document))
            edge = {end for relation in found.values() for end in _ends(relation)} - reached
        return await self._triplets(list(found.values())[:limit])

    async def upsert_nodes(self, nodes: Sequence[LabelledNode]) -> None:
        documents = [from_node(node) for node in nodes]
        await self._vectors.upsert(list({one.id: one for one in documents}.values()))

    async def upsert_relations(self, relations: Sequence[Relation]) -> None:
        relations = await self._by_ids(relations)
        documents = [from_relation(relation) for relation in relations]
        await self._add_missing({end for relation in relations for end in _ends(relation)})
        await self._vectors.upsert(list({one.id: one for one in documents}.values()))

    async def delete(
        self,
        entity_names: list[str] | None,
        relation_names: list[str] | None,
        properties: dict[str, Any] | None,
        ids: list[str] | None,
    ) -> None:
        if all(said is None for said in (entity_names, relation_names, properties, ids)):
            raise InvalidRequestError(
                "delete what? pass entity_names, relation_names, properties or ids"
            )
        gone = [*(ids or []), *map(_id_of_name, entity_names or [])]
        conditions: list[Filter] = [labelled(relation_names or [])]
        if properties:
            gone += await self._ids(with_properties(properties))
            conditions.append(ARE_RELATIONS & with_properties(properties))
        await self._vectors.delete(filter=Or((with_ids(gone), touching(gone), *conditions)))

    async def _nodes(
        self, properties: dict[str, Any] | None, ids: Iterable[str] | None
    ) -> list[Document]:
        keys = None if ids is None else [node_key(id) for id in dict.fromkeys(ids)]
        if keys is None or properties:
            which = ARE_NODES & with_properties(properties or {})
            if keys is not None:
                which &= Field("id").is_in(keys)
            found = [one.id for one in await self._vectors.list(filter=which)]
            keys = found if keys is None else [one for one in keys if one in found]
        documents: list[Document] = await self._vectors.get(keys, include_embedding=True)
        return documents

    async def _ids(self, condition: Filter) -> list[str]:
        """The ids of the nodes that satisfy a condition."""
        return [id_of(one) for one in await self._vectors.list(filter=ARE_NODES & condition)]

    async def _triplets(self, relations: Sequence[Relation]) -> list[Triplet]:
        """The relations with their ends; without those that have lost one meanwhile."""
        documents = await self._nodes(None, [end for one in relations for end in _ends(one)])
        nodes = {id_of(one): to_labelled_node(one) for one in documents}
        return [
            (nodes[one.source_id], one, nodes[one.target_id])
            for one in relations
            if nodes.keys() >= _ends(one)
        ]

    async def _by_ids(self, relations: Sequence[Relation]) -> list[Relation]:
        """The relations, those between names too, where a name is not the id of its entity."""
        ends = {end for relation in relations for end in _ends(relation)}
        names = {end: _id_of_name(end) for end in ends if _id_of_name(end) != end}
        for id in await self._existing(set(names)):
            del names[id]
        return [
            one.model_copy(
                update={
                    "source_id": names.get(one.source_id, one.source_id),
                    "target_id": names.get(one.target_id, one.target_id),
                }
            )
            for one in relations
        ]

    async def _existing(self, ids: set[str]) -> set[str]:
        return {id_of(one) for one in await self._vectors.get([node_key(id) for id in ids])}

    async def _add_missing(self, ids: set[str]) -> None:
        """Make entities of those ids that no node has, whatever others add at the same time."""
        for _ in range(_MAX_ATTEMPTS):
            there = await self._existing(ids)
            missing = [from_node(EntityNode(name=id)) for id in sorted(ids - there)]
            try:
                await self._vectors.add(missing)
            except AlreadyExistsError:
                continue
            return
        raise ConflictError("the same nodes kept being written by others: try again")


def _asked(query: VectorStoreQuery, **kwargs: Any) -> Ask:
    filters = query.filters
    restriction = (
        ARE_NODES if filters is None else ARE_NODES & to_filter(filters, place=property_place)
    )
    return ask(query, restriction=restriction, **kwargs)


def _answer(
    asked: Ask, hits: Sequence[SearchHit[Document]]
) -> tuple[list[LabelledNode], list[float]]:
    found = ranked(asked, hits)
    nodes = [to_labelled_node(document) for document, _ in found]
    return nodes, [similarity for _, similarity in found]


def _ends(relation: Relation) -> set[str]:
    return {relation.source_id, relation.target_id}


def _id_of_name(name: str) -> str:
    return EntityNode(name=name).id
