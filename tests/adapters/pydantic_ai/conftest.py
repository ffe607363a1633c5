"""Stores in a directory and in memory, and agents without a network."""

import asyncio
import contextlib

import pytest
from adapters.pydantic_ai.samples import agent_that_says
from pydantic_ai_lance_context import LanceConversationStore

from lance_context_core import ContextStore


@pytest.fixture
def place(tmp_path):
    """Where the store is."""
    return tmp_path / "memory"


@pytest.fixture
def store(place):
    """A store in a directory."""
    with ContextStore.open(place) as opened:
        yield opened.aio


@pytest.fixture
def conversations(store):
    return LanceConversationStore(store)


@pytest.fixture
def agent():
    return agent_that_says("It is sunny.")


@pytest.fixture
def event_loop_of_the_thread():
    """`run_sync` runs on the thread's event loop, and never closes it."""
    with contextlib.closing(asyncio.new_event_loop()) as loop:
        asyncio.set_event_loop(loop)
        yield
    asyncio.set_event_loop(None)
