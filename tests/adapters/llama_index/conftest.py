"""A store in a directory, and embeddings that tests can predict."""

import pytest
from adapters.llama_index.doubles import WordEmbedding
from core.conformance.doubles import WordVectors

from lance_context_core import ContextStore


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
