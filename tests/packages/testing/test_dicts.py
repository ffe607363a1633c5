"""A stranger's stores of dicts keep the contracts, each by a class of a few lines."""

import pytest
from lance_context_testing import (
    HistoryProviderTests,
    KeyValueStoreTests,
    MemoryServiceTests,
    SessionStoreTests,
    VectorStoreTests,
)
from packages.testing.dict_collections import DictItems, DictVectors
from packages.testing.dicts import DictHistory, DictSessions, WordMemory


class TestDictHistory(HistoryProviderTests):
    @pytest.fixture
    def history(self):
        return DictHistory()


class TestDictSessions(SessionStoreTests):
    @pytest.fixture
    def history(self):
        return DictHistory()

    @pytest.fixture
    def sessions(self, history):
        return DictSessions(history)


class TestWordMemory(MemoryServiceTests):
    search_modes = ("text",)

    @pytest.fixture
    def memory(self):
        return WordMemory()


class TestDictVectors(VectorStoreTests):
    embeds_texts = False
    search_modes = ("vector",)

    @pytest.fixture
    def collection(self):
        place = {}
        return lambda name: DictVectors(place, name)


class TestDictItems(KeyValueStoreTests):
    embeds_texts = False

    @pytest.fixture
    def kv(self):
        return DictItems()
