"""A store in a directory, from synchronous code."""

import pytest

from lance_context_core import ContextStore


@pytest.fixture
def opened(tmp_path, clock):
    """Opens the same store again and again."""
    made = []

    def open_it(**options):
        made.append(ContextStore.open(str(tmp_path / "store"), clock=clock, **options))
        return made[-1]

    yield open_it
    for one in made:
        one.close()


@pytest.fixture
def store(opened):
    return opened()


@pytest.fixture
def tiers(store):
    return store.tiers
