"""Stores in a directory; CrewAI without its telemetry, and with nothing outside of the test's folder."""

import os
import tempfile
import warnings

os.environ |= {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "OTEL_SDK_DISABLED": "true",
    "CREWAI_STORAGE_DIR": tempfile.mkdtemp(prefix="crewai-"),
}

import pytest

with warnings.catch_warnings(action="ignore"):
    import crewai  # noqa: F401 - it warns of itself as it is imported

from adapters.crewai.samples import embedded
from crewai import Memory
from crewai_lance_context import LanceFlowPersistence, LanceMemoryStorage

from lance_context_core import ContextStore

FOREIGN = (
    "ignore::DeprecationWarning:crewai",
    "ignore::DeprecationWarning:pydantic",
    "ignore:Pydantic serializer warnings:UserWarning",
)
"""What CrewAI warns of itself."""


def pytest_collection_modifyitems(items):
    for item in items:
        for one in FOREIGN:
            item.add_marker(pytest.mark.filterwarnings(one))


@pytest.fixture
def place(tmp_path):
    """Where the store is."""
    return tmp_path / "memory"


@pytest.fixture
def store(place):
    """A store in a directory."""
    with ContextStore.open(place) as opened:
        yield opened


@pytest.fixture
def storage(store):
    return LanceMemoryStorage(store)


@pytest.fixture
def flows(store):
    return LanceFlowPersistence(store)


@pytest.fixture
def memory(storage):
    """CrewAI's memory over the storage; nothing that the tests ask of it needs a model."""
    made = Memory(storage=storage, embedder=embedded, llm="none")
    yield made
    made.close()
