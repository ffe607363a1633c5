"""A store in a directory, and embeddings that tests can predict."""

import pytest
from core.conformance.doubles import WordVectors
from langchain_core.embeddings import Embeddings

from lance_context_core import ContextStore


class WordEmbeddings(Embeddings):
    """Texts that share words are near to each other."""

    model = "words"

    def __init__(self, dimension=64):
        self._vectors = WordVectors(dimension=dimension)

    def embed_documents(self, texts):
        return self._vectors.embed_documents(texts).tolist()

    def embed_query(self, text):
        return self._vectors.embed_query(text).tolist()


@pytest.fixture
def embedding():
    return WordEmbeddings()


@pytest.fixture
def store(tmp_path):
    """A store in a directory, without an embedder of its own."""
    with ContextStore.open(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def context_store(tmp_path, clock):
    """A store in a directory, whose time stands still until the clock is told otherwise."""
    with ContextStore.open(tmp_path / "store", clock=clock) as opened:
        yield opened


@pytest.fixture
def embedding_store(tmp_path, embedding):
    """A store in a directory that embeds its records."""
    with ContextStore.open(tmp_path / "embedding-store", embedder=embedding) as opened:
        yield opened
