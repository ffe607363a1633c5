"""The items and sessions of a tenant keep the contracts that those of a store keep."""

import pytest
from lance_context_testing import KeyValueStoreTests, SessionStoreTests


@pytest.fixture
def store(open_fleet, embedder):
    return open_fleet(shards=2, embedder=embedder).scope(tenant="acme")


class TestItemsOfATenant(KeyValueStoreTests):
    @pytest.fixture
    def kv(self, store):
        return store.kv()


class TestSessionsOfATenant(SessionStoreTests):
    @pytest.fixture
    def sessions(self, store):
        return store.sessions

    @pytest.fixture
    def history(self, store):
        return store.history
