"""Each conformance test, in each place and through each API."""

import asyncio

import pytest
from core.conformance.back_door import BackDoor
from core.conformance.places import places_of
from core.conformance.threaded import Threaded

from lance_context_core.sync import Graph, History, KeyValues, Memory, Sessions, Vectors


def pytest_generate_tests(metafunc):
    if "place" in metafunc.fixturenames:
        places = places_of(metafunc.definition, metafunc.config.getoption("--effort"))
        metafunc.parametrize("place", places, ids="-".join, indirect=True)


@pytest.fixture
def place(request):
    """The backend, and the name of the API that is tested."""
    kind, api = request.param
    return request.getfixturevalue(f"{kind}_backend"), api


@pytest.fixture
def store(place, clock, embedder):
    """A store that embeds, in an empty place."""
    store = place[0].open(clock=clock, embedder=embedder)
    yield store
    asyncio.run(store.close())


@pytest.fixture
def plain(place, clock, embedder):
    """As `store`, in which each write is a commit."""
    store = place[0].open(clock=clock, embedder=embedder, journal=None)
    yield store
    asyncio.run(store.close())


@pytest.fixture
def back_door(store):
    return BackDoor(store)


@pytest.fixture
def offered(place):
    """An asynchronous object, or the blocking one over it in asynchronous words."""

    def offered(aio, blocking):
        return aio if place[1] == "async" else Threaded(blocking(aio))

    return offered


@pytest.fixture
def history(store, offered):
    return offered(store.history, History)


@pytest.fixture
def sessions(store, offered):
    return offered(store.sessions, Sessions)


@pytest.fixture
def graph(store, offered):
    return offered(store.graph, Graph)


@pytest.fixture
def memory(store, offered):
    return offered(store.memory, Memory)


@pytest.fixture
def collection(store, offered):
    """Vector stores by name."""
    return lambda name: offered(store.vectors(name), Vectors)


@pytest.fixture
def vectors(collection):
    return collection("default")


@pytest.fixture
def kv(store, offered):
    return offered(store.kv(), KeyValues)
