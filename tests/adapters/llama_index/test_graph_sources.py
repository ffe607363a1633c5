"""What a document alone says goes from the property graph with it."""

import asyncio
from dataclasses import replace

import pytest
from llama_index.core import PropertyGraphIndex
from llama_index.core.graph_stores.types import (
    KG_NODES_KEY,
    KG_RELATIONS_KEY,
    TRIPLET_SOURCE_KEY,
    ChunkNode,
    EntityNode,
    Relation,
)
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode, TransformComponent
from llama_index_lance_context import LanceContextPropertyGraphStore

from lance_context_core import AsyncVectors
from lance_context_core.results import AsyncGraph

RELATION = "KNOWS"


class Knows(TransformComponent):
    """Reads "Ada Ben" as a text that says that Ada knows Ben."""

    def __call__(self, nodes, **_):
        for one in nodes:
            source, target = one.text.split()
            one.metadata[KG_NODES_KEY] = [EntityNode(name=name) for name in (source, target)]
            one.metadata[KG_RELATIONS_KEY] = [
                Relation(label=RELATION, source_id=source, target_id=target)
            ]
        return nodes


@pytest.fixture
def graph(store):
    return LanceContextPropertyGraphStore(store)


def chunk(id, text, document):
    made = TextNode(id_=id, text=text)
    made.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=document)
    return made


def read(graph, embed_model, *chunks):
    index = PropertyGraphIndex(
        nodes=[],
        property_graph_store=graph,
        embed_model=embed_model,
        kg_extractors=[Knows()],
        use_async=False,
    )
    for one in chunks:
        index.insert_nodes([one])
    return index


def entities(graph):
    return {one.id for one in graph.get() if isinstance(one, EntityNode)}


def known(graph):
    return {(r.source_id, r.target_id) for _, r, _ in graph.get_triplets(relation_names=[RELATION])}


def shared(store):
    """The same as the graph of the store has it."""
    names = {one.id: one.name for one in store.graph.entities()}
    return set(names.values()), {
        (names[one.source_id], names[one.target_id]) for one in store.graph.relations()
    }


def one_by_one(graph, ids, by):
    """After each of these is deleted: the entities, and who knows whom."""
    for id in ids:
        if by == "async":
            asyncio.run(graph.adelete_llama_nodes(node_ids=[id]))
        else:
            graph.delete_llama_nodes(**{by: [id]})
        yield entities(graph), known(graph)


@pytest.mark.parametrize("by", ["node_ids", "ref_doc_ids", "async"])
@pytest.mark.parametrize("order", ["123", "321", "213"])
def test_an_entity_stays_until_the_last_chunk_that_names_it_goes(
    graph, store, embed_model, by, order
):
    said = {"1": ("Ada", "Ben"), "2": ("Ada", "Cy"), "3": ("Ada", "Ben")}
    prefix = "d" if by == "ref_doc_ids" else "c"
    read(graph, embed_model, *(chunk(f"c{n}", " ".join(one), f"d{n}") for n, one in said.items()))
    steps = one_by_one(graph, [f"{prefix}{n}" for n in order], by)
    for n, (there, knows) in zip(order, steps, strict=True):
        del said[n]
        assert knows == set(said.values())
        assert there == {name for pair in said.values() for name in pair}
        assert shared(store) == (there, knows)
    assert graph.get() == []


def test_what_was_written_before_sources_were_noted_is_deleted_by_its_property(
    graph, store, embed_model
):
    read(graph, embed_model, chunk("c1", "Ada Ben", "d1"), chunk("c2", "Ada Cy", "d2"))
    collection = store.vectors("graph")
    for one in collection.list(include_embedding=True):
        told = {key: value for key, value in one.metadata["graph"].items() if key != "sources"}
        collection.upsert([replace(one, metadata={**one.metadata, "graph": told})])
    graph.delete_llama_nodes(ref_doc_ids=["d1"])
    assert (entities(graph), known(graph)) == ({"Ada", "Cy"}, {("Ada", "Cy")})


def test_what_stays_comes_from_a_chunk_that_exists(graph, embed_model):
    read(graph, embed_model, chunk("c1", "Ada Ben", "d1"), chunk("c2", "Ada Ben", "d2"))
    graph.delete_llama_nodes(node_ids=["c2"])
    ((ada, knows, ben),) = graph.get_triplets(entity_names=["Ada"])
    assert {one.properties[TRIPLET_SOURCE_KEY] for one in (ada, knows, ben)} == {"c1"}
    assert ada.embedding is not None


def test_deleting_a_document_of_an_index_deletes_what_it_alone_said(graph, embed_model):
    index = read(graph, embed_model, chunk("c1", "Ada Ben", "d1"), chunk("c2", "Ada Cy", "d2"))
    index.delete_nodes(["c1"])
    assert (entities(graph), known(graph)) == ({"Ada", "Cy"}, {("Ada", "Cy")})


def test_what_a_caller_wrote_without_a_source_stays(graph):
    graph.upsert_nodes([EntityNode(name="Ada")])
    graph.upsert_relations([Relation(label=RELATION, source_id="Ada", target_id="Ben")])
    from_chunk = {TRIPLET_SOURCE_KEY: "c1"}
    graph.upsert_nodes(
        [ChunkNode(text="Ada Ben", id_="c1"), EntityNode(name="Ada", properties=from_chunk)]
    )
    graph.upsert_relations(
        [
            Relation(label=RELATION, source_id=source, target_id="Ben", properties=from_chunk)
            for source in ("Ada", "Cy")
        ]
    )
    graph.delete_llama_nodes(node_ids=["c1"])
    assert (entities(graph), known(graph)) == ({"Ada", "Ben"}, {("Ada", "Ben")})


def test_two_chunks_that_name_one_entity_in_one_call_both_hold_it(graph):
    graph.upsert_nodes(
        [EntityNode(name="Ada", properties={TRIPLET_SOURCE_KEY: one}) for one in ("c1", "c2")]
    )
    graph.delete_llama_nodes(node_ids=["c2"])
    assert entities(graph) == {"Ada"}
    graph.delete_llama_nodes(node_ids=["c1"])
    assert entities(graph) == set()


def test_an_entity_of_a_document_without_chunks_goes_with_the_document(graph):
    graph.upsert_nodes([EntityNode(name=name, properties={"ref_doc_id": name}) for name in "ab"])
    graph.delete_llama_nodes(ref_doc_ids=["a"])
    assert entities(graph) == {"b"}


def test_deleting_nothing_deletes_nothing(graph, embed_model):
    read(graph, embed_model, chunk("c1", "Ada Ben", "d1"))
    graph.delete_llama_nodes()
    graph.delete_llama_nodes(node_ids=[], ref_doc_ids=[])
    graph.delete_llama_nodes(node_ids=["gone"], ref_doc_ids=["gone"])
    assert entities(graph) == {"Ada", "Ben"}


def test_many_nodes_and_many_relations_are_a_commit_of_the_collection_and_one_of_the_graph(
    graph, monkeypatch
):
    """And as many reads: relations cost no more than nodes."""
    calls = []

    def counted(face, name):
        call = getattr(face, name)

        async def counting(self, *given, **named):
            calls.append(f"{face.__name__}.{name}")
            return await call(self, *given, **named)

        monkeypatch.setattr(face, name, counting)

    for name in ("add", "upsert", "delete", "get", "list"):
        counted(AsyncVectors, name)
    for name in ("add", "add_entities", "add_relations", "forget"):
        counted(AsyncGraph, name)
    names = [f"e{n}" for n in range(700)]  # more than one transaction of the log takes
    graph.upsert_nodes([EntityNode(name=name) for name in names])
    of_nodes, calls[:] = [*calls], []
    graph.upsert_relations(
        [Relation(label=RELATION, source_id=name, target_id="e0") for name in names]
    )
    assert [one for one in calls if not one.endswith(("get", "list"))] == [
        *("AsyncVectors.upsert", "AsyncGraph.add")
    ]
    assert sorted(calls) == sorted(of_nodes)
