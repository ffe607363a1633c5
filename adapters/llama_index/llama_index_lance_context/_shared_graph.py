"""What a property graph says, in the graph of the store, where every other framework walks it."""

from collections.abc import Iterable, Mapping, Sequence

from llama_index.core.graph_stores.types import Relation

from lance_context_core import AsyncContextStore, Document, NotFoundError
from lance_context_core.graph import Entity
from lance_context_core.graph import Relation as GraphRelation
from lance_context_core.results import AsyncGraph
from llama_index_lance_context._graphs import entity_of, from_relation


class SharedGraph:
    """Entities and the relations between them; chunks, which are texts, stay in the collection.

    Each is known from the document that it is in the collection, and goes when it goes there, unless
    another writer knows of it. What has no name is left out.
    """

    def __init__(self, store: AsyncContextStore) -> None:
        """Over the graph of the store."""
        self._store = store

    async def add(
        self,
        documents: Iterable[Document],
        relations: Sequence[Relation] = (),
        ends: Mapping[str, Document] | None = None,
    ) -> None:
        """Say what nodes say, and what relates the nodes in `ends`, by their ids, in one commit."""
        told = list(_entities(documents).values())
        made = _entities((ends or {}).values())
        entities = {
            id: one for id, node in (ends or {}).items() if (one := made.get(node.id or ""))
        }
        related = [
            _told(relation, entities[relation.source_id], entities[relation.target_id])
            for relation in relations
            if relation.label and {relation.source_id, relation.target_id} <= entities.keys()
        ]
        if not told and not related:
            return
        try:
            await self._graph.add(told, related)
        except NotFoundError:
            # The nodes were written before the graph was shared, or someone deleted them there.
            await self._graph.add([*told, *entities.values()], related)

    async def forget(self, documents: Iterable[Document]) -> None:
        """Let nothing be known from these documents any more, in one commit."""
        ids = [one.id for one in documents if one.id is not None]
        if ids:
            await self._graph.forget(ids)

    @property
    def _graph(self) -> AsyncGraph:
        return self._store.graph


def _entities(documents: Iterable[Document]) -> dict[str, Entity]:
    """The entities among nodes, by the ids of their documents."""
    made = {one.id or "": entity_of(one) for one in documents}
    return {id: one for id, one in made.items() if one is not None}


def _told(relation: Relation, source: Entity, target: Entity) -> GraphRelation:
    document = from_relation(relation)
    return GraphRelation(
        source_id=source.id or "",
        target_id=target.id or "",
        type=relation.label,
        properties=document.metadata["properties"],
        source_ids=(document.id or "",),
    )
