"""Conformance tests of the protocols, and models that need no network.

Use the contracts to test a store of your own.

Subclass one, name the subclass `Test…`, give it the fixtures that its docstring names, and run pytest:

    class TestMine(HistoryProviderTests):
        @pytest.fixture
        def history(self):
            return MyHistory()

Needs pytest, and no plugin of it.
"""

from lance_context_testing import _pytest as _pytest  # first: it makes pytest ready
from lance_context_testing.blobs import BlobStoreTests
from lance_context_testing.engines import SearchEngineTests
from lance_context_testing.graph import GraphStoreTests
from lance_context_testing.history import HistoryProviderTests
from lance_context_testing.key_values import KeyValueStoreTests
from lance_context_testing.memory import MemoryServiceTests
from lance_context_testing.models import (
    CassetteModel,
    Fault,
    FaultModel,
    Scripted,
    ScriptedModel,
)
from lance_context_testing.sessions import SessionStoreTests
from lance_context_testing.vectors import Collections, VectorStoreTests

__version__ = "0.1.0"

__all__ = [
    "BlobStoreTests",
    "CassetteModel",
    "Collections",
    "Fault",
    "FaultModel",
    "GraphStoreTests",
    "HistoryProviderTests",
    "KeyValueStoreTests",
    "MemoryServiceTests",
    "Scripted",
    "ScriptedModel",
    "SearchEngineTests",
    "SessionStoreTests",
    "VectorStoreTests",
]
