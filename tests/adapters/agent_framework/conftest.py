"""A store in a directory, and a history of it."""

import pytest
from agent_framework_lance_context import LanceHistoryProvider

from lance_context_core import ContextStore


@pytest.fixture
def store(tmp_path):
    with ContextStore.open(tmp_path / "memory") as opened:
        yield opened.aio


@pytest.fixture
def history(store):
    return LanceHistoryProvider(store)
