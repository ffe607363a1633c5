"""A stranger's stores of dicts keep the contracts, each by a class of a few lines."""

import pytest
from core.testing.dict_collections import DictItems, DictVectors
from core.testing.dicts import DictHistory, DictSessions, WordMemory

from lance_context_core.testing import (
    HistoryProviderTests,
    KeyValueStoreTests,
    MemoryServiceTests,
    SessionStoreTests,
    VectorStoreTests,
)


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
