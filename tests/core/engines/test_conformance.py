"""The engines of this package hold the contract of engines."""

from uuid import uuid4

import pytest
from lance_context_testing import SearchEngineTests

from lance_context_core.engines import MemoryEngine, PostgresEngine


class TestMemoryEngine(SearchEngineTests):
    @pytest.fixture
    def engine(self):
        return MemoryEngine()

    @pytest.fixture
    def lose(self, engine):
        return lambda table, key: engine._indexes[table].rows.pop(key)


class TestPostgresEngine(SearchEngineTests):
    @pytest.fixture
    def engine(self, postgres_server):
        engine = PostgresEngine(postgres_server.address(), schema=f'of "{uuid4().hex}')
        yield engine
        engine.close()

    @pytest.fixture
    def lose(self, engine):
        def lose(table, key):
            with engine._connection() as one:
                rows, _ = engine._known(one, table)
                one.execute(f"DELETE FROM {rows} WHERE key = %s", (key,))

        return lose
