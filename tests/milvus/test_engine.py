"""Milvus, as Milvus Lite in a file, holds the contract of engines and searches a store."""

from datetime import timedelta
from uuid import uuid4

import pytest
from lance_context_testing import SearchEngineTests

from lance_context_core import ContextStore, Message
from lance_context_core.engines import MilvusEngine, SearchEngines
from lance_context_core.errors import InvalidRequestError


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return str(tmp_path_factory.mktemp("milvus") / "search.db")


@pytest.fixture
def engine(file):
    engine = MilvusEngine(file, prefix=f"p{uuid4().hex}")
    yield engine
    engine.close()


class TestMilvusEngine(SearchEngineTests):
    @pytest.fixture
    def engine(self, engine):
        return engine

    @pytest.fixture
    def lose(self, engine):
        return lambda table, key: engine._open().delete(engine._collection(table), ids=[key])


@pytest.fixture
def open_store(tmp_path, engine):
    opened = []

    def open_store(*, plain=False):
        given = {} if plain else {"search_engines": engines(engine)}
        options = {"embedder": "local", "search_cache": None, "maintenance": None}
        opened.append(ContextStore.open(tmp_path / "store", **given, **options))
        return opened[-1]

    yield open_store
    for store in opened:
        store.close()


def engines(engine):
    wait = timedelta(seconds=30)
    return SearchEngines(text=engine, vector=engine, timeout=wait, pause=timedelta(0))


def answered(hits):
    return {name for hit in hits for name in hit.engines.values()}


def test_words_and_vectors_are_searched_with_a_scope_and_a_filter(open_store):
    store, plain = open_store(), open_store(plain=True)
    things = ["cat", "dog", "bird", "tree", "house", "vase", "museum", "train", "kite", "日本"]
    for user in ("ann", "ben"):
        texts = [f"{one} and {other}" for one in things for other in things[:3]]
        store.memory.add(texts, user_id=user, metadata={"is": user})
    store.maintain()
    for mode in ("vector", "text"):
        given = {"user_id": "ann", "mode": mode, "limit": 9, "filter": {"is": "ann"}}
        for query in ("museum", "日本 kite"):
            found, wanted = (one.memory.search(query, **given) for one in (store, plain))
            assert answered(found) == {"milvus"}
            assert {hit.record.text for hit in found} == {hit.record.text for hit in wanted}
            assert {hit.record.user_id for hit in found} == {"ann"}
    assert answered(store.memory.search("museum", user_id="ben", mode="hybrid")) == {"milvus"}


def test_newer_rows_are_added_and_lost_and_erased_ones_are_noticed(open_store, engine):
    store = open_store()
    first = store.history.append("", Message.user("a cat in the museum"), session_id="s")
    store.history.append("", Message.user("a dog in the house"), session_id="s")
    store.maintain()
    store.history.append("", Message.user("another cat"), session_id="s")
    assert answered(store.search("cat", mode="text")) == {"milvus", "log"}
    assert store.erase(ids=[first]).engines_pending == ()
    assert len(engine.revisions("records")) == 2
    assert [hit.record.text for hit in store.search("cat", mode="text")] == ["another cat"]
    (key, _) = engine.revisions("records")
    engine._open().delete(engine._collection("records"), ids=[key])
    assert answered(store.search("cat", mode="text")) == {"lancedb"}
    store.maintain()
    assert len(engine.revisions("records")) == 2
    assert answered(store.search("cat", mode="text")) == {"milvus"}


def test_bad_arguments_are_refused(tmp_path):
    for given in ({"uri": ""}, {"prefix": "a-b"}, {"prefix": ""}, {"channels": ["sound"]}):
        with pytest.raises(InvalidRequestError):
            MilvusEngine(**({"uri": str(tmp_path / "a.db")} | given))
    engine = MilvusEngine(str(tmp_path / "a.db"), token="user:s3cret")
    assert "s3cret" not in repr(engine)
