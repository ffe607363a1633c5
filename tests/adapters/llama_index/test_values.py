"""Values that JSON has no word for: they read back as they were, and the nodes' hashes stay."""

import json
import math
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import PurePosixPath
from uuid import UUID

import pytest
from adapters.llama_index.doubles import node
from adapters.llama_index.filter_cases import every, leaf
from llama_index.core.graph_stores.types import ChunkNode, EntityNode, Relation
from llama_index.core.schema import (
    ImageNode,
    IndexNode,
    MediaResource,
    Node,
    NodeRelationship,
    ObjectType,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores.types import VectorStoreQuery
from llama_index_lance_context import (
    LanceContextDocumentStore,
    LanceContextPropertyGraphStore,
    LanceContextRetriever,
    LanceContextVectorStore,
)

from lance_context_core import Document
from lance_context_core.adapting import JsonCodec

# About our own code, whatever the release of the framework.
pytestmark = pytest.mark.one_release

VALUES = {
    "nan": math.nan,
    "infinity": -math.inf,
    "zero below zero": -0.0,
    "moment": datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    "moment at an offset": datetime(2024, 1, 2, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    "moment without a zone": datetime(2024, 1, 2),  # noqa: DTZ001 - that is the case
    "date": date(2024, 1, 2),
    "time": time(3, 4),
    "duration": timedelta(days=-1, microseconds=3),
    "decimal": Decimal("1.10"),
    "uuid": UUID(int=5),
    "bytes": b"\x00\xff",
    "path": PurePosixPath("a/b"),
    # Of integers: the order of texts in a set, and so the hash, is another in each process.
    "set": {1, 2},
    "frozenset": frozenset({3, 4}),
    "tuple": (1, (2.0, [3])),
    "large": 2**70,
    "keys that are no texts": {1: "a", (2, 3): None},
    "within": {"list": [(1,), {"at": date(2024, 1, 2)}]},
    "what looks like a stand-in": {"lance_context:type": "set", "value": [1]},
}

VECTOR = [1.0, 0.0]


def shape(one):
    """All that a node has, with types: NaN is equal to itself there, and (1,) is not [1]."""
    return type(one), repr(_sorted(one.model_dump()))


def _sorted(value):
    if isinstance(value, dict):
        return {key: _sorted(one) for key, one in value.items()}
    if isinstance(value, set | frozenset):
        return type(value), sorted(map(repr, value))
    return value


@pytest.fixture
def vector_store(store):
    return LanceContextVectorStore(store)


def written_and_read(vector_store, one):
    vector_store.add([one])
    (back,) = vector_store.get_nodes([one.node_id])
    return back


@pytest.mark.parametrize("case", VALUES)
def test_metadata_reads_back_as_it_was_and_leaves_the_hash(vector_store, case):
    one = TextNode(text="a", metadata={"first": 1, "it": VALUES[case]}, embedding=VECTOR)
    back = written_and_read(vector_store, one)
    assert (shape(back), back.hash) == (shape(one), one.hash)


def test_a_key_that_marks_stand_ins_is_a_key_like_others(vector_store):
    metadata = {"lance_context:type": "set", "value": [1]}
    one = TextNode(text="a", metadata=metadata, embedding=VECTOR)
    assert shape(written_and_read(vector_store, one)) == shape(one)


RICH = {"at": VALUES["moment"], "n": math.nan, "pair": (1, b"\xff")}
NODES = {
    "relationships": TextNode(
        text="a",
        embedding=VECTOR,
        relationships={
            NodeRelationship.SOURCE: RelatedNodeInfo(
                node_id="d", node_type=ObjectType.DOCUMENT, hash="h", metadata=RICH
            ),
            NodeRelationship.CHILD: [RelatedNodeInfo(node_id="c", metadata=RICH)],
        },
    ),
    "settings": TextNode(
        text="a",
        embedding=VECTOR,
        metadata=RICH,
        excluded_embed_metadata_keys=["at"],
        excluded_llm_metadata_keys=["n"],
        metadata_template="{key}={value}",
        metadata_separator=";",
        text_template="{content}|{metadata_str}",
        mimetype="text/markdown",
        start_char_idx=1,
        end_char_idx=2,
    ),
    "an image": ImageNode(
        text="caption",
        image="aGk=",
        image_path="a.png",
        image_mimetype="image/png",
        text_embedding=[0.5, math.nan],
        embedding=VECTOR,
        metadata=RICH,
    ),
    "an object": IndexNode(
        text="a",
        index_id="i",
        embedding=VECTOR,
        metadata=RICH,
        obj=TextNode(id_="inner", text="b", metadata=RICH),
    ),
    "media": Node(
        text_resource=MediaResource(text="a"),
        image_resource=MediaResource(data=b"\xff\xd8", path="a.png", url="http://example.org/a"),
        embedding=VECTOR,
        metadata=RICH,
    ),
}


@pytest.mark.parametrize("case", NODES)
def test_all_that_a_node_has_reads_back_as_it_was(store, vector_store, case):
    one = NODES[case]
    back = written_and_read(vector_store, one)
    assert (shape(back), back.hash) == (shape(one), one.hash)
    documents = LanceContextDocumentStore(store)
    documents.add_documents([one])
    assert shape(documents.get_document(one.node_id)) == shape(back)


def test_what_a_query_finds_has_the_values_too(vector_store):
    one = node("tea", id="tea", metadata=RICH)
    vector_store.add([one])
    by_text = {"query_str": "tea", "mode": "text_search"}
    for query in (VectorStoreQuery(query_embedding=one.embedding), VectorStoreQuery(**by_text)):
        (found,) = vector_store.query(query).nodes
        assert (repr(found.metadata), found.hash) == (repr(RICH), one.hash)


def test_what_another_framework_has_kept_reads_back_as_it_was(store, vector_store):
    kept = JsonCodec().encode_object(RICH, "metadata")
    store.vectors("default").add([Document(id="theirs", text="tea", metadata=kept)])
    store.memory.add(["tea"], user_id="ada", metadata=kept)
    (theirs,) = vector_store.get_nodes(["theirs"])
    assert repr(theirs.metadata) == repr(RICH)
    (found,) = LanceContextRetriever(store, user_id="ada").retrieve("tea")
    assert repr({key: found.metadata[key] for key in RICH}) == repr(RICH)
    in_collection = LanceContextRetriever(store, collection="default")
    assert repr(in_collection.retrieve("tea")[0].node.metadata) == repr(RICH)


def test_what_we_keep_another_framework_reads_as_it_was(store, vector_store):
    vector_store.add([node("tea", id="tea", metadata=RICH)])
    (document,) = store.vectors("default").list()
    read = JsonCodec().decode_object(document.metadata)
    assert repr({key: read[key] for key in RICH}) == repr(RICH)


def test_what_another_framework_has_changed_is_what_is_read(store, vector_store):
    vector_store.add([node("tea", id="tea", metadata=RICH)])
    (document,) = store.vectors("default").list(include_embedding=True)
    changed = {**document.metadata, **JsonCodec().encode_object({"at": date(2025, 1, 1)}, "it")}
    theirs = Document(id="tea", text="tea", embedding=document.embedding, metadata=changed)
    store.vectors("default").upsert([theirs])
    (back,) = vector_store.get_nodes(["tea"])
    assert repr(back.metadata["at"]) == repr(date(2025, 1, 1))
    assert repr(back.metadata["pair"]) == repr(RICH["pair"])


@pytest.mark.parametrize("case", VALUES)
def test_properties_of_a_graph_read_back_as_they_were(store, case):
    graph = LanceContextPropertyGraphStore(store)
    properties = {"it": VALUES[case]}
    nodes = [
        EntityNode(name="a", properties=properties, embedding=VECTOR),
        ChunkNode(text="b", id_="b", properties=properties),
    ]
    relation = Relation(source_id="a", label="TO", target_id="b", properties=properties)
    graph.upsert_nodes(nodes)
    graph.upsert_relations([relation])
    assert [shape(one) for one in graph.get(ids=["a", "b"])] == [shape(one) for one in nodes]
    ((_, back, _),) = graph.get_triplets(ids=["a"])
    assert shape(back) == shape(relation)


@pytest.mark.parametrize("case", sorted(VALUES.keys() - {"nan"}))
def test_a_graph_is_asked_for_properties_of_any_value(store, case):
    graph = LanceContextPropertyGraphStore(store)
    graph.upsert_nodes(
        [
            EntityNode(name="a", properties={"it": VALUES[case]}),
            EntityNode(name="b", properties={"it": "other"}),
        ]
    )
    assert [one.name for one in graph.get(properties={"it": VALUES[case]})] == ["a"]


# Filters over such values. LlamaIndex lets their operands be texts, numbers and lists of them.

KEPT = {
    "instant": datetime(2024, 1, 2, 12, tzinfo=timezone(timedelta(hours=2))),
    "naive": datetime(2024, 1, 2, 10),  # noqa: DTZ001 - that is the case
    "day": date(2024, 1, 2),
    "text": "2024-01-02",
    "hour": time(10),
    "id": UUID(int=5),
    "price": Decimal("1.5"),
    "endless": math.inf,
    "no number": math.nan,
    "large": 2**70,
    "pair": (1, "a"),
    "tags": {1, 2},
    "days": [date(2024, 1, 2)],
}


@pytest.fixture(scope="module")
def kept():
    with LanceContextVectorStore("memory://") as made:
        made.add([node("x", id=id, metadata={"it": value}) for id, value in KEPT.items()])
        yield made


@pytest.mark.parametrize(
    ("operator", "operand", "expected"),
    [
        (">", "2024-01-01", {"instant", "naive", "day", "text"}),
        (">", "2024-01-02", {"instant", "naive"}),
        ("<=", "2024-01-02T10:00:00Z", {"instant", "text"}),
        ("==", "2024-01-02T10:00:00Z", {"instant"}),
        ("==", "2024-01-02T10:00:00", {"instant", "naive"}),
        ("==", "2024-01-02", {"day", "text"}),
        ("!=", "2024-01-02", KEPT.keys() - {"day", "text"}),
        ("in", ["2024-01-02", "10:00"], {"day", "text", "hour"}),
        ("contains", "2024-01-02", {"days", "text"}),
        ("==", str(UUID(int=5)), {"id"}),
        ("==", 1.5, {"price"}),
        (">", 1, {"price", "endless", "large"}),
        ("<", math.inf, {"price", "large"}),
        ("==", math.inf, {"endless"}),
        (">=", 2**70, {"endless", "large"}),
        ("==", math.nan, set()),
        ("!=", math.nan, set(KEPT)),
        ("is_empty", None, set()),
        ("contains", 1, {"pair", "tags"}),
        ("any", ["a", "b"], {"pair"}),
        ("all", [1, 2], {"tags"}),
        ("text_match", "2024", {"text"}),
    ],
)
def test_filters_find_values_that_json_has_no_word_for(kept, operator, operand, expected):
    found = kept.get_nodes(filters=every(leaf("it", operator, operand)))
    assert {one.node_id for one in found} == set(expected)


@pytest.mark.parametrize(
    "metadata",
    [
        {"z": "last", "a": 1, "m": None, "b": [True, "x", 2]},
        {"z": 1.0, "a": 2},
        {"z": {"y": 1, "b": 2}, "a": [{"d": 1, "c": 2}]},
        {"z": -0.0, "a": 1.5},
    ],
)
def test_metadata_keeps_its_order_and_its_types(store, metadata):
    made = node("a text", id="n", metadata=metadata)
    nodes = LanceContextVectorStore(store)
    nodes.add([made])
    (found,) = nodes.get_nodes(["n"])
    assert repr(found.metadata) == repr(metadata)
    assert found.hash == made.hash


def test_plain_metadata_is_stored_once(store):
    made = node("a text", id="n", metadata={"where": "in the cupboard", "shelves": ["left one"]})
    LanceContextVectorStore(store, collection="c").add([made])
    (document,) = store.vectors("c").get(["n"])
    stored = repr(document.metadata)
    assert [stored.count(one) for one in ("in the cupboard", "left one")] == [1, 1]


RELATED = {
    "the same": {"file": "tea.pdf", "page": 1, "is_read": True},
    "another value": {"file": "tea.pdf", "page": 2, "is_read": True},
    "an equal value of another type": {"file": "tea.pdf", "page": True, "is_read": 1},
    "another order": {"page": 1, "file": "tea.pdf", "is_read": True},
    "fewer keys": {"file": "tea.pdf"},
    "no keys": {},
    "values that JSON lacks": {"file": b"tea", "page": (1,), "is_read": {2}},
}


@pytest.mark.parametrize("own", [RELATED["the same"], RELATED["values that JSON lacks"], RICH])
def test_related_nodes_keep_their_metadata_whatever_that_of_the_node_is(store, own):
    made = node("a text", id="n", metadata=own)
    related = [
        RelatedNodeInfo(node_id=name, metadata=metadata)
        for name, metadata in ({**RELATED, "its own": own}).items()
    ]
    made.relationships = {NodeRelationship.SOURCE: related[0], NodeRelationship.CHILD: related}
    nodes = LanceContextVectorStore(store)
    nodes.add([made])
    (found,) = nodes.get_nodes(["n"])
    assert repr(found.relationships) == repr(made.relationships)


def test_metadata_that_related_nodes_share_is_stored_once(store):
    metadata = {"where": "in the cupboard", "shelf": "left one"}
    made = node("a text", id="n", metadata=metadata)
    made.relationships = {
        NodeRelationship.SOURCE: RelatedNodeInfo(node_id="d", metadata=metadata),
        NodeRelationship.NEXT: RelatedNodeInfo(
            node_id="m", metadata={**metadata, "shelf": "right one"}
        ),
    }
    LanceContextVectorStore(store, collection="c").add([made])
    (document,) = store.vectors("c").get(["n"])
    stored = repr(document.metadata)
    found = [stored.count(one) for one in ("in the cupboard", "left one", "right one")]
    assert found == [1, 1, 1]


def test_a_node_that_an_earlier_release_wrote_whole_reads_as_it_was(store):
    content = {
        "id_": "n",
        "excluded_embed_metadata_keys": ["z"],
        "excluded_llm_metadata_keys": [],
        "relationships": {
            "1": {"node_id": "d", "node_type": "4", "metadata": {"z": 2}, "hash": "h"},
        },
        "metadata_template": "{key}={value}",
        "metadata_separator": ";",
        "text": "",
        "mimetype": "text/plain",
        "start_char_idx": 3,
        "end_char_idx": None,
        "text_template": "{content}",
        "class_name": "TextNode",
        "metadata": ["z", "a"],
    }
    native = {"type": "TextNode", "ref_doc_id": "d", "node": json.dumps(content)}
    kept = {"z": 1, "a": 2, "_llama_index": native}
    document = Document(id="n", text="a text", embedding=VECTOR, metadata=kept)
    store.vectors("default").add([document])
    (found,) = LanceContextVectorStore(store).get_nodes(["n"])
    assert found == TextNode(
        id_="n",
        text="a text",
        metadata={"z": 1, "a": 2},
        embedding=found.embedding,
        excluded_embed_metadata_keys=["z"],
        relationships={
            NodeRelationship.SOURCE: RelatedNodeInfo(
                node_id="d", node_type=ObjectType.DOCUMENT, metadata={"z": 2}, hash="h"
            )
        },
        metadata_template="{key}={value}",
        metadata_separator=";",
        start_char_idx=3,
        text_template="{content}",
    )


def test_metadata_that_another_framework_changed_is_as_it_is_now(store):
    nodes = LanceContextVectorStore(store, collection="c")
    nodes.add([node("a text", id="n", metadata={"z": 1, "a": 2})])
    (document,) = store.vectors("c").get(["n"], include_embedding=True)
    changed = {key: one for key, one in document.metadata.items() if key != "z"} | {"new": 3}
    store.vectors("c").upsert([replace(document, metadata=changed)])
    (found,) = nodes.get_nodes(["n"])
    assert found.metadata == {"a": 2, "new": 3}
