"""The key-value store, and LlamaIndex's own stores over it."""

import asyncio
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.ingestion import IngestionCache
from llama_index.core.schema import TextNode
from llama_index.core.storage.docstore.keyval_docstore import KVDocumentStore
from llama_index_lance_context import LanceContextKVStore

from lance_context_core import ContextStore, InvalidRequestError

HOSTILE = 'a\'; DROP TABLE "x" --%_\\'


@pytest.fixture
def kv(store):
    return LanceContextKVStore(store)


def test_a_value_reads_back_with_its_keys_in_order(kv):
    kv.put("k", {"z": 1, "a": {"y": [1, 2.5, None, True], "b": "ü"}})
    assert list(kv.get("k")) == ["z", "a"]
    assert kv.get("k") == {"z": 1, "a": {"y": [1, 2.5, None, True], "b": "ü"}}


def test_what_is_absent_is_absent(kv):
    assert kv.get("k") is None
    assert kv.get_all() == {}
    assert kv.delete("k") is False


def test_collections_and_keys_are_apart_whatever_they_are_called(kv):
    for collection in ("data", "data'", HOSTILE):
        for key in ("k", "K", HOSTILE, ""):
            kv.put(key, {"at": [collection, key]}, collection)
    assert kv.get_all(HOSTILE) == {key: {"at": [HOSTILE, key]} for key in ("", "K", HOSTILE, "k")}
    assert kv.delete(HOSTILE, "data") is True
    assert kv.get(HOSTILE, "data") is None
    assert kv.get(HOSTILE, HOSTILE) == {"at": [HOSTILE, HOSTILE]}


def test_many_values_are_one_commit_whatever_the_batch_size(kv, store):
    writes = []
    items = store.kv("llama_index")
    for n, batch_size in enumerate((1, 7, 1000)):
        before = items.version()
        kv.put_all([(f"{n}.{i}", {"i": i}) for i in range(50)], batch_size=batch_size)
        writes.append(items.version() - before)
    # The first one makes the table, too.
    assert writes[1:] == [1, 1]
    assert len(kv.get_all()) == 150


def test_of_two_with_one_key_the_last_counts(kv):
    kv.put_all([("k", {"a": 1}), ("k", {"a": 2})])
    kv.put("k", {**kv.get("k"), "b": 3})
    assert kv.get_all() == {"k": {"a": 2, "b": 3}}


def test_the_asynchronous_methods_do_the_same(kv):
    async def main():
        await kv.aput("a", {"n": 1})
        await kv.aput_all([("b", {"n": 2}), ("c", {"n": 3})], batch_size=2)
        assert await kv.aget("b") == {"n": 2}
        assert await kv.adelete("b") is True
        assert await kv.adelete("b") is False
        return await kv.aget_all()

    assert asyncio.run(main()) == kv.get_all() == {"a": {"n": 1}, "c": {"n": 3}}


def test_the_blocking_methods_work_inside_a_running_loop(kv):
    async def main():
        kv.put("k", {"a": 1})
        return kv.get("k")

    assert asyncio.run(main()) == {"a": 1}


@pytest.mark.parametrize("value", [None, "text", [1], {"a": object()}, {"a": {1, 2}}])
def test_what_is_no_json_object_is_refused(kv, value):
    with pytest.raises(InvalidRequestError, match="the value of 'b'"):
        kv.put_all([("a", {}), ("b", value)])
    assert kv.get_all() == {}


@pytest.mark.parametrize("key", [None, 7, "a\0b"])
def test_what_is_no_key_is_refused(kv, key):
    with pytest.raises(InvalidRequestError):
        kv.put(key, {})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(value=st.dictionaries(st.text(), json_values, max_size=4))
def test_any_json_reads_back(value):
    with ContextStore.open("memory://") as store:
        kv = LanceContextKVStore(store)
        kv.put("k", value)
        assert kv.get("k") == value
        assert list(kv.get("k")) == list(value)


def test_an_ingestion_cache_finds_again_what_it_was_given(kv):
    nodes = [TextNode(text="tea", metadata={"z": 1, "a": 2}, embedding=[0.5, 1.0])]
    cache = IngestionCache(cache=kv)
    cache.put("hash", nodes)
    (read,) = IngestionCache(cache=kv).get("hash")
    # A hash is made of the metadata in its order.
    assert (read, read.hash) == (nodes[0], nodes[0].hash)
    cache.clear()
    assert cache.get("hash") is None


def test_a_document_store_of_llama_index_works_over_it(kv):
    docstore = KVDocumentStore(kv, batch_size=100)
    docstore.add_documents([TextNode(text="tea", id_="a"), TextNode(text="cup", id_="b")])
    assert sorted(docstore.docs) == ["a", "b"]
    docstore.delete_document("a")
    assert sorted(docstore.docs) == ["b"]


def test_given_by_its_uri_it_can_be_sent_to_another_process(tmp_path):
    with LanceContextKVStore(tmp_path / "s", name="mine") as kv:
        kv.put("k", {"a": 1})
        with pickle.loads(pickle.dumps(kv)) as copy:  # noqa: S301 - what has just been pickled
            assert copy.get("k") == {"a": 1}


def test_an_open_store_cannot_be_sent_to_another_process(kv):
    with pytest.raises(InvalidRequestError, match="URI"):
        pickle.dumps(kv)
