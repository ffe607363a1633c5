"""The framework's own suites, with nothing overridden, skipped or expected to fail."""

import pytest
from langchain_lance_context import LanceContextRetriever, LanceContextVectorStore
from langchain_tests.integration_tests import (
    AsyncCacheTestSuite,
    BaseStoreAsyncTests,
    BaseStoreSyncTests,
    RetrieversIntegrationTests,
    SyncCacheTestSuite,
    VectorStoreIntegrationTests,
)

from lance_context_core import ContextStore, Message


class TestVectorStore(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, store):
        return LanceContextVectorStore(store, self.get_embeddings())


class TestVectorStoreInMemory(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self):
        with LanceContextVectorStore("memory://", self.get_embeddings()) as opened:
            yield opened


WORDS = ("soup", "cake", "tea", "bread")


class TestRetrieverOfRecords(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _conversation(self, embedding_store):
        said = [Message.user(f"how is {word} made") for word in WORDS]
        embedding_store.history.append_many("cook", said, session_id="monday")
        self._store = embedding_store

    @property
    def retriever_constructor(self):
        return LanceContextRetriever

    @property
    def retriever_constructor_params(self):
        return {"store": self._store}

    @property
    def retriever_query_example(self):
        return "how is tea made"


class TestRetrieverOfACollection(TestRetrieverOfRecords):
    @pytest.fixture(autouse=True)
    def _documents(self, store, embedding):
        self._store, self._embedding = store, embedding
        texts = [f"how is {word} made" for word in WORDS]
        LanceContextVectorStore(store, embedding, collection="recipes").add_texts(texts)

    @property
    def retriever_constructor_params(self):
        return {"store": self._store, "collection": "recipes", "embedding": self._embedding}


@pytest.mark.parametrize(
    ("suite", "n_tests"),
    [
        (VectorStoreIntegrationTests, 25),
        (RetrieversIntegrationTests, 5),
        (BaseStoreSyncTests, 12),
        (BaseStoreAsyncTests, 12),
        (SyncCacheTestSuite, 8),
        (AsyncCacheTestSuite, 8),
    ],
)
def test_the_suites_have_as_many_tests_as_are_counted_on(suite, n_tests):
    assert sum(name.startswith("test_") for name in dir(suite)) == n_tests


def test_a_store_that_is_closed_says_so(tmp_path):
    store = ContextStore.open(tmp_path)
    vectorstore = LanceContextVectorStore(store)
    store.close()
    with pytest.raises(RuntimeError, match="closed"):
        vectorstore.get_by_ids(["a"])
