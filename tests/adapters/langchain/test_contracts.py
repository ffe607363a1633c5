"""What the classes forward to keeps the store's contracts, with what LangChain brings installed beside it."""

import pytest
from lance_context_testing import HistoryProviderTests, KeyValueStoreTests
from langchain_lance_context import LanceContextChatMessageHistory, LanceContextStore


class TestItemsOfTheStore(KeyValueStoreTests):
    embeds_texts = False

    @pytest.fixture
    def kv(self, store):
        return LanceContextStore(store)._awaiting.kv


class TestHistoryOfMessages(HistoryProviderTests):
    @pytest.fixture
    def history(self, store):
        return LanceContextChatMessageHistory(store, session_id="s")._handle.aio.history
