"""The store's memory keeps the contract of `MemoryService`, and more than that."""

import pytest
from core.conformance.doubles import WordVectors
from core.conformance.memory import StoredMemoryTests, texts
from core.conformance.places import InEachPlace

from lance_context_core.errors import EmbeddingModelMismatchError
from lance_context_core.messages import Message


class TestMemory(InEachPlace, StoredMemoryTests):
    """The memory of the store itself."""

    @pytest.fixture
    def memory(self, memory):
        return memory


async def test_memories_and_messages_of_one_session_do_not_mix(store):
    await store.history.append("a", Message.user("tea is said"), session_id="s")
    await store.memory.add(["tea is remembered"], session_id="s")
    assert texts(await store.memory.list(session_id="s")) == ["tea is remembered"]
    assert texts(await store.memory.search("tea")) == ["tea is remembered"]
    assert await store.memory.delete() == 1
    assert await store.history.count("a", session_id="s") == 1
    assert await store.history.clear("a", session_id="s") == 1


async def test_a_user_s_handle_is_the_same_as_naming_the_user(store):
    await store.memory.add(["likes tea"], user_id="u")
    handle = store.scope(user_id="u").memory
    await handle.add(["likes coffee"])
    expected = ["likes tea", "likes coffee"]
    assert texts(await handle.list()) == texts(await store.memory.list(user_id="u")) == expected


async def test_another_embedding_model_is_refused_before_anything_is_written(open_store):
    await open_store(embedder=WordVectors("one")).memory.add(["tea"], user_id="u")
    other = open_store(embedder=WordVectors("another")).memory
    with pytest.raises(EmbeddingModelMismatchError, match=r"'another'.*'one'"):
        await other.add(["coffee"], user_id="u")
    for mode in ("vector", "hybrid"):
        with pytest.raises(EmbeddingModelMismatchError, match="'one'"):
            await other.search("tea", user_id="u", mode=mode)
    assert texts(await other.search("tea", user_id="u", mode="text")) == ["tea"]
    assert texts(await other.list(user_id="u")) == ["tea"]
