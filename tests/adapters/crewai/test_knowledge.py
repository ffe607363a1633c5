"""Knowledge sources as documents of a collection."""

import asyncio

import pytest
from adapters.crewai.samples import embedded
from crewai.knowledge.knowledge import Knowledge
from crewai.knowledge.source.string_knowledge_source import StringKnowledgeSource
from crewai_lance_context import LanceKnowledgeStorage

from lance_context_core import ContextStore, Document, as_embedder

TEXTS = ["trains leave from Oslo", "tea leaves need water", "planes leave from Bergen"]


@pytest.fixture
def knowledge(store):
    return LanceKnowledgeStorage(store, collection="trips", embedder=embedded)


def contents(found):
    return [one["content"] for one in found]


def test_chunks_are_found_by_meaning_with_the_scores_of_the_framework(knowledge):
    knowledge.save(TEXTS)
    found = knowledge.search(["trains", "Oslo"], limit=2, score_threshold=0.0)
    assert contents(found)[0] == TEXTS[0]
    assert found[0]["score"] == pytest.approx((1 + 2 / 8**0.5) / 2, abs=0.02)
    assert set(found[0]) == {"id", "content", "metadata", "score"}
    assert contents(knowledge.search(["trains Oslo"], score_threshold=0.7)) == [TEXTS[0]]
    assert knowledge.search(["zebra"], score_threshold=0.99) == []


def test_a_chunk_that_is_saved_again_is_stored_once(store, knowledge):
    for _ in range(2):
        knowledge.save([*TEXTS, TEXTS[0], " "])
    assert store.vectors("trips").count() == 3
    knowledge.reset()
    assert store.vectors("trips").count() == 0


def test_documents_of_other_frameworks_are_found_by_their_metadata(store, knowledge):
    knowledge.save(TEXTS)
    vectors = store.vectors("trips", embedder=as_embedder(embedded, model="function"))
    vectors.add([Document(text="trains again", metadata={"page": 3})])
    (found,) = knowledge.search(["trains"], metadata_filter={"page": 3})
    assert (found["content"], found["metadata"]) == ("trains again", {"page": 3})


def test_without_an_embedder_it_finds_words(store):
    plain = LanceKnowledgeStorage(store)
    plain.save(TEXTS)
    assert contents(plain.search(["trains"])) == [TEXTS[0]]


def test_the_embedder_of_the_store_is_used(tmp_path):
    with ContextStore.open(tmp_path / "s", embedder=as_embedder(embedded, model="words")) as store:
        knowledge = LanceKnowledgeStorage(store)
        knowledge.save(TEXTS)
        assert contents(knowledge.search(["trains Oslo"], score_threshold=0.7)) == [TEXTS[0]]


def test_sources_are_added_and_queried_both_ways(knowledge):
    made = Knowledge(
        collection_name="ignored",
        sources=[StringKnowledgeSource(content=text) for text in TEXTS],
        storage=knowledge,
    )
    made.add_sources()
    asyncio.run(made.aadd_sources())
    assert contents(made.query(["tea"], score_threshold=0.1))[0] == TEXTS[1]
    assert contents(asyncio.run(made.aquery(["tea"], results_limit=1))) == [TEXTS[1]]
    asyncio.run(made.areset())
    assert made.query(["tea"], score_threshold=0.0) == []
