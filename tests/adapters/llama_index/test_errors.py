"""What is refused, is refused in LlamaIndex's words: its own parameters and methods."""

import asyncio
import re

import pytest
from adapters.llama_index.doubles import node
from llama_index.core.graph_stores.types import ChunkNode, EntityNode, Relation
from llama_index.core.schema import QueryBundle, TextNode
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters, VectorStoreQuery
from llama_index_lance_context import (
    LanceContextPropertyGraphStore,
    LanceContextRetriever,
    LanceContextVectorStore,
)

from lance_context_core import InvalidRequestError

# About our own code, whatever the release of the framework.
pytestmark = pytest.mark.one_release

STORES_WORDS = re.compile(
    r"documents\[|\bids or filter\b|delete_collection|\blimit\b(?!=-)|pass a vector|\$\w|metadata\._"
    r"|^(ids|vector|query|filter)\b"
)
"""What the store calls things that LlamaIndex's users know by other names."""


def text(id="b", embedding=(1.0, 0.0), **fields):
    return TextNode(**{"id_": id, "text": "x", **fields}, embedding=embedding and list(embedding))


def asked(**fields):
    return VectorStoreQuery(**{"query_embedding": [1.0, 0.0], **fields})


def leaf(**fields):
    return MetadataFilters(filters=[MetadataFilter(key="a", **fields)])


ADDED = {
    "no list": (None, "nodes is None: pass a list"),
    "no node": (["x"], r"nodes\[0\] is 'x'"),
    "an empty id": ([text(), text("")], "node '': id is empty"),
    "a NUL in an id": ([text("a\0b")], r"node 'a\\x00b': id holds a NUL"),
    "half a character in a text": ([text(text="\ud800")], "node 'b': text is .* lone surrogate"),
    "the key that is ours": ([text(metadata={"_llama_index": 1})], "node 'b' has the metadata key"),
    "another dimension": ([text(embedding=[1.0])], "embedding of length 1"),
    "no number": ([text(embedding=[float("nan"), 1.0])], "embedding holds a number that is NaN"),
}

QUERIES = {
    "nothing": (asked(query_embedding=None), "give the VectorStoreQuery a query_embedding"),
    "another dimension": (asked(query_embedding=[1.0]), "query_embedding of length 1"),
    "no number": (asked(query_embedding=[float("nan"), 1]), "query_embedding holds a number"),
    "too few": (asked(similarity_top_k=-1), "similarity_top_k=-1: give a number"),
    "words, too few": (
        asked(mode="sparse", query_str="x", sparse_top_k=-1),
        "sparse_top_k=-1: give a number",
    ),
    "both, too few": (
        asked(mode="hybrid", query_str="x", hybrid_top_k=-1),
        "hybrid_top_k=-1: give a number",
    ),
    "nothing to embed with": (
        asked(query_embedding=None, query_str="x"),
        "mode 'default' needs a query_embedding: .* 'text_search'",
    ),
    "both without an embedding": (
        asked(query_embedding=None, query_str="x", mode="hybrid"),
        "mode 'hybrid' needs a query_embedding",
    ),
    "both without a text": (asked(mode="hybrid"), "mode 'hybrid' needs a query_str"),
    "words without a text": (asked(mode="text_search"), "mode 'text_search' needs a query_str"),
    "half a character": (
        asked(mode="sparse", query_str="\ud800"),
        "query_str is .* lone surrogate",
    ),
    "alpha": (asked(mode="hybrid", query_str="x", alpha=2), "alpha=2: give a number from 0"),
    "threshold": (asked(mode="mmr", mmr_threshold=7), "mmr_threshold=7: give a number from 0"),
    "one document's id": (asked(doc_ids="abc"), "doc_ids is 'abc': pass a list"),
    "one node's id": (asked(node_ids="abc"), "node_ids is 'abc': pass a list"),
    "no id": (asked(node_ids=[1]), r"node_ids\[0\] must be a str"),
    "no filters": (asked(filters={"a": 1}), r"filters=\{'a': 1\}: give MetadataFilters"),
    "an operand": (asked(filters=leaf(value=["x"], operator=">")), "'>' on 'a' takes a text"),
    "half an operand": (asked(filters=leaf(value="\ud800")), "the operand for 'a' is"),
}

CALLS = {
    "delete what": (
        lambda store: store.delete_nodes(),
        r"pass node_ids or filters, or call clear\(\)",
    ),
    "delete what, awaited": (
        lambda store: asyncio.run(store.adelete_nodes()),
        r"pass node_ids or filters, or call clear\(\)",
    ),
    "delete one id": (lambda store: store.delete_nodes("abc"), "node_ids is 'abc': pass a list"),
    "delete by no filters": (
        lambda store: store.delete_nodes(filters={"a": 1}),
        "give MetadataFilters",
    ),
    "delete nothing's nodes": (lambda store: store.delete(None), "ref_doc_id must be a str"),
    "get one id": (lambda store: store.get_nodes("abc"), "node_ids is 'abc': pass a list"),
    "get by no filters": (lambda store: store.get_nodes(filters={}), "give MetadataFilters"),
}


def refusal(call, *args, **kwargs):
    with pytest.raises(InvalidRequestError) as caught:
        call(*args, **kwargs)
    assert not STORES_WORDS.search(str(caught.value)), caught.value
    return str(caught.value)


@pytest.fixture
def filled(store):
    made = LanceContextVectorStore(store)
    made.add([text("a")])
    return made


@pytest.fixture
def graph(store):
    made = LanceContextPropertyGraphStore(store)
    made.upsert_nodes([EntityNode(name="e", embedding=[1.0, 0.0])])
    return made


@pytest.mark.parametrize("case", ADDED)
def test_what_cannot_be_added_is_named(filled, case):
    nodes, said = ADDED[case]
    assert re.search(said, refusal(filled.add, nodes))
    assert [one.node_id for one in filled.get_nodes()] == ["a"]


@pytest.mark.parametrize("case", QUERIES)
def test_what_cannot_be_asked_is_named(filled, case):
    query, said = QUERIES[case]
    assert re.search(said, refusal(filled.query, query))
    assert re.search(said, refusal(asyncio.run, filled.aquery(query)))


@pytest.mark.parametrize(
    ("keyword", "said"),
    [
        ({"mmr_prefetch_k": "a"}, "mmr_prefetch_k='a'"),
        ({"mmr_prefetch_k": -1}, "mmr_prefetch_k=-1"),
        ({"mmr_prefetch_factor": -1}, "mmr_prefetch_factor=-1"),
        ({"mmr_threshold": -1}, "mmr_threshold=-1"),
        ({"nprobes": 3}, "nprobes: in addition to its VectorStoreQuery"),
    ],
)
def test_a_keyword_that_makes_no_sense_is_named(filled, keyword, said):
    assert said in refusal(filled.query, asked(mode="mmr"), **keyword)


@pytest.mark.parametrize("case", CALLS)
def test_what_a_method_cannot_do_is_named(filled, case):
    call, said = CALLS[case]
    assert re.search(said, refusal(call, filled))
    assert [one.node_id for one in filled.get_nodes()] == ["a"]


def test_deleting_what_comes_from_no_document_deletes_nothing(filled):
    """A node without a source is not one of the source None."""
    with pytest.raises(InvalidRequestError):
        asyncio.run(filled.adelete(None))
    assert len(filled.get_nodes()) == 1


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda graph: graph.upsert_nodes([3]), "a node of the graph is an EntityNode"),
        (lambda graph: graph.upsert_nodes(None), "nodes is None: pass a list"),
        (lambda graph: graph.upsert_nodes([EntityNode(name="a\0")]), r"^node 'a\\x00': id holds"),
        (lambda graph: graph.upsert_nodes([ChunkNode(text="\ud800", id_="c", embedding=[1.0, 0])]),
         "^node 'c': .* lone surrogate"),
        (lambda graph: graph.upsert_relations([3]), "int: a relation of the graph is a Relation"),
        (lambda graph: graph.upsert_relations(
            [Relation(source_id="e", target_id="e", label="L", properties={"o": object()})]
        ), r"^the properties of relation 'e' 'L' 'e'\['o'\] is a object"),
        (lambda graph: graph.upsert_nodes([EntityNode(name="f", properties={"o": object()})]),
         r"^the properties of node 'f'\['o'\] is a object"),
        (lambda graph: graph.get(ids="abc"), "^ids is 'abc': pass a list"),
        (lambda graph: graph.get(properties=["a"]), "^properties="),
        (lambda graph: graph.get(properties={"a": object()}), "^property 'a' .* object"),
        (lambda graph: graph.get_triplets(entity_names="e"), "^entity_names is 'e': pass a list"),
        (lambda graph: graph.get_triplets(relation_names="e"), "^relation_names is 'e'"),
        (lambda graph: graph.delete(), "pass entity_names, relation_names, properties or ids"),
        (lambda graph: graph.delete(ids="abc"), "^ids is 'abc': pass a list"),
        (lambda graph: graph.get_rel_map([], depth=-1), "^depth=-1: give a number"),
        (lambda graph: graph.get_rel_map([], limit=-1), "^limit=-1: give a number"),
        (lambda graph: graph.get_rel_map([], ignore_rels="L"), "^ignore_rels is 'L': pass a list"),
        (lambda graph: graph.vector_query(asked(query_embedding=None)), "query_embedding"),
        (lambda graph: graph.vector_query(asked(query_embedding=[1.0])), "^query_embedding of"),
        (lambda graph: graph.vector_query(asked(filters={"a": 1})), "give MetadataFilters"),
    ],
)  # fmt: skip
def test_what_a_graph_cannot_do_is_named(graph, call, said):
    with pytest.raises(InvalidRequestError, match=said):
        call(graph)
    assert [one.id for one in graph.get()] == ["e"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"similarity_top_k": -1}, "similarity_top_k=-1: give a number"),
        ({"mode": "vector"}, "mode='vector' needs a vector: .* embed_model"),
        ({"mode": "vector", "collection": "default"}, "needs a vector: .* embed_model"),
        ({"filters": {"$x": 1}}, "unknown operator"),
    ],
)
def test_what_a_retriever_cannot_find_is_named(store, filled, fields, said):
    with pytest.raises(InvalidRequestError, match=said):
        LanceContextRetriever(store, **fields).retrieve("x")
    with pytest.raises(InvalidRequestError, match=said):
        asyncio.run(LanceContextRetriever(store, **fields).aretrieve("x"))


def test_an_embedding_that_a_retriever_cannot_use_is_named(store, filled):
    recall = LanceContextRetriever(store, collection="default")
    with pytest.raises(InvalidRequestError, match=r"^embedding holds"):
        recall.retrieve(QueryBundle("x", embedding=[float("nan"), 1.0]))


def test_the_documents_of_an_error_are_those_that_are_left_of_equal_ids(filled):
    """A node that stands twice is written once: the place of what follows is another."""
    twice = [node("x", id="a"), node("x", id="a"), text("b\0")]
    assert r"node 'b\x00'" in refusal(filled.add, twice)
