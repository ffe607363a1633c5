"""Bytes under keys: the framework's own suites, and what they leave out."""

import asyncio

import pytest
from langchain_lance_context import LanceContextByteStore
from langchain_tests.integration_tests import BaseStoreAsyncTests, BaseStoreSyncTests

from lance_context_core import ContextStore, InvalidRequestError
from lance_context_core.errors import StoreClosedError


class TestByteStore(BaseStoreSyncTests):
    @pytest.fixture
    def kv_store(self, store):
        return LanceContextByteStore(store)

    @pytest.fixture
    def three_values(self):
        return b"one", b"", bytes(range(256))


class TestAsyncByteStore(BaseStoreAsyncTests):
    @pytest.fixture
    def kv_store(self, store):
        return LanceContextByteStore(store)

    @pytest.fixture
    def three_values(self):
        return b"one", b"", bytes(range(256))


@pytest.fixture
def kv(store):
    return LanceContextByteStore(store)


def test_keys_are_read_in_pages_and_in_order(kv):
    names = sorted(f"{n:05}" for n in range(2_500))
    kv.mset((name, b"x") for name in names)
    assert list(kv.yield_keys()) == names
    assert list(kv.yield_keys(prefix="020")) == [name for name in names if name[:3] == "020"]

    async def found():
        return [key async for key in kv.ayield_keys()]

    assert asyncio.run(found()) == names


def test_keys_are_literal(kv):
    odd = ["%", "_", "a", "ab", "it's", "", "ü", "\n", "a%"]
    kv.mset([(key, key.encode()) for key in odd])
    assert kv.mget(odd) == [key.encode() for key in odd]
    assert list(kv.yield_keys(prefix="%")) == ["%"]
    assert list(kv.yield_keys(prefix="a")) == ["a", "a%", "ab"]
    assert sorted(kv.yield_keys(prefix="")) == sorted(odd)


def test_the_last_of_two_with_one_key_counts(kv):
    kv.mset([("a", b"1"), ("a", b"2")])
    assert kv.mget(["a", "a", "b"]) == [b"2", b"2", None]


def test_a_call_is_one_commit(kv, store):
    kv.mset([("first", b"")])
    before = asyncio.run(kv._aio._table.version())
    kv.mset([(f"{n}", b"x") for n in range(50)])
    assert asyncio.run(kv._aio._table.version()) == before + 1
    kv.mdelete(f"{n}" for n in range(50))
    assert asyncio.run(kv._aio._table.version()) == before + 2


def test_nothing_is_a_call_of_its_own(kv):
    assert kv.mget([]) == []
    kv.mset([])
    kv.mdelete([])
    assert list(kv.yield_keys()) == []


@pytest.mark.parametrize(
    "pair", [("a", None), ("a", "text"), (None, b"x"), ("a\0", b"x"), (1, b"")]
)
def test_what_is_no_pair_of_text_and_bytes_is_refused_before_anything_is_written(kv, pair):
    with pytest.raises(InvalidRequestError):
        kv.mset([("good", b"x"), pair])
    assert list(kv.yield_keys()) == []


@pytest.mark.parametrize("keys", ["ab", None, [None], [1]])
def test_keys_that_are_none_are_refused(kv, keys):
    for call in (kv.mget, kv.mdelete):
        with pytest.raises(InvalidRequestError):
            call(keys)


def test_namespaces_and_scopes_keep_keys_apart(store):
    one = LanceContextByteStore(store, namespace=("models", "a"))
    below = LanceContextByteStore(store, namespace=("models", "a", "b"))
    ada = LanceContextByteStore(store.scope(user_id="ada"), namespace=("models", "a"))
    one.mset([("k", b"one")])
    below.mset([("k", b"below"), ("l", b"")])
    ada.mset([("k", b"ada")])
    assert (one.mget(["k"]), below.mget(["k"]), ada.mget(["k"])) == ([b"one"], [b"below"], [b"ada"])
    assert list(ada.yield_keys()) == ["k"]
    ada.mdelete(["k"])
    assert list(below.yield_keys()) == ["k", "l"]
    assert one.mget(["k"]) == [b"one"]


def test_bytes_are_read_after_a_restart_and_by_the_store(tmp_path):
    with LanceContextByteStore(tmp_path) as first:
        first.mset([("k", b"\0\1")])
    with pytest.raises(StoreClosedError):
        first.mget(["k"])
    with LanceContextByteStore(tmp_path) as second:
        assert second.mget(["k"]) == [b"\0\1"]
    with ContextStore.open(tmp_path) as opened:
        assert opened.kv("langchain_bytes").get([((), "k")])[0].data == b"\0\1"
