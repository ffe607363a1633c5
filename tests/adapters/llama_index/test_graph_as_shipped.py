"""The property graph store does what the tests of LlamaIndex's own ones ask, as that one does."""

import pytest
from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.graph_stores.types import EntityNode, Relation
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index_lance_context import LanceContextPropertyGraphStore

FIRST = EntityNode(name="e1")
SECOND = EntityNode(name="e2", properties={"key": "value"})
RELATED = Relation(label="r", source_id=FIRST.id, target_id=SECOND.id)


@pytest.fixture(params=["llama_index", "here"])
def graph(request, tmp_path):
    if request.param == "llama_index":
        yield SimplePropertyGraphStore()
        return
    with LanceContextPropertyGraphStore(tmp_path / "store") as made:
        yield made


@pytest.fixture
def related(graph):
    graph.upsert_nodes([FIRST, SECOND])
    graph.upsert_relations([RELATED])
    return graph


def part_of(id, document):
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=document)}
    return TextNode(id_=id, text=id, relationships=source)


def test_a_triplet_is_there(related):
    assert related.get_triplets(ids=[FIRST.id]) == [(FIRST, RELATED, SECOND)]
    assert sorted(one.id for one in related.get()) == ["e1", "e2"]


@pytest.mark.parametrize(
    "said",
    [
        {"entity_names": ["e1"]},
        {"entity_names": ["e2"]},
        {"relation_names": ["r"]},
        {"properties": {"key": "value"}},
        {"ids": ["e2"]},
    ],
)
def test_a_triplet_is_found_by_each_of_its_parts(related, said):
    assert related.get_triplets(**said) == [(FIRST, RELATED, SECOND)]


def test_a_triplet_of_nothing_said_is_not_found(related):
    assert related.get_triplets() == []
    assert related.get_triplets(entity_names=["e3"]) == []
    assert related.get_triplets(relation_names=["s"]) == []
    assert related.get_triplets(properties={"key": "other"}) == []


def test_nodes_are_found_by_their_ids_and_properties(related):
    assert related.get(ids=["e1"]) == [FIRST]
    assert related.get(properties={"key": "value"}) == [SECOND]
    assert related.get(properties={"key": "other"}) == []
    assert related.get(ids=["e1"], properties={"key": "value"}) == []


def test_a_triplet_goes_with_a_node(related):
    related.delete(ids=[FIRST.id])
    assert related.get_triplets(ids=[SECOND.id]) == []


def test_a_map_leads_from_a_node_to_its_neighbours(related):
    third = EntityNode(name="e3")
    related.upsert_nodes([third])
    onward = Relation(label="s", source_id=SECOND.id, target_id=third.id)
    related.upsert_relations([onward])
    near = related.get_rel_map([FIRST], depth=1)
    assert near == [(FIRST, RELATED, SECOND)]
    far = related.get_rel_map([FIRST], depth=2)
    assert (SECOND, onward, third) in far
    assert related.get_rel_map([FIRST], depth=1, ignore_rels=["r"]) == []
    assert len(related.get_rel_map([FIRST], depth=2, limit=1)) == 1


def test_llama_nodes_come_back(graph):
    nodes = [TextNode(id_="n1", text="n1"), TextNode(id_="n2", text="n2", metadata={"page": 2})]
    graph.upsert_llama_nodes(nodes)
    assert len(graph.get()) == 2
    assert graph.get_llama_nodes(["n1", "n2"]) == nodes


def test_a_llama_node_is_deleted_by_its_id(graph):
    graph.upsert_llama_nodes([TextNode(id_="n1", text="n1"), TextNode(id_="n2", text="n2")])
    graph.delete_llama_nodes(node_ids=["n1"])
    assert [one.id for one in graph.get()] == ["n2"]


def test_llama_nodes_are_deleted_by_their_document_and_so_is_the_node_of_that_id(graph):
    graph.upsert_llama_nodes([part_of("n1", "n2"), TextNode(id_="n2", text="n2")])
    graph.delete_llama_nodes(ref_doc_ids=["n2"])
    assert graph.get() == []


def test_a_llama_node_of_another_document_stays(graph):
    graph.upsert_llama_nodes([part_of("n1", "n3"), TextNode(id_="n2", text="n2")])
    graph.delete_llama_nodes(ref_doc_ids=["n3"])
    assert [one.id for one in graph.get()] == ["n2"]
