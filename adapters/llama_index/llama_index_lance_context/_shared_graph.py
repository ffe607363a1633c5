"""Shares a property graph with the store's graph, for all frameworks."""

from collections.abc import Iterable, Mapping, Sequence

from llama_index.core.graph_stores.types import Relation

from lance_context_core import AsyncContextStore, Document, NotFoundError
from lance_context_core.graph import Entity
from lance_context_core.graph import Relation as GraphRelation
from lance_context_core.results import AsyncGraph
from llama_index_lance_context._graphs import entity_of, from_relation


class SharedGraph:
    """Entities and relations; chunks, which are texts, stay in the collection.

    Each has its document in the collection as source, and is deleted with it unless it has other
    sources. Nodes without a name are left out.
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
        """Adds nodes, and the relations of the nodes in `ends`, by id, in one commit."""
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
            # The nodes predate sharing, or were deleted in the graph.
            await self._graph.add([*told, *entities.values()], related)

    async def forget(self, documents: Iterable[Document]) -> None:
        """Removes these documents as sources, in one commit."""
        ids = [one.id for one in documents if one.id is not None]
        if ids:
            await self._graph.forget(ids)

    @property
    def _graph(self) -> AsyncGraph:
        return self._store.graph


def _entities(documents: Iterable[Document]) -> dict[str, Entity]:
    """The entities among nodes, by document id."""
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
