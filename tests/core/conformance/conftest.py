"""Each conformance test, in each place and through each face."""

import asyncio

import pytest
from core.conformance.back_door import BackDoor
from core.conformance.faces import Threaded
from core.conformance.places import places_of

from lance_context_core.sync import History, KeyValues, Memory, Sessions, Vectors


def pytest_generate_tests(metafunc):
    if "place" in metafunc.fixturenames:
        places = places_of(metafunc.definition)
        metafunc.parametrize("place", places, ids="-".join, indirect=True)


@pytest.fixture
def place(request):
    """The backend, and the name of the face that is tested."""
    kind, face = request.param
    return request.getfixturevalue(f"{kind}_backend"), face


@pytest.fixture
def store(place, clock, embedder):
    """A store that embeds, in an empty place."""
    store = place[0].open(clock=clock, embedder=embedder)
    yield store
    asyncio.run(store.close())


@pytest.fixture
def back_door(store):
    return BackDoor(store)


@pytest.fixture
def faced(place):
    """An asynchronous object, or the blocking one over it in asynchronous words."""

    def faced(aio, blocking):
        return aio if place[1] == "async" else Threaded(blocking(aio))

    return faced


@pytest.fixture
def history(store, faced):
    return faced(store.history, History)


@pytest.fixture
def sessions(store, faced):
    return faced(store.sessions, Sessions)


@pytest.fixture
def memory(store, faced):
    return faced(store.memory, Memory)


@pytest.fixture
def collection(store, faced):
    """Vector stores by name."""
    return lambda name: faced(store.vectors(name), Vectors)


@pytest.fixture
def vectors(collection):
    return collection("default")


@pytest.fixture
def kv(store, faced):
    return faced(store.kv(), KeyValues)
