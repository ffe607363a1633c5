"""The constructors: their own words, and those that other stores of LlamaIndex have for the same."""

import pickle

import pytest
from adapters.llama_index.doubles import node
from llama_index.core.graph_stores.types import EntityNode
from llama_index_lance_context import (
    LanceContextPropertyGraphStore,
    LanceContextRetriever,
    LanceContextVectorStore,
)

from lance_context_core import ContextStore, InvalidRequestError

CLASSES = [LanceContextVectorStore, LanceContextPropertyGraphStore, LanceContextRetriever]


@pytest.mark.parametrize(
    "make",
    [
        lambda uri: LanceContextVectorStore(uri=uri, table_name="recipes"),
        lambda uri: LanceContextVectorStore(uri, table_name="recipes"),
        lambda uri: LanceContextVectorStore.from_params(uri=uri, table_name="recipes"),
        lambda uri: LanceContextVectorStore.from_params(uri, collection="recipes"),
    ],
)
def test_a_vector_store_is_made_as_others_are(tmp_path, make):
    with make(str(tmp_path)) as made:
        made.add([node("tea", id="tea")])
        again = LanceContextVectorStore.from_dict(made.to_dict())
        sent = pickle.loads(pickle.dumps(made))  # noqa: S301 - it was made here
    for other in (again, sent):
        with other:
            assert (other.store, other.collection) == (str(tmp_path), "recipes")
    with ContextStore.open(tmp_path) as store:
        assert [one.id for one in store.vectors("recipes").list()] == ["tea"]


def test_an_open_store_can_be_called_a_uri_too(store):
    LanceContextVectorStore(uri=store).add([node("tea", id="tea")])
    assert [one.id for one in store.vectors("default").list()] == ["tea"]


def test_a_graph_and_a_retriever_are_made_as_others_are(tmp_path):
    with LanceContextPropertyGraphStore(uri=str(tmp_path), table_name="friends") as graph:
        graph.upsert_nodes([EntityNode(name="Ada")])
    with ContextStore.open(tmp_path) as store:
        assert store.vectors("friends").count() == 1
        LanceContextVectorStore(store, collection="recipes").add([node("tea", id="tea")])
    with LanceContextRetriever(uri=str(tmp_path), table_name="recipes") as recall:
        assert [one.node_id for one in recall.retrieve("tea")] == ["tea"]


@pytest.mark.parametrize("made", CLASSES)
def test_one_of_both_names_is_enough(made):
    with pytest.raises(InvalidRequestError, match="uri is another name of store"):
        made("memory://", uri="memory://")
    with pytest.raises(InvalidRequestError, match="table_name is another name of collection"):
        made("memory://", collection="a", table_name="a")
    with pytest.raises(InvalidRequestError, match="give an open store, or the uri of one"):
        made()


@pytest.mark.parametrize(
    ("given", "way_out"),
    [
        ({"mode": "overwrite"}, r"clear\(\) empties"),
        ({"query_type": "hybrid"}, "vector_store_query_mode"),
        ({"connection": object()}, "give the store"),
        ({"nprobes": 20}, "leave it out"),
    ],
)
def test_what_other_stores_take_is_refused_with_the_way_out(given, way_out):
    for make in (LanceContextVectorStore, LanceContextVectorStore.from_params):
        with pytest.raises(InvalidRequestError, match=rf"^{next(iter(given))}=.*{way_out}"):
            make("memory://", **given)
