"""A property graph as documents of one collection: reads and writes."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from llama_index.core.graph_stores.types import EntityNode, LabelledNode, Relation, Triplet

from lance_context_core import (
    AlreadyExistsError,
    AsyncVectors,
    Document,
    Field,
    Filter,
    InvalidRequestError,
)
from lance_context_core.adapting import Attempts, check_name, listed
from lance_context_core.filters import And, Or
from lance_context_core.graph import Entity
from llama_index_lance_context._graphs import (
    ARE_CHUNKS,
    ARE_NODES,
    ARE_RELATIONS,
    check_relation,
    entity_of,
    from_node,
    from_relation,
    id_of,
    is_chunk,
    is_relation,
    joined,
    known_from,
    labelled,
    name_of,
    node_key,
    property_place,
    sources_of,
    to_labelled_node,
    to_relation,
    touching,
    with_ids,
    with_properties,
    with_sources,
)
from llama_index_lance_context._queries import Ask, find, ranked
from llama_index_lance_context._shared_graph import SharedGraph
from llama_index_lance_context._words import check_count, in_words_of


class GraphLog:
    """The graph in a collection, and the part of it that all frameworks share."""

    def __init__(self, vectors: AsyncVectors, shared: SharedGraph) -> None:
        self._vectors = vectors
        self._shared = shared

    async def get(
        self, properties: dict[str, Any] | None, ids: list[str] | None
    ) -> list[LabelledNode]:
        documents = await self._nodes(properties, _listed(ids, "ids"))
        return [to_labelled_node(one) for one in documents]

    async def get_triplets(
        self,
        entity_names: list[str] | None,
        relation_names: list[str] | None,
        properties: dict[str, Any] | None,
        ids: list[str] | None,
    ) -> list[Triplet]:
        said = [ARE_RELATIONS]
        if (names := _listed(entity_names, "entity_names")) is not None:
            said.append(touching(map(_id_of_name, names)))
        if (labels := _listed(relation_names, "relation_names")) is not None:
            said.append(labelled(labels))
        if (endpoints := _listed(ids, "ids")) is not None:
            said.append(touching(endpoints))
        if properties:
            endpoints = await self._ids(with_properties(properties))
            said.append(with_properties(properties) | touching(endpoints))
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
        check_count(limit, "limit")
        ignored = set(_listed(ignore_rels, "ignore_rels") or [])
        walked: dict[str | None, Relation] = {}
        found: list[Relation] = []
        reached: set[str] = set()
        edge = {node.id for node in graph_nodes}
        for _ in range(check_count(depth, "depth")):
            if not edge or len(found) >= limit:
                break
            reached |= edge
            for document in await self._vectors.list(filter=touching(sorted(edge))):
                walked.setdefault(document.id, to_relation(document))
            found = [one for one in walked.values() if one.label not in ignored]
            edge = {id for relation in walked.values() for id in _endpoints(relation)} - reached
        return await self._triplets(found[:limit])

    async def vector_query(self, asked: Ask) -> tuple[list[LabelledNode], list[float]]:
        found = ranked(asked, await find(self._vectors, asked))
        nodes = [to_labelled_node(document) for document, _ in found]
        return nodes, [similarity for _, similarity in found]

    async def upsert_nodes(self, nodes: Sequence[LabelledNode]) -> None:
        await self._upsert_nodes([from_node(node) for node in listed(nodes, "nodes")])

    async def upsert_relations(self, relations: Sequence[Relation]) -> None:
        relations = listed(relations, "relations")
        for relation in relations:
            check_relation(relation)
        relations = await self._by_ids(relations)
        documents = joined(from_relation(relation) for relation in relations)
        ends = _ends(documents)
        attempts = Attempts("the same nodes kept being written by others")
        while True:
            attempts.begin()
            found = await self._there([*(one.id or "" for one in documents), *map(node_key, ends)])
            missing = [_bare(id, named) for id, named in ends.items() if node_key(id) not in found]
            try:
                await self._add(missing)
            except AlreadyExistsError:
                continue
            break
        await self._upsert(documents, found)
        nodes = [found[node_key(id)] for id in ends if node_key(id) in found]
        by_id = {id_of(one): one for one in [*nodes, *missing]}
        await self._shared.add(missing, relations, by_id)

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
        names = _listed(entity_names, "entity_names") or []
        gone = [*(_listed(ids, "ids") or []), *map(_id_of_name, names)]
        conditions: list[Filter] = [labelled(_listed(relation_names, "relation_names") or [])]
        if properties:
            gone += await self._ids(with_properties(properties))
            conditions.append(ARE_RELATIONS & with_properties(properties))
        await self._delete(gone, conditions)

    async def delete_said(self, node_ids: list[str] | None, ref_doc_ids: list[str] | None) -> None:
        """Deletes chunks, by their ids or documents, with everything that only they mention."""
        documents = _listed(ref_doc_ids, "ref_doc_ids") or []
        of_documents = property_place("ref_doc_id").is_in(documents)
        chunks = await self._ids(ARE_CHUNKS & of_documents) if documents else []
        gone = [*(_listed(node_ids, "node_ids") or []), *documents, *chunks]
        await self._delete(gone, (), sources=gone)

    async def _delete(
        self, ids: Sequence[str], conditions: Sequence[Filter], *, sources: Sequence[str] = ()
    ) -> None:
        """Deletes nodes, and everything that only `sources` or the chunks among them mention."""
        direct = Or((with_ids(ids), touching(ids), *conditions))
        going = await self._vectors.list(filter=direct)
        gone = {*sources, *(id_of(one) for one in going if is_chunk(one))}
        said = await self._known_from(gone, but={one.id for one in going})
        alone = [one for one in said if not sources_of(one)]
        kept = [one for one in said if sources_of(one)]
        extra = [id_of(one) for one in alone if not is_relation(one)]
        named = Field("id").is_in([one.id for one in alone])
        further = [*going, *alone, *await self._touching(extra)]
        await self._shared.forget(further)
        # First, so that a call that died can be repeated: remaining rows still name their sources.
        await self._write(kept)
        await self._vectors.delete(filter=Or((direct, named, touching(extra))))
        await self._tell(kept)

    async def _known_from(
        self, sources: Collection[str], *, but: Collection[str | None]
    ) -> list[Document]:
        """The mentions of these sources, with their other sources.

        Without any they are to be deleted.

        A relation that another source mentions also mentions its ends, as an index writes an entity
        once.
        """
        if not sources:
            return []
        said = await self._vectors.list(filter=known_from(sources), include_embedding=True)
        said = [one for one in said if one.id not in but]
        left = {one.id: [s for s in sources_of(one) if s not in sources] for one in said}
        alone = [one for one in said if not left[one.id] and not is_relation(one)]
        for relation in await self._touching([id_of(one) for one in alone]):
            others = [one for one in sources_of(relation) if one and one not in sources]
            for end in _endpoints(to_relation(relation)) if relation.id not in but else ():
                left.get(node_key(end), []).extend(others)
        return [with_sources(one, left[one.id]) for one in said]

    async def _touching(self, ids: Sequence[str]) -> list[Document]:
        return await self._vectors.list(filter=touching(ids)) if ids else []

    async def _upsert_nodes(self, documents: Sequence[Document]) -> None:
        """Writes nodes, then shares them, so that a refused write is written nowhere."""
        with in_words_of(documents, id_of=name_of):
            ids = [check_name(one.id, f"documents[{n}].id") for n, one in enumerate(documents)]
        before = await self._there(ids)
        called = {one.id: entity_of(one) for one in documents}
        renamed = [one for one in before.values() if _is_renamed(entity_of(one), called[one.id])]
        await self._shared.forget(renamed)
        await self._upsert(documents, before)
        led = await self._touching([id_of(one) for one in renamed])
        await self._tell([*documents, *led])

    async def _tell(self, documents: Sequence[Document]) -> None:
        """Shares nodes and relations that were written."""
        nodes = [one for one in documents if not is_relation(one)]
        relations = [to_relation(one) for one in documents if is_relation(one)]
        ends = sorted({id for one in relations for id in _endpoints(one)})
        there = await self._there([node_key(id) for id in ends])
        await self._shared.add(nodes, relations, {id_of(one): one for one in there.values()})

    async def _upsert(
        self, documents: Sequence[Document], before: Mapping[str | None, Document]
    ) -> None:
        """Writes documents over existing ones, and keeps the sources of both."""
        old = (before[one.id] for one in documents if one.id in before)
        await self._write(joined([*old, *documents]))

    async def _write(self, documents: Sequence[Document]) -> None:
        if documents:
            with in_words_of(documents, id_of=name_of):
                await self._vectors.upsert(documents)

    async def _add(self, documents: Sequence[Document]) -> None:
        if documents:
            with in_words_of(documents, id_of=name_of):
                await self._vectors.add(documents)

    async def _there(self, ids: Sequence[str]) -> dict[str | None, Document]:
        """The existing documents with these ids."""
        return {one.id: one for one in await self._vectors.get(ids)} if ids else {}

    async def _nodes(
        self, properties: dict[str, Any] | None, ids: Iterable[str] | None
    ) -> list[Document]:
        keys = None if ids is None else [node_key(id) for id in dict.fromkeys(ids)]
        if keys is None or properties:
            which = ARE_NODES & with_properties(properties or {})
            if keys is not None:
                which &= Field("id").is_in(keys)
            found = [one.id for one in await self._vectors.list(filter=which) if one.id is not None]
            keys = found if keys is None else [one for one in keys if one in found]
        return await self._vectors.get(keys, include_embedding=True)

    async def _ids(self, condition: Filter) -> list[str]:
        """The ids of the nodes that match a filter."""
        return [id_of(one) for one in await self._vectors.list(filter=ARE_NODES & condition)]

    async def _triplets(self, relations: Sequence[Relation]) -> list[Triplet]:
        """The relations with their endpoints; without those with a deleted endpoint."""
        documents = await self._nodes(None, [id for one in relations for id in _endpoints(one)])
        nodes = {id_of(one): to_labelled_node(one) for one in documents}
        return [
            (nodes[one.source_id], one, nodes[one.target_id])
            for one in relations
            if nodes.keys() >= _endpoints(one)
        ]

    async def _by_ids(self, relations: Sequence[Relation]) -> list[Relation]:
        """The relations, also between names if a name is not the id of its entity."""
        endpoints = {id for relation in relations for id in _endpoints(relation)}
        names = {id: _id_of_name(id) for id in endpoints if _id_of_name(id) != id}
        for one in (await self._there([node_key(id) for id in names])).values():
            del names[id_of(one)]
        return [
            one.model_copy(
                update={
                    "source_id": names.get(one.source_id, one.source_id),
                    "target_id": names.get(one.target_id, one.target_id),
                }
            )
            for one in relations
        ]


def _listed(values: list[str] | None, name: str) -> list[str] | None:
    return None if values is None else listed(values, name)


def _is_renamed(before: Entity | None, now: Entity | None) -> bool:
    """Whether it was a different entity before."""
    return before is not None and (now is None or now.id != before.id)


def _endpoints(relation: Relation) -> set[str]:
    return {relation.source_id, relation.target_id}


def _id_of_name(name: str) -> str:
    return EntityNode(name=name).id


def _ends(documents: Sequence[Document]) -> dict[str, list[str]]:
    """The endpoints of relations, and the sources of the relations."""
    ends: dict[str, list[str]] = {}
    for document in documents:
        for id in sorted(_endpoints(to_relation(document))):
            ends.setdefault(id, []).extend(sources_of(document))
    return ends


def _bare(id: str, sources: Sequence[str]) -> Document:
    """An entity that is known only from a relation."""
    return with_sources(from_node(EntityNode(name=id)), sources)
