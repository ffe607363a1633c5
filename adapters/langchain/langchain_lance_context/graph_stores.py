"""The store's graph for the graph documents that LangChain's transformers make of texts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from langchain_core.documents import Document

from lance_context_core import InvalidRequestError
from lance_context_core.adapting import Handle, HandleOwner, StoreLike, block_on, check_name, listed
from lance_context_core.graph import Entity, Mention, Relation
from langchain_lance_context._values import decode_object, encode_object

_Key = tuple[str, str]
"""The type of a node, and its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNode:
    """What LangChain's `Node` says."""

    id: str
    type: str = "Node"
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRelationship:
    """What LangChain's `Relationship` says."""

    source: GraphNode
    target: GraphNode
    type: str
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphDocument:
    """What LangChain's `GraphDocument` says: what was found in a document."""

    nodes: Sequence[GraphNode]
    relationships: Sequence[GraphRelationship]
    source: Document


class LanceContextGraphStore(HandleOwner):
    """Graph documents in `store.graph`, where whatever else knows the store walks what they say.

    A node is an entity: its id is the name. One of the same type and name, whatever the case, is the
    same one. Each knows the documents that it is from. Anything with LangChain's attributes goes in.
    """

    def __init__(self, store: StoreLike) -> None:
        """Over an open store, or a scope of one, which stays open; or a URI, which `close` closes."""
        self._handle = Handle(store)

    def add_graph_documents(self, graph_documents: Iterable[Any]) -> list[str]:
        """Keep what was found in documents; returns the ids of these, one for each.

        That of a document without one is made of its text. First the nodes are written, then, in one
        more commit, relationships and where all of it comes from; doing it again changes nothing. Of
        what several documents say of a node or a relationship, properties are those said last; where
        it is there already, they replace those that it had. Raises InvalidRequestError, before
        anything is written, for a value that is not a graph document or cannot be kept.
        """
        return block_on(self.aadd_graph_documents(graph_documents))

    async def aadd_graph_documents(self, graph_documents: Iterable[Any]) -> list[str]:
        """As `add_graph_documents`."""
        given = [
            _read(one, f"graph_documents[{number}]")
            for number, one in enumerate(listed(graph_documents, "graph_documents"))
        ]
        graph = self._handle.aio.graph
        entities: dict[_Key, Entity] = {}
        for one in given:
            for node in _nodes_of(one):
                entities[_key(node)] = _entity(node, entities.get(_key(node)), _id_of(one))
        relations = [
            (_id_of(one), edge, encode_object(edge.properties, "properties"))
            for one in given
            for edge in one.relationships
        ]
        made = await graph.add_entities(list(entities.values()))
        ids = {key: entity.id or "" for key, entity in zip(entities, made, strict=True)}
        found: dict[tuple[str, str, str], Relation] = {}
        for source_id, edge, properties in relations:
            ends = ids[_key(edge.source)], ids[_key(edge.target)]
            before = found.get((*ends, edge.type))
            found[(*ends, edge.type)] = Relation(
                source_id=ends[0],
                target_id=ends[1],
                type=edge.type,
                properties={**(before.properties if before else {}), **properties},
                source_ids=(*(before.source_ids if before else ()), source_id),
            )
        mentions = [
            Mention(entity_id=ids[_key(node)], source_id=id, text=node.id, document_id=id)
            for one in given
            for id in [_id_of(one)]
            for node in _nodes_of(one)
        ]
        await graph.add(relations=list(found.values()), mentions=mentions)
        return [_id_of(one) for one in given]

    def get_graph_document(self, source_id: str, *, limit: int = 1_000) -> GraphDocument | None:
        """What is known from a document, at most `limit` nodes; None for nothing.

        It has `nodes`, `relationships` and `source` as LangChain's own have them, with properties as
        they are now, and ids as texts. The source has its id; its text is kept by anyone who keeps it.
        """
        return block_on(self.aget_graph_document(source_id, limit=limit))

    async def aget_graph_document(
        self, source_id: str, *, limit: int = 1_000
    ) -> GraphDocument | None:
        """As `get_graph_document`."""
        found = await self._handle.aio.graph.subgraph(document_id=source_id, limit=limit)
        if not found:
            return None
        nodes = {
            one.id: GraphNode(id=one.name, type=one.type, properties=decode_object(one.properties))
            for one in found.entities
        }
        return GraphDocument(
            nodes=list(nodes.values()),
            relationships=[
                GraphRelationship(
                    source=nodes[one.source_id],
                    target=nodes[one.target_id],
                    type=one.type,
                    properties=decode_object(one.properties),
                )
                for one in found.relations
                if source_id in one.source_ids
            ],
            source=Document(id=source_id, page_content=""),
        )


def _read(given: Any, where: str) -> GraphDocument:
    """A graph document of whatever class; its parts are checked by the store."""
    try:
        return GraphDocument(
            nodes=[_node(one) for one in given.nodes],
            relationships=[
                GraphRelationship(
                    source=_node(one.source),
                    target=_node(one.target),
                    type=_word(one.type, f"{where}.relationships[{number}].type"),
                    properties=one.properties or {},
                )
                for number, one in enumerate(given.relationships)
            ],
            source=Document(id=given.source.id, page_content=given.source.page_content),
        )
    except (AttributeError, TypeError) as error:
        raise InvalidRequestError(
            f"{where} is {given!r:.80}: give a GraphDocument, with nodes, relationships, and the "
            "document that they were found in as source"
        ) from error


def _node(given: Any) -> GraphNode:
    return GraphNode(id=str(given.id), type=given.type, properties=given.properties or {})


def _word(given: object, where: str) -> str:
    if not (word := check_name(given, where)).strip():
        raise InvalidRequestError(f"{where} is blank: give it at least one letter")
    return word


def _nodes_of(document: GraphDocument) -> list[GraphNode]:
    """Those it names, and what its relationships lead to beside them."""
    ends = [end for one in document.relationships for end in (one.source, one.target)]
    named = {_key(node) for node in document.nodes}
    return [*document.nodes, *(end for end in ends if _key(end) not in named)]


def _key(node: GraphNode) -> _Key:
    # The store calls the same what differs in case alone.
    return str(node.type).casefold(), node.id.casefold()


def _id_of(document: GraphDocument) -> str:
    text = document.source.page_content
    return document.source.id or f"text-{sha256(text.encode()).hexdigest()[:32]}"


def _entity(node: GraphNode, before: Entity | None, source_id: str) -> Entity:
    said = encode_object(node.properties, f"the properties of node {node.id!r:.80}")
    return Entity(
        name=node.id,
        type=node.type,
        properties={**(before.properties if before else {}), **said},
        source_ids=(*(before.source_ids if before else ()), source_id),
    )
