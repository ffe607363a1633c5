"""Indexes of text nodes beside index and image nodes: all of them are found."""

import asyncio

import pytest
from adapters.llama_index.doubles import WordEmbedding, node
from adapters.llama_index.filter_cases import every, leaf
from llama_index.core import StorageContext, VectorStoreIndex, load_index_from_storage
from llama_index.core.indices.vector_store.retrievers import VectorIndexRetriever
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import ImageNode, IndexNode, TextNode
from llama_index.core.vector_stores.types import VectorStoreQuery
from llama_index_lance_context import LanceContextVectorStore, storage_context

EVERY = {"text", "image", "table"}


@pytest.fixture
def vector_store(store):
    return LanceContextVectorStore(store)


def nodes():
    return [
        TextNode(id_="text", text="tea is hot", metadata={"page": 1}),
        IndexNode(id_="table", text="a table of tea", index_id="tables", metadata={"page": 2}),
        ImageNode(id_="image", text="a picture of tea", metadata={"page": 2}),
    ]


def index_of(some, vector_store):
    context = StorageContext.from_defaults(vector_store=vector_store)
    return VectorStoreIndex(some, storage_context=context, embed_model=WordEmbedding())


def found(retriever, text="tea"):
    """What both methods find, which is the same."""
    ids = [one.node.node_id for one in retriever.retrieve(text)]
    assert [one.node.node_id for one in asyncio.run(retriever.aretrieve(text))] == ids
    return set(ids)


@pytest.mark.parametrize("mode", ["default", "text_search", "sparse", "hybrid", "mmr"])
def test_an_index_finds_nodes_of_every_class(vector_store, mode):
    index = index_of(nodes(), vector_store)
    retriever = index.as_retriever(similarity_top_k=9, vector_store_query_mode=mode)
    assert found(retriever) == EVERY


def test_a_query_engine_answers_from_nodes_of_every_class(vector_store):
    retriever = index_of(nodes(), vector_store).as_retriever(similarity_top_k=9)
    engine = RetrieverQueryEngine(retriever, get_response_synthesizer(llm=MockLLM()))
    for answer in (engine.query("tea"), asyncio.run(engine.aquery("tea"))):
        assert {one.node.node_id for one in answer.source_nodes} == EVERY


def test_what_an_index_node_stands_for_is_found_beside_texts(vector_store):
    """Recursive retrieval, as LlamaIndex describes it."""
    inner = TextNode(id_="row", text="green tea, 3 minutes")
    table = IndexNode(id_="table", text="a table of tea", index_id="tables", obj=inner)
    index = index_of([*nodes()[:1], table], vector_store)
    assert found(index.as_retriever(similarity_top_k=9)) == {"text", "row"}


def test_filters_hold_for_nodes_of_every_class(vector_store):
    index = index_of(nodes(), vector_store)
    second = index.as_retriever(similarity_top_k=9, filters=every(leaf("page", "==", 2)))
    assert found(second) == {"table", "image"}
    first = index.as_retriever(similarity_top_k=9, filters=every(leaf("page", "==", 1)))
    assert found(first) == {"text"}


def test_an_index_that_was_opened_again_finds_what_was_there_before(vector_store):
    index_of(nodes(), vector_store)
    again = VectorStoreIndex.from_vector_store(vector_store, embed_model=WordEmbedding())
    again.insert_nodes([IndexNode(id_="new", text="another table of tea", index_id="other")])
    assert found(again.as_retriever(similarity_top_k=9)) == {*EVERY, "new"}


def test_an_index_that_was_loaded_finds_nodes_of_every_class(tmp_path):
    with storage_context(str(tmp_path)) as context:
        VectorStoreIndex(nodes(), storage_context=context, embed_model=WordEmbedding())
    with storage_context(str(tmp_path)) as context:
        loaded = load_index_from_storage(context, embed_model=WordEmbedding())
        assert found(loaded.as_retriever(similarity_top_k=9)) == EVERY


def test_two_indexes_over_one_collection_find_what_both_have(vector_store):
    first = index_of(nodes(), vector_store)
    second = index_of(
        [
            TextNode(id_="other text", text="cold tea"),
            IndexNode(id_="other table", text="tables of tea", index_id="others"),
        ],
        vector_store,
    )
    both = {*EVERY, "other text", "other table"}
    for index in (first, second):
        assert found(index.as_retriever(similarity_top_k=9)) == both


def test_ids_that_name_a_text_node_restrict(vector_store):
    index = index_of(nodes(), vector_store)
    some = VectorIndexRetriever(index, similarity_top_k=9, node_ids=["image", "text"])
    assert found(some) == {"image", "text"}


def test_ids_that_name_no_node_find_none(vector_store):
    index = index_of(nodes(), vector_store)
    assert found(VectorIndexRetriever(index, similarity_top_k=9, node_ids=["gone"])) == set()


def test_ids_restrict_where_there_is_nothing_but_images(vector_store):
    some = [ImageNode(id_=f"image {n}", text=f"picture {n} of tea") for n in range(3)]
    index = index_of(some, vector_store)
    assert len(found(index.as_retriever(similarity_top_k=9))) == 3
    one = VectorIndexRetriever(index, similarity_top_k=9, node_ids=["image 1"])
    assert found(one) == {"image 1"}


def test_where_restricts_to_index_nodes_too(vector_store):
    index = index_of(nodes(), vector_store)
    by_id = {"where": {"id": {"$in": ["table"]}}}
    assert found(index.as_retriever(similarity_top_k=9, vector_store_kwargs=by_id)) == {"table"}


def test_a_text_node_that_is_far_from_the_query_counts_too(vector_store):
    """That there is one is seen, too, where the nearest nodes are all index nodes."""
    far = node("soup", id="text")
    tables = [node("tea", id=f"table {n}", node_class=IndexNode, index_id="t") for n in range(3)]
    vector_store.add([far, *tables])
    query = VectorStoreQuery(
        query_embedding=tables[0].embedding, similarity_top_k=3, node_ids=["table 0"]
    )
    assert set(vector_store.query(query).ids) == {"table 0", "table 1", "table 2"}


def test_ids_and_filters_alone_are_taken_at_their_word(vector_store):
    """No index asks without a text and a vector."""
    vector_store.add(
        [node("tea", id="text"), node("a", id="t", node_class=IndexNode, index_id="t")]
    )
    query = VectorStoreQuery(node_ids=["t"], similarity_top_k=9)
    assert vector_store.query(query).ids == ["t"]


def test_many_ids_are_looked_at_to_the_last_one(vector_store):
    tables = [
        node("tea", id=f"table {n}", node_class=IndexNode, index_id="t") for n in range(1_001)
    ]
    vector_store.add([*tables, node("tea", id="text"), node("tea", id="unnamed")])
    ids = [one.node_id for one in tables]
    near = {"query_embedding": tables[0].embedding, "similarity_top_k": 2_000}
    assert len(vector_store.query(VectorStoreQuery(node_ids=ids, **near)).ids) == 1_003
    named = VectorStoreQuery(node_ids=[*ids, "text"], **near)
    assert set(vector_store.query(named).ids) == {*ids, "text"}
