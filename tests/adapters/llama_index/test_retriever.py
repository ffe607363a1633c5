"""What the retriever finds among the records, and in collections."""

import asyncio

import pytest
from adapters.llama_index.doubles import node
from adapters.llama_index.filter_cases import every, leaf
from core.conformance.doubles import WordVectors
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.schema import ImageNode, IndexNode, MetadataMode, QueryBundle, TextNode
from llama_index.retrievers.lance_context import LanceContextRetriever as LeafRetriever
from llama_index_lance_context import LanceContextRetriever, LanceContextVectorStore

from lance_context_core import InvalidRequestError, Message
from lance_context_core.settings import SearchOptions


def texts(retriever, query):
    """What both methods find."""
    found = retriever.retrieve(query)
    again = asyncio.run(retriever.aretrieve(query))
    assert [(one.node.dict(), one.score) for one in again] == [
        (one.node.dict(), one.score) for one in found
    ]
    return [one.text for one in found]


# Records


def test_it_finds_what_was_said_by_words_and_by_meaning(embedding_store):
    embedding_store.memory.add(["likes ginger tea", "is allergic to nuts"], user_id="ada")
    retriever = LanceContextRetriever(embedding_store, similarity_top_k=1)
    (found,) = retriever.retrieve("nuts")
    assert found.text == "is allergic to nuts"
    assert 0 < found.score <= 1
    facts = found.node.metadata["lance_context"]
    assert (facts["kind"], facts["user_id"]) == ("memory", "ada")
    assert "session_id" not in facts


def test_what_the_store_knows_is_in_no_prompt(embedding_store):
    embedding_store.memory.add(["is allergic to nuts"], user_id="ada")
    (found,) = LanceContextRetriever(embedding_store).retrieve("nuts")
    for mode in (MetadataMode.LLM, MetadataMode.EMBED):
        assert found.node.get_content(metadata_mode=mode) == "is allergic to nuts"


def test_without_an_embedder_it_finds_by_words(store):
    store.memory.add(["likes ginger tea", "is allergic to nuts"], user_id="ada")
    assert texts(LanceContextRetriever(store), "allergic") == ["is allergic to nuts"]


def test_scopes_sessions_and_filters_isolate(embedding_store):
    memory = embedding_store.memory
    memory.add(["tea for ada"], user_id="ada", metadata={"kind": 1})
    memory.add(["tea for bob"], user_id="bob", metadata={"kind": 2})
    retriever = LanceContextRetriever(embedding_store, user_id="ada")
    assert texts(retriever, "tea") == ["tea for ada"]
    retriever = LanceContextRetriever(embedding_store, filters=every(leaf("kind", "==", 2)))
    assert texts(retriever, "tea") == ["tea for bob"]
    retriever = LanceContextRetriever(embedding_store, filters={"user_id": "bob"})
    assert texts(retriever, "tea") == ["tea for bob"]
    nothing = every(leaf("kind", "==", 2))
    assert (
        texts(LanceContextRetriever(embedding_store, user_id="ada", filters=nothing), "tea") == []
    )


def test_a_session_is_searched_alone(embedding_store):
    for session in ("monday", "tuesday"):
        said = [Message.user(f"tea on {session}", metadata={"hot": 1})]
        embedding_store.history.append_many("cook", said, session_id=session)
    retriever = LanceContextRetriever(embedding_store, session_id="monday")
    assert texts(retriever, "tea") == ["tea on monday"]
    both = LanceContextRetriever(
        embedding_store, session_id="monday", filters=every(leaf("hot", "==", 1))
    )
    assert texts(both, "tea") == ["tea on monday"]
    cold = LanceContextRetriever(
        embedding_store, session_id="monday", filters=every(leaf("hot", "==", 0))
    )
    assert texts(cold, "tea") == []


def test_how_many_and_by_which_channel_is_said_once(embedding_store):
    embedding_store.memory.add([f"tea{i} tea" for i in range(5)], user_id="ada")
    for mode in ("hybrid", "vector", "text"):
        retriever = LanceContextRetriever(embedding_store, similarity_top_k=2, mode=mode)
        assert len(texts(retriever, "tea")) == 2


def test_turns_lend_their_neighbours_as_much_as_is_said(embedding_store):
    said = [Message.user("some ginger tea"), Message.assistant("tea with lemon")]
    embedding_store.history.append_many("cook", said, session_id="s")

    def scores(**how):
        found = LanceContextRetriever(embedding_store, mode="text", **how).retrieve("ginger tea")
        return {one.text: one.score for one in found}

    alone, lent = scores(neighbours=0.0), scores(neighbours=1.0)
    assert alone.keys() == lent.keys() == {"some ginger tea", "tea with lemon"}
    assert all(lent[text] > alone[text] for text in alone)
    assert scores(options=SearchOptions(neighbours=1.0)) == lent


def test_a_store_is_opened_by_its_uri_and_closed(tmp_path):
    uri = tmp_path / "store"
    with LanceContextRetriever(uri, embed_model=WordVectors()) as retriever:
        retriever._handle.sync.memory.add(["likes tea"], user_id="ada")
        assert texts(retriever, "tea") == ["likes tea"]
    with pytest.raises(RuntimeError, match="closed"):
        retriever.retrieve("tea")


# Collections


@pytest.fixture
def mixed(store):
    """Nodes of three classes in one collection."""
    made = LanceContextVectorStore(store)
    made.add(
        [
            node("ginger tea", id="text"),
            node("ginger soup", id="index", node_class=IndexNode, index_id="other"),
            node("ginger root", id="image", node_class=ImageNode, image_url="https://e.org/g.png"),
        ]
    )
    return made


def test_nodes_of_all_classes_come_back(mixed, store, embed_model):
    retriever = LanceContextRetriever(store, collection="default", embed_model=embed_model)
    found = retriever.retrieve("ginger")
    assert {type(one.node) for one in found} == {TextNode, IndexNode, ImageNode}
    assert {one.node.node_id for one in found} == {"text", "index", "image"}


def test_an_index_of_mixed_nodes_is_retrieved_whole(store, embed_model):
    """As the retriever of the index does."""
    vector_store = LanceContextVectorStore(store)
    nodes = [
        TextNode(id_="text", text="ginger tea"),
        IndexNode(id_="index", text="ginger soup", index_id="other"),
    ]
    storage = StorageContext.from_defaults(vector_store=vector_store)
    index = VectorStoreIndex(nodes, storage_context=storage, embed_model=embed_model)
    theirs = index.as_retriever(similarity_top_k=9)
    ours = LanceContextRetriever(store, collection="default", embed_model=embed_model)
    for retriever in (theirs, ours):
        found = retriever.retrieve("ginger")
        assert {one.node.node_id for one in found} == {"text", "index"}


def test_what_an_index_node_stands_for_comes_back_in_its_place(mixed, store, embed_model):
    other = TextNode(id_="whole", text="the whole recipe of the soup")
    for how in (
        {"object_map": {"other": other}},
        {"objects": [IndexNode(index_id="other", obj=other)]},
    ):
        retriever = LanceContextRetriever(
            store, collection="default", embed_model=embed_model, similarity_top_k=1, **how
        )
        assert texts(retriever, "soup") == ["the whole recipe of the soup"]


def test_a_query_may_bring_its_own_embedding(mixed, store, embed_model):
    retriever = LanceContextRetriever(
        store, collection="default", mode="vector", similarity_top_k=1
    )
    bundle = QueryBundle("whatever", embedding=embed_model.get_query_embedding("soup"))
    assert texts(retriever, bundle) == ["ginger soup"]


def test_a_query_may_say_what_to_embed(mixed, store, embed_model):
    retriever = LanceContextRetriever(
        store,
        collection="default",
        mode="vector",
        similarity_top_k=1,
        embed_model=embed_model,
    )
    assert texts(retriever, QueryBundle("tea", custom_embedding_strs=["soup"])) == ["ginger soup"]


def test_by_words_nothing_is_embedded(mixed, store, embed_model):
    class Costly(type(embed_model)):
        def _get_query_embedding(self, query):
            raise AssertionError("embedded")

    retriever = LanceContextRetriever(
        store, collection="default", mode="text", embed_model=Costly()
    )
    assert texts(retriever, "soup") == ["ginger soup"]


def test_a_collection_is_filtered(mixed, store, embed_model):
    mixed.add([node("ginger beer", id="beer", metadata={"cold": True})])
    retriever = LanceContextRetriever(
        store,
        collection="default",
        embed_model=embed_model,
        filters=every(leaf("cold", "==", 1)),
    )
    assert texts(retriever, "ginger") == ["ginger beer"]


# What contradicts itself


@pytest.mark.parametrize(
    "how",
    [
        {"collection": "c", "session_id": "s"},
        {"collection": "c", "neighbours": 0.3},
        {"embed_model": WordVectors()},
        {"neighbours": 2},
    ],
)
def test_what_contradicts_itself_is_refused(store, how):
    with pytest.raises(InvalidRequestError):
        LanceContextRetriever(store, **how)


def test_it_is_where_llama_index_looks_for_it():
    assert LeafRetriever is LanceContextRetriever
