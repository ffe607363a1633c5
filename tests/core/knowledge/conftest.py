"""A store in a directory, from synchronous code."""

import pytest
from core.knowledge.living import opened


@pytest.fixture
def store(tmp_path, clock):
    with opened(tmp_path, clock) as store:
        yield store


@pytest.fixture
def memory(store):
    return store.knowledge
