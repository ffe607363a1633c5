"""What a property graph says is in the graph of the store, where other frameworks walk it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core.graph_stores.types import ChunkNode, EntityNode, Relation
from llama_index_lance_context import LanceContextPropertyGraphStore

from lance_context_core import ContextStore
from lance_context_core.graph import Entity, entity_id

ADA = EntityNode(name="Ada", label="person", properties={"born": 1815})
TEA = EntityNode(name="tea", label="drink")
CHUNK = ChunkNode(text="Ada likes tea", id_="c1")
LIKES = Relation(label="LIKES", source_id="Ada", target_id="tea", properties={"since": 1830})
MENTIONS = Relation(label="MENTIONS", source_id="c1", target_id="Ada")


@pytest.fixture
def graph(store):
    made = LanceContextPropertyGraphStore(store)
    made.upsert_nodes([ADA, TEA, CHUNK])
    made.upsert_relations([LIKES, MENTIONS])
    return made


def told(store):
    """What the graph of the store says: names by type, and what leads where."""
    names = {one.id: one.name for one in store.graph.entities()}
    return (
        {(one.type, one.name) for one in store.graph.entities()},
        {(names[one.source_id], one.type, names[one.target_id]) for one in store.graph.relations()},
    )


def test_entities_and_their_relations_are_walked_by_everybody_and_chunks_are_not(graph, store):
    assert told(store) == ({("person", "Ada"), ("drink", "tea")}, {("Ada", "LIKES", "tea")})
    (ada,) = store.graph.find("ada")
    assert (ada.id, ada.properties) == (entity_id("Ada", "person"), {"born": 1815})
    (likes,) = store.graph.relations()
    assert likes.properties == {"since": 1830}
    near = store.graph.neighbours(ada.id)
    assert [one.name for one in near.entities] == ["Ada", "tea"]


def test_what_is_deleted_goes_there_unless_somebody_else_knows_of_it(graph, store):
    store.graph.add(
        [
            Entity(name="Ada", type="person", source_ids=("another",)),
            Entity(name="cake", type="food", source_ids=("another",)),
        ]
    )
    graph.delete(entity_names=["Ada", "tea"])
    assert told(store) == ({("person", "Ada"), ("food", "cake")}, set())
    (ada,) = store.graph.find("Ada")
    assert ada.source_ids == ("another",)


def test_a_relation_that_is_deleted_goes_alone(graph, store):
    graph.delete(relation_names=["LIKES"])
    assert told(store) == ({("person", "Ada"), ("drink", "tea")}, set())


def test_a_node_of_another_label_is_another_entity_with_the_same_relations(graph, store):
    graph.upsert_nodes([EntityNode(name="Ada", label="queen")])
    assert told(store) == ({("queen", "Ada"), ("drink", "tea")}, {("Ada", "LIKES", "tea")})


def test_what_was_deleted_there_is_there_again_once_it_is_said_again(graph, store):
    for one in store.graph.entities():
        store.graph.delete_entity(one.id)
    graph.upsert_relations([LIKES])
    assert told(store) == ({("person", "Ada"), ("drink", "tea")}, {("Ada", "LIKES", "tea")})


def test_ends_that_nobody_wrote_are_entities_there_too(graph, store):
    graph.upsert_relations([Relation(label="KNOWS", source_id="Ada", target_id="Ben")])
    entities, relations = told(store)
    assert ("entity", "Ben") in entities
    assert ("Ada", "KNOWS", "Ben") in relations


def test_what_the_graph_cannot_name_stays_in_the_collection(graph, store):
    graph.upsert_nodes([EntityNode(name=" ", label="blank")])
    graph.upsert_relations([Relation(label="KNOWS", source_id="Ada", target_id=" ")])
    assert len(graph.get(ids=[" "])) == 1
    assert told(store) == ({("person", "Ada"), ("drink", "tea")}, {("Ada", "LIKES", "tea")})


def test_a_scope_sees_its_own_alone(store):
    for user in ("ada", "ben"):
        scoped = LanceContextPropertyGraphStore(store.scope(user_id=user))
        scoped.upsert_nodes([EntityNode(name=user, label="person"), TEA])
        scoped.upsert_relations([Relation(label="OWNS", source_id=user, target_id="tea")])
    assert told(store.scope(user_id="ada")) == (
        {("person", "ada"), ("drink", "tea")},
        {("ada", "OWNS", "tea")},
    )


def test_what_is_erased_in_the_collection_is_in_no_version_of_the_graph(graph, store):
    store.tag("before")
    ids = ["node:Ada", 'relation:["Ada", "LIKES", "tea"]']
    collection = store.vectors("graph")
    assert collection.erase(ids, dry_run=True).graph == 2
    assert collection.erase(ids).graph == 2
    assert told(store) == ({("drink", "tea")}, set())
    assert told(store.checkout("before")) == ({("drink", "tea")}, set())


NAMES = ["a", "b", "A", 'q"']
steps = st.lists(
    st.one_of(
        st.tuples(st.just("node"), st.sampled_from(NAMES), st.sampled_from(["x", "y"])),
        st.tuples(st.just("delete"), st.sampled_from(NAMES)),
        st.tuples(
            st.just("relation"),
            st.sampled_from(NAMES),
            st.sampled_from("XY"),
            st.sampled_from(NAMES),
        ),
    ),
    max_size=6,
)


@pytest.fixture(scope="module")
def in_memory():
    with ContextStore.open("memory://") as opened:
        yield opened


@settings(max_examples=20)
@given(steps=steps)
def test_both_say_the_same_whatever_is_done(in_memory, steps):
    graph = LanceContextPropertyGraphStore(in_memory)
    graph.delete(ids=[one.id for one in graph.get()])
    for what, *said in steps:
        if what == "node":
            graph.upsert_nodes([EntityNode(name=said[0], label=said[1])])
        elif what == "delete":
            graph.delete(entity_names=said)
        else:
            source, label, target = said
            graph.upsert_relations([Relation(label=label, source_id=source, target_id=target)])
    nodes = {one.id: entity_id(one.name, one.label) for one in graph.get()}
    found = graph.get_triplets(relation_names=["X", "Y"])
    assert {one.id for one in in_memory.graph.entities()} == set(nodes.values())
    assert {(one.source_id, one.type, one.target_id) for one in in_memory.graph.relations()} == {
        (nodes[one.source_id], one.label, nodes[one.target_id]) for _, one, _ in found
    }
