"""What the property graph store keeps, finds and forgets."""

import asyncio
import inspect
import threading

import pytest
from adapters.llama_index.filter_cases import every, leaf
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core import PropertyGraphIndex
from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.graph_stores.types import (
    ChunkNode,
    EntityNode,
    LabelledNode,
    PropertyGraphStore,
    Relation,
)
from llama_index.core.indices.property_graph import ImplicitPathExtractor
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import VectorStoreQuery
from llama_index.graph_stores.lance_context import LanceContextPropertyGraphStore as LeafStore
from llama_index_lance_context import LanceContextPropertyGraphStore

from lance_context_core import AsyncVectors, InvalidRequestError
from lance_context_core._loop import StoreLoop


@pytest.fixture
def graph(store):
    return LanceContextPropertyGraphStore(store)


ADA = EntityNode(name="Ada", label="person", properties={"born": 1815, "of": "London"})
BEN = EntityNode(name="Ben", label="person", properties={"born": 1815, "of": "Paris"})
TEA = EntityNode(name="tea", label="drink", properties={"hot": True})
CHUNK = ChunkNode(text="Ada likes tea", id_="c1", properties={"page": 1})
LIKES = Relation(label="LIKES", source_id="Ada", target_id="tea", properties={"since": 1830})
KNOWS = Relation(label="KNOWS", source_id="Ben", target_id="Ada")
MENTIONS = Relation(label="MENTIONS", source_id="c1", target_id="Ada")


@pytest.fixture
def filled(graph):
    """Ben knows Ada, who likes tea; a chunk mentions her."""
    graph.upsert_nodes([ADA, BEN, TEA, CHUNK])
    graph.upsert_relations([LIKES, KNOWS, MENTIONS])
    return graph


def ids(nodes):
    return [one.id for one in nodes]


def edges(triplets):
    for source, relation, target in triplets:
        assert (source.id, target.id) == (relation.source_id, relation.target_id)
    return [(source.id, relation.label, target.id) for source, relation, target in triplets]


def commits(store):
    return asyncio.run(store.aio.vectors("graph")._table.version())


# Nodes


def test_nodes_come_back_as_they_were(graph):
    entity = EntityNode(
        name="It's",
        label="thing",
        properties={"a": [1, None], "b": {"c": 1.5}},
        embedding=[1.0, 0.5],
    )
    chunk = ChunkNode(text="a text", id_="c", properties={"n": None}, embedding=[0.5, 1.0])
    graph.upsert_nodes([entity, chunk, TEA])
    assert graph.get() == [entity, chunk, TEA]
    assert graph.get(ids=["tea", "gone", "c"]) == [TEA, chunk]


def test_no_ids_find_no_nodes(filled):
    assert filled.get(ids=[]) == []
    assert asyncio.run(filled.aget(ids=[])) == []
    assert filled.get(ids=[], properties={"born": 1815}) == []


def test_properties_must_all_be_there(filled):
    assert ids(filled.get(properties={"born": 1815})) == ["Ada", "Ben"]
    assert ids(filled.get(properties={"born": 1815, "of": "Paris"})) == ["Ben"]
    assert ids(filled.get(properties={"born": 1815, "hot": True})) == []
    assert ids(filled.get(properties={"born": 1815}, ids=["Ben", "tea"])) == ["Ben"]
    assert ids(filled.get(properties={"born": 1815}, ids=["Ben", "Ada"])) == ["Ben", "Ada"]
    assert ids(filled.get(properties={"page": 1, "hot": None})) == ["c1"]
    assert ids(filled.get(properties={"x' OR '1'='1": 1})) == []


def test_a_node_that_exists_is_replaced(filled):
    filled.upsert_nodes([EntityNode(name="Ada", label="queen", properties={"new": 1})])
    (found,) = filled.get(ids=["Ada"])
    assert (found.label, found.properties) == ("queen", {"new": 1})
    assert len(filled.get()) == 4


def test_a_node_with_a_quote_in_its_name_is_found_by_its_name(graph):
    made = EntityNode(name='The "Mug"', label="pub")
    graph.upsert_nodes([made])
    graph.upsert_relations([Relation(label="IN", source_id='The "Mug"', target_id='"York"')])
    assert edges(graph.get_triplets(entity_names=['The "Mug"'])) == [(made.id, "IN", " York ")]
    assert ids(graph.get()) == [made.id, " York "]
    graph.delete(entity_names=['The "Mug"'])
    assert ids(graph.get()) == [" York "]


def test_a_chunk_with_a_quote_in_its_id_is_an_endpoint(graph):
    graph.upsert_nodes([ChunkNode(text="a", id_='c"1')])
    graph.upsert_relations([Relation(label="IN", source_id='c"1', target_id="york")])
    assert edges(graph.get_triplets(ids=['c"1'])) == [('c"1', "IN", "york")]


def test_a_class_of_nodes_that_it_does_not_know_is_refused(graph):
    class Other(LabelledNode):
        def __str__(self):
            return "other"

        @property
        def id(self):
            return "other"

    with pytest.raises(InvalidRequestError, match="EntityNode or a ChunkNode"):
        graph.upsert_nodes([ADA, Other()])
    assert graph.get() == []


# Relations


def test_a_relation_that_exists_is_updated(filled):
    filled.upsert_relations([LIKES.model_copy(update={"properties": {"since": 1831}})])
    ((_, relation, _),) = filled.get_triplets(relation_names=["LIKES"])
    assert relation.properties == {"since": 1831}


def test_ends_that_do_not_exist_become_entities_and_others_stay(filled):
    filled.upsert_relations([Relation(label="LIKES", source_id="Ada", target_id="cake")])
    assert edges(filled.get_triplets(entity_names=["cake"])) == [("Ada", "LIKES", "cake")]
    assert filled.get(ids=["Ada", "cake"]) == [ADA, EntityNode(name="cake")]


def test_ids_and_labels_that_look_alike_are_different_relations(graph):
    graph.upsert_relations(
        [
            Relation(label="b", source_id="a_b", target_id="c"),
            Relation(label="b_b", source_id="a", target_id="c"),
            Relation(label="b", source_id="c", target_id="a_b"),
        ]
    )
    assert len(graph.get_triplets(ids=["c"])) == 3


def test_nobody_elses_node_is_replaced_by_a_bare_one(filled, monkeypatch):
    """Another writer adds the endpoint just before this one would."""
    other = EntityNode(name="cake", properties={"sweet": True})
    add = AsyncVectors.add

    async def late(collection, documents):
        await filled.aupsert_nodes([other])
        return await add(collection, documents)

    monkeypatch.setattr(AsyncVectors, "add", late)
    filled.upsert_relations([Relation(label="LIKES", source_id="Ada", target_id="cake")])
    assert filled.get(ids=["cake"]) == [other]


def test_triplets_are_those_of_which_all_is_true(filled):
    assert filled.get_triplets() == []
    likes, knows, mentions = (
        ("Ada", "LIKES", "tea"),
        ("Ben", "KNOWS", "Ada"),
        ("c1", "MENTIONS", "Ada"),
    )
    for said, found in (
        ({"entity_names": ["Ada"]}, {likes, knows, mentions}),
        ({"entity_names": ["tea", "Ben"]}, {likes, knows}),
        ({"ids": ["c1"]}, {mentions}),
        ({"relation_names": ["KNOWS", "LIKES"]}, {likes, knows}),
        ({"entity_names": ["Ada"], "relation_names": ["LIKES"]}, {likes}),
        ({"entity_names": ["Ben"], "ids": ["c1"]}, set()),
        ({"properties": {"since": 1830}}, {likes}),
        ({"properties": {"of": "Paris"}}, {knows}),
        ({"properties": {"of": "Paris", "since": 1830}}, set()),
        ({"properties": {"born": 1815}, "relation_names": ["MENTIONS"]}, {mentions}),
        ({"entity_names": []}, set()),
        ({"relation_names": []}, set()),
        ({"ids": []}, set()),
        ({"properties": {}}, set()),
    ):
        triplets = filled.get_triplets(**said)
        assert set(edges(triplets)) == found, said
        assert len(triplets) == len(found)
        assert asyncio.run(filled.aget_triplets(**said)) == triplets


def test_a_map_has_each_triplet_once_and_the_nearest_first(filled):
    (tea,) = filled.get(ids=["tea"])
    assert edges(filled.get_rel_map([tea], depth=1)) == [("Ada", "LIKES", "tea")]
    found = edges(filled.get_rel_map([tea], depth=2))
    assert found[0] == ("Ada", "LIKES", "tea")
    assert sorted(found) == [
        *(("Ada", "LIKES", "tea"), ("Ben", "KNOWS", "Ada"), ("c1", "MENTIONS", "Ada"))
    ]
    assert edges(filled.get_rel_map([tea], depth=5)) == found
    assert edges(filled.get_rel_map([tea], depth=2, limit=2)) == found[:2]
    without = filled.get_rel_map([tea], depth=2, ignore_rels=["MENTIONS"])
    assert set(edges(without)) == {("Ada", "LIKES", "tea"), ("Ben", "KNOWS", "Ada")}
    # What is ignored is walked through, and counts neither as an answer nor against the limit.
    beyond = filled.get_rel_map([tea], depth=2, ignore_rels=["LIKES"])
    assert set(edges(beyond)) == {("Ben", "KNOWS", "Ada"), ("c1", "MENTIONS", "Ada")}
    assert edges(
        filled.get_rel_map([tea], depth=2, limit=1, ignore_rels=["LIKES", "MENTIONS"])
    ) == [("Ben", "KNOWS", "Ada")]
    assert filled.get_rel_map([tea], depth=1, ignore_rels=["LIKES"]) == []
    assert filled.get_rel_map([]) == []
    assert filled.get_rel_map([tea], depth=0) == []
    assert filled.get_rel_map([tea], limit=0) == []


def test_a_map_walks_through_what_it_ignores_as_llama_indexs_own_graph_does(graph):
    simple = SimplePropertyGraphStore()
    for one in (graph, simple):
        one.upsert_nodes([EntityNode(name=name) for name in "abc"])
        one.upsert_relations(
            [
                Relation(label="X", source_id="a", target_id="b"),
                Relation(label="Y", source_id="b", target_id="c"),
            ]
        )
    theirs, ours = (
        set(edges(one.get_rel_map(one.get(ids=["a"]), ignore_rels=["X"])))
        for one in (simple, graph)
    )
    assert ours == theirs == {("b", "Y", "c")}


def test_a_map_ends_where_the_graph_goes_round(graph):
    graph.upsert_relations(
        [Relation(label="TO", source_id=a, target_id=b) for a, b in ("ab", "bc", "ca", "aa")]
    )
    (a,) = graph.get(ids=["a"])
    assert len(graph.get_rel_map([a], depth=9)) == 4


# Deleting


def test_deleting_a_node_takes_its_relations_and_nothing_else(filled, store):
    before = commits(store)
    filled.delete(ids=["Ada"])
    assert commits(store) == before + 1
    assert ids(filled.get()) == ["Ben", "tea", "c1"]
    assert filled.get_triplets(ids=["Ben", "tea", "c1"]) == []


def test_relations_are_deleted_by_label_and_their_ends_stay(filled):
    filled.delete(relation_names=["LIKES"])
    assert len(filled.get()) == 4
    assert len(filled.get_triplets(entity_names=["Ada"])) == 2


def test_nodes_are_deleted_by_name_or_by_all_of_their_properties(filled):
    filled.delete(properties={"born": 1815, "of": "Paris"})
    assert ids(filled.get()) == ["Ada", "tea", "c1"]
    filled.delete(entity_names=["tea"], ids=["c1"])
    assert filled.get() == [ADA]
    assert filled.get_triplets(ids=["Ada"]) == []


@pytest.mark.parametrize(
    "nothing", [{"ids": []}, {"entity_names": []}, {"relation_names": []}, {"properties": {}}]
)
def test_deleting_nothing_deletes_nothing(filled, nothing):
    filled.delete(**nothing)
    assert len(filled.get()) == 4
    assert len(filled.get_triplets(ids=["Ada"])) == 3


def test_deleting_without_saying_what_is_refused(filled):
    with pytest.raises(InvalidRequestError, match="delete what"):
        filled.delete()


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_chunks_are_deleted_with_what_was_extracted_from_them(graph, kind):
    made = TextNode(id_="t", text="Ada likes tea")
    graph.upsert_llama_nodes([made])
    graph.upsert_nodes([EntityNode(name="Ada", properties={"triplet_source_id": "t"}), TEA])
    graph.upsert_relations([LIKES])
    if kind == "sync":
        assert graph.get_llama_nodes(["t"]) == [made]
        graph.delete_llama_nodes(node_ids=["t"])
        graph.delete_llama_nodes(ref_doc_ids=["gone"])
    else:
        assert asyncio.run(graph.aget_llama_nodes(["t"])) == [made]
        asyncio.run(graph.adelete_llama_nodes(node_ids=["t"]))
        asyncio.run(graph.adelete_llama_nodes(ref_doc_ids=["gone"]))
    assert ids(graph.get()) == ["tea"]
    assert graph.get_triplets(ids=["tea"]) == []


NAMES = ["a", "b", "c", "it's", 'q"']
steps = st.lists(
    st.one_of(
        st.tuples(st.just("node"), st.sampled_from(NAMES)),
        st.tuples(st.just("delete"), st.sampled_from(NAMES)),
        st.tuples(
            st.just("relation"),
            st.tuples(st.sampled_from(NAMES), st.sampled_from("XY"), st.sampled_from(NAMES)),
        ),
    ),
    max_size=6,
)


@pytest.fixture(scope="module")
def in_memory():
    with LanceContextPropertyGraphStore("memory://") as made:
        yield made


@settings(max_examples=25)
@given(steps=steps)
def test_a_graph_is_what_was_done_to_it(in_memory, steps):
    in_memory.delete(ids=ids(in_memory.get()))
    nodes, relations = set(), set()
    for what, said in steps:
        if what == "node":
            in_memory.upsert_nodes([EntityNode(name=said)])
            nodes.add(said.replace('"', " "))
        elif what == "delete":
            in_memory.delete(entity_names=[said])
            gone = said.replace('"', " ")
            nodes.discard(gone)
            relations = {one for one in relations if gone not in (one[0], one[2])}
        else:
            source, label, target = said
            made = Relation(label=label, source_id=source, target_id=target)
            in_memory.upsert_relations([made])
            source, target = (end.replace('"', " ") for end in (source, target))
            nodes |= {source, target}
            relations.add((source, label, target))
    found = in_memory.get_triplets(relation_names=["X", "Y"])
    assert {(r.source_id, r.label, r.target_id) for _, r, _ in found} == relations
    assert set(ids(in_memory.get())) == nodes
    assert len(in_memory.get()) == len(nodes)


# Searching


def test_nodes_are_found_by_vector_filter_and_words(graph):
    graph.upsert_nodes(
        [
            EntityNode(name="ginger tea", embedding=[1.0, 0.0], properties={"hot": True}),
            EntityNode(name="iced tea", embedding=[0.6, 0.8], properties={"hot": False}),
            ChunkNode(text="about tea", id_="c", embedding=[0.0, 1.0]),
            EntityNode(name="without a vector"),
        ]
    )
    assert graph.supports_vector_queries
    graph.upsert_relations([Relation(label="tea", source_id="ginger tea", target_id="iced tea")])
    query = VectorStoreQuery(query_embedding=[1.0, 0.0], query_str="iced tea", similarity_top_k=9)
    nodes, scores = graph.vector_query(query)
    assert ids(nodes) == ["ginger tea", "iced tea", "c"]
    assert scores == pytest.approx([1.0, 0.6, 0.0], abs=1e-6)
    assert asyncio.run(graph.avector_query(query)) == (nodes, scores)
    query.filters = every(leaf("hot", "==", 0))
    assert ids(graph.vector_query(query)[0]) == ["iced tea"]
    query.filters, query.mode = None, "text_search"
    assert ids(graph.vector_query(query)[0])[0] == "iced tea"
    query.mode = "mmr"
    assert len(graph.vector_query(query)[0]) == 3
    query.mode = "svm"
    with pytest.raises(InvalidRequestError, match="svm"):
        graph.vector_query(query)


def test_an_empty_graph_answers_with_nothing(graph):
    query = VectorStoreQuery(query_embedding=[1.0, 0.0], similarity_top_k=9)
    assert graph.vector_query(query) == ([], [])
    assert graph.get() == graph.get_triplets(ids=["a"]) == graph.get_rel_map([ADA]) == []
    graph.delete(ids=["a"])
    graph.upsert_nodes([])
    graph.upsert_relations([])


# Its life


def test_the_stores_own_embedder_has_no_say(embedding_store):
    """The index's model has made the vectors, and may be of another length."""
    graph = LanceContextPropertyGraphStore(embedding_store)
    graph.upsert_nodes([EntityNode(name="tea", embedding=[1.0, 0.0])])
    graph.upsert_relations([Relation(label="IS", source_id="tea", target_id="hot")])
    assert ids(graph.get()) == ["tea", "hot"]


def test_a_graph_is_there_after_a_restart(tmp_path):
    with LanceContextPropertyGraphStore(tmp_path / "store") as first:
        first.upsert_nodes([ADA, TEA])
        first.upsert_relations([LIKES])
    with LanceContextPropertyGraphStore(tmp_path / "store") as second:
        assert second.get_triplets(ids=["tea"]) == [(ADA, LIKES, TEA)]


async def test_the_asynchronous_methods_do_not_block_the_event_loop(graph, monkeypatch):
    blocked = []
    run = StoreLoop.run

    def watched(self, work):
        if threading.current_thread() is threading.main_thread():
            blocked.append(work)
        return run(self, work)

    monkeypatch.setattr(StoreLoop, "run", watched)
    await graph.aupsert_nodes([ADA, TEA])
    await graph.aupsert_relations([LIKES])
    assert await graph.aget() == [ADA, TEA]
    assert await graph.aget_triplets(ids=["Ada"]) == await graph.aget_rel_map([ADA])
    await graph.avector_query(VectorStoreQuery(query_embedding=[1.0], similarity_top_k=1))
    await graph.adelete_llama_nodes(["Ada"])
    await graph.adelete(ids=["tea"])
    assert await graph.aget() == []
    assert blocked == []


def test_all_that_blocks_has_a_counterpart_that_does_not():
    for name, _ in inspect.getmembers(PropertyGraphStore, inspect.iscoroutinefunction):
        assert name == "aget_llama_nodes" or name in vars(LanceContextPropertyGraphStore), name


def test_an_index_is_built_on_it_and_asked(graph, embed_model):
    first = TextNode(id_="1", text="ginger tea")
    second = TextNode(id_="2", text="carrot cake")
    index = PropertyGraphIndex(
        nodes=[first, second],
        property_graph_store=graph,
        embed_model=embed_model,
        kg_extractors=[ImplicitPathExtractor()],
        show_progress=False,
    )
    assert {one.node_id for one in graph.get_llama_nodes(["1", "2"])} == {"1", "2"}
    index.delete_nodes(["1"])
    assert ids(graph.get(ids=["1", "2"])) == ["2"]


def test_it_is_where_llama_index_looks_for_it():
    assert LeafStore is LanceContextPropertyGraphStore
