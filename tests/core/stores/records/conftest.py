"""The contexts that the tests of the record API begin with."""

import pytest


@pytest.fixture
def ctx(store):
    """The default context of an empty store in a directory, without an embedder."""
    return store.context()


@pytest.fixture
def embedding_ctx(open_store, embedder):
    """The same, of a store that embeds."""
    return open_store(embedder=embedder).context()
