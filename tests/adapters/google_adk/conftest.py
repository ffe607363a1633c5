"""A store in a directory, services over it, and ADK's own beside them."""

import pytest
from google.adk.artifacts import FileArtifactService, InMemoryArtifactService
from google.adk.memory import InMemoryMemoryService
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google_adk_lance_context import (
    LanceArtifactService,
    LanceMemoryService,
    LanceSessionService,
)

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
def sessions(store):
    return LanceSessionService(store)


@pytest.fixture
def memories(store):
    return LanceMemoryService(store)


@pytest.fixture
def artifacts(store):
    return LanceArtifactService(store)


# What all services of a kind do: ADK's own are the oracle.


@pytest.fixture(params=["ADK in memory", "ADK on SQLite", "ours", "ours without a log"])
def any_sessions(request, tmp_path):
    """A session service."""
    if request.param == "ADK in memory":
        yield InMemorySessionService()
    elif request.param == "ADK on SQLite":
        yield SqliteSessionService(str(tmp_path / "sqlite.db"))
    else:
        place = tmp_path / "memory" if request.param == "ours" else "memory://"
        with LanceSessionService(place) as ours:
            yield ours


@pytest.fixture(params=["ADK in memory", "ours"])
def any_memories(request, tmp_path):
    """A memory service."""
    if request.param == "ADK in memory":
        yield InMemoryMemoryService()
    else:
        with LanceMemoryService(tmp_path / "memory") as ours:
            yield ours


@pytest.fixture(params=["ADK in memory", "ADK in files", "ours"])
def any_artifacts(request, tmp_path):
    """An artifact service."""
    if request.param == "ADK in memory":
        yield InMemoryArtifactService()
    elif request.param == "ADK in files":
        yield FileArtifactService(root_dir=tmp_path / "files")
    else:
        with LanceArtifactService(tmp_path / "memory") as ours:
            yield ours
