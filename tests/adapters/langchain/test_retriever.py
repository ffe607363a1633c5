"""What a retriever finds, and what it says of it."""

import pytest
from langchain_core.messages import HumanMessage
from langchain_lance_context import (
    LanceContextChatMessageHistory,
    LanceContextRetriever,
    LanceContextVectorStore,
)
from pydantic import ValidationError

from lance_context_core import ContextStore, ImagePart, Message
from lance_context_core._loop import StoreLoop
from lance_context_core.settings import SearchOptions


@pytest.fixture
def talked(embedding_store):
    """Two conversations, of two users, and a memory."""
    for user, session, text in (
        ("ada", "monday", "ginger tea is hot"),
        ("ada", "tuesday", "ginger tea is cold"),
        ("ben", "monday", "ginger tea is lost"),
    ):
        scope = embedding_store.scope(user_id=user)
        scope.history.append_many(
            "cook",
            [Message.user(text, id=f"{user}-{session}"), Message.assistant("noted")],
            session_id=session,
        )
    embedding_store.memory.add(
        ["likes ginger tea"], user_id="ada", metadata={"mood": "good", "role": "of hers"}
    )
    return embedding_store


def ids(documents):
    return [document.id for document in documents]


def contents(documents):
    return {document.page_content for document in documents}


def test_it_finds_what_the_store_finds_in_its_order(talked):
    retriever = LanceContextRetriever(store=talked, k=9)
    found = retriever.invoke("ginger tea")
    hits = talked.search("ginger tea", limit=9)
    assert ids(found) == [hit.record.id for hit in hits]
    assert [one.metadata["lance_context"]["score"] for one in found] == [hit.score for hit in hits]


def test_a_document_says_what_the_store_knows_of_it(talked):
    (found,) = LanceContextRetriever(store=talked, k=9, filter={"kind": "memory"}).invoke("tea")
    facts = found.metadata.pop("lance_context")
    assert found.metadata == {"mood": "good", "role": "of hers"}
    assert facts.pop("created_at").endswith("+00:00")
    assert 0 <= facts.pop("score") <= 1
    assert facts == {
        "kind": "memory",
        "role": "user",
        "user_id": "ada",
        "channels": ["text", "vector"],
    }


def test_a_picture_is_found_and_shown_by_its_caption(embedding_store):
    picture = ImagePart(url="https://example.org/a.png", caption="a cup of tea")
    embedding_store.history.append("", Message.user([picture]), session_id="s")
    (found,) = LanceContextRetriever(store=embedding_store).invoke("cup")
    assert found.page_content == "a cup of tea"


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ({"session_id": "monday"}, {"ada-monday", "ben-monday"}),
        ({"user_id": "ada"}, {"ada-monday", "ada-tuesday"}),
        ({"user_id": "ada", "session_id": "monday"}, {"ada-monday"}),
        ({"user_id": "nobody"}, set()),
        ({"agent_id": "cook", "session_id": "tuesday"}, {"ada-tuesday"}),
        ({"tenant": "other"}, set()),
        ({"session_id": "x' OR '1'='1"}, set()),
    ],
)
def test_nothing_is_found_outside_the_scope(talked, scope, expected):
    retriever = LanceContextRetriever(store=talked, k=20, **scope)
    found = retriever.invoke("ginger tea", filter={"role": "user", "kind": "message"})
    assert set(ids(found)) == expected


def test_a_filter_of_a_call_narrows_that_of_the_retriever(talked):
    retriever = LanceContextRetriever(store=talked, k=20, filter={"session_id": "monday"})
    assert contents(retriever.invoke("tea", filter={"role": "assistant"})) == {"noted"}
    assert retriever.invoke("tea", filter={"session_id": "tuesday"}) == []
    assert contents(retriever.invoke("tea", filter={})) == contents(retriever.invoke("tea"))


def test_the_mode_says_which_channel_is_asked(talked):
    def channels(**how):
        found = LanceContextRetriever(store=talked, k=1, **how).invoke("ginger tea")
        return found[0].metadata["lance_context"]["channels"]

    assert channels() == ["text", "vector"]
    assert channels(mode="text") == ["text"]
    assert channels(mode="vector") == ["vector"]
    (found,) = LanceContextRetriever(store=talked, k=1).invoke("ginger tea", mode="text")
    assert found.metadata["lance_context"]["channels"] == ["text"]


def test_a_store_without_an_embedder_is_searched_by_words(store):
    LanceContextChatMessageHistory(store, "s").add_messages([HumanMessage("ginger tea")])
    (found,) = LanceContextRetriever(store=store).invoke("tea")
    assert found.metadata["lance_context"]["channels"] == ["text"]


@pytest.mark.parametrize("neighbours", [0.0, 0.9])
def test_neighbours_lend_what_they_are_told_to(talked, neighbours):
    retriever = LanceContextRetriever(store=talked, k=20, neighbours=neighbours)
    expected = talked.search("hot", limit=20, options=SearchOptions(neighbours=neighbours))
    assert [one.metadata["lance_context"]["score"] for one in retriever.invoke("hot")] == [
        hit.score for hit in expected
    ]


def test_neighbours_are_added_to_the_options(talked):
    options = SearchOptions(n_candidates=2)
    retriever = LanceContextRetriever(store=talked, k=1, neighbours=0.5, options=options)
    assert len(retriever.invoke("tea")) == 1
    assert retriever.options is options


def test_a_collection_is_searched_with_its_own_embeddings(store, embedding):
    LanceContextVectorStore(store, embedding, collection="c").add_texts(
        ["ginger tea", "carrot cake"], [{"n": 1}, {"n": 2}], ids=["tea", "cake"]
    )
    retriever = LanceContextRetriever(store=store, collection="c", embedding=embedding)
    found = retriever.invoke("carrot", k=1)
    assert ids(found) == ["cake"]
    assert found[0].metadata["n"] == 2
    assert set(found[0].metadata["lance_context"]) == {"score", "channels"}
    assert ids(retriever.invoke("tea cake", filter={"n": 1})) == ["tea"]


def test_a_retriever_closes_the_store_that_it_opened(tmp_path, embedding):
    with ContextStore.open(tmp_path, embedder=embedding) as store:
        store.memory.add(["likes ginger tea"])
    with LanceContextRetriever(store=str(tmp_path), embedding=embedding) as retriever:
        (found,) = retriever.invoke("ginger")
        assert found.metadata["lance_context"]["channels"] == ["text", "vector"]
    with pytest.raises(RuntimeError, match="closed"):
        retriever.invoke("ginger")


def test_a_store_that_was_handed_over_stays_open(talked):
    with LanceContextRetriever(store=talked) as retriever:
        assert retriever.invoke("tea")
    assert talked.search("tea")


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"collection": "c", "session_id": "s"}, "session"),
        ({"embedding": None, "user_id": ""}, "user_id"),
    ],
)
def test_contradictions_are_refused(store, fields, problem):
    with pytest.raises(ValidationError, match=problem):
        LanceContextRetriever(store=store, **fields)


def test_an_open_store_embeds_its_records_itself(store, embedding):
    with pytest.raises(ValidationError, match="embedding"):
        LanceContextRetriever(store=store, embedding=embedding)


def test_an_unknown_keyword_is_refused(talked):
    with pytest.raises(TypeError, match="top_k"):
        LanceContextRetriever(store=talked).invoke("tea", top_k=3)


async def test_asking_asynchronously_blocks_no_loop(store, embedding, monkeypatch):
    monkeypatch.setattr(StoreLoop, "run", lambda *_: pytest.fail("a blocking call"))
    await store.aio.vectors("c", embedder=embedding).add([])
    await store.aio.history.append("", Message.user("ginger tea"), session_id="s")
    records = LanceContextRetriever(store=store.aio)
    assert contents(await records.ainvoke("tea", k=3)) == {"ginger tea"}
    documents = LanceContextRetriever(store=store, collection="c", embedding=embedding)
    assert await documents.ainvoke("tea") == []
    await records.aclose()


def test_a_field_that_is_not_there_is_refused():
    with pytest.raises(ValidationError, match="user"):
        LanceContextRetriever(store="memory://", user="ada")
