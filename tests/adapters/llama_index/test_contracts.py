"""What the classes forward to keeps the store's contracts, with what LlamaIndex brings installed beside it."""

import pytest
from lance_context_testing import KeyValueStoreTests
from llama_index_lance_context import LanceContextKVStore


class TestItems(KeyValueStoreTests):
    embeds_texts = False

    @pytest.fixture
    def kv(self, store):
        return LanceContextKVStore(store)._aio
