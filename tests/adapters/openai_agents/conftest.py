"""A store in a directory, and sessions of it; nothing is traced or sent."""

import agents
import pytest
from openai_agents_lance_context import LanceContextSession

from lance_context_core import ContextStore

agents.set_tracing_disabled(disabled=True)


@pytest.fixture
def store(tmp_path):
    with ContextStore.open(tmp_path / "memory") as opened:
        yield opened.aio


@pytest.fixture
def session(store):
    return LanceContextSession("monday", store)
