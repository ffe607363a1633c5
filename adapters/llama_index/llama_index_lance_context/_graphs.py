"""Converts nodes and relations of a property graph to documents of one collection, and back."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from llama_index.core.graph_stores.types import (
    TRIPLET_SOURCE_KEY,
    ChunkNode,
    EntityNode,
    LabelledNode,
    Relation,
)

from lance_context_core import Document, Field, Filter, InvalidRequestError
from lance_context_core.filters import And
from lance_context_core.graph import Entity, entity_id
from llama_index_lance_context._filters import equals_of
from llama_index_lance_context._values import decode_object, encode, encode_object

_GRAPH = "graph"
"""The metadata key of a document's graph fields; properties are separate keys."""

_CLASS, _LABEL, _SOURCE, _TARGET = (
    Field("metadata", _GRAPH, name) for name in ("class", "label", "source_id", "target_id")
)

_SOURCES = Field("metadata", _GRAPH, "sources")

_SORTED = (str, int, float, Decimal, date, time, timedelta, UUID)

ARE_CHUNKS = _CLASS.eq("ChunkNode")
ARE_NODES = _CLASS.is_in(["EntityNode", "ChunkNode"])
ARE_RELATIONS = _CLASS.eq("Relation")


def property_place(key: str) -> Field:
    """The store's key of a property."""
    return Field("metadata", "properties", key)


def with_properties(properties: Mapping[str, Any]) -> Filter:
    """The filter for all of these properties; None matches a missing one."""
    if not isinstance(properties, Mapping):
        raise InvalidRequestError(f"properties={properties!r:.80}: give a dict")
    return And(
        tuple(
            property_place(key).eq(None)
            if value is None
            else property_place(key).is_in(equals_of(_operand(value, f"property {key!r:.80}")))
            for key, value in properties.items()
        )
    )


def _operand(value: Any, where: str) -> Any:
    """The comparable form of a value, as one number or time has several forms."""
    return value if isinstance(value, _SORTED) else encode(value, where)


def with_ids(ids: Iterable[str]) -> Filter:
    """The nodes with one of these ids."""
    return Field("id").is_in([node_key(id) for id in ids])


def touching(ids: Iterable[str]) -> Filter:
    """The relations from or to one of these nodes."""
    ids = list(ids)
    return ARE_RELATIONS & (_SOURCE.is_in(ids) | _TARGET.is_in(ids))


def labelled(labels: Iterable[str]) -> Filter:
    """The relations with one of these labels."""
    return ARE_RELATIONS & _LABEL.is_in(list(labels))


def known_from(sources: Iterable[str]) -> Filter:
    """The entities and relations that one of these chunks or documents mentions."""
    sources = list(sources)
    return _SOURCES.contains_any(sources) | property_place(TRIPLET_SOURCE_KEY).is_in(sources)


def node_key(id: str) -> str:
    """The id of a node's document."""
    return f"node:{id}"


def from_node(node: LabelledNode) -> Document:
    """The stored form of a node."""
    if isinstance(node, EntityNode):
        class_name, content = "EntityNode", node.name
    elif isinstance(node, ChunkNode):
        class_name, content = "ChunkNode", node.text
    else:
        raise InvalidRequestError(
            f"{type(node).__name__}: a node of the graph is an EntityNode or a ChunkNode"
        )
    id = node.id
    graph: dict[str, Any] = {
        "class": class_name,
        "id": id,
        "label": node.label,
        "content": content,
    }
    if class_name == "EntityNode":
        graph["sources"] = [_source(node.properties)]
    return Document(
        id=node_key(id),
        # Without a vector no text: the store's embedder does not know the index's model.
        text="" if node.embedding is None else content,
        embedding=node.embedding,
        metadata={
            _GRAPH: graph,
            "properties": encode_object(node.properties, f"the properties of node {id!r:.80}"),
        },
    )


def check_relation(relation: object) -> None:
    """Raises InvalidRequestError for anything else."""
    if not isinstance(relation, Relation):
        raise InvalidRequestError(
            f"{type(relation).__name__}: a relation of the graph is a Relation"
        )


def from_relation(relation: Relation) -> Document:
    """The stored form of a relation, which is identified by its endpoints and label."""
    endpoints = {"source_id": relation.source_id, "target_id": relation.target_id}
    where = " ".join(
        f"{one!r:.80}" for one in (relation.source_id, relation.label, relation.target_id)
    )
    key = json.dumps([relation.source_id, relation.label, relation.target_id])
    return Document(
        id=f"relation:{key}",
        text="",
        metadata={
            _GRAPH: {
                "class": "Relation",
                "label": relation.label,
                **endpoints,
                "sources": [_source(relation.properties)],
            },
            "properties": encode_object(relation.properties, f"the properties of relation {where}"),
        },
    )


def _source(properties: Mapping[str, Any]) -> str:
    """The chunk that it was extracted from, else the document; "" without one."""
    named = (properties.get(TRIPLET_SOURCE_KEY), properties.get("ref_doc_id"))
    return next((one for one in named if isinstance(one, str)), "")


def sources_of(document: Document) -> list[str]:
    """The chunks and documents that mention it; "" stands for a caller without a source."""
    graph = document.metadata[_GRAPH]
    if "sources" not in graph and graph["class"] != "ChunkNode":
        return [_source(document.metadata["properties"])]  # as the first ones were written
    return list(graph.get("sources", ()))


def with_sources(document: Document, sources: Iterable[str]) -> Document:
    """The same with these sources alone; a removed source chunk is replaced by one of them."""
    sources = list(dict.fromkeys(sources))
    properties = dict(document.metadata["properties"])
    if properties.get(TRIPLET_SOURCE_KEY, "") not in {"", *sources}:
        del properties[TRIPLET_SOURCE_KEY]
        if chunks := [one for one in sources if one]:
            properties[TRIPLET_SOURCE_KEY] = chunks[0]
    graph = {**document.metadata[_GRAPH], "sources": sources}
    return replace(document, metadata={_GRAPH: graph, "properties": properties})


def joined(documents: Iterable[Document]) -> list[Document]:
    """One document for each id: the last one, with the sources of all."""
    made: dict[str | None, Document] = {}
    for one in documents:
        before = made.get(one.id)
        named = [] if before is None else sources_of(before)
        made[one.id] = with_sources(one, [*named, *sources_of(one)]) if named else one
    return list(made.values())


def is_chunk(document: Document) -> bool:
    """Whether it is a chunk."""
    return bool(document.metadata[_GRAPH]["class"] == "ChunkNode")


def is_relation(document: Document) -> bool:
    """Whether it is a relation."""
    return bool(document.metadata[_GRAPH]["class"] == "Relation")


def name_of(document: Document) -> str:
    """The name of a node or relation in errors."""
    graph = document.metadata[_GRAPH]
    return str(graph.get("id", graph["label"]))


def id_of(document: Document) -> str:
    """The id of the stored node."""
    id: str = document.metadata[_GRAPH]["id"]
    return id


def to_labelled_node(document: Document) -> LabelledNode:
    """The stored node."""
    graph = document.metadata[_GRAPH]
    common: dict[str, Any] = {
        "label": graph["label"],
        "properties": decode_object(document.metadata["properties"]),
        "embedding": None if document.embedding is None else list(document.embedding),
    }
    if graph["class"] == "EntityNode":
        return EntityNode(name=graph["content"], **common)
    return ChunkNode(text=graph["content"], id_=graph["id"], **common)


def entity_of(document: Document) -> Entity | None:
    """The node as an entity of the store's graph; None for a chunk, or without a name."""
    graph = document.metadata[_GRAPH]
    name, label = graph["content"], graph["label"]
    if graph["class"] != "EntityNode" or not name.strip() or not label.strip():
        return None
    return Entity(
        id=entity_id(name, label),
        name=name,
        type=label,
        properties=document.metadata["properties"],
        source_ids=(document.id or "",),
    )


def to_relation(document: Document) -> Relation:
    """The stored relation."""
    graph = document.metadata[_GRAPH]
    return Relation(
        label=graph["label"],
        source_id=graph["source_id"],
        target_id=graph["target_id"],
        properties=decode_object(document.metadata["properties"]),
    )
