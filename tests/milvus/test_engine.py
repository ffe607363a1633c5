"""Milvus, as Milvus Lite in a file, holds the contract of engines and searches a store."""

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
    engine = MilvusEngine(file, prefix=f"p{uuid4().hex}", token="s3cret")
    yield engine
    for table in engine.tables():
        engine.drop(table)
    engine.close()


class TestMilvusEngine(SearchEngineTests):
    @pytest.fixture
    def engine(self, file):
        engine = MilvusEngine(file, prefix=f"p{uuid4().hex}")
        yield engine
        engine.close()

    @pytest.fixture
    def lose(self, engine):
        return lambda table, key: engine._open().delete(engine._collection(table), ids=[key])
