"""The store's graph for LangChain's graph documents, as its transformers make them."""

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
"""The type and id of a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNode:
    """The attributes of LangChain's `Node`."""

    id: str
    type: str = "Node"
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRelationship:
    """The attributes of LangChain's `Relationship`."""

    source: GraphNode
    target: GraphNode
    type: str
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphDocument:
    """The attributes of LangChain's `GraphDocument`: the graph found in a document."""

    nodes: Sequence[GraphNode]
    relationships: Sequence[GraphRelationship]
    source: Document


class LanceContextGraphStore(HandleOwner):
    """Stores graph documents in `store.graph`, for all frameworks.

    A node is an entity with its id as the name; nodes with equal type and name, ignoring case, are
    the same. Each lists its source documents. Any object with LangChain's attributes is accepted.
    """

    def __init__(self, store: StoreLike) -> None:
        """Opens over a store or a scope, which stays open, or a URI, which `close` closes."""
        self._handle = Handle(store)

    def add_graph_documents(self, graph_documents: Iterable[Any]) -> list[str]:
        """Stores graph documents; returns the ids of their sources, in order.

        A source without an id gets one from its text. Nodes are written first, then relationships
        and sources in another commit; repeating the call changes nothing. The last properties of a
        node or relationship win, and replace existing ones. Raises InvalidRequestError, before
        anything is written, for a value that is not a graph document or cannot be stored.
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
        """The graph of a document, with at most `limit` nodes; None if it has none.

        It has `nodes`, `relationships` and `source` like LangChain's, with current properties, and
        ids as texts. The source has its id, without a text.
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
    """A graph document of any class; the store validates its parts."""
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
    """Its nodes, and further ends of its relationships."""
    ends = [end for one in document.relationships for end in (one.source, one.target)]
    named = {_key(node) for node in document.nodes}
    return [*document.nodes, *(end for end in ends if _key(end) not in named)]


def _key(node: GraphNode) -> _Key:
    # The store ignores case in names.
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
