"""Two stores with a small journal, in one directory."""

import pytest
from core.storage.journaling import SMALL


@pytest.fixture
def store(open_store):
    return open_store(maintenance=None, journal=SMALL)


@pytest.fixture
def other(open_store):
    """A second one in the same directory."""
    return open_store(maintenance=None, journal=SMALL)
