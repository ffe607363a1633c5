"""A store in a directory, and embeddings that tests can predict."""

import asyncio
import contextlib

import pytest
from adapters.llama_index.doubles import WordEmbedding
from core.conformance.doubles import WordVectors

from lance_context_core import ContextStore


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "defect(number): shows that what the documentation calls so cannot happen here"
    )


@pytest.fixture(autouse=True)
def _event_loop():
    """LlamaIndex's blocking methods run on the thread's event loop, and never close it."""
    with contextlib.closing(asyncio.new_event_loop()) as loop:
        asyncio.set_event_loop(loop)
        yield
    asyncio.set_event_loop(None)


@pytest.fixture
def embed_model():
    return WordEmbedding()


@pytest.fixture
def store(tmp_path):
    """A store in a directory, without an embedder of its own."""
    with ContextStore.open(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def embedding_store(tmp_path):
    """A store in a directory that embeds its records."""
    with ContextStore.open(tmp_path / "embedding-store", embedder=WordVectors()) as opened:
        yield opened
